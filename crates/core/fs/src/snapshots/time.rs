//! Times as names of snapshots.

use crate::types::Timestamp;

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 60 * MINUTE_S;
const DAY_S: i64 = 24 * HOUR_S;
const NOT_A_TIME: &str =
    "not a time: write @-90m, @-2h, @-3d, @2026-11-28T10:00 or @2026-11-28T10:00:30, in UTC";

/// The latest instant that a name which begins with `@` means, at the time `now`.
///
/// | name | means |
/// |---|---|
/// | `@-30s`, `@-90m`, `@-2h`, `@-3d`, `@-4w` | so long before now |
/// | `@2026-11-28T10:00`, `@2026-11-28T10:00Z` | that minute, in UTC, up to its end |
/// | `@2026-11-28T10:00:30`, `@2026-11-28T10:00:30Z` | that second, up to its end |
///
/// # Errors
/// Says what a time looks like.
pub fn parse_time(name: &str, now: Timestamp) -> Result<Timestamp, &'static str> {
    let text = name.strip_prefix('@').ok_or(NOT_A_TIME)?;
    let parsed = match text.strip_prefix('-') {
        Some(before) => parse_before(before, now),
        None => parse_date(text.strip_suffix('Z').unwrap_or(text)),
    };
    parsed.ok_or(NOT_A_TIME)
}

/// A time as a name, exact to the second: `@2026-11-28T10:00:30Z`.
pub fn show_time(time: Timestamp) -> String {
    let (day, second) = (
        time.seconds.div_euclid(DAY_S),
        time.seconds.rem_euclid(DAY_S),
    );
    let (year, month, day) = date_of(day);
    let (hour, minute, second) = (second / HOUR_S, second / MINUTE_S % 60, second % 60);
    format!("@{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn parse_before(text: &str, now: Timestamp) -> Option<Timestamp> {
    let unit = text.chars().next_back()?;
    let unit_s = match unit {
        's' => 1,
        'm' => MINUTE_S,
        'h' => HOUR_S,
        'd' => DAY_S,
        'w' => 7 * DAY_S,
        _ => return None,
    };
    let count = number(text.strip_suffix(unit)?)?;
    Some(Timestamp {
        seconds: now.seconds.checked_sub(count.checked_mul(unit_s)?)?,
        nanos: now.nanos,
    })
}

fn parse_date(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('T')?;
    let fields = |text: &str, separator: char, widths: &[usize]| -> Option<Vec<i64>> {
        let parts: Vec<&str> = text.split(separator).collect();
        let fit = parts.len() == widths.len()
            && parts
                .iter()
                .zip(widths)
                .all(|(part, width)| part.len() == *width);
        match fit {
            true => parts.into_iter().map(number).collect(),
            false => None,
        }
    };
    let [year, month, day] = fields(date, '-', &[4, 2, 2])?[..] else {
        return None;
    };
    let minute_only = fields(time, ':', &[2, 2]);
    let with_second = || fields(time, ':', &[2, 2, 2]);
    let time = minute_only.or_else(with_second)?;
    let (hour, minute, first, last) = match time[..] {
        [hour, minute] => (hour, minute, 0, 59),
        [hour, minute, second] => (hour, minute, second, second),
        _ => return None,
    };
    let valid = hour < 24 && minute < 60 && first < 60;
    let day = day_of(year, month, day)?;
    valid.then(|| Timestamp {
        seconds: day * DAY_S + hour * HOUR_S + minute * MINUTE_S + last,
        nanos: 999_999_999,
    })
}

/// A number of ASCII digits alone.
fn number(text: &str) -> Option<i64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Days from 1970 to a date of the Gregorian calendar; none if there is no such date.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2013.
fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March: the leap day is the last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    // The 31st of a month that has 30 days is the 1st of the next one.
    (date_of(days) == (year, month, day)).then_some(days)
}

/// The date that is so many days after 1970. Source: as [`day_of`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp {
        seconds: 1_795_860_000, // 2026-11-28T10:00:00Z
        nanos: 5,
    };

    fn parse(name: &str) -> Option<(i64, u32)> {
        let time = parse_time(name, NOW).ok()?;
        Some((time.seconds, time.nanos))
    }

    #[test]
    fn a_span_is_counted_from_now() {
        for (name, seconds) in [
            ("@-30s", 30),
            ("@-90m", 5400),
            ("@-2h", 7200),
            ("@-3d", 259_200),
            ("@-1w", 604_800),
            ("@-0h", 0),
        ] {
            assert_eq!(parse(name), Some((NOW.seconds - seconds, 5)), "{name}");
        }
    }

    #[test]
    fn a_date_means_its_minute_or_second_to_the_end() {
        let end = 999_999_999;
        for (name, seconds) in [
            ("@2026-11-28T10:00", NOW.seconds + 59),
            ("@2026-11-28T10:00Z", NOW.seconds + 59),
            ("@2026-11-28T10:00:00", NOW.seconds),
            ("@2026-11-28T10:00:07Z", NOW.seconds + 7),
            ("@1970-01-01T00:00:00Z", 0),
            ("@1969-12-31T23:59:59Z", -1),
            ("@2000-02-29T00:00:00", 951_782_400),
        ] {
            assert_eq!(parse(name), Some((seconds, end)), "{name}");
        }
    }

    #[test]
    fn malformed_times_are_refused() {
        for name in [
            "",
            "@",
            "monday",
            "@-",
            "@-h",
            "@-2",
            "@-2y",
            "@--2h",
            "@-+2h",
            "@2026-11-28",
            "@2026-11-28T",
            "@2026-11-28T10",
            "@2026-13-01T10:00",
            "@2026-00-01T10:00",
            "@2026-02-29T10:00",
            "@2026-11-31T10:00",
            "@2026-11-28T24:00",
            "@2026-11-28T10:60",
            "@2026-11-28T10:00:60",
            "@2026-11-28T10:00ZZ",
            "@2026-11-28T1:000",
            "@-2h ",
            "@-9223372036854775807w",
            "@99999999999999999999-01-01T00:00",
            "@-2\u{e9}",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}", seconds: i64) {
            let now = Timestamp { seconds, nanos: 0 };
            let _ = parse_time(&text, now);
            let _ = parse_time(&format!("@{text}"), now);
        }

        #[test]
        fn what_resembles_a_time_does_not_panic(text in "@-?[0-9TZ:smhdw-]{0,24}", seconds: i64) {
            let _ = parse_time(&text, Timestamp { seconds, nanos: 0 });
        }

        #[test]
        fn what_is_shown_is_parsed(seconds in -62_000_000_000i64..250_000_000_000) {
            let time = Timestamp { seconds, nanos: 1 };
            let parsed = parse_time(&show_time(time), NOW).unwrap();
            prop_assert_eq!(parsed.seconds, seconds);
        }
    }
}
