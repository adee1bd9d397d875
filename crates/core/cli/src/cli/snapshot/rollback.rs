//! `varve rollback`: makes a volume, or a part of it, what it was in a snapshot.

use super::answer;
use super::place::Place;
use super::undelete::print_restored;
use crate::cli::output::Outcome;
use serde_json::json;
use std::path::PathBuf;

/// Make a volume, or a file or directory in it, what it was in a snapshot.
///
/// All of it happens in one transaction, on a mounted volume while it is used. What was
/// there before is an automatic snapshot, which `varve snapshot rename` keeps.
#[derive(clap::Args)]
pub struct Rollback {
    /// The image file, block device, or a directory on a mount.
    volume: PathBuf,
    /// The snapshot: its name, or a time such as @-2h.
    snapshot: String,
    /// The file or directory, from the root of the volume; all of it without one.
    path: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Rollback {
    pub fn run(self) -> Outcome {
        let place = Place::of(&self.volume)?;
        let path = match &self.path {
            Some(path) => place.join(path)?,
            None => "/".to_owned(),
        };
        let question = json!({"restore": path, "at": self.snapshot});
        print_restored(&answer(&place, &question, true)?, self.json);
        Ok(0)
    }
}
