//! Sizes in messages, in the units in which commands take them.

use std::fmt;

const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes, shown exactly: in the largest unit of which it is a multiple.
///
/// For example, `Bytes(64 << 20)` is shown as `64 MiB`, and `Bytes(1000)` as
/// `1000 bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.0 {
            0 => 0,
            bytes => (bytes.trailing_zeros() as usize / 10).min(UNITS.len() - 1),
        };
        write!(f, "{} {}", self.0 >> (10 * unit), UNITS[unit])
    }
}

/// A number of bytes that a user must provide. It is shown in the largest unit that is
/// not larger, with one decimal, rounded up, so that the size shown suffices.
///
/// For example, `Enough((25 << 20) + 1)` is shown as `25.1 MiB`.
#[derive(Clone, Copy, Debug)]
pub struct Enough(pub u64);

impl fmt::Display for Enough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = (self.0.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
        let tenths = (u128::from(self.0) * 10).div_ceil(1 << (10 * unit));
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole} {}", UNITS[unit]),
            (whole, tenth) => write!(f, "{whole}.{tenth} {}", UNITS[unit]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_or_rounded_up() {
        for (bytes, exact, enough) in [
            (0, "0 bytes", "0 bytes"),
            (1000, "1000 bytes", "1000 bytes"),
            (8 << 20, "8 MiB", "8 MiB"),
            (26_284_032, "25668 KiB", "25.1 MiB"),
            ((25 << 20) + 1, "26214401 bytes", "25.1 MiB"),
            (3 << 29, "1536 MiB", "1.5 GiB"),
            (u64::MAX, "18446744073709551615 bytes", "16384 PiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), exact);
            assert_eq!(Enough(bytes).to_string(), enough);
        }
    }
}
