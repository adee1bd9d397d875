//! Transactions of which nearly all data is written before their commit, in parallel with
//! writes, checkpoints and cleaning, and a power cut at any write
//! (`docs/design/transactions.md`, "Larger than memory").
//!
//! Each transaction writes blocks of one old file, and a new file, and is committed,
//! aborted, or interrupted with the process. Whichever unflushed writes survive, from the
//! newest record and from the one before: all blocks are in the state of one commit, no
//! older than the last that returned, and the offline check finds nothing.

mod meanwhile;

use crate::mounted::Subject;
use crate::random::Random;
use crate::runner::new_clock;
use crate::subjects::Log;
use meanwhile::Meanwhile;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use varve_device::{CrashExplorer, Device, Limits, MemoryDevice, MemoryImage, RecordingDevice};
use varve_fs::{
    Caller, Error, FileSystem, InodeNo, Isolation, Options, SetAttr, Ticket, Transaction,
    TransactionOptions,
};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

const BLOCK: u64 = 4096;
/// Number of blocks of the file that transactions write.
const BLOCKS: u64 = 160;
/// Number of blocks of the file that is written outside of transactions.
const OTHERS: u64 = 100;
/// One in this number of stops is explored.
const STOP_ONE_IN: u64 = 30;

type Fs = FileSystem<Lfs>;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Transactions that were committed.
    pub commits: u64,
    /// Transactions that were aborted.
    pub aborts: u64,
    /// Transactions that were aborted because their space was needed.
    pub given_up: u64,
    /// Blocks that were written before their commit.
    pub spilled: u64,
    /// Segments that were emptied.
    pub emptied: u64,
}

/// The state after a commit: for each block the number of the last transaction that wrote
/// it, and the number of the one that created the new file.
#[derive(Clone, Debug, PartialEq)]
struct Moment {
    blocks: Vec<u32>,
    number: u32,
}

struct Volume {
    recorder: Arc<RecordingDevice<MemoryDevice>>,
    device: Arc<Meanwhile>,
    fs: Arc<Fs>,
    random: Random,
    /// State after each commit; the first one precedes all commits.
    moments: Vec<Moment>,
    /// Number of the last transaction.
    number: u32,
    others: u32,
    done: Done,
}

fn log() -> Log {
    Log {
        device_bytes: 10 << 20,
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

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn content(tag: u64, block: u64, number: u32) -> Vec<u8> {
    let mut bytes = vec![number as u8; BLOCK as usize];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes[12..20].copy_from_slice(&tag.to_le_bytes());
    bytes
}

fn mount(log: &Log, device: Arc<dyn Device>, seed: Option<u64>) -> Result<Fs, String> {
    let options = MountOptions {
        seed,
        read_only: seed.is_none(),
        ..log.mount.clone()
    };
    let clock = new_clock();
    let lfs = Lfs::mount(device, clock.clone(), options).map_err(told)?;
    FileSystem::mount(Arc::new(lfs), clock, log.options.clone()).map_err(told)
}

fn make(fs: &Fs, name: &str) -> Result<InodeNo, String> {
    let made = fs.mknod(&Caller::root(), InodeNo::ROOT, name.as_bytes(), 0o644, 0);
    made.map(|attr| attr.ino).map_err(told)
}

fn look_up(fs: &Fs, name: &str) -> Result<InodeNo, String> {
    let found = fs.lookup(&Caller::root(), InodeNo::ROOT, name.as_bytes());
    found
        .map(|attr| attr.ino)
        .map_err(|error| format!("{name}: {error}"))
}

fn put(fs: &Fs, ino: InodeNo, tag: u64, block: u64, number: u32) -> Result<(), String> {
    let data = content(tag, block, number);
    let written = fs.write(&Caller::root(), ino, block * BLOCK, &data);
    written
        .map(drop)
        .map_err(|error| format!("{tag}, block {block}: {error}"))
}

/// Returns the transaction number in a block.
fn get(fs: &Fs, ino: InodeNo, tag: u64, block: u64) -> Result<u32, String> {
    let mut bytes = vec![0; BLOCK as usize];
    let read = fs.read(ino, block * BLOCK, &mut bytes);
    read.map_err(|error| format!("{tag}, block {block}: {error}"))?;
    let number = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    match bytes == content(tag, block, number) {
        true => Ok(number),
        false => Err(format!("{tag}, block {block}: other bytes")),
    }
}

impl Volume {
    fn fresh(log: &Log, seed: u64) -> Result<Self, String> {
        let recorder = RecordingDevice::new(MemoryDevice::new(log.device_bytes));
        let recorder = Arc::new(recorder);
        log.format(recorder.clone(), new_clock()).map_err(told)?;
        let device = Arc::new(Meanwhile {
            inner: Arc::clone(&recorder),
            hook: Mutex::default(),
        });
        let fs = mount(log, device.clone(), Some(seed))?;
        for (name, tag, blocks) in [("old", 0, BLOCKS), ("others", 2, OTHERS), ("new0", 1, 60)] {
            let ino = make(&fs, name)?;
            for block in 0..blocks {
                put(&fs, ino, tag, block, 0)?;
            }
        }
        let first = Moment {
            blocks: vec![0; BLOCKS as usize],
            number: 0,
        };
        Ok(Volume {
            recorder,
            device,
            fs: Arc::new(fs),
            random: Random::new(seed),
            moments: vec![first],
            number: 0,
            others: 0,
            done: Done::default(),
        })
    }

    /// Kills the process and mounts again; the device keeps its content.
    fn kill(&mut self, log: &Log) -> Result<(), String> {
        self.number += 1;
        let fs = mount(log, self.device.clone(), Some(self.number.into()))?;
        self.note();
        self.fs = Arc::new(fs);
        Ok(())
    }

    fn note(&mut self) {
        let spilled = self.fs.statistics().transaction_spilled_blocks;
        self.done.spilled += spilled;
        self.done.emptied += self.fs.layout().statistics().segments_emptied;
    }

    fn last(&self) -> &Moment {
        self.moments.last().expect("there is a first")
    }

    /// Makes changes outside of transactions, and runs maintenance.
    fn others(&mut self) -> Result<(), String> {
        let ino = look_up(&self.fs, "others")?;
        self.others += 1;
        for _ in 0..self.random.below(20) {
            let block = self.random.below(OTHERS);
            put(&self.fs, ino, 2, block, self.others)?;
        }
        let layout = self.fs.layout();
        match self.random.below(6) {
            0 => self.fs.sync().map_err(told),
            1 => self.fs.checkpoint().map_err(told),
            2 => self.fs.maintain().map_err(told),
            3 | 4 => {
                let candidates = layout.cleaner().candidates();
                if !candidates.is_empty() {
                    let which = self.random.below(candidates.len() as u64) as usize;
                    let segment = candidates[which].segment;
                    layout.cleaner().clean_segment(segment).map_err(told)?;
                }
                layout.checkpoints().settle_vacated().map_err(told)
            }
            _ => {
                self.fs.drop_caches();
                layout.drop_caches();
                Ok(())
            }
        }
    }

    /// Writes so much outside of transactions that the log uses every clean segment.
    fn churn(&mut self) -> Result<(), String> {
        let ino = look_up(&self.fs, "others")?;
        for lap in 0..28 {
            self.others += 1;
            for block in 0..OTHERS {
                put(&self.fs, ino, 2, block, self.others)?;
            }
            self.fs.sync().map_err(told)?;
            if lap % 4 == 3 {
                self.fs.checkpoint().map_err(told)?;
            }
        }
        Ok(())
    }

    /// Runs a transaction up to its end, which the caller chooses.
    fn transaction(&mut self) -> Result<(Transaction<Lfs>, Moment), String> {
        self.number += 1;
        let number = self.number;
        let options = TransactionOptions {
            isolation: match self.random.below(3) {
                0 => Isolation::Locking,
                1 => Isolation::Serializable,
                _ => Isolation::Snapshot,
            },
            ..TransactionOptions::default()
        };
        let txn = self.fs.begin_transaction(&options).map_err(told)?;
        let mut moment = self.last().clone();
        let (old, new) = (look_up(&txn, "old")?, make(&txn, &format!("new{number}"))?);
        if self.random.once_in(4) {
            // All blocks are written again after a truncation.
            let set = SetAttr {
                size: Some(100),
                ..SetAttr::default()
            };
            txn.setattr(&Caller::root(), old, &set).map_err(told)?;
            for block in 0..BLOCKS {
                put(&txn, old, 0, block, number)?;
                moment.blocks[block as usize] = number;
            }
        }
        let churned = self.random.once_in(4).then(|| self.random.below(120));
        for step in 0..120 {
            if churned == Some(step) {
                self.churn()?;
            }
            if step % 12 == 0 && self.random.once_in(2) {
                self.others()?;
            }
            let block = self.random.below(BLOCKS);
            put(&txn, old, 0, block, number)?;
            moment.blocks[block as usize] = number;
            put(&txn, new, 1, step % 60, number)?;
        }
        if self.random.once_in(3) {
            let child = txn.tree().begin_transaction(&options).map_err(told)?;
            let inner = look_up(&child, "old")?;
            let commits = self.random.once_in(2);
            for block in 0..60 {
                put(&child, inner, 0, block, number)?;
            }
            if commits {
                moment.blocks[..60].fill(number);
                child.commit().map_err(told)?;
            }
        }
        for block in 0..BLOCKS {
            let found = get(&txn, old, 0, block)?;
            if found != moment.blocks[block as usize] {
                return Err(format!("block {block} shows {found} to its transaction"));
            }
        }
        let gone = format!("new{}", moment.number);
        let removed = txn.unlink(&Caller::root(), InodeNo::ROOT, gone.as_bytes());
        removed.map_err(|error| format!("{gone}: {error}"))?;
        moment.number = number;
        Ok((txn, moment))
    }

    fn committed(&mut self, outcome: Result<(), Error>, moment: Moment) -> Result<(), String> {
        match outcome {
            Ok(()) => {
                self.done.commits += 1;
                self.moments.push(moment);
                Ok(())
            }
            Err(Error::Aborted) => {
                self.done.given_up += 1;
                Ok(())
            }
            Err(error) => Err(told(error)),
        }
    }

    fn lap(&mut self, log: &Log) -> Result<(), String> {
        self.others()?;
        let (txn, moment) = match self.transaction() {
            Ok(open) => open,
            // The transaction's space was needed.
            Err(error) if error.ends_with(&Error::Aborted.to_string()) => {
                self.done.given_up += 1;
                return self.others();
            }
            Err(error) => return Err(error),
        };
        match self.random.below(8) {
            0 | 1 => {
                self.done.aborts += 1;
                drop(txn);
            }
            2 => {
                self.done.aborts += 1;
                std::mem::forget(txn); // the process died before it ended
                return self.kill(log);
            }
            3 => {
                // The commit happens while a checkpoint flushes its writes.
                let outcome = Arc::new(Mutex::new(None));
                let told_to = Arc::clone(&outcome);
                *self.device.hook.lock().expect("no panic") = Some(Box::new(move || {
                    let ticket = txn.commit_async();
                    *told_to.lock().expect("no panic") = Some(ticket);
                }));
                let checkpointed = layout_checkpoint(&self.fs);
                let ticket = outcome.lock().expect("no panic").take();
                checkpointed?;
                let ticket = ticket.ok_or("no flush in a checkpoint")?;
                self.committed(ticket.and_then(Ticket::wait), moment)?;
            }
            _ => {
                let outcome = txn.commit();
                self.committed(outcome, moment)?;
            }
        }
        self.others()
    }
}

/// Takes a checkpoint of the layout alone; no dirty data is written back first.
fn layout_checkpoint(fs: &Fs) -> Result<(), String> {
    fs.layout()
        .checkpoints()
        .take_checkpoint(false)
        .map_err(told)
}

/// Checks that an image is in the state of one of `moments`.
fn look(log: &Log, image: &MemoryImage, moments: &[Moment]) -> Result<(), String> {
    let fs = mount(log, Arc::new(MemoryDevice::from_image(image)), None)?;
    let old = look_up(&fs, "old")?;
    let blocks = (0..BLOCKS).map(|block| get(&fs, old, 0, block));
    let blocks = blocks.collect::<Result<Vec<u32>, String>>()?;
    let mut news = Vec::new();
    fs.readdir(InodeNo::ROOT, 2, &mut |entry| {
        let name = String::from_utf8_lossy(entry.name).into_owned();
        news.extend(name.strip_prefix("new").and_then(|n| n.parse::<u32>().ok()));
        true
    })
    .map_err(told)?;
    let [number] = news[..] else {
        return Err(format!("new files: {news:?}"));
    };
    let new = look_up(&fs, &format!("new{number}"))?;
    for block in 0..60 {
        let found = get(&fs, new, 1, block)?;
        if found != number {
            return Err(format!("block {block} of new{number} shows {found}"));
        }
    }
    let others = look_up(&fs, "others")?;
    for block in 0..OTHERS {
        get(&fs, others, 2, block)?;
    }
    let found = Moment { blocks, number };
    match moments.contains(&found) {
        true => Ok(()),
        false => Err(format!("a moment that never was: {found:?}")),
    }
}

fn judge(log: &Log, image: &MemoryImage, moments: &[Moment]) -> Result<(), String> {
    look(log, image, moments)?;
    if let Some(first) = log.check(Arc::new(MemoryDevice::from_image(image))).first() {
        return Err(format!("the check: {first}"));
    }
    if let Some(older) = log.without_newest_checkpoint(image) {
        look(log, &older, moments).map_err(|error| format!("from the older record: {error}"))?;
    }
    Ok(())
}

/// Runs transactions for `rounds` rounds and explores each; `images` counts the mounted
/// images.
///
/// # Errors
/// The fault, with the stop and the round.
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
        volume.fs.sync().map_err(told)?;
        volume.recorder.take_trace();
        let base = volume.recorder.inner().snapshot();
        let since = volume.moments.len() - 1;
        volume
            .lap(&log)
            .map_err(|error| format!("round {round}: {error}"))?;
        let trace = volume.recorder.take_trace();
        let mut states = CrashExplorer::new(&base, &trace, 4096, limits);
        let moments = &volume.moments[since..];
        for stop in states.stops().collect::<Vec<_>>() {
            if !volume.random.once_in(STOP_ONE_IN) {
                continue;
            }
            let wrong = states.for_each(stop, seed, |image, state| {
                *images += 1;
                match judge(&log, &image, moments) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(format!("{state:?}: {error}")),
                }
            });
            if let ControlFlow::Break(error) = wrong {
                return Err(format!("round {round}, stop {stop}: {error}"));
            }
        }
        let moments = [volume.last().clone()];
        volume.fs.sync().map_err(told)?;
        let now = volume.recorder.inner().snapshot();
        judge(&log, &now, &moments).map_err(|error| format!("behind round {round}: {error}"))?;
    }
    volume.note();
    Ok(volume.done)
}
