//! Replaying a stream onto a copy.
//!
//! Invariants:
//! - Nothing is written until the copy's mark has been found in the stream.
//! - The first write is the copy's mark, if that was its log's end.
//! - A group is appended whole, and its mark with it.

use super::error::{Result, ShipError};
use super::items::Measures;
use super::stream::{Record, StreamHeader, record_flags, record_kind};
use crate::error::Error;
use crate::format::Mark;
use crate::format::superblock::read_only_compat_flags::REPLAYED;
use crate::lfs::Lfs;
use crate::mark::BESIDE;
use crate::options::MountOptions;
use crate::superblocks;
use std::sync::Arc;
use varve_device::{Clock, Device};
use varve_fs::{Item, Layout, Position, Purpose, Unwritten, Usage, Waiting};

/// Number of partials of other groups after which the mark is written by itself.
const PASSED_MAX: u64 = 4096;
/// Bytes after which the copy is made durable.
const UNFLUSHED_MAX: u64 = 64 << 20;
/// Bytes for which a block counts in addition to its content.
const BESIDE_BLOCK: u64 = 128;
/// Most blocks that one group may reserve, in whole volumes: a block that is freed and
/// reserved again counts several times.
const RESERVED_VOLUMES: u64 = 64;

/// The outcome of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The copy's mark before.
    pub from: Mark,
    /// The copy's mark after.
    pub to: Mark,
    /// Groups that were replayed.
    pub groups: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// The stream ended before the copy's mark.
    pub ahead: bool,
}

/// A replay of a stream onto a copy.
pub struct Replay {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: MountOptions,
    measures: Measures,
    /// The copy mounted for writing, once a write is necessary.
    lfs: Option<Lfs>,
    /// The copy's mark has been found in the stream.
    met: bool,
    /// The copy's mark is one of the original's, because a stream was replayed onto it
    /// before.
    follows: bool,
    done: Replayed,
    /// The end of the last group in the stream.
    boundary: Mark,
    group: Group,
    /// Partials of other groups since the copy's mark was written.
    passed: u64,
    unflushed: u64,
    position: Position,
}

/// A group of which some records have been received.
#[derive(Default)]
struct Group {
    begun: bool,
    items: Vec<Item>,
    bytes: u64,
    reserved: u64,
}

impl Replay {
    /// Reads the mark of the copy on `device`, and checks whether it can follow the
    /// stream with this header. Nothing is written.
    ///
    /// # Errors
    /// `Unfit`, `OtherHistory`; as a mount.
    pub fn onto(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        options: MountOptions,
        header: &StreamHeader,
    ) -> Result<Self> {
        let unfit = |why: String| Err(ShipError::Unfit(why));
        let superblock = Lfs::find_superblock(&*device)?;
        let (tag, theirs) = (superblock.volume_tag(), header.volume_tag.get());
        if tag != theirs {
            return unfit(format!(
                "the stream is of volume {:016x}, and this is one of {:016x}",
                theirs.swap_bytes(),
                tag.swap_bytes()
            ));
        }
        let looks = MountOptions {
            read_only: true,
            ..options.clone()
        };
        let lfs = Lfs::mount(Arc::clone(&device), Arc::clone(&clock), looks)?;
        if let Some(damage) = lfs.recovery_report().damage.first() {
            return unfit(format!("the copy is damaged: {damage}"));
        }
        let measures = Measures::of(&lfs.geometry, lfs.next_ino());
        let sizes = (header.block_bytes.get(), header.inode_bytes.get());
        if sizes != (measures.block_bytes, measures.inode_bytes) {
            return unfit("the stream has blocks or inodes of another size".into());
        }
        let (copy, begins) = (lfs.mark(), header.from());
        if begins.serial > copy.serial {
            return unfit(format!(
                "the stream begins at {begins}, and the copy stands at {copy}: ship with \
                 --since {copy}"
            ));
        }
        let mut replay = Replay {
            device,
            clock,
            options,
            measures,
            lfs: None,
            met: false,
            follows: lfs.is_copy(),
            done: Replayed {
                from: copy,
                to: copy,
                groups: 0,
                bytes: 0,
                ahead: false,
            },
            boundary: begins,
            group: Group::default(),
            passed: 0,
            unflushed: 0,
            position: Position::default(),
        };
        replay.meet(begins, true)?;
        Ok(replay)
    }

    /// Notes that the stream has reached `at`, and whether a group ends there.
    fn meet(&mut self, at: Mark, ends: bool) -> Result<()> {
        let copy = self.done.from;
        if at.serial != copy.serial {
            return Ok(());
        }
        if at != copy || !ends {
            return Err(ShipError::OtherHistory {
                mark: copy,
                why: format!(
                    "the stream has {at} there; the copy was written to by somebody, or is of \
                     another moment than the original came to"
                ),
            });
        }
        self.met = true;
        Ok(())
    }

    /// Takes the next record, in the order in which the reader returns them.
    ///
    /// # Errors
    /// `BadStream`, `OtherHistory`; `OutOfSegments` if the copy has no space; device
    /// errors. The copy is at the end of a group.
    pub fn record(&mut self, record: &Record) -> Result<()> {
        let header = &record.header;
        if header.kind == record_kind::END {
            return self.end();
        }
        let ends = header.has(record_flags::LAST);
        if !self.met {
            if ends {
                self.boundary = header.mark();
            }
            return self.meet(header.mark(), ends);
        }
        if header.has(record_flags::FIRST) {
            self.group = Group {
                begun: true,
                ..Group::default()
            };
        }
        if header.kind == record_kind::GROUP {
            self.gather(record)?;
        }
        if !ends || !self.group.begun {
            return Ok(());
        }
        let group = std::mem::take(&mut self.group);
        match group.items.is_empty() {
            true => self.passed += 1,
            false => self.append(group, record)?,
        }
        self.boundary = header.mark();
        if self.passed >= PASSED_MAX {
            self.write_boundary()?;
        }
        Ok(())
    }

    fn gather(&mut self, record: &Record) -> Result<()> {
        let after = self.boundary;
        let bad = |problem: String| ShipError::BadStream { after, problem };
        let items = self.measures.items(&record.payload);
        let items = items.map_err(|malformed| bad(malformed.to_string()))?;
        let reserves = items.iter().map(|item| match item {
            Item::Reserved {
                from_block,
                to_block,
                ..
            } => to_block - from_block,
            _ => 0,
        });
        self.group.reserved = reserves.fold(self.group.reserved, u64::saturating_add);
        if self.group.reserved > RESERVED_VOLUMES * self.measures.blocks {
            return Err(bad("a group reserves more than the volume".into()));
        }
        self.group.bytes += record.payload.len() as u64;
        // No log contains a group that is larger than the volume.
        let volume = self.measures.blocks * u64::from(self.measures.block_bytes);
        if self.group.bytes > volume {
            return Err(bad("a group is larger than the volume".into()));
        }
        self.group.items.extend(items);
        Ok(())
    }

    fn append(&mut self, group: Group, record: &Record) -> Result<()> {
        let header = &record.header;
        let lfs = self.writable()?;
        let most = lfs.geometry.volume_bytes();
        let usage = Usage {
            inodes: header.inodes_used.get().min(most),
            blocks: header.blocks_used.get().min(most),
            sectors: header.sectors_used.get().min(most),
        };
        let position = lfs.append_replayed(group.items, usage, header.mark())?;
        lfs.maintain().map_err(of_layout)?;
        self.position = position;
        self.done.to = header.mark();
        self.done.groups += 1;
        self.done.bytes += group.bytes;
        self.passed = 0;
        self.unflushed += group.bytes;
        match self.unflushed > UNFLUSHED_MAX {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Makes the replayed groups durable.
    ///
    /// # Errors
    /// If the device fails.
    pub fn flush(&mut self) -> Result<()> {
        if let Some(lfs) = self.lfs.as_ref().filter(|_| self.unflushed > 0) {
            lfs.checkpoints.commit_through(self.position.0)?;
        }
        self.unflushed = 0;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if !self.met {
            self.came_by_the_end()?;
            self.done.ahead = true;
        } else if self.boundary != self.done.to {
            self.write_boundary()?;
        }
        Ok(())
    }

    /// Handles a stream that ends before the copy's mark: an error unless the copy once
    /// was at that end. The log of a base shows whether it was; a copy that was written
    /// to has another group there.
    fn came_by_the_end(&self) -> Result<()> {
        if self.follows {
            return Ok(());
        }
        let looks = MountOptions {
            read_only: true,
            ..self.options.clone()
        };
        let lfs = Lfs::mount(Arc::clone(&self.device), Arc::clone(&self.clock), looks)?;
        let (copy, end) = (self.done.from, self.boundary);
        match lfs.ship(end) {
            Ok(_) => Ok(()),
            Err(ShipError::OtherHistory { why, .. }) => Err(ShipError::OtherHistory {
                mark: copy,
                why: format!(
                    "the stream ends at {end}, where this volume never stood ({why}): it was \
                     written to"
                ),
            }),
            Err(ShipError::LogGone { .. }) => Err(ShipError::Unfit(format!(
                "the stream ends at {end}, before {copy}, where this volume stands, and its log \
                 does not reach back to there: ship with --since {copy}"
            ))),
            Err(error) => Err(error),
        }
    }

    /// Advances the copy's mark, because the original continued without ordinary groups.
    fn write_boundary(&mut self) -> Result<()> {
        let mark = self.boundary;
        let lfs = self.writable()?;
        let position = lfs.write_mark(mark)?;
        self.position = position;
        self.done.to = mark;
        (self.passed, self.unflushed) = (0, self.unflushed + 1);
        Ok(())
    }

    /// The copy, mounted for writing.
    fn writable(&mut self) -> Result<&Lfs> {
        if self.lfs.is_none() {
            let superblock = Lfs::find_superblock(&*self.device)?;
            if superblock.read_only_compat.get() & REPLAYED == 0 {
                let mut superblock = crate::tune::to_be_changed(&*self.device)?;
                superblock.read_only_compat = (superblock.read_only_compat.get() | REPLAYED).into();
                superblocks::replace(&*self.device, superblock)?;
            }
            let options = MountOptions {
                read_only: false,
                replays: true,
                ..self.options.clone()
            };
            let device = Arc::clone(&self.device);
            let lfs = Lfs::mount(device, Arc::clone(&self.clock), options)?;
            if let Some(why) = lfs.stopped() {
                return Err(ShipError::Unfit(format!("the copy takes no writes: {why}")));
            }
            if lfs.mark() != self.done.from {
                let now = lfs.mark();
                return Err(ShipError::Unfit(format!("the copy stands at {now} now")));
            }
            self.lfs = Some(lfs);
        }
        Ok(self.lfs.as_ref().expect("mounted just now"))
    }

    /// The progress so far.
    pub fn so_far(&self) -> Replayed {
        self.done
    }

    /// Makes everything durable, and unmounts the copy.
    ///
    /// # Errors
    /// If the device fails.
    pub fn finish(mut self) -> Result<Replayed> {
        self.flush()?;
        if let Some(lfs) = &self.lfs {
            lfs.unmount()?;
        }
        Ok(self.done)
    }
}

fn of_layout(error: varve_fs::Error) -> ShipError {
    match error {
        varve_fs::Error::NoSpace => Error::OutOfSegments.into(),
        other => Error::Stopped(other.to_string()).into(),
    }
}

impl Lfs {
    /// Appends a group of the original.
    fn append_replayed(
        &self,
        items: Vec<Item>,
        usage: Usage,
        mark: Mark,
    ) -> crate::error::Result<Position> {
        let before = self.logged_usage();
        let grows = usage.inodes > before.inodes || usage.sectors > before.sectors;
        let purpose = match grows {
            true => Purpose::Grow,
            false => Purpose::Shrink,
        };
        let waiting = waiting_of(&items, self.geometry.block_bytes);
        self.make_room(usage, waiting, purpose)?;
        let items = items.into_iter().map(crate::layout::log_item).collect();
        self.append_stamped(items, Some(usage), mark)
    }
}

/// The changes of a group, as an operation would declare them.
fn waiting_of(items: &[Item], block_bytes: u32) -> Waiting {
    let mut unwritten = Unwritten::default();
    let mut highest_block = 0;
    for item in items {
        match item {
            Item::Block { block, data, .. } => {
                unwritten.bytes += data.len() as u64 + BESIDE_BLOCK;
                unwritten.blocks += 1;
                highest_block = highest_block.max(*block);
            }
            Item::Xattrs { data, .. } => {
                let further = (data.len() as u64).saturating_sub(1) / u64::from(block_bytes);
                unwritten.bytes += data.len() as u64 + BESIDE_BLOCK;
                unwritten.blocks += 1;
                unwritten.further += further;
            }
            Item::Inode(_) | Item::Freed { .. } => {
                unwritten.bytes += BESIDE;
                unwritten.images += 1;
            }
            Item::Truncated { from_block, .. } => {
                unwritten.bytes += BESIDE_BLOCK;
                unwritten.ranges += 1;
                highest_block = highest_block.max(*from_block);
            }
            Item::Punched { to_block, .. } | Item::Reserved { to_block, .. } => {
                unwritten.bytes += BESIDE_BLOCK;
                unwritten.ranges += 1;
                highest_block = highest_block.max(*to_block);
            }
            Item::Placed { .. } => unreachable!("a stream has the blocks themselves"),
        }
    }
    Waiting {
        unwritten,
        highest_block,
        ..Waiting::default()
    }
}
