//! A frame: costs, bytes by cause, latency, cleaner, segment map, keys.
//!
//! Contents that do not fit are cut at the edge; no part depends on the size. Cells have
//! a character as well as a colour, so plain text shows the same.

use super::sample::{Cause, Rates};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use std::time::Duration;

/// The quantity that the cells of the map show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// Utilisation.
    Utilisation,
    /// Time since the youngest user write.
    Age,
}

impl Map {
    /// The other quantity.
    pub fn other(self) -> Self {
        match self {
            Map::Utilisation => Map::Age,
            Map::Age => Map::Utilisation,
        }
    }
}

/// Settings of the frame.
pub struct View {
    /// The mount's name.
    pub title: String,
    /// The quantity in the map.
    pub map: Map,
}

impl View {
    /// Draws a frame.
    pub fn draw(&self, frame: &mut Frame<'_>, rates: &Rates, interval: Duration, paused: bool) {
        let causes = rates.written.len().max(rates.read.len()) as u16;
        let [head, bytes, other, map, foot] = Layout::vertical([
            Constraint::Length(if has_transactions(rates) { 4 } else { 2 }),
            Constraint::Length(causes + 2),
            Constraint::Length(6),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let halves = |area| -> [Rect; 2] {
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(area)
        };
        frame.render_widget(Paragraph::new(self.head(rates)), head);
        let [written, read] = halves(bytes);
        boxed(frame, written, "written by cause", by_cause(&rates.written));
        boxed(frame, read, "read by cause", by_cause(&rates.read));
        let [latency, cleaner] = halves(other);
        boxed(frame, latency, "latency", latencies(rates));
        boxed(frame, cleaner, "cleaner", cleaning(rates));
        self.draw_map(frame, map, rates);
        frame.render_widget(Paragraph::new(keys(interval, paused)), foot);
    }

    fn head(&self, rates: &Rates) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let pair = |(all, now): (f64, Option<f64>)| match now {
            Some(now) => format!("{all:.2} (now {now:.2})"),
            None => format!("{all:.2}"),
        };
        let mut title = vec![
            Span::styled(format!("varve top {}", self.title), bold),
            format!("  {:.1} % live", 100.0 * rates.utilisation).into(),
        ];
        if rates.read_only {
            title.push(Span::styled("  READ-ONLY", bold.fg(Color::Red)));
        }
        let costs = format!(
            "write cost {}  overall {:.2}  amplification {}",
            pair(rates.write_cost),
            rates.overall_write_cost,
            pair(rates.amplification)
        );
        let mut lines = vec![Line::from(title), Line::from(costs)];
        if has_transactions(rates) {
            let [open, committed, conflicts, refused, aborted] = rates.transactions;
            let [waits, longest_ns, deadlocks, timeouts] = rates.locks;
            let longest_ms = longest_ns as f64 / 1e6;
            lines.push(Line::from(format!(
                "transactions {open} open  {committed} committed  {conflicts} conflicts  \
                 {refused} refused  {aborted} aborted"
            )));
            lines.push(Line::from(format!(
                "locks {waits} waits, the longest {longest_ms:.1} ms  {deadlocks} deadlocks  \
                 {timeouts} time-outs"
            )));
        }
        lines
    }

    fn draw_map(&self, frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
        let (cells, what) = match self.map {
            Map::Utilisation => (&rates.use_cells, "utilisation in tenths, . clean, @ log"),
            Map::Age => (&rates.age_cells, "age in log2 seconds, - none"),
        };
        let width = usize::from(area.width.saturating_sub(2)).max(1);
        let rows = usize::from(area.height.saturating_sub(2));
        // The server returned more cells than fit: merge them.
        let all: Vec<char> = cells.chars().collect();
        let merged = all.len().div_ceil((width * rows).max(1)).max(1);
        let shown: Vec<char> = all.chunks(merged).map(|cell| self.merge(cell)).collect();
        let lines = shown
            .chunks(width)
            .map(|row| {
                let span = |cell: &char| Span::styled(cell.to_string(), self.colour(*cell));
                Line::from(row.iter().map(span).collect::<Vec<Span<'_>>>())
            })
            .collect();
        let each = rates.per_cell * merged as u64;
        let title = format!("{} segments, {each} a cell: {what}", rates.segments);
        boxed(frame, area, &title, lines);
    }

    /// One cell for several: the log's mark if it is among them, else the mean.
    fn merge(&self, cells: &[char]) -> char {
        if cells.contains(&'@') {
            return '@';
        }
        let numbers: Vec<u32> = cells.iter().filter_map(|c| c.to_digit(36)).collect();
        let (Some(least), false) = (numbers.iter().min(), numbers.is_empty()) else {
            return cells.first().copied().unwrap_or(' ');
        };
        let value = match self.map {
            // Clean ones count as empty.
            Map::Utilisation => numbers.iter().sum::<u32>() / cells.len() as u32,
            Map::Age => *least,
        };
        char::from_digit(value, 36).unwrap_or('?')
    }

    fn colour(&self, cell: char) -> Style {
        let colour = match (self.map, cell) {
            (_, '.' | '-') => Color::DarkGray,
            (_, '@') => Color::White,
            // A segment with few live blocks is cheap to clean.
            (Map::Utilisation, '0'..='2') => Color::Green,
            (Map::Utilisation, '3'..='5') => Color::Cyan,
            (Map::Utilisation, '6'..='8') => Color::Yellow,
            (Map::Utilisation, _) => Color::Red,
            // The colours change at a minute, an hour, a day.
            (Map::Age, '0'..='5') => Color::Red,
            (Map::Age, '6'..='9' | 'a'..='b') => Color::Yellow,
            (Map::Age, 'c'..='g') => Color::Cyan,
            (Map::Age, _) => Color::Blue,
        };
        Style::new().fg(colour)
    }
}

/// True if the mount has had transactions, which most have not.
fn has_transactions(rates: &Rates) -> bool {
    rates.transactions.iter().any(|n| *n > 0)
}

fn boxed(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>) {
    let block = Block::bordered().title(format!(" {title} "));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// A number of bytes in about four columns: `1.5M`.
fn short(bytes: f64) -> String {
    let mut rest = bytes;
    for unit in ["", "K", "M", "G", "T"] {
        if rest < 1000.0 {
            return match unit {
                "" => format!("{rest:.0}"),
                _ if rest < 10.0 => format!("{rest:.1}{unit}"),
                _ => format!("{rest:.0}{unit}"),
            };
        }
        rest /= 1024.0;
    }
    format!("{rest:.0}P")
}

fn by_cause(causes: &[Cause]) -> Vec<Line<'static>> {
    const BAR: f64 = 12.0;
    let all: u64 = causes.iter().map(|cause| cause.total).sum();
    let line = |cause: &Cause| {
        let share = cause.total as f64 / all.max(1) as f64;
        let bar = "#".repeat((share * BAR).round() as usize);
        Line::from(format!(
            "{:<13}{:>6}/s {:>6} {:>5.1} % {bar}",
            cause.name,
            short(cause.rate),
            short(cause.total as f64),
            100.0 * share
        ))
    };
    causes.iter().map(line).collect()
}

fn latencies(rates: &Rates) -> Vec<Line<'static>> {
    let time = |us: &Option<u64>| match us {
        None => "-".into(),
        Some(us) if *us < 1000 => format!("{us} us"),
        Some(us) if *us < 10_000_000 => format!("{:.1} ms", *us as f64 / 1e3),
        Some(us) => format!("{:.0} s", *us as f64 / 1e6),
    };
    let line = |of: &super::sample::Latency| {
        let [half, most, all] = of.percentiles.each_ref().map(time);
        let told = format!("{half} / {most} / {all}");
        Line::from(format!("{:<6}{:>7.0}/s {told}", of.kind, of.rate))
    };
    rates.latency.iter().map(line).collect()
}

fn cleaning(rates: &Rates) -> Vec<Line<'static>> {
    let [clean, low, goal, debt] = rates.cleaner;
    let [cleaned, emptied] = rates.cleaned;
    let debt = match debt {
        0 => Span::raw("no debt"),
        debt => Span::styled(
            format!("debt {debt} segments"),
            Style::new().fg(Color::Yellow),
        ),
    };
    vec![
        Line::from(format!("clean segments {clean}")),
        Line::from(format!("begins below {low}, ends at {goal}")),
        Line::from(debt),
        Line::from(format!("cleaned {cleaned:.1}/s, empty {emptied:.1}/s")),
    ]
}

fn keys(interval: Duration, paused: bool) -> Line<'static> {
    let seconds = interval.as_secs_f64();
    let state = if paused {
        "PAUSED"
    } else {
        "latencies: p50 / p99 / p99.9"
    };
    Line::from(format!(
        "q quit  p pause  m map  +/- every {seconds:.1} s   {state}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::plain;
    use super::super::sample::Sample;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};

    fn statistics(grown: u64) -> Value {
        json!({
            "layout": {
                "data_bytes": 1000 + grown, "cleaner_log_bytes": grown,
                "cleaner_read_bytes": 2 * grown, "bytes_written": 3 * grown,
                "segments_cleaned": 0, "segments_emptied": 0,
            },
            "write_cost": 1.25, "overall_write_cost": 2.5, "write_amplification": 1.75,
            "segments": {"utilisation": 0.625},
            "state": {"read_only": 0},
            "transactions": {
                "open": 1, "committed": 20, "conflicts": 3, "aborted": 4, "refused": 5,
                "locks": {
                    "waits": 6, "longest_wait_ns": 7_500_000, "deadlocks": 8, "timeouts": 9,
                },
            },
            "written_by_cause": {"data": 3 << 20, "summaries": 1 << 20},
            "read_by_cause": {"cleaner": 0},
            "latency": {"read": {"steps": [0, grown]}, "write": {"steps": []}},
            "cleaner": {
                "clean_segments": 3, "begins_below": 8, "ends_at": 20, "debt_segments": 17,
            },
        })
    }

    fn rates() -> Rates {
        let map = || json!({"count": 8, "per_cell": 2, "use": "9.5@", "age": "z-40"});
        let before = Sample::of(statistics(0), map());
        Rates::between(&before, &Sample::of(statistics(500), map()))
    }

    fn view(map: Map) -> View {
        View {
            title: "/mnt".into(),
            map,
        }
    }

    #[test]
    fn a_frame_says_what_the_mount_said() {
        let text = plain(&view(Map::Utilisation), &rates()).unwrap();
        for part in [
            "varve top /mnt  62.5 % live",
            "write cost 1.25 (now 4.00)  overall 2.50  amplification 1.75 (now 3.00)",
            "3.0M  75.0 % #########",
            "2 us / 2 us / 2 us",
            "transactions 1 open  20 committed  3 conflicts  5 refused  4 aborted",
            "locks 6 waits, the longest 7.5 ms  8 deadlocks  9 time-outs",
            "debt 17 segments",
            "begins below 8, ends at 20",
            "8 segments, 2 a cell: utilisation",
            "9.5@",
            "q quit",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
        let text = plain(&view(Map::Age), &rates()).unwrap();
        assert!(text.contains("z-40") && !text.contains("9.5@"), "{text}");
    }

    #[test]
    fn any_size_will_do() {
        let rates = rates();
        for (columns, lines) in [(1, 1), (5, 3), (20, 60), (300, 4), (80, 24), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
            for map in [Map::Utilisation, Map::Age] {
                let draw = |frame: &mut Frame<'_>| {
                    view(map).draw(frame, &rates, Duration::from_secs(1), true);
                };
                terminal.draw(draw).unwrap();
            }
        }
    }

    #[test]
    fn cells_are_merged_where_there_is_no_room() {
        let full = view(Map::Utilisation);
        assert_eq!(full.merge(&['8', '.', '.', '.']), '2');
        assert_eq!(full.merge(&['8', '@']), '@');
        assert_eq!(full.merge(&['.', '.']), '.');
        assert_eq!(view(Map::Age).merge(&['z', '4', '-']), '4');
    }

    #[test]
    fn colours_tell_cells_apart() {
        let full = view(Map::Utilisation);
        assert_ne!(full.colour('0'), full.colour('9'));
        assert_ne!(full.colour('.'), full.colour('0'));
        let old = view(Map::Age);
        assert_ne!(old.colour('3'), old.colour('k'));
    }

    #[test]
    fn bytes_are_short() {
        let shown = [0.0, 999.0, 1024.0, 15.0 * 1024.0, 3e9, 1e18].map(short);
        assert_eq!(shown, ["0", "999", "1.0K", "15K", "2.8G", "888P"]);
    }
}
