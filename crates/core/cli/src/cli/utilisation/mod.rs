//! The utilisation of segments, as text and as a picture.

mod picture;

use picture::Histogram;
use varve_lfs::{STEPS, Utilisation};

/// Columns of the longest bar.
const COLUMNS: u64 = 50;

/// Name and value of each count, emptiest first.
pub fn named(u: &Utilisation) -> Vec<(String, u64)> {
    let step = |(at, count): (usize, &u64)| {
        let end = |at: usize| 100 * at / STEPS;
        (format!("{}-{} %", end(at), end(at + 1)), *count)
    };
    let others = [("clean", u.clean), ("open", u.open), ("empty", u.empty)];
    let others = others.map(|(name, count)| (name.to_owned(), count));
    others
        .into_iter()
        .chain(u.used.iter().enumerate().map(step))
        .collect()
}

/// One line for each count.
pub fn text(u: &Utilisation) -> String {
    let rows = named(u);
    let most = rows.iter().map(|row| row.1).max().unwrap_or(0).max(1);
    let mut text = String::new();
    for (name, count) in rows {
        let bar = "#".repeat((count * COLUMNS).div_ceil(most) as usize);
        let line = format!("{name:>9} {count:>8} {bar}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{:>9} {:>6.1} %", "all", 100.0 * u.overall()));
    text
}

/// A bar chart of the counts.
pub fn picture(u: &Utilisation) -> Histogram {
    let bars = named(u).into_iter();
    Histogram {
        title: "Utilisation of segments".into(),
        x: "live bytes of a segment; without any: clean, open, empty".into(),
        y: "segments".into(),
        bars: bars.map(|(name, count)| (name, count as f64)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        let mut u = Utilisation {
            clean: 100,
            open: 2,
            live_bytes: 3,
            room_bytes: 4,
            ..Utilisation::default()
        };
        u.used[9] = 51;
        let text = text(&u);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3 + STEPS + 1);
        assert_eq!(lines[0], format!("    clean      100 {}", "#".repeat(50)));
        assert_eq!(lines[1], "     open        2 #");
        assert_eq!(lines[2], "    empty        0");
        assert_eq!(lines[12], format!(" 90-100 %       51 {}", "#".repeat(26)));
        assert_eq!(lines[13], "      all   75.0 %");
    }
}
