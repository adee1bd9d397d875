//! `varve undelete`: what was in a directory, and how it is brought back.

use super::place::Place;
use super::{answer, bytes, items, word};
use crate::cli::output::{self, Outcome};
use serde_json::{Value, json};
use std::path::PathBuf;

/// List what was removed from a directory, or bring it back.
///
/// The directory is on a mounted volume and may be gone itself. What any snapshot has
/// can be brought back: the newest one that has it is taken, or the one that --from
/// names.
#[derive(clap::Args)]
pub struct Undelete {
    /// The directory on the mount.
    directory: PathBuf,
    /// The removed file or directory, with all that was in it: a path in the directory, or
    /// an absolute one on the same mount.
    path: Option<PathBuf>,
    /// The snapshot to take it from: its name, or a time such as @-2h.
    #[arg(long, value_name = "SNAPSHOT", requires = "path")]
    from: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Undelete {
    pub fn run(self) -> Outcome {
        let place = Place::on_mount(&self.directory)?;
        let Some(path) = &self.path else {
            let removed = items(&place, &json!({"removed": place.inside()}), false)?;
            match self.json {
                true => output::json(&Value::from(removed)),
                false => removed.iter().for_each(print),
            }
            return Ok(0);
        };
        let question = json!({"restore": place.join(path)?, "at": self.from});
        let done = answer(&place, &question, true)?;
        print_restored(&done, self.json);
        Ok(0)
    }
}

/// Says what a restoration did.
pub fn print_restored(done: &Value, as_json: bool) {
    if as_json {
        return output::json(done);
    }
    output::line(format_args!(
        "{} files and directories restored from {}, {} written, {} names removed",
        done["restored"],
        word(&done["snapshot"]["name"]),
        bytes(&done["bytes"]),
        done["removed"]
    ));
    if let Some(before) = done["before"]["name"].as_str() {
        output::line(format_args!("what was there before is in {before}"));
    }
}

fn print(removed: &Value) {
    let slash = if removed["type"] == "directory" {
        "/"
    } else {
        ""
    };
    output::line(format_args!(
        "{}  {:>9}  {}{slash}  (in {})",
        word(&removed["modified"]),
        bytes(&removed["bytes"]),
        word(&removed["name"]),
        word(&removed["snapshot"]["name"])
    ));
}
