//! A mark: a position in a log's history (`docs/spec/stream.md`).

use super::LogPosition;
use std::fmt;
use std::str::FromStr;

/// The end of a group: serial and header checksum of its last partial segment. The
/// checksum covers its predecessor's and the random identity of the mount that wrote it,
/// so a mark identifies one history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Serial of the last partial; 0 on a new volume.
    pub serial: u64,
    /// CRC-32C of the header of that partial.
    pub check: u32,
}

impl From<LogPosition> for Mark {
    fn from(position: LogPosition) -> Self {
        Mark {
            serial: position.serial.get(),
            check: position.predecessor.get(),
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", self.serial, self.check)
    }
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('-').and_then(|(serial, check)| {
            let digits = |part: &str| part.bytes().all(|c| c.is_ascii_hexdigit());
            let whole = check.len() == 8 && digits(serial) && digits(check);
            let check = u32::from_str_radix(check, 16).ok().filter(|_| whole)?;
            let serial = serial.parse().ok()?;
            Some(Mark { serial, check })
        });
        parsed.ok_or_else(|| format!("{text} is no mark, such as 1052-9f3a11c2"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_there_and_back() {
        for (serial, check) in [(0, 0), (1052, 0x9f3a_11c2), (u64::MAX, u32::MAX)] {
            let mark = Mark { serial, check };
            assert_eq!(mark.to_string().parse(), Ok(mark));
        }
        for wrong in [
            "",
            "-",
            "7",
            "7-",
            "7-123",
            "7-123456789",
            "+7-12345678",
            "7-+1234567",
            "a-12345678",
            "18446744073709551616-00000000",
        ] {
            assert!(wrong.parse::<Mark>().is_err(), "{wrong}");
        }
    }
}
