//! `varve send`: writes a snapshot as a stream, whole or as what changed.

use super::place::Place;
use super::server::Part;
use crate::cli::output::{self, Failure, Outcome};
use crate::cli::size;
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Write a snapshot to the standard output, as a stream for `varve receive`.
///
/// With --since only what changed since an older snapshot is sent, for a volume that has
/// received that one.
#[derive(clap::Args)]
pub struct Send {
    /// The image file, block device, or a directory on a mount.
    volume: PathBuf,
    /// The snapshot: its name, or a time such as @-2h.
    snapshot: String,
    /// The older snapshot that the receiver has.
    #[arg(long, value_name = "SNAPSHOT")]
    since: Option<String>,
    /// Begin with this item of the stream, which `varve receive` prints if it is
    /// interrupted.
    #[arg(long, value_name = "ITEM", default_value_t = 0)]
    resume: u64,
}

impl Send {
    pub fn run(self) -> Outcome {
        if output::is_terminal() {
            let text = "the stream is not written to a terminal; redirect it to a file or to \
                        `varve receive`";
            return Err(Failure::new(2, text));
        }
        let place = Place::of(&self.volume)?;
        let question = json!({"send": self.snapshot, "since": self.since, "resume": self.resume});
        let mut output = BufWriter::with_capacity(1 << 20, output::content());
        let failed = |error: io::Error| format!("the stream cannot be written: {error}");
        let sent = place.ask(&question, false, &mut |part| match part {
            Part::Bytes(bytes) => output.write_all(bytes).map_err(failed),
            Part::Item(_) => Ok(()),
        })?;
        output
            .flush()
            .map_err(|error| Failure::new(1, failed(error)))?;
        let bytes = size::show(sent["bytes"].as_u64().unwrap_or(0));
        output::notes(format_args!(
            "sent {} items, {bytes} of content",
            sent["items"]
        ));
        Ok(0)
    }
}
