//! The real log, mounted on memory, with one file whose blocks are written and
//! removed.
//!
//! Utilisation is what lives over what the segments outside the reserve (of a
//! log with one head) can hold. The clock is virtual, so a seed decides all.

use super::{Context, Row};
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Device, MemoryDevice, VirtualClock};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Options};
use varve_lfs::policy::PolicyKind;
use varve_lfs::{FormatOptions, Lfs, MountOptions, Statistics};
use varve_prove::random::Random;

const BLOCK: u64 = 4096;
/// When every volume is made.
pub(super) const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
/// Time that passes with each write.
const WRITE: Duration = Duration::from_micros(100);
/// Writes between two looks at what is due.
const WRITES_AT_ONCE: u64 = 256;
/// `fallocate`: a hole, and the size stays.
const PUNCH: i32 = 3;

/// A volume, and how it is mounted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub volume_bytes: u64,
    pub segment_bytes: u32,
    pub policy: PolicyKind,
    /// Heads of the log; 0 for as many as the policy wants.
    pub heads: u32,
    /// Blocks go into holes where clean segments are short.
    pub holes: bool,
    /// If not a mount's usual number.
    pub checkpoint_bytes: Option<u64>,
    /// The device is told which segments have become clean.
    pub discard: bool,
}

impl Setting {
    /// How the volume is made.
    pub fn format_options(&self, context: &Context) -> FormatOptions {
        FormatOptions {
            segment_bytes: self.segment_bytes,
            seed: Some(context.seed),
            ..FormatOptions::default()
        }
    }
}

/// See the module's head.
pub(super) struct Mounted {
    fs: FileSystem<Lfs>,
    clock: Arc<VirtualClock>,
    ino: InodeNo,
    writes: u64,
}

/// Bytes of a volume whose segments outside the reserve hold `blocks`, and hardly
/// more.
///
/// # Panics
/// If the real log fails, which is no result of an experiment.
pub(super) fn volume_bytes(context: &Context, blocks: u64, segment_bytes: u32) -> u64 {
    let segment = u64::from(segment_bytes);
    let mut setting = Setting {
        volume_bytes: (blocks * BLOCK).next_multiple_of(segment) + 16 * segment,
        segment_bytes,
        policy: PolicyKind::GREEDY,
        heads: 0,
        holes: true,
        checkpoint_bytes: None,
        discard: false,
    };
    loop {
        let room = Mounted::new(context, setting).room();
        if room >= blocks {
            return setting.volume_bytes;
        }
        let missing = (blocks - room) * BLOCK;
        setting.volume_bytes += missing.next_multiple_of(segment);
    }
}

impl Mounted {
    /// An empty file on a new volume in memory.
    ///
    /// # Panics
    /// If the real log fails, which is no result of an experiment.
    pub fn new(context: &Context, setting: Setting) -> Self {
        let device = Arc::new(MemoryDevice::new(setting.volume_bytes));
        Self::on(context, setting, device)
    }

    /// The same on a device that has so many bytes.
    ///
    /// # Panics
    /// If the real log fails, which is no result of an experiment.
    pub fn on(context: &Context, setting: Setting, device: Arc<dyn Device>) -> Self {
        let clock = Arc::new(VirtualClock::new(BEGIN_NS, 1000));
        let format = setting.format_options(context);
        Lfs::format(&*device, &*clock, &format).expect("format");
        let usual = MountOptions::default();
        let options = MountOptions {
            seed: Some(context.seed),
            policy: setting.policy,
            heads: setting.heads,
            holes: setting.holes,
            checkpoint_bytes: setting.checkpoint_bytes.unwrap_or(usual.checkpoint_bytes),
            discard: setting.discard,
            ..usual
        };
        let mount = || Lfs::mount(device.clone(), clock.clone(), options.clone()).expect("mount");
        let layout = mount();
        FileSystem::format(&layout, &*clock, (0, 0)).expect("format");
        layout.unmount().expect("unmount");
        drop(layout);
        let options = Options {
            cache_bytes: setting.volume_bytes / 16,
            ..Options::default()
        };
        let fs = FileSystem::mount(Arc::new(mount()), clock.clone(), options).expect("mount");
        let root = Caller::root();
        let made = fs.mknod(&root, InodeNo::ROOT, b"blocks", 0o100_644, 0);
        let ino = made.expect("a file").ino;
        Mounted {
            fs,
            clock,
            ino,
            writes: 0,
        }
    }

    /// Blocks that segments outside the reserve can hold.
    pub fn room(&self) -> u64 {
        let geometry = self.fs.layout().geometry_of_volume();
        let segments = u64::from(geometry.segment_count - geometry.reserve_segments);
        segments * u64::from(geometry.usable_bytes()) / BLOCK
    }

    /// Blocks of the volume, all in all.
    pub fn volume_blocks(&self) -> u64 {
        self.fs.layout().geometry_of_volume().volume_bytes() / BLOCK
    }

    /// Writes a whole block. False if the volume has no room for it.
    pub fn write(&mut self, block: u64) -> bool {
        let data = [block as u8; BLOCK as usize];
        let root = Caller::root();
        match self.fs.write(&root, self.ino, block * BLOCK, &data) {
            Ok(_) => {}
            Err(Error::NoSpace) => return false,
            Err(error) => panic!("block {block}: {error}"),
        }
        self.clock.advance(WRITE);
        self.writes += 1;
        if self.writes.is_multiple_of(WRITES_AT_ONCE) {
            self.fs.maintain().expect("maintenance");
        }
        true
    }

    /// Fills so much of what segments outside the reserve can hold; on a tiny
    /// volume, which has little room beside its reserve, at most two fifths. How
    /// many blocks that are.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn fill(&mut self, context: &Context, percent: u64) -> u64 {
        let blocks = self.room() * percent.min(context.size(100, 40)) / 100;
        for block in 0..blocks {
            assert!(self.write(block), "block {block} of {blocks}");
        }
        blocks
    }

    /// Writes blocks again at random; `hot`, nine in ten of the writes go to a
    /// tenth of them.
    ///
    /// # Panics
    /// If there is no room for one.
    pub fn overwrite(&mut self, random: &mut Random, blocks: u64, hot: bool, writes: u64) {
        for _ in 0..writes {
            let among = match hot && !random.once_in(10) {
                true => blocks / 10,
                false => blocks,
            };
            let block = random.below(among);
            assert!(self.write(block), "block {block} of {blocks}");
        }
    }

    /// Removes a block.
    pub fn trim(&mut self, block: u64) {
        let root = Caller::root();
        let trimmed = self
            .fs
            .fallocate(&root, self.ino, PUNCH, block * BLOCK, BLOCK);
        trimmed.unwrap_or_else(|error| panic!("removing block {block}: {error}"));
    }

    /// Makes everything durable.
    pub fn sync(&mut self) {
        self.fs.fsync(self.ino, true).expect("fsync");
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        self.clock.advance(time);
        self.fs.maintain().expect("maintenance");
    }

    /// What the log has counted.
    pub fn statistics(&self) -> Statistics {
        self.fs.layout().statistics()
    }
}

/// What was written between two moments, for each block of users: blocks of
/// data once more for each move, and everything beside it.
pub(super) fn counted(row: Row, before: &Statistics, after: &Statistics) -> Row {
    let since = |value: fn(&Statistics) -> u64| (value(after) - value(before)) as f64;
    let data = since(|s| s.data_bytes);
    let moved = since(|s| s.cleaner_bytes);
    let nodes = since(|s| s.node_bytes);
    let inodes = since(|s| s.inode_bytes);
    let summaries = since(|s| s.summary_bytes);
    let padding = since(|s| s.padding_bytes);
    let maps = since(|s| s.map_bytes);
    let others = nodes + inodes + summaries + padding + maps;
    let written = data + moved + others;
    row.with("data", (data + moved) / data)
        .with("in_all", written / data)
        .with("nodes_and_inodes", (nodes + inodes) / written)
        .with("summaries", summaries / written)
        .with("padding", padding / written)
        .with("other_share", others / written)
        .with("maps", maps / written)
        .with("plugged", since(|s| s.plugged_bytes) / data)
        .with("cleaned", since(|s| s.segments_cleaned))
        .with("emptied", since(|s| s.segments_emptied))
        .with("checkpoints", since(|s| s.checkpoints))
}
