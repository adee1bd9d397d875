//! `varve salvage`: copies the data found in a damaged log to a new volume.
//!
//! Exit codes: 0 everything was copied and nothing lost, 4 some data was lost and is
//! named, 1 failure, 2 wrong usage.

use super::output::{self, Failure, Outcome, Spinner};
use super::size;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use varve::admin::{format, identity, open_device};
use varve::{IoMode, VolumeOptions};
use varve_device::{Clock, Device, HostClock, OpenMode};
use varve_fsck::inspect::Inspector;
use varve_fsck::salvage::{Copied, SalvageOptions, Salvaged, open};

const LOST: u8 = 4;

/// Copy the remains of a damaged volume to a new one.
///
/// For a volume that cannot be repaired: its superblocks or its checkpoint records are
/// lost, or it has no space to be repaired. The whole state is reconstructed from the
/// summaries in the log, in memory; the damaged volume is not written to. Files that lost
/// their names are in /lost+found of the new volume. Lost data is named, file by file;
/// exit code 4 reports a loss.
#[derive(clap::Args)]
pub struct Salvage {
    /// The damaged image file or block device.
    volume: PathBuf,
    /// The new volume: an image file, made if it is missing, or a blank device.
    target: PathBuf,
    /// Bytes of a new image file; by default those of the damaged volume.
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Label of the new volume; by default that of the damaged one, if it is readable.
    #[arg(short = 'L', long)]
    label: Option<String>,
    /// The volume to copy, if the device has contained several: the first 16 digits of
    /// its UUID without dashes. By default the one written last.
    #[arg(long, value_parser = tag)]
    uuid: Option<u64>,
    /// Names compare without regard to case, if no superblock is left to state it.
    #[arg(long)]
    case_fold: bool,
    /// Overwrite the target's contents.
    #[arg(short, long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn tag(text: &str) -> Result<u64, String> {
    let wrong = || "write the first 16 hexadecimal digits of the UUID".to_owned();
    let digits: String = text.chars().filter(|c| *c != '-').take(16).collect();
    let bytes = u64::from_str_radix(&digits, 16).map_err(|_| wrong())?;
    match digits.len() {
        16 => Ok(bytes.swap_bytes()),
        _ => Err(wrong()),
    }
}

impl Salvage {
    pub fn run(self) -> Outcome {
        super::vlfs::refuse(&self.volume, "salvage: its map is its only directory", 1)?;
        let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
        let source = Arc::new(open_device(
            &self.volume,
            OpenMode::ReadOnly,
            IoMode::Direct,
        )?);
        let size = source.geometry().size;
        let spinner = Spinner::new("salvaging");
        let options = SalvageOptions {
            volume_tag: self.uuid.unwrap_or(0),
            case_fold: self.case_fold,
            owner: identity(),
            progress: &|what, done, total| match total {
                0 => spinner.say(format_args!("{what}: {done} files")),
                _ => spinner.say(format_args!("{what}: {} %", done * 100 / total)),
            },
        };
        let salvaged =
            open(source.clone(), Arc::clone(&clock), &options).map_err(Failure::with(1))?;
        self.make_target(&salvaged, size)?;
        let target = open_device(&self.target, OpenMode::ReadWrite, IoMode::Direct)?;
        let copied = salvaged.copy_to(target, &clock, &options);
        spinner.finish();
        let copied = copied.map_err(|error| {
            let shown = self.target.display();
            Failure::new(1, format_args!("{shown} is not complete: {error}"))
        })?;
        // Without a superblock or a record the number is unknown.
        let history = Inspector::open(source, clock).and_then(|volume| volume.history());
        let snapshots = history.map_or(0, |history| history.snapshots.len());
        self.tell(&salvaged, &copied, snapshots);
        let lost = salvaged.repair.actions.iter().any(|action| action.loss);
        match lost || !salvaged.repair.is_whole() || !copied.left_out.is_empty() {
            true => Ok(LOST),
            false => Ok(0),
        }
    }

    fn make_target(&self, salvaged: &Salvaged, size: u64) -> Result<(), Failure> {
        let superblock = &salvaged.superblock;
        let label = self.label.clone();
        let mut options = VolumeOptions::new();
        options
            .size(self.size.unwrap_or(size))
            .label(label.unwrap_or_else(|| superblock.label_text()))
            .block_bytes(superblock.block_bytes.get())
            .inode_bytes(superblock.inode_bytes.get())
            .case_fold(superblock.case_fold())
            .overwrite(self.force);
        format(&self.target, &options, &mut |_, _| {})?;
        Ok(())
    }

    fn tell(&self, salvaged: &Salvaged, copied: &Copied, snapshots: usize) {
        if self.json {
            return output::json(&json!({
                "superblock_inferred": salvaged.superblock_inferred,
                "record_inferred": salvaged.record_inferred,
                "actions": salvaged.repair.actions,
                "refused": salvaged.repair.refused,
                "copied": copied,
                "snapshots_left_out": snapshots,
            }));
        }
        if salvaged.superblock_inferred {
            output::line("no superblock was left: the volume's measures are those of its log");
        }
        if salvaged.record_inferred {
            output::line("no checkpoint record was left: the newest image in the log was used");
        }
        for action in &salvaged.repair.actions {
            output::line(action);
        }
        for refused in &salvaged.repair.refused {
            output::line(format_args!("not done: {refused}"));
        }
        if snapshots > 0 {
            let text = "not copied: snapshots; mount one with -o snapshot=NAME to read it";
            output::line(format_args!("{text} ({snapshots})"));
        }
        for left_out in &copied.left_out {
            output::line(format_args!("lost: {left_out}"));
        }
        output::line(format_args!(
            "{}: {} files, {} directories, {} further links, {} bytes",
            self.target.display(),
            copied.files,
            copied.directories,
            copied.links,
            copied.bytes
        ));
    }
}
