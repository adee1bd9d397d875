//! Sizes in the notation of users: `64K`, `1.5G`, `4096`.

/// Parses a number of bytes: digits, and optionally a suffix of powers of 1024: K, M, G
/// or T, followed by `iB` or `B` or nothing, with or without a blank before it.
///
/// # Errors
/// A message with an example.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: write digits and K, M, G or T, such as 64M");
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(digits_end);
    // Messages show sizes in this form: `68.9 MiB`.
    let upper = suffix.trim_start().to_ascii_uppercase();
    let unit = upper.strip_suffix("IB").or(upper.strip_suffix('B'));
    let shift = match unit.unwrap_or(&upper) {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole
            .checked_mul(1 << shift)
            .ok_or_else(|| format!("`{text}` is too large"));
    }
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    if shift == 0 || bytes >= u64::MAX as f64 {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

/// Parses as [`parse`] does, for sizes that are stored in 32 bits.
///
/// # Errors
/// As [`parse`], and if the size is too large.
pub fn parse_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse(text)?).map_err(|_| format!("`{text}` is too large"))
}

/// Returns a number of bytes in a form for people, such as `68.9 MiB`.
pub fn show(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ if value.fract() == 0.0 => format!("{value:.0} {}", UNITS[unit]),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64k"), Ok(64 << 10));
        assert_eq!(parse("1.5G"), Ok(3 << 29));
        assert_eq!(parse("2TiB"), Ok(2 << 40));
        assert_eq!(parse("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse("512B"), Ok(512));
        for wrong in ["", "G", "1.5", "12Q", "-1", "1..2G", "99999999T", "1e9"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(show(1023), "1023 B");
        assert_eq!(show(64 << 20), "64 MiB");
        assert_eq!(show(3 << 29), "1.5 GiB");
    }
}
