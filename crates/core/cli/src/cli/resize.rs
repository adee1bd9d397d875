//! `varve resize`: changes the size of a volume, mounted or not.

use super::mount_table::whole_mount;
use super::output::{self, Failure, Outcome, Progress};
use super::{resize_server, size};
use serde_json::{Value, json};
use std::path::PathBuf;
use varve::Preallocation;
use varve::admin::{NewSize, ResizeStage, Resized, resize};

const FAILED: u8 = 1;

/// Change the size of a volume.
///
/// A volume that is not mounted grows or shrinks; its image file becomes longer before
/// and shorter after. Live data beyond the new end is moved; if it does not fit, nothing
/// is changed and the least size is printed. After a power cut the volume has the old
/// size or the new one, and the same command completes the change.
///
/// A mounted volume, named by its directory, grows while it is used. Root and the user
/// who mounted it may do that.
#[derive(clap::Args)]
pub struct Resize {
    /// The image file or block device, or the directory on which a volume is mounted.
    volume: PathBuf,
    /// New size in bytes, such as 64M, 10G; `max` for the whole file or block device.
    #[arg(value_parser = wanted)]
    size: Wanted,
    /// Write the new part of the image file, so that the host cannot run out of space.
    #[arg(long)]
    preallocate: bool,
    /// Reserve the new part without writing it.
    #[arg(long, conflicts_with = "preallocate")]
    reserve: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug)]
struct Wanted(NewSize);

fn wanted(text: &str) -> Result<Wanted, String> {
    match text {
        "max" => Ok(Wanted(NewSize::Max)),
        _ => Ok(Wanted(NewSize::Bytes(size::parse(text)?))),
    }
}

impl Resize {
    pub fn run(self) -> Outcome {
        let Wanted(wanted) = self.size;
        if self.volume.is_dir() {
            return self.ask(wanted);
        }
        let preallocate = match (self.preallocate, self.reserve) {
            (true, _) => Preallocation::Written,
            (_, true) => Preallocation::Reserve,
            _ => Preallocation::Sparse,
        };
        let writing = Progress::bytes("writing the image");
        let moving = Progress::count("moving what lives");
        let resized = resize(
            &self.volume,
            wanted,
            preallocate,
            &mut |stage, done, total| match stage {
                ResizeStage::Writing => writing.at(done, total),
                ResizeStage::Moving => moving.at(done, total),
            },
        );
        writing.finish();
        moving.finish();
        let Resized {
            before,
            after,
            device_bytes,
        } = resized?;
        self.tell(&json!({
            "before": before.device_bytes.get(),
            "bytes": after.device_bytes.get(),
            "segments": after.segment_count.get(),
            "device_bytes": device_bytes,
        }));
        Ok(0)
    }

    /// Asks the server of a mount to do it.
    fn ask(&self, wanted: NewSize) -> Outcome {
        let shown = self.volume.display();
        if self.preallocate || self.reserve {
            let text = format_args!(
                "{shown} is a directory: the image of a mounted volume grows sparse; leave \
                 --preallocate and --reserve out"
            );
            return Err(Failure::new(2, text));
        }
        whole_mount(&self.volume, "its size").map_err(Failure::with(FAILED))?;
        let question = resize_server::question(wanted).to_string();
        let answer = varve_fuse::ask(&self.volume, &question).map_err(|error| {
            use rustix::io::Errno;
            let code = error.raw_os_error().map(Errno::from_raw_os_error);
            let text = match code {
                Some(Errno::NOTTY) => format!(
                    "{shown} has a layout without segments: only a segmented log can change its \
                     size"
                ),
                Some(Errno::PERM) => {
                    format!("only root and whoever mounted {shown} may change its size")
                }
                _ => format!("cannot ask {shown}: {error}"),
            };
            Failure::new(FAILED, text)
        })?;
        let answer: Value = serde_json::from_str(&answer).map_err(Failure::with(FAILED))?;
        if let Some(why) = answer["refused"].as_str() {
            return Err(Failure::new(FAILED, format_args!("{shown}: {why}")));
        }
        self.tell(&answer);
        Ok(0)
    }

    fn tell(&self, answer: &Value) {
        if self.json {
            return output::json(answer);
        }
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        let (before, now) = (number("before"), number("bytes"));
        let shown = self.volume.display();
        match before == now {
            true => output::line(format_args!("{shown}: has {} already", size::show(now))),
            false => output::line(format_args!(
                "{shown}: {} instead of {}, in {} segments",
                size::show(now),
                size::show(before),
                number("segments")
            )),
        }
    }
}
