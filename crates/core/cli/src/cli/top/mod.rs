//! `varve top`: shows a mounted volume at work.
//!
//! The server is asked for its statistics (as `varve stats`) and for its segment map
//! every interval; rates are the difference of two answers. One renderer draws for the
//! terminal and, without one, for plain text.

mod sample;
mod view;

use super::output::{self, Failure, Outcome};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use sample::{Rates, Sample};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use view::{Map, View};

/// Columns and lines of a frame without a terminal.
const PLAIN: (u16, u16) = (100, 40);
/// Longest delay until a key or a signal is handled.
const LOOK: Duration = Duration::from_millis(100);
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// Show a mounted volume at work.
///
/// Segments by utilisation or by age, write cost, bytes by cause, latency and the
/// cleaner's backlog. Keys: q quits, p pauses, m changes the map, + and - the interval.
/// Without a terminal, one frame as plain text.
#[derive(clap::Args)]
pub struct Top {
    /// The directory on which the volume is mounted.
    directory: PathBuf,
    /// Seconds between two samples.
    #[arg(long, default_value = "1", value_parser = seconds)]
    interval: f64,
    /// Print one frame as plain text, of one interval.
    #[arg(long)]
    once: bool,
    /// Begin with the map of ages.
    #[arg(long)]
    age: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    let valid = seconds.filter(|s| INTERVALS.contains(s));
    valid.ok_or_else(|| "it is a number of seconds from 0.1 to 3600".into())
}

/// The frame's contents, and the settings changed by keys.
struct Show {
    view: View,
    interval: Duration,
    paused: bool,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Quit,
    Draw,
    Nothing,
}

impl Top {
    pub fn run(self) -> Outcome {
        let first = Sample::take(&self.directory)?;
        let interval = Duration::from_secs_f64(self.interval);
        let view = View {
            title: self.directory.display().to_string(),
            map: if self.age { Map::Age } else { Map::Utilisation },
        };
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        if self.once || !terminal {
            std::thread::sleep(interval);
            let rates = Rates::between(&first, &Sample::take(&self.directory)?);
            output::lines(plain(&view, &rates).map_err(Failure::with(1))?);
            return Ok(0);
        }
        let stopped = Arc::new(AtomicBool::new(false));
        varve_fuse::signals::note_termination(&stopped).map_err(Failure::with(1))?;
        let show = Show {
            view,
            interval,
            paused: false,
        };
        // Restores the terminal even after a panic.
        let mut terminal = ratatui::try_init().map_err(Failure::with(1))?;
        let outcome = self.watch(&mut terminal, show, first, &stopped);
        ratatui::restore();
        outcome
    }

    fn watch(
        &self,
        terminal: &mut DefaultTerminal,
        mut show: Show,
        first: Sample,
        stopped: &AtomicBool,
    ) -> Outcome {
        let mut last = first;
        let mut rates = Rates::between(&last, &last);
        let mut due = Instant::now() + show.interval;
        let mut draw = true;
        while !stopped.load(Relaxed) {
            if draw {
                let drawn = terminal.draw(|frame| {
                    show.view.draw(frame, &rates, show.interval, show.paused);
                });
                drawn.map_err(Failure::with(1))?;
            }
            let wait = due.saturating_duration_since(Instant::now()).min(LOOK);
            draw = false;
            if event::poll(wait).map_err(Failure::with(1))? {
                match event::read().map_err(Failure::with(1))? {
                    Event::Key(key) => match show.key(key) {
                        Wish::Quit => return Ok(0),
                        Wish::Draw => draw = true,
                        Wish::Nothing => {}
                    },
                    Event::Resize(..) => draw = true,
                    _ => {}
                }
            }
            if Instant::now() >= due {
                due = Instant::now() + show.interval;
                if !show.paused {
                    let next = Sample::take(&self.directory)?;
                    rates = Rates::between(&last, &next);
                    last = next;
                    draw = true;
                }
            }
        }
        Ok(0)
    }
}

impl Show {
    fn key(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Nothing;
        }
        let faster = (self.interval.as_secs_f64() / 2.0).max(*INTERVALS.start());
        let slower = (self.interval.as_secs_f64() * 2.0).min(*INTERVALS.end());
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Wish::Quit,
            KeyCode::Char('q') | KeyCode::Esc => Wish::Quit,
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                Wish::Draw
            }
            KeyCode::Char('m') => {
                self.view.map = self.view.map.other();
                Wish::Draw
            }
            KeyCode::Char('+') => {
                self.interval = Duration::from_secs_f64(faster);
                Wish::Draw
            }
            KeyCode::Char('-') => {
                self.interval = Duration::from_secs_f64(slower);
                Wish::Draw
            }
            _ => Wish::Nothing,
        }
    }
}

/// A frame as text, without blanks at the ends of lines.
fn plain(view: &View, rates: &Rates) -> std::io::Result<String> {
    let mut terminal =
        Terminal::new(TestBackend::new(PLAIN.0, PLAIN.1)).unwrap_or_else(|never| match never {});
    let interval = Duration::from_secs_f64(rates.seconds);
    terminal
        .draw(|frame| view.draw(frame, rates, interval, false))
        .unwrap_or_else(|never| match never {});
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(PLAIN.0));
    let lines: Vec<String> = rows
        .map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>())
        .map(|line| line.trim_end().to_owned())
        .collect();
    Ok(lines.join("\n").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_footer_says() {
        let mut show = Show {
            view: View {
                title: "/mnt".into(),
                map: Map::Utilisation,
            },
            interval: Duration::from_secs(1),
            paused: false,
        };
        let mut press = |code| show.key(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(press(KeyCode::Char('q')), Wish::Quit);
        assert_eq!(press(KeyCode::Char('c')), Wish::Nothing);
        assert_eq!(press(KeyCode::Char('p')), Wish::Draw);
        assert_eq!(press(KeyCode::Char('m')), Wish::Draw);
        for _ in 0..5 {
            assert_eq!(press(KeyCode::Char('+')), Wish::Draw);
        }
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(show.key(control), Wish::Quit);
        assert!(show.paused && show.view.map == Map::Age);
        assert_eq!(show.interval, Duration::from_millis(100));
    }

    #[test]
    fn intervals_are_positive() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "nan", "1e9", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
