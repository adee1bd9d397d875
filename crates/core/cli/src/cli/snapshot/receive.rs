//! `varve receive`: applies a stream of `varve send` to a volume.

use crate::cli::output::{self, Failure, Outcome, Progress};
use crate::cli::size;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use varve::VolumeOptions;

const FAILED: u8 = 1;

/// Apply a stream of `varve send` to a volume, and take its snapshot.
///
/// A whole tree is received by an empty volume, and what changed since a snapshot by a
/// volume that has received that one and was not changed since. A reception that was
/// interrupted continues if the same stream is sent again, or the rest of it with
/// `varve send --resume`.
#[derive(clap::Args)]
pub struct Receive {
    /// An image or block device that is not mounted.
    image: PathBuf,
    /// The source of the stream; `-` is the standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    from: PathBuf,
    /// If the volume was changed since, roll it back to the snapshot it received.
    #[arg(long)]
    force: bool,
    /// Only print the item for `varve send --resume`; nothing if no reception was
    /// interrupted.
    #[arg(long, conflicts_with_all = ["from", "force"])]
    position: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Receive {
    pub fn run(self) -> Outcome {
        let shown = self.image.display();
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(FAILED, format_args!("{shown}: {error}"));
        let volume = VolumeOptions::new()
            .read_only(self.position)
            .open(&self.image)?;
        let next = || match volume.received() {
            Ok(mark) => Ok(mark.and_then(|mark| mark.next)),
            Err(error) => Err(failed(&error)),
        };
        if self.position {
            let next = next()?;
            match (self.json, next) {
                (true, next) => output::json(&json!({ "resume": next })),
                (false, Some(next)) => output::line(next),
                (false, None) => {}
            }
            return Ok(0);
        }
        let mut from: Box<dyn Read> = match self.from.as_os_str() == "-" {
            true => Box::new(BufReader::with_capacity(1 << 20, io::stdin())),
            false => {
                let file = File::open(&self.from).map_err(|error| {
                    let stream = self.from.display();
                    Failure::new(FAILED, format_args!("cannot read {stream}: {error}"))
                })?;
                Box::new(BufReader::with_capacity(1 << 20, file))
            }
        };
        let progress = Progress::bytes("receiving");
        let mut total = 0;
        let received = volume.receive(&mut from, self.force, &mut |left| {
            total = total.max(left);
            progress.at(total - left, total);
        });
        progress.finish();
        let received = match received {
            Ok(received) => received,
            Err(error) => {
                let advice = match next()? {
                    Some(next) => format!("; continue with `varve send --resume {next}`"),
                    None => String::new(),
                };
                return Err(failed(&format_args!("{error}{advice}")));
            }
        };
        volume.close()?;
        let name = received.snapshot.map(|snapshot| snapshot.name);
        let bytes = size::show(received.bytes);
        match (self.json, name) {
            (true, name) => output::json(&json!({
                "snapshot": name,
                "items": received.items,
                "bytes": received.bytes,
            })),
            (false, Some(name)) => output::line(format_args!(
                "{shown}: received {name}: {} items, {bytes} of content",
                received.items
            )),
            (false, None) => output::line(format_args!(
                "{shown}: received {} items, {bytes} of content; the layout has no snapshots, so \
                 it receives no more",
                received.items
            )),
        }
        Ok(0)
    }
}
