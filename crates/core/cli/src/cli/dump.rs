//! `varve dump`: a volume's structures, as text or JSON.

use super::output::{self, Failure, Outcome};
use super::{ffs, utilisation, vlfs};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve::IoMode;
use varve::admin::{layout_of, open_device};
use varve_device::{HostClock, OpenMode};
use varve_fs::InodeNo;
use varve_fsck::inspect::Inspector;

/// Print the structures of a volume that is not mounted.
#[derive(clap::Args)]
pub struct Dump {
    /// The image file or block device.
    volume: PathBuf,
    #[command(subcommand)]
    what: Option<What>,
    /// Print a histogram of segments by utilisation.
    #[arg(long)]
    utilisation: bool,
    /// With --utilisation: also draw it as SVG.
    #[arg(long, value_name = "FILE", requires = "utilisation")]
    picture: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum What {
    /// The superblock, its copies and the owner record.
    Superblock,
    /// The checkpoint ring.
    Checkpoints,
    /// The segment usage table.
    Segments {
        /// Leave out clean segments.
        #[arg(long)]
        used: bool,
    },
    /// The partial segments of one segment, from their summaries.
    Summary {
        /// Number of the segment.
        segment: u32,
        /// Also read and verify the payload.
        #[arg(long)]
        data: bool,
    },
    /// One inode: map entry, attributes, blocks.
    Inode {
        /// Number of the inode, or a path that begins with a slash.
        inode: OsString,
    },
    /// The ifile: regions, inode map, free list, unfinished inodes.
    Ifile,
    /// The history of snapshots: snapshots and runs of displaced blocks.
    History,
}

impl Dump {
    pub fn run(self) -> Outcome {
        if self.what.is_some() == self.utilisation {
            let text = "say what to dump: one of the subcommands, or --utilisation";
            return Err(Failure::new(2, text));
        }
        let layout = layout_of(&self.volume);
        if layout == varve::Layout::InPlace {
            return match self.what {
                Some(What::Superblock | What::Checkpoints) => ffs::dump(&self.volume, false),
                Some(What::Ifile) => ffs::dump(&self.volume, true),
                _ => {
                    let what = "segments; dump superblock, checkpoints (the journal) or ifile \
                                (the cylinder groups)";
                    vlfs::refuse(&self.volume, what, 1).map(|()| 0)
                }
            };
        }
        if layout == varve::Layout::VirtualLog {
            return match self.what {
                Some(What::Superblock | What::Checkpoints) => vlfs::dump(&self.volume, false),
                Some(What::Ifile) => vlfs::dump(&self.volume, true),
                _ => {
                    let what = "segments; dump superblock, checkpoints or ifile (the inode map)";
                    vlfs::refuse(&self.volume, what, 1).map(|()| 0)
                }
            };
        }
        let device = open_device(&self.volume, OpenMode::ReadOnly, IoMode::Direct)?;
        let volume =
            Inspector::open(device, Arc::new(HostClock::default())).map_err(Failure::with(1))?;
        for problem in volume.problems() {
            tracing::warn!(volume = %self.volume.display(), "{problem}");
        }
        let Some(what) = &self.what else {
            return self.histogram(&volume);
        };
        match what {
            What::Superblock => self.superblock(&volume),
            What::Checkpoints => self.list(&volume.checkpoints()),
            What::Segments { used } => {
                let mut segments = volume.segments();
                segments.retain(|segment| !used || segment.state != "clean");
                self.list(&segments);
            }
            What::Summary { segment, data } => {
                let contents = volume.contents(*segment, *data);
                let contents = contents.map_err(|problem| self.failed(problem))?;
                self.one(&contents);
            }
            What::Inode { inode } => {
                let ino = self.inode(&volume, inode)?;
                self.one(&volume.inode(ino));
            }
            What::History => self.one(&volume.history().map_err(|error| self.failed(error))?),
            What::Ifile => self.one(&volume.ifile().map_err(|error| self.failed(error))?),
        }
        Ok(0)
    }

    fn histogram(&self, volume: &Inspector) -> Outcome {
        let counted = volume.utilisation().map_err(|error| self.failed(error))?;
        match self.json {
            true => output::json(&json!(counted)),
            false => output::lines(utilisation::text(&counted)),
        }
        if let Some(path) = &self.picture {
            utilisation::picture(&counted).draw(path)?;
        }
        Ok(0)
    }

    fn failed(&self, problem: impl Display) -> Failure {
        Failure::new(1, format_args!("{}: {problem}", self.volume.display()))
    }

    fn one(&self, view: &(impl Display + serde::Serialize)) {
        match self.json {
            true => output::json(&json!(view)),
            false => output::lines(view),
        }
    }

    fn list(&self, views: &[impl Display + serde::Serialize]) {
        match self.json {
            true => output::json(&json!(views)),
            false => views.iter().for_each(output::lines),
        }
    }

    fn superblock(&self, volume: &Inspector) {
        let (view, copies, owner) = (volume.volume(), volume.superblocks(), volume.owner());
        if self.json {
            let mut value = json!(view);
            value["copies"] = json!(copies);
            value["owner"] = owner.map_or(Value::Null, |owner| json!(owner));
            return output::json(&value);
        }
        output::lines(view);
        for copy in copies {
            output::line(format_args!("copy:       {copy}"));
        }
        match owner {
            Ok(owner) => output::line(format_args!("owner:      {owner}")),
            Err(reason) => output::line(format_args!("owner:      {reason}")),
        }
    }

    fn inode(&self, volume: &Inspector, asked: &OsStr) -> Result<InodeNo, Failure> {
        if let Some(number) = asked.to_str().and_then(|text| text.parse().ok()) {
            return Ok(InodeNo(number));
        }
        let shown = asked.as_bytes().escape_ascii();
        if !Path::new(asked).is_absolute() {
            let problem = format!("`{shown}` is neither a number nor a path that begins with /");
            return Err(self.failed(problem));
        }
        volume
            .lookup(asked.as_bytes())
            .map_err(|error| self.failed(format_args!("{shown}: {error}")))
    }
}
