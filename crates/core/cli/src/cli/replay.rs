//! `varve replay`: applies a stream to a copy of a volume.

use super::output::{self, Failure, Outcome};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use varve::IoMode;
use varve::admin::{self, open_device};
use varve_device::OpenMode;

const FAILED: u8 = 1;

/// Update a copy of a volume to its original, with a stream of `varve ship`.
///
/// Each group of changes is replayed whole, and the position of the copy is stored with
/// it: if this is interrupted, the copy is as its original was at some moment, and the
/// same stream may be replayed again. Groups that were replayed already are skipped.
///
/// A copy that was written to is refused, as is a stream that begins after its position.
/// To use the copy instead of the original, mount it.
#[derive(clap::Args)]
pub struct Replay {
    /// The copy: an image or block device that is not mounted.
    image: PathBuf,
    /// The source of the stream; `-` is the standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    from: PathBuf,
    /// Only print the mark of the copy's position, for `varve ship --since`.
    #[arg(long, conflicts_with = "from")]
    position: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub fn run(self) -> Outcome {
        if self.position {
            return self.tell_position();
        }
        let shown = self.image.display();
        let from: Box<dyn Read + Send> = match self.from.as_os_str() == "-" {
            true => Box::new(io::stdin()),
            false => Box::new(File::open(&self.from).map_err(|error| {
                let stream = self.from.display();
                Failure::new(FAILED, format_args!("cannot read {stream}: {error}"))
            })?),
        };
        let end = admin::replay(&self.image, from)
            .map_err(|error| Failure::new(FAILED, format_args!("{shown}: {error}")))?;
        let done = end.done;
        if let Some(failure) = end.failure {
            let text = format_args!(
                "{shown}: {failure}; {} groups were replayed, and the copy stands at {}",
                done.groups, done.to
            );
            return Err(Failure::new(FAILED, text));
        }
        if self.json {
            output::json(&json!({
                "from": done.from.to_string(),
                "to": done.to.to_string(),
                "groups": done.groups,
                "bytes": done.bytes,
                "ahead": done.ahead,
            }));
        } else if done.ahead {
            output::line(format_args!(
                "{shown}: stands at {}, behind the end of the stream; nothing was replayed",
                done.to
            ));
        } else {
            let bytes = super::size::show(done.bytes);
            output::line(format_args!(
                "{shown}: {} groups, {bytes}; stands at {}",
                done.groups, done.to
            ));
        }
        Ok(0)
    }

    fn tell_position(&self) -> Outcome {
        let device = open_device(&self.image, OpenMode::ReadOnly, IoMode::Direct)?;
        let copy = admin::copy_of(device)?;
        match self.json {
            true => output::json(&json!({
                "mark": copy.mark.to_string(),
                "has_followed": copy.has_followed,
            })),
            false => output::line(copy.mark),
        }
        Ok(0)
    }
}
