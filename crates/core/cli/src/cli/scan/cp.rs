//! `varve cp --unordered`: copies a tree, its data in the order in which it is stored.

use super::Source;
use super::destination::Destination;
use crate::cli::output::{self, Failure, Outcome};
use crate::cli::size;
use crate::cli::snapshot::Part;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Copy a tree, or a snapshot of it, to a directory of the host.
///
/// The data is read in the order in which the volume stores it, and written to its files
/// in that order: after random writes this is several times as fast as reading file after
/// file. The copy has the permissions, times, extended attributes, hard links and holes of
/// the original, and its owners if root copies.
#[derive(clap::Args)]
pub struct Cp {
    #[command(flatten)]
    source: Source,
    /// The directory to write: empty, or made if it is missing.
    destination: PathBuf,
    /// Copy in the order of the log. It is the only order of this command; cp(1) copies in
    /// the order of names.
    #[arg(long, required = true)]
    unordered: bool,
    /// Print as JSON what was copied.
    #[arg(long)]
    json: bool,
}

impl Cp {
    pub fn run(self) -> Outcome {
        let shown = self.destination.display();
        let mut destination = Destination::open(&self.destination)
            .map_err(|error| Failure::new(1, format_args!("{shown}: {error}")))?;
        let mut part = Value::Null;
        let done = self.source.ask("scan", &mut |next| {
            let written = match next {
                Part::Item(item) if item.get("entry").is_some() => destination.finish(&item),
                Part::Item(item) => {
                    part = item;
                    Ok(())
                }
                Part::Bytes(bytes) => destination.write(&part, bytes),
            };
            written.map_err(|why| format!("{shown}: {why}; the copy is not complete"))
        })?;
        match self.json {
            true => output::json(&json!({"files": done["files"], "bytes": done["bytes"]})),
            false => output::line(format_args!(
                "{shown}: {} files, {}",
                done["files"],
                size::show(done["bytes"].as_u64().unwrap_or(0))
            )),
        }
        Ok(0)
    }
}
