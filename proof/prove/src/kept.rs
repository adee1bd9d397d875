//! Snapshots of the volume next to writes, removals, checkpoints, cleaning and
//! transactions, and a power cut at any write (`docs/design/snapshots.md`).
//!
//! Whatever of the unflushed writes survives, from the newest record and from the one
//! before it: every snapshot that is listed shows each file as it was when the snapshot
//! was taken, those that were acknowledged and not deleted are listed, and the offline
//! check finds nothing.

use crate::mounted::Subject;
use crate::random::Random;
use crate::runner::new_clock;
use crate::subjects::Log;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{CrashExplorer, Device, Limits, MemoryDevice, MemoryImage, RecordingDevice};
use varve_fs::{
    Caller, Error, FileSystem, InodeNo, Layout, Options, SetAttr, TransactionOptions, View,
};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

const BLOCK: u64 = 4096;
/// Most blocks of a file.
const BLOCKS: u64 = 100;
/// One stop in so many is explored.
const STOP_ONE_IN: u64 = 25;

type Fs = FileSystem<Lfs>;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Snapshots that were taken.
    pub taken: u64,
    /// Snapshots that were deleted.
    pub deleted: u64,
    /// Segments that were given back.
    pub emptied: u64,
}

/// A file: the number that each block bears (0 for none), and that of its attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct File {
    name: String,
    version: u32,
    blocks: Vec<u32>,
    attribute: u32,
}

/// All files, by inode number.
type State = BTreeMap<u64, File>;

struct Volume {
    recorder: Arc<RecordingDevice<MemoryDevice>>,
    fs: Arc<Fs>,
    random: Random,
    now: State,
    /// Of every snapshot that was ever taken, by number.
    states: BTreeMap<u32, State>,
    /// Those that are to be listed.
    present: Vec<u32>,
    number: u32,
    /// Free blocks below which snapshots are deleted.
    least: u64,
    done: Done,
}

fn log() -> Log {
    Log {
        device_bytes: 12 << 20,
        format: FormatOptions {
            segment_bytes: 128 << 10,
            seed: Some(1),
            ..FormatOptions::default()
        },
        mount: MountOptions {
            cache_bytes: 1 << 20,
            checkpoint_bytes: 1 << 20,
            ..MountOptions::default()
        },
        options: Options {
            cache_bytes: 1 << 20,
            read_ahead_threads: 0,
            ..Options::default()
        },
        ..Log::default()
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn content(ino: u64, block: u64, number: u32) -> Vec<u8> {
    if number == 0 {
        return vec![0; BLOCK as usize];
    }
    let mut bytes = vec![number as u8; BLOCK as usize];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes[12..20].copy_from_slice(&ino.to_le_bytes());
    bytes
}

fn attribute(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(300)
}

fn mount(log: &Log, device: Arc<dyn Device>, seed: Option<u64>) -> Result<Fs, String> {
    let options = MountOptions {
        seed,
        read_only: seed.is_none(),
        ..log.mount.clone()
    };
    let clock = new_clock();
    let lfs = Lfs::mount(device, clock.clone(), options).map_err(said)?;
    FileSystem::mount(Arc::new(lfs), clock, log.options.clone()).map_err(said)
}

impl Volume {
    fn fresh(log: &Log, seed: u64) -> Result<Self, String> {
        let recorder = RecordingDevice::new(MemoryDevice::new(log.device_bytes));
        let recorder = Arc::new(recorder);
        log.format(recorder.clone(), new_clock()).map_err(said)?;
        let fs = mount(log, recorder.clone(), Some(seed))?;
        let mut volume = Volume {
            recorder,
            fs: Arc::new(fs),
            random: Random::new(seed),
            now: State::new(),
            states: BTreeMap::new(),
            present: Vec::new(),
            number: 0,
            // Close to full, blocks are written into holes.
            least: if seed.is_multiple_of(2) { 900 } else { 60 },
            done: Done::default(),
        };
        for _ in 0..4 {
            volume.create()?;
        }
        Ok(volume)
    }

    fn kill(&mut self, log: &Log) -> Result<(), String> {
        self.fs.sync().map_err(said)?;
        self.number += 1;
        let fs = mount(log, self.recorder.clone(), Some(self.number.into()))?;
        self.done.emptied += self.fs.layout().statistics().segments_emptied;
        self.fs = Arc::new(fs);
        Ok(())
    }

    fn pick(&mut self) -> Option<u64> {
        let nth = self.random.below((self.now.len() as u64).max(1)) as usize;
        self.now.keys().nth(nth).copied()
    }

    fn create(&mut self) -> Result<(), String> {
        self.number += 1;
        let name = format!("f{}", self.number);
        let made = self
            .fs
            .mknod(&Caller::root(), InodeNo::ROOT, name.as_bytes(), 0o644, 0);
        let made = made.map_err(said)?;
        let file = File {
            name,
            version: made.version,
            ..File::default()
        };
        self.now.insert(made.ino.0, file);
        self.write(made.ino.0, 30)
    }

    /// Writes some blocks of a file, which need not be neighbours.
    fn write(&mut self, ino: u64, most: u64) -> Result<(), String> {
        self.number += 1;
        let start = self.random.below(BLOCKS);
        for nth in 0..1 + self.random.below(most) {
            let block = match self.random.once_in(4) {
                true => self.random.below(BLOCKS),
                false => (start + nth) % BLOCKS,
            };
            let data = content(ino, block, self.number);
            let (caller, at) = (Caller::root(), block * BLOCK);
            let written = self.fs.write(&caller, InodeNo(ino), at, &data);
            written.map_err(said)?;
            let number = self.number;
            let blocks = &mut self.now.get_mut(&ino).expect("it exists").blocks;
            blocks.resize(blocks.len().max(block as usize + 1), 0);
            blocks[block as usize] = number;
        }
        Ok(())
    }

    fn cut(&mut self, ino: u64) -> Result<(), String> {
        let length = self.random.below(BLOCKS);
        let set = SetAttr {
            size: Some(length * BLOCK),
            ..SetAttr::default()
        };
        let cut = self.fs.setattr(&Caller::root(), InodeNo(ino), &set);
        cut.map_err(said)?;
        let blocks = &mut self.now.get_mut(&ino).expect("it exists").blocks;
        blocks.resize(length as usize, 0);
        Ok(())
    }

    fn remove(&mut self, ino: u64) -> Result<(), String> {
        let name = self.now.remove(&ino).expect("it exists").name;
        let removed = self
            .fs
            .unlink(&Caller::root(), InodeNo::ROOT, name.as_bytes());
        removed.map_err(said)
    }

    fn mark(&mut self, ino: u64) -> Result<(), String> {
        self.number += 1;
        let (caller, value) = (Caller::root(), attribute(self.number));
        let set = (self.fs).setxattr(&caller, InodeNo(ino), b"user.n", &value, false, false);
        set.map_err(said)?;
        self.now.get_mut(&ino).expect("it exists").attribute = self.number;
        Ok(())
    }

    fn take(&mut self) -> Result<(), String> {
        self.fs.sync().map_err(said)?;
        self.number += 1;
        let name = format!("s{}", self.number);
        match self.fs.layout().create_volume_snapshot(&name) {
            Ok(snapshot) => {
                self.done.taken += 1;
                self.states.insert(snapshot.number, self.now.clone());
                self.present.push(snapshot.number);
                Ok(())
            }
            Err(Error::NoSpace) => Ok(()),
            Err(error) => Err(said(error)),
        }
    }

    fn delete(&mut self) -> Result<(), String> {
        if self.present.is_empty() {
            return Ok(());
        }
        let nth = self.random.below(self.present.len() as u64) as usize;
        let number = self.present.remove(nth);
        self.done.deleted += 1;
        let deleted = self.fs.layout().delete_volume_snapshots(&[number]);
        deleted.map_err(said)
    }

    /// A transaction larger than the cache, and a snapshot before its commit.
    fn transaction(&mut self) -> Result<(), String> {
        let options = TransactionOptions::default();
        let txn = self.fs.begin_transaction(&options).map_err(said)?;
        self.number += 1;
        let number = self.number;
        let mut after = self.now.clone();
        for (&ino, file) in after.iter_mut().take(5) {
            file.blocks.resize(BLOCKS as usize, 0);
            for block in 0..BLOCKS {
                let data = content(ino, block, number);
                match txn.write(&Caller::root(), InodeNo(ino), block * BLOCK, &data) {
                    Ok(_) => file.blocks[block as usize] = number,
                    Err(Error::Aborted | Error::NoSpace) => return Ok(()),
                    Err(error) => return Err(said(error)),
                }
            }
        }
        self.take()?;
        match txn.commit() {
            Ok(()) => {
                self.now = after;
                Ok(())
            }
            Err(Error::Aborted | Error::NoSpace) => Ok(()),
            Err(error) => Err(said(error)),
        }
    }

    fn clean(&mut self) -> Result<(), String> {
        let layout = self.fs.layout();
        let candidates = layout.cleaner().candidates();
        for _ in 0..4.min(candidates.len()) {
            let which = self.random.below(candidates.len() as u64) as usize;
            let segment = candidates[which].segment;
            layout.cleaner().clean_segment(segment).map_err(said)?;
        }
        layout.checkpoints().settle_vacated().map_err(said)
    }

    fn step(&mut self, log: &Log) -> Result<(), String> {
        let Some(ino) = self.pick() else {
            return self.create();
        };
        match self.random.below(40) {
            0..3 => match self.now.len() < 8 {
                true => self.create(),
                false => self.remove(ino),
            },
            3..16 => self.write(ino, 12),
            16 => self.cut(ino),
            17 => self.remove(ino),
            18 | 19 => self.mark(ino),
            20..23 => self.take(),
            23 | 24 => self.delete(),
            25..30 => self.clean(),
            30..32 => self
                .fs
                .layout()
                .checkpoints()
                .take_checkpoint(false)
                .map_err(said),
            32 => self.fs.maintain().map_err(said),
            33 => self.fs.sync().map_err(said),
            34 => self.kill(log),
            35 => self.transaction(),
            36 | 37 => {
                self.fs.drop_caches();
                self.fs.layout().drop_caches();
                Ok(())
            }
            _ => self.write(ino, BLOCKS),
        }
    }

    /// The space that the volume lacks is other tests' business: old snapshots go.
    fn lap(&mut self, log: &Log) -> Result<(), String> {
        for _ in 0..30 {
            while self.present.len() > 5
                || self.fs.statfs().free < self.least && !self.present.is_empty()
            {
                self.delete()?;
            }
            match self.step(log) {
                Err(full) if full == Error::NoSpace.to_string() => self.delete()?,
                done => done?,
            }
        }
        Ok(())
    }
}

/// Compares what a snapshot says with what was.
fn compare(lfs: &Lfs, view: View, state: &State) -> Result<(), String> {
    for (&ino, wanted) in state {
        let at = |error: Error| format!("{} ({ino}): {error}", wanted.name);
        let inode = lfs.read_inode(view, InodeNo(ino)).map_err(at)?;
        let blocks = wanted.blocks.len() as u64;
        if (inode.version, inode.size) != (wanted.version, blocks * BLOCK) {
            let (version, size) = (inode.version, inode.size);
            return Err(format!("{}: version {version}, {size} bytes", wanted.name));
        }
        let mapped = lfs.map(view, InodeNo(ino), 0, BLOCKS).map_err(at)?;
        let read = lfs.read(InodeNo(ino), &mapped).map_err(at)?;
        let read: BTreeMap<u64, _> = mapped.iter().map(|m| m.block).zip(read).collect();
        for (block, number) in (0..).zip(&wanted.blocks) {
            let zeros = content(ino, block, 0);
            let found = read.get(&block).map_or(&zeros[..], |found| found);
            if found != content(ino, block, *number) {
                return Err(format!("{}: block {block} is not {number}", wanted.name));
            }
        }
        let blob = lfs.read_xattrs(view, InodeNo(ino)).map_err(at)?;
        let value = attribute(wanted.attribute);
        let shows = blob.windows(value.len()).any(|part| part == value);
        if shows != (wanted.attribute != 0) {
            return Err(format!("{}: attribute {}", wanted.name, wanted.attribute));
        }
    }
    Ok(())
}

/// Looks at all snapshots of an image. `present` have to be there.
fn look(
    log: &Log,
    image: &MemoryImage,
    states: &BTreeMap<u32, State>,
    present: &[u32],
) -> Result<(), String> {
    let fs = mount(log, Arc::new(MemoryDevice::from_image(image)), None)?;
    let lfs = fs.layout();
    let listed = lfs.volume_snapshots().map_err(said)?;
    let listed: Vec<u32> = listed.iter().map(|snapshot| snapshot.number).collect();
    if let Some(lost) = present.iter().find(|number| !listed.contains(number)) {
        return Err(format!("snapshot {lost} is gone: {listed:?}"));
    }
    for number in listed {
        let Some(state) = states.get(&number) else {
            return Err(format!("snapshot {number} was never taken"));
        };
        let pin = lfs.open_volume_snapshot(number).map_err(said)?;
        compare(lfs, View::Snapshot(pin), state)
            .map_err(|error| format!("snapshot {number}: {error}"))?;
        lfs.release_snapshot(pin);
    }
    Ok(())
}

fn judge(
    log: &Log,
    image: &MemoryImage,
    states: &BTreeMap<u32, State>,
    present: &[u32],
) -> Result<(), String> {
    look(log, image, states, present)?;
    if let Some(first) = log.check(Arc::new(MemoryDevice::from_image(image))).first() {
        return Err(format!("the check: {first}"));
    }
    if let Some(older) = log.without_newest_checkpoint(image) {
        look(log, &older, states, &[])
            .map_err(|error| format!("from the older record: {error}"))?;
    }
    Ok(())
}

/// Runs `rounds` rounds of thirty steps and explores each; `images` counts those that were
/// mounted.
///
/// # Errors
/// What is wrong, and behind which stop of which round.
pub fn explore(seed: u64, rounds: u64, images: &mut u64) -> Result<Done, String> {
    let log = log();
    let mut volume = Volume::fresh(&log, seed)?;
    let limits = Limits {
        exhaustive_writes: 2,
        random_subsets: 2,
        each_shape: 2,
        ..Limits::whole_writes()
    };
    for round in 0..rounds {
        volume.fs.sync().map_err(said)?;
        volume.recorder.take_trace();
        let base = volume.recorder.inner().snapshot();
        let before = volume.present.clone();
        volume
            .lap(&log)
            .map_err(|error| format!("round {round}: {error}"))?;
        let trace = volume.recorder.take_trace();
        let mut states = CrashExplorer::new(&base, &trace, 4096, limits);
        let kept: Vec<u32> = (before.into_iter())
            .filter(|number| volume.present.contains(number))
            .collect();
        for stop in states.stops().collect::<Vec<_>>() {
            if !volume.random.once_in(STOP_ONE_IN) {
                continue;
            }
            let wrong = states.for_each(stop, seed, |image, state| {
                *images += 1;
                match judge(&log, &image, &volume.states, &kept) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(format!("{state:?}: {error}")),
                }
            });
            if let ControlFlow::Break(error) = wrong {
                return Err(format!("round {round}, stop {stop}: {error}"));
            }
        }
        volume.fs.sync().map_err(said)?;
        let now = volume.recorder.inner().snapshot();
        judge(&log, &now, &volume.states, &volume.present)
            .map_err(|error| format!("behind round {round}: {error}"))?;
    }
    volume.done.emptied += volume.fs.layout().statistics().segments_emptied;
    Ok(volume.done)
}
