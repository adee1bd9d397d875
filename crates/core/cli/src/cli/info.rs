//! `varve info`: the properties of a volume, and the process that uses it.
//!
//! Reads the superblock and the owner record without a lock, so that a mounted volume can
//! be described, too. Space in use is known only of a volume that is not in use; `varve
//! stats` prints it for a mount.

use super::mkfs::describe;
use super::output::{self, Failure, Outcome};
use super::{ffs, mount_table, size, vlfs};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve::IoMode;
use varve::admin::{self, Superblock as Found, open_device, read_superblock};
use varve_device::{HostClock, OpenMode};
use varve_fs::Usage;
use varve_fsck::inspect::{Inspector, VolumeView};
use varve_lfs::format::Superblock;

/// Print the properties of a volume, and where it is mounted.
#[derive(clap::Args)]
pub struct Info {
    /// The image file or block device, or the directory on which it is mounted.
    target: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self) -> Outcome {
        let volume = match self.target.is_dir() {
            true => {
                let entry = mount_table::varve_at(&self.target);
                mount_table::volume_of(&entry.map_err(Failure::with(1))?)
            }
            false => self.target.clone(),
        };
        let superblock = match read_superblock(&volume)? {
            Found::Log(superblock) => superblock,
            Found::VirtualLog(superblock) => return vlfs::info(&volume, &superblock, self.json),
            Found::InPlace(superblock) => return ffs::info(&volume, &superblock, self.json),
        };
        let contents = contents(&volume);
        let mut value = describe(&superblock);
        value["contents"] = json!(contents);
        let shown = Shown {
            value,
            lines: lines(&superblock),
            used: contents.map(|contents| (contents.used[0], contents.used[2])),
        };
        Held::of(&volume).show(&volume, shown, self.json)
    }
}

/// The description of a volume that `varve info` prints, the same for each layout.
pub(super) struct Shown {
    /// Its superblock and `contents`, as JSON.
    pub value: Value,
    /// The same as text: names and values. A line without a value is left out.
    pub lines: Vec<(&'static str, String)>,
    /// Inodes and sectors in use, if known.
    pub used: Option<(u64, u64)>,
}

impl Shown {
    /// The description of a layout without segments.
    pub fn new(mut value: Value, usage: Option<Usage>, lines: Vec<(&'static str, String)>) -> Self {
        value["contents"] = usage.map_or(
            Value::Null,
            |usage| json!({ "used": [usage.inodes, usage.blocks, usage.sectors] }),
        );
        Shown {
            value,
            lines,
            used: usage.map(|usage| (usage.inodes, usage.sectors)),
        }
    }
}

/// The use of a volume by a process.
pub(super) struct Held {
    holder: Option<admin::Holder>,
    mounted: Option<mount_table::Entry>,
    /// A process has it open.
    pub in_use: bool,
}

impl Held {
    pub fn of(volume: &Path) -> Self {
        Held {
            holder: admin::holder(volume),
            mounted: mount_table::mount_of(volume),
            in_use: admin::is_locked(volume),
        }
    }

    fn state(&self) -> &'static str {
        match (&self.holder, self.in_use) {
            (Some(_), true) => "mounted",
            (Some(_), false) => "not unmounted cleanly",
            (None, true) => "in use",
            (None, false) => "clean",
        }
    }

    /// Prints the properties of a volume, and the process that uses it.
    pub fn show(&self, volume: &Path, shown: Shown, as_json: bool) -> Outcome {
        let Shown {
            mut value,
            lines,
            used,
        } = shown;
        let name = volume.display().to_string();
        if as_json {
            value["volume"] = json!(name);
            self.describe(&mut value);
            output::json(&value);
            return Ok(0);
        }
        let lines = [("volume", name)].into_iter().chain(lines);
        for (name, value) in lines.filter(|(_, value)| !value.is_empty()) {
            output::line(format_args!("{name:10} {value}"));
        }
        self.print(used);
        Ok(0)
    }

    /// Adds the use to the JSON output.
    fn describe(&self, value: &mut Value) {
        value["state"] = self.state().into();
        let directory = |mounted: &mount_table::Entry| mounted.directory.display().to_string();
        value["mounted_on"] = json!(self.mounted.as_ref().map(directory));
        value["holder"] = self.holder.as_ref().map_or(Value::Null, |holder| {
            json!({
                "host": holder.host,
                "boot_id": holder.boot_id,
                "pid": holder.pid,
                "since_ns": holder.since_ns,
            })
        });
    }

    /// Prints the use, after the inodes and sectors in use, if known.
    fn print(&self, used: Option<(u64, u64)>) {
        if let Some((inodes, sectors)) = used {
            let bytes = size::show(sectors.saturating_mul(512));
            output::line(format_args!("in use     {inodes} inodes, {bytes}"));
        }
        output::line(format_args!("state      {}", self.state()));
        if let Some(mounted) = &self.mounted {
            output::line(format_args!("mounted on {}", mounted.directory.display()));
        }
        if let Some(holder) = &self.holder {
            output::line(format_args!("holder     {holder}"));
        }
    }
}

fn lines(superblock: &Superblock) -> Vec<(&'static str, String)> {
    let segments = superblock.segment_count.get();
    vec![
        ("label", superblock.label_text()),
        ("UUID", super::mkfs::uuid(superblock)),
        ("format", format!("version {}", superblock.version)),
        ("size", size::show(superblock.device_bytes.get())),
        (
            "segments",
            format!(
                "{segments} of {}, {} in reserve",
                size::show(superblock.segment_bytes.get().into()),
                superblock.reserve_segments
            ),
        ),
        ("blocks", size::show(superblock.block_bytes.get().into())),
        ("inodes", size::show(superblock.inode_bytes.get().into())),
        ("write unit", size::show(superblock.write_unit.get().into())),
    ]
}

/// The contents of a volume, if no process uses it.
fn contents(volume: &Path) -> Option<VolumeView> {
    let device = open_device(volume, OpenMode::ReadOnly, IoMode::Direct).ok()?;
    let inspector = Inspector::open(device, Arc::new(HostClock::default())).ok()?;
    Some(inspector.volume())
}
