//! `varve versions`: what a file was in each snapshot.

use super::place::Place;
use super::server::Part;
use super::{bytes, items, word};
use crate::cli::output::{self, Failure, Outcome};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// List the versions of a file that snapshots have, or print one.
///
/// The file is on a mounted volume and may be gone. Versions are numbered from the
/// oldest; the last one is the file as it is.
#[derive(clap::Args)]
pub struct Versions {
    /// The file on the mount.
    file: PathBuf,
    /// Write the content of this version to the standard output.
    #[arg(long, value_name = "N", conflicts_with = "json")]
    get: Option<usize>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Versions {
    pub fn run(self) -> Outcome {
        let place = Place::on_mount(&self.file)?;
        let versions = items(&place, &json!({"versions": place.inside()}), false)?;
        let shown = self.file.display();
        if versions.is_empty() {
            let text = format_args!(
                "{shown}: neither the volume nor a snapshot has it; `varve snapshot list` shows \
                 which snapshots there are"
            );
            return Err(Failure::new(1, text));
        }
        if let Some(number) = self.get {
            let wanted = number.checked_sub(1).and_then(|nth| versions.get(nth));
            let Some(version) = wanted else {
                let count = versions.len();
                let text = format_args!("{shown}: it has versions 1 to {count}");
                return Err(Failure::new(1, text));
            };
            return self.get(&place, version);
        }
        if self.json {
            output::json(&Value::from(versions));
            return Ok(0);
        }
        for (nth, version) in versions.iter().enumerate() {
            let snapshot = version["snapshot"]["name"].as_str();
            output::line(format_args!(
                "{:>3}  {}  {:>9}  {}",
                nth + 1,
                word(&version["modified"]),
                bytes(&version["bytes"]),
                snapshot.unwrap_or("(present)")
            ));
        }
        Ok(0)
    }

    fn get(&self, place: &Place, version: &Value) -> Outcome {
        let mut output = output::content();
        let failed = |error: std::io::Error| format!("cannot write the content: {error}");
        match version["snapshot"].get("name") {
            None => {
                let shown = self.file.display();
                let file = std::fs::File::open(&self.file);
                let copied = file.and_then(|mut file| std::io::copy(&mut file, &mut output));
                copied.map_err(|error| Failure::new(1, format_args!("{shown}: {error}")))?;
            }
            Some(name) => {
                let question = json!({"content": place.inside(), "at": name});
                place.ask(&question, false, &mut |part| match part {
                    Part::Bytes(bytes) => output.write_all(bytes).map_err(failed),
                    Part::Item(_) => Ok(()),
                })?;
            }
        }
        output
            .flush()
            .map_err(|error| Failure::new(1, failed(error)))?;
        Ok(0)
    }
}
