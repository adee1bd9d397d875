//! `varve diff`: what changed between two snapshots, or since one.

use super::place::Place;
use super::{bytes, items, word};
use crate::cli::output::{self, Outcome};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Print what changed between two snapshots, or between one and the present.
///
/// A line for each change: + created, - removed, R renamed, M modified with the bytes
/// that were written, A other owner, permissions, attributes or time. It takes time for
/// the changes, and not for the volume.
#[derive(clap::Args)]
pub struct Diff {
    /// The image file, block device, or a directory on a mount.
    volume: PathBuf,
    /// The older snapshot: its name, or a time such as @-2h.
    from: String,
    /// The newer one; the present without it.
    to: Option<String>,
    /// Also print which bytes of a file were written.
    #[arg(long)]
    content: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub fn run(self) -> Outcome {
        let question = json!({"diff": [self.from, self.to]});
        let mut changes = items(&Place::of(&self.volume)?, &question, false)?;
        if !self.content {
            for change in &mut changes {
                change.as_object_mut().map(|change| change.remove("ranges"));
            }
        }
        match self.json {
            true => output::json(&Value::from(changes)),
            false => changes.iter().for_each(print),
        }
        Ok(0)
    }
}

fn print(change: &Value) {
    let path = word(&change["path"]);
    match word(&change["change"]) {
        "renamed" => output::line(format_args!("R {} -> {path}", word(&change["from"]))),
        "removed" => output::line(format_args!("- {path}")),
        "attributes" => output::line(format_args!("A {path}")),
        kind => {
            let sign = if kind == "created" { '+' } else { 'M' };
            match change["bytes"].as_u64() {
                Some(0) | None => output::line(format_args!("{sign} {path}")),
                Some(_) => {
                    output::line(format_args!("{sign} {path} ({})", bytes(&change["bytes"])));
                }
            }
        }
    }
    for range in change["ranges"].as_array().into_iter().flatten() {
        output::line(format_args!("    bytes {} to {}", range[0], range[1]));
    }
}
