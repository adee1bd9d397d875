//! `varve tar`: writes a tree as a tar stream, files in the order in which they are stored.

use super::Source;
use crate::cli::output::{self, Failure, Outcome};
use crate::cli::snapshot::Part;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Write a tree, or a snapshot of it, as a tar stream.
///
/// Files are in the order in which the volume stores them, so the device is read in one
/// pass. The stream keeps owners, permissions, times, extended attributes, hard links,
/// holes and any bytes in names; `tar -x --xattrs` reads it. Directories follow their
/// entries. A tree that is written to meanwhile is read as it is at each moment; `--at`
/// reads a state that does not change.
#[derive(clap::Args)]
pub struct Tar {
    #[command(flatten)]
    source: Source,
    /// The file to write; `-` is the standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: PathBuf,
}

impl Tar {
    pub fn run(self) -> Outcome {
        let to_output = self.to.as_os_str() == "-";
        let shown = self.to.display();
        let failed = |error: io::Error| format!("cannot write {shown}: {error}");
        if to_output && output::is_terminal() {
            let text = "a tar stream is not for a terminal; name a file with --to";
            return Err(Failure::new(2, text));
        }
        let mut target: Box<dyn Write> = match to_output {
            true => Box::new(output::content()),
            false => {
                let file = File::create(&self.to);
                let file = file.map_err(|error| Failure::new(1, failed(error)))?;
                Box::new(BufWriter::new(file))
            }
        };
        self.source.ask("tar", &mut |part| match part {
            Part::Bytes(bytes) => target.write_all(bytes).map_err(failed),
            Part::Item(item) => {
                output::notes(item["note"].as_str().unwrap_or_default());
                Ok(())
            }
        })?;
        target
            .flush()
            .map_err(|error| Failure::new(1, failed(error)))?;
        Ok(0)
    }
}
