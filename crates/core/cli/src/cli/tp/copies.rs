//! `varve tp backup`, `follow` and `restore`: copies of environments
//! (`docs/guide/records.md`).

use super::place::Place;
use crate::cli::output::{self, Failure, Outcome};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use varve_tp::storage::HostStorage;
use varve_tp::{Applied, Error, Options, Standby, Until};

/// Copy an environment, also while it is in use.
///
/// If processes share it, its owner process makes the copy while transactions continue;
/// otherwise no process may have it open. The copy contains all transactions committed by
/// the end. Open it, and it is an environment of its own; or update it with `varve tp
/// follow`, or bring it to a point in time with `varve tp restore`. A copy is not backed
/// up, as that would open it: copy its files while nothing follows it.
#[derive(clap::Args)]
pub struct Backup {
    #[command(flatten)]
    place: Place,
    /// Destination: a directory of the host, which is made.
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub fn run(self) -> Outcome {
        let until = match self.place.of_host() {
            Some(directory) if varve_tp::is_shared(directory) => {
                let shared = Options::new().share(directory);
                shared.and_then(|shared| shared.backup(&self.to))
            }
            _ => {
                let (storage, volume) = self.place.storage(false)?;
                let copy = Standby::is_copy(&*storage);
                if copy.map_err(|error| self.place.failed(error))? {
                    let what = "it is a copy; copy its files while nothing follows it";
                    return Err(self.place.failed(what));
                }
                let mut options = Options::new();
                options.background(false).create(false);
                let opened = self.place.open_in(storage, volume, &mut options)?;
                let to = HostStorage::new(&self.to).map_err(|error| self.place.failed(error))?;
                let report = opened.environment.backup(&to);
                opened.close()?;
                report.map(|report| report.until)
            }
        };
        let to = self.to.display();
        let until = until.map_err(|error| Failure::new(1, format_args!("{to}: {error}")))?;
        match self.json {
            true => output::json(&json!({"until": until})),
            false => output::line(format_args!("{to}: up to LSN {until}")),
        }
        Ok(0)
    }
}

// An archive of a log, and a copy of its environment.
#[derive(clap::Args)]
struct Following {
    #[command(flatten)]
    place: Place,
    /// The directory in which the original stores finished segments of its log.
    #[arg(long, value_name = "DIRECTORY")]
    archive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Following {
    fn open(&self) -> Result<(Standby, Option<varve::Volume>, HostStorage), Failure> {
        if !self.archive.is_dir() {
            let shown = self.archive.display();
            return Err(Failure::new(
                1,
                format_args!("{shown}: there is no such directory"),
            ));
        }
        let archive = HostStorage::new(&self.archive).map_err(|error| self.failed(error))?;
        let (storage, volume) = self.place.storage(false)?;
        let mut options = Options::new();
        options
            .background(false)
            .create(false)
            .memory(self.place.memory());
        let standby = Standby::open(&options, storage);
        Ok((
            standby.map_err(|error| self.failed(error))?,
            volume,
            archive,
        ))
    }

    fn failed(&self, what: impl std::fmt::Display) -> Failure {
        self.place.failed(what)
    }

    /// The reason why the archive was not applied: a file of it is named with its
    /// directory.
    fn not_applied(&self, error: Error) -> Failure {
        let (Error::Damaged { file, .. }
        | Error::Incompatible { file, .. }
        | Error::LogMissing { file, .. }
        | Error::Io { file, .. }) = &error
        else {
            return self.failed(error);
        };
        match file.starts_with("log-") {
            true => Failure::new(1, format_args!("{}/{error}", self.archive.display())),
            false => self.failed(error),
        }
    }

    fn tell(&self, applied: &Applied) {
        match self.json {
            true => output::json(&json!({
                "records": applied.records,
                "position": applied.position,
                "stopped": applied.stopped,
            })),
            false => output::line(format_args!(
                "{}: {} records; stands at LSN {}",
                self.place.shown(),
                applied.records,
                applied.position
            )),
        }
    }
}

/// Update a copy from its original's archive; it remains a copy.
///
/// If this is interrupted, the copy continues from its position. `varve tp recover`, or
/// any program that opens it for writing, makes it an environment of its own.
#[derive(clap::Args)]
pub struct Follow {
    #[command(flatten)]
    copy: Following,
    /// Continue as more is archived, checking at this interval in seconds, until the
    /// process is ended.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
}

impl Follow {
    pub fn run(self) -> Outcome {
        let copy = &self.copy;
        let (mut standby, volume, archive) = copy.open()?;
        loop {
            let applied = standby.apply_archive(&archive, Until::End);
            let applied = applied.map_err(|error| copy.not_applied(error))?;
            standby.checkpoint().map_err(|error| copy.failed(error))?;
            if applied.records > 0 || self.every.is_none() {
                copy.tell(&applied);
            }
            match self.every {
                Some(seconds) => std::thread::sleep(Duration::from_secs(seconds)),
                None => break,
            }
        }
        drop(standby);
        if let Some(volume) = volume {
            volume.close()?;
        }
        Ok(0)
    }
}

/// Bring a copy to a point of its original's past, and make it an environment of its own.
///
/// Transactions committed by then are kept, all others are undone. The archive must have
/// the log from the copy on without a gap. If it ends before the point, the copy is
/// brought to the archive's end, and remains a copy.
#[derive(clap::Args)]
pub struct Restore {
    #[command(flatten)]
    copy: Following,
    /// The point: a time such as 2026-11-26T10:30:00Z, `@` and seconds since 1970, or
    /// `lsn:` and an LSN. By default the archive's end.
    #[arg(long, value_name = "POINT", value_parser = point)]
    until: Option<Until>,
}

impl Restore {
    pub fn run(self) -> Outcome {
        let copy = &self.copy;
        let (mut standby, volume, archive) = copy.open()?;
        let until = self.until.unwrap_or_default();
        let applied = standby.apply_archive(&archive, until);
        let applied = applied.map_err(|error| copy.not_applied(error))?;
        let reached = match until {
            Until::End => true,
            Until::Lsn(lsn) => applied.stopped || applied.position == lsn,
            Until::Time(_) => applied.stopped,
        };
        let closed = match reached {
            true => standby
                .promote()
                .and_then(|environment| environment.close()),
            false => {
                let taken = standby.checkpoint();
                // The volume is closed after it.
                drop(standby);
                taken
            }
        };
        closed.map_err(|error: Error| copy.failed(error))?;
        if let Some(volume) = volume {
            volume.close()?;
        }
        if !reached {
            return Err(copy.failed(format_args!(
                "the archive ends at LSN {}, before the point; it stays a copy. Without \
                 --until it is restored to there",
                applied.position
            )));
        }
        copy.tell(&applied);
        Ok(0)
    }
}

/// Parses a point in time or in the log.
fn point(text: &str) -> Result<Until, String> {
    let wrong = || format!("`{text}` is neither 2026-11-26T10:30:00Z nor @SECONDS nor lsn:NUMBER");
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    if let Some(seconds) = text.strip_prefix('@') {
        return number(seconds).map(Until::Time);
    }
    if let Some(lsn) = text.strip_prefix("lsn:") {
        return number(lsn).map(Until::Lsn);
    }
    seconds(text).map(Until::Time).ok_or_else(wrong)
}

/// Seconds since 1970 of a time such as `2026-11-26T10:30:00Z`.
fn seconds(text: &str) -> Option<u64> {
    let (day, time) = text.strip_suffix('Z')?.split_once('T')?;
    let part = |part: Option<&str>, digits: usize| {
        let part = part?;
        let right = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        right.then(|| part.parse::<u64>().ok())?
    };
    let (mut day, mut time) = (day.split('-'), time.split(':'));
    let (year, month, date) = (
        part(day.next(), 4)?,
        part(day.next(), 2)?,
        part(day.next(), 2)?,
    );
    let (hour, minute, second) = (
        part(time.next(), 2)?,
        part(time.next(), 2)?,
        part(time.next(), 2)?,
    );
    let leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let february = 28 + u64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *months.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    let right = (1..=length).contains(&date) && hour < 24 && minute < 60 && second < 60;
    if !right || year < 1970 || day.next().is_some() || time.next().is_some() {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(leap(year))).sum();
    let days = years + months[..month as usize - 1].iter().sum::<u64>() + date - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read() {
        assert_eq!(point("@12"), Ok(Until::Time(12)));
        assert_eq!(point("lsn:70"), Ok(Until::Lsn(70)));
        assert_eq!(point("1970-01-02T00:00:01Z"), Ok(Until::Time(86_401)));
        assert_eq!(
            point("2026-11-26T10:30:00Z"),
            Ok(Until::Time(1_795_689_000))
        );
        assert_eq!(
            point("2024-02-29T00:00:00Z"),
            Ok(Until::Time(1_709_164_800))
        );
        for wrong in [
            "",
            "@",
            "lsn:x",
            "2026-11-26",
            "2026-11-26T10:30:00",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-1-01T00:00:00Z",
            "2026-11-26T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-26-01T00:00:00Z",
        ] {
            assert!(point(wrong).is_err(), "{wrong}");
        }
    }
}
