//! The program `varve-prove`, which `varve prove` runs: it tests this build.

use clap::Parser;
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use varve_console::output::{self, Failure, Outcome, Spinner};
use varve_prove::rows::{Extent, ROWS, Report, Row, named};

/// Put this build to the proof.
///
/// Each row attacks a volume in memory in one way, round after round, for its
/// share of the time, and counts what it did. The seed decides everything, but
/// for `applications`, which mounts and so needs /dev/fuse: a failure names the
/// command that repeats it. Exit code 1 if anything failed.
#[derive(Parser)]
#[command(name = "varve-prove", bin_name = "varve prove", version)]
struct Prove {
    /// Rows by name, separated by commas; all that can be run from here by default.
    #[arg(long, value_delimiter = ',', value_parser = row)]
    rows: Vec<&'static Row>,
    /// Minutes in all, shared by the rows.
    #[arg(long, default_value = "1", value_parser = minutes, allow_hyphen_values = true)]
    minutes: Duration,
    /// Decides everything; drawn from the clock by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Run this round alone, to repeat a failure.
    #[arg(long, requires = "seed")]
    round: Option<u64>,
    /// The report as JSON.
    #[arg(long)]
    json: bool,
    /// List the rows and the tests that run them at a fixed size.
    #[arg(long)]
    list: bool,
}

fn row(name: &str) -> Result<&'static Row, String> {
    match named(name) {
        None => Err("there is no such row; --list names them".into()),
        Some(row) if row.round.is_none() => Err(format!("it is a test only: {}", row.command)),
        Some(row) => Ok(row),
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let wrong = || "it is no number of minutes".to_owned();
    let minutes: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| wrong())
}

fn main() -> ExitCode {
    match output::arguments::<Prove>() {
        Ok(command) => output::exit(command.run()),
        Err(code) => code,
    }
}

impl Prove {
    fn run(self) -> Outcome {
        if self.list {
            list(self.json);
            return Ok(0);
        }
        let rows: Vec<&'static Row> = match self.rows.is_empty() {
            true => ROWS.iter().filter(|row| row.round.is_some()).collect(),
            false => self.rows.clone(),
        };
        let seed = self.seed.unwrap_or_else(seed_from_clock);
        // The seed is printed first, so that any failure can be repeated.
        output::note(format_args!("seed {seed}"));
        let share = self.minutes / rows.len() as u32;
        let extent = self.round.map_or(Extent::Time(share), Extent::Round);
        let mut report = Report {
            seed,
            rows: Vec::new(),
        };
        for row in rows {
            let spinner = Spinner::new(row.name);
            let done = row.run(seed, extent, &mut |done| {
                let failures = done.broken.len();
                spinner.say(format_args!(
                    "{} {}, {:.0}/s, {failures} failures",
                    done.done,
                    done.unit,
                    done.rate()
                ));
            });
            spinner.finish();
            let done = done.expect("only rows that can be run are chosen");
            if !self.json {
                output::lines(&done);
            }
            report.rows.push(done);
        }
        if self.json {
            let value = serde_json::to_value(&report).map_err(Failure::with(1))?;
            output::json(&value);
        }
        Ok(u8::from(report.failures() > 0))
    }
}

fn list(as_json: bool) {
    if as_json {
        let rows = ROWS.iter().map(|row| {
            json!({
                "row": row.name,
                "about": row.about,
                "unit": row.unit,
                "test": row.command,
                "test_only": row.round.is_none(),
            })
        });
        output::json(&rows.collect());
        return;
    }
    for row in &ROWS {
        let only = if row.round.is_none() { "only " } else { "" };
        let (name, about, command) = (row.name, row.about, row.command);
        output::lines(format_args!(
            "{name:<14} {about}\n{:<14} {only}as a test: {command}",
            ""
        ));
    }
}

fn seed_from_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // The seed is short enough to be typed.
    since.map_or(1, |since| since.as_nanos() as u64 % 1_000_000_000)
}
