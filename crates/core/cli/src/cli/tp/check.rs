//! `varve tp verify`, `recover` and `stats`.

use super::place::{Place, in_words, word};
use crate::cli::output::{self, Failure, Outcome};
use crate::cli::size;
use serde_json::json;
use varve_tp::{Error, Options};

/// Exit codes of fsck(8).
const DAMAGED: u8 = 4;
const FAILED: u8 = 8;

/// Read every page and verify that they form tables.
///
/// Nothing is changed: the recovery after a crash is done in memory. Exits with 4 if
/// anything is damaged or lost, with 8 if the check fails.
#[derive(clap::Args)]
pub struct Verify {
    #[command(flatten)]
    place: Place,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self) -> Outcome {
        let (storage, _volume) = self
            .place
            .to_be_read()
            .map_err(|failure| failure.coded(FAILED))?;
        let mut options = Options::new();
        options.background(false).read_only(true);
        let environment = options.open_storage(storage);
        let verified = environment.and_then(|environment| environment.verify());
        let found = match verified {
            Ok(found) => found,
            Err(error) => {
                let code = match error {
                    Error::Damaged { .. } => DAMAGED,
                    _ => FAILED,
                };
                return Err(self.place.failed(error).coded(code));
            }
        };
        if self.json {
            output::json(&json!({
                "tables": found.tables,
                "records": found.records,
                "tree_pages": found.tree_pages,
                "overflow_pages": found.overflow_pages,
                "free_pages": found.free_pages,
                "lost_pages": found.lost_pages,
            }));
        } else {
            output::line(format_args!(
                "{}: {} tables, {} records; {} pages of trees, {} of large values, {} free",
                self.place.shown(),
                found.tables,
                found.records,
                found.tree_pages,
                found.overflow_pages,
                found.free_pages
            ));
        }
        match found.lost_pages {
            0 => Ok(0),
            lost => {
                let text = format_args!("{lost} pages belong to nothing; dump and load it anew");
                Err(self.place.failed(text).coded(DAMAGED))
            }
        }
    }
}

/// Recover an environment after a crash, and take a checkpoint.
///
/// Every program that opens an environment does this; done alone, it makes the next
/// opening fast.
#[derive(clap::Args)]
pub struct Recover {
    #[command(flatten)]
    place: Place,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Recover {
    pub fn run(self) -> Outcome {
        let opened = self.place.open(false, Options::new().background(false))?;
        let report = opened.environment.recovery();
        opened.close()?;
        match self.json {
            true => output::json(&json!({
                "log_bytes": report.log_bytes,
                "records": report.records,
                "restored": report.restored,
                "redone": report.redone,
                "undone": report.undone,
                "finished": report.finished,
            })),
            false => output::line(format_args!(
                "{}: {} records in {} of log; {} changes redone, {} transactions undone",
                self.place.shown(),
                report.records,
                size::show(report.log_bytes),
                report.redone,
                report.undone
            )),
        }
        Ok(0)
    }
}

/// Print the parts of an environment: tables and their types, pages, log.
#[derive(clap::Args)]
pub struct Stats {
    #[command(flatten)]
    place: Place,
    /// Also count the records of each table.
    #[arg(long)]
    count: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub fn run(self) -> Outcome {
        let opened = self.place.read()?;
        let environment = &opened.environment;
        let (counted, report) = (environment.statistics(), environment.recovery());
        let mut tables = Vec::new();
        for name in environment.tables() {
            let types = environment.table_types(&name).unwrap_or_default();
            let records = match self.count {
                true => Some(self.records(environment, &name)?),
                false => None,
            };
            tables.push((name, types, records));
        }
        if self.json {
            let tables: Vec<_> = tables
                .iter()
                .map(|(name, types, records)| json!({"name": name, "types": types, "records": records}))
                .collect();
            output::json(&json!({
                "page_bytes": counted.page_bytes,
                "placement": word(counted.placement),
                "pages": counted.pages,
                "slots": counted.slots,
                "log_to_recover": report.log_bytes,
                "unfinished": report.undone,
                "tables": tables,
            }));
        } else {
            output::line(format_args!(
                "pages:    {} of {}, in a file of {} slots",
                counted.pages,
                size::show(counted.page_bytes),
                counted.slots
            ));
            output::line(format_args!("placed:   {}", in_words(counted.placement)));
            output::line(format_args!(
                "recovery: reads {} of log, undoes {} transactions",
                size::show(report.log_bytes),
                report.undone
            ));
            for (name, types, records) in &tables {
                let records =
                    records.map_or(String::new(), |records| format!(", {records} records"));
                output::line(format_args!("table:    {name:?}: {types}{records}"));
            }
        }
        opened.close()?;
        Ok(0)
    }

    fn records(&self, environment: &varve_tp::Environment, name: &str) -> Result<u64, Failure> {
        let transaction = environment.begin_read();
        let count = || {
            let mut count = 0;
            for row in transaction.open_raw(name)?.iter()? {
                row?;
                count += 1;
            }
            Ok(count)
        };
        count().map_err(|error: Error| self.place.failed(error))
    }
}
