//! Capture: making a group of the changes that wait in memory.
//!
//! Memory always contains the newest tree. Under the closed gate, the present state of
//! every member of the epoch, and of the files whose data is asked for, becomes one
//! group. It contains each operation whole, because no operation is half done while the
//! gate is closed. The group is appended after the gate has opened again.
//!
//! Rules (protocol.md 2 to 6):
//! - Every group contains the whole epoch.
//! - Per inode: records, attributes, blocks ascending, image.
//! - An image states the logged size. It is the size in memory only if no data remains
//!   unlogged; otherwise the size reached by logged data, or less if a truncate cut it.

mod gather;

use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::{Cause, Group, Item, Layout, Position, Usage};
use crate::locks::{Lock, Ranked};
use crate::memory::body::{Body, Lot};
use crate::memory::overlay::Overlay;
use crate::memory::queues::Ended;
use crate::memory::vnode::{Vnode, dirty_charge};
use crate::memory::writer::Writer;
use crate::planted::{self, Planted};
use crate::statistics::count;
use crate::types::FileKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use varve_device::sync::RwLockWriteGuard;

/// The data that a capture includes in addition to the epoch's metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Take<'a> {
    /// All data of the files that wait for their fsync, and no other.
    Wanted,
    /// A group's worth of this file's data, and no other.
    Part(&'a Arc<Vnode>),
    /// Data in the queue's order while the group is small enough: of files that became
    /// dirty up to this key of the queue.
    Queue { until: u64 },
    /// All data of all files.
    All,
}

/// A vnode whose items are being appended. While the reference exists the vnode stays in
/// the table, because the layout's state of it is outdated until the append.
struct Flight {
    vnode: Arc<Vnode>,
    landing: Landing,
}

/// The action on a vnode once the group has been appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Landing {
    /// None: only its image was in the group.
    Nothing,
    /// Its records and the blocks of this range that were in the group become clean.
    Clean(Option<(u64, u64)>),
    /// Its number is freed.
    Forget,
}

type ClosedGate<'a> = Ranked<RwLockWriteGuard<'a, ()>>;

struct Capture<'a, L: Layout> {
    fs: &'a FileSystem<L>,
    number: u64,
    items: Vec<Item>,
    usage: Usage,
    payload: u64,
    /// Size of the payload as it counts against the group's limit.
    charge: u64,
    /// The limit, for data taken in the queue's order and for a part of a file.
    most: u64,
    blocks: u64,
    images: u64,
    /// Length of each attribute blob in it.
    xattrs: Vec<usize>,
    /// Number of pending ranges in it, and the blocks that they reserve.
    ranges: u64,
    reserved: u64,
    flights: Vec<Flight>,
    ended: Vec<Ended>,
    /// Spilled blocks in it, pinned until the layout has placed them, even if they are
    /// removed or overwritten meanwhile.
    lots: Vec<Arc<Lot>>,
}

impl<L: Layout> FileSystem<L> {
    /// Captures and appends one group. Returns its position, or the last one appended if
    /// no change waited.
    ///
    /// # Errors
    /// Errors of the layout; the file system takes no change afterwards.
    pub(crate) fn capture(
        &self,
        writer: &mut Writer,
        take: Take<'_>,
        cause: Cause,
    ) -> Result<Position> {
        let gate = Ranked::take(self.level.rank(Lock::Gate), || self.gate.write());
        self.capture_behind(Some(gate), writer, take, cause)
    }

    /// [`Self::capture`] of all files that became dirty up to this key of the queue, in
    /// as many groups as necessary. No operation makes data dirty meanwhile: each waits
    /// until all groups are appended.
    ///
    /// # Errors
    /// As [`Self::capture`].
    pub(crate) fn capture_until(
        &self,
        writer: &mut Writer,
        until: u64,
        cause: Cause,
    ) -> Result<Position> {
        let _gate = Ranked::take(self.level.rank(Lock::Gate), || self.gate.write());
        loop {
            let position = self.capture_behind(None, writer, Take::Queue { until }, cause)?;
            if !self.is_queued(until) {
                return Ok(position);
            }
        }
    }

    /// True if a file waits that became dirty up to this key of the queue.
    pub(crate) fn is_queued(&self, until: u64) -> bool {
        let queues = self.queues();
        queues
            .data
            .first_key_value()
            .is_some_and(|(key, _)| *key <= until)
    }

    /// Captures under the closed gate. If the gate is passed here, it opens once the
    /// group is gathered.
    fn capture_behind(
        &self,
        gate: Option<ClosedGate<'_>>,
        writer: &mut Writer,
        take: Take<'_>,
        cause: Cause,
    ) -> Result<Position> {
        self.check_failed()?;
        let take = if self.settings.strict_order {
            Take::All
        } else {
            take
        };
        let number = self.captures_started.fetch_add(1, Relaxed) + 1;
        let mut capture = Capture {
            fs: self,
            number,
            items: Vec::new(),
            usage: writer.usage,
            payload: 0,
            charge: 0,
            most: self.group_bytes(),
            blocks: 0,
            images: 0,
            xattrs: Vec::new(),
            ranges: 0,
            reserved: 0,
            flights: Vec::new(),
            ended: Vec::new(),
            lots: Vec::new(),
        };
        let members = capture.epoch(take);
        capture.queue(take);
        drop(gate);
        self.has_captured(take, capture.charge, capture.most);
        let Capture {
            mut items,
            usage,
            flights,
            ended,
            payload,
            blocks,
            images,
            xattrs,
            ranges,
            reserved,
            lots,
            ..
        } = capture;
        if planted::is(Planted::RecordsLast) {
            items.sort_by_key(is_range_record);
        }
        if let Some(items) = torn_off(&mut items) {
            let usage = writer.usage;
            self.store.layout.append(Group {
                items,
                usage,
                cause,
            })?;
        }
        if !items.is_empty() {
            let appended = self.store.layout.append(Group {
                items,
                usage,
                cause,
            });
            let position = match appended {
                Ok(position) => position,
                Err(error) => {
                    self.fail(&error);
                    self.strand(flights);
                    return Err(error);
                }
            };
            self.appended.store(position.0, Release);
            writer.usage = usage;
            let counters = &self.store.counters;
            count(&counters.groups, 1);
            count(&counters.group_blocks, blocks);
            count(&counters.group_bytes, payload);
            count(&counters.group_inodes, images);
        }
        drop(lots);
        self.land(flights);
        self.table.forget_ended(ended.iter().map(|file| file.ino));
        self.waits.images_went(members);
        self.waits.ranges_went(ranges, reserved);
        let block_bytes = self.store.block_bytes;
        for bytes in xattrs {
            self.waits.attributes_went(bytes, block_bytes);
        }
        self.captures_finished.store(number, Release);
        Ok(Position(self.appended.load(Acquire)))
    }

    /// Keeps the vnodes of a group that was not appended: they look clean now, and the
    /// layout's state of them is permanently outdated.
    fn strand(&self, flights: Vec<Flight>) {
        let vnodes = flights.into_iter().map(|flight| flight.vnode);
        self.queues().stranded.extend(vnodes);
    }

    /// Marks everything clean that the appended group contained and that has not changed
    /// since.
    fn land(&self, flights: Vec<Flight>) {
        for Flight { vnode, landing } in flights {
            let blocks = match landing {
                Landing::Nothing => continue,
                Landing::Forget => {
                    self.table.remove(&vnode);
                    continue;
                }
                Landing::Clean(blocks) => blocks,
            };
            let state = &mut *vnode.write();
            state.flying = Overlay::default();
            let Some((first, last)) = blocks else {
                continue;
            };
            let (mut landed, mut charge) = (0, 0);
            let keep = self.settings.keep_written || vnode.kind != FileKind::Regular;
            let clean = state
                .dirty
                .extract_if(first..=last, |_, dirty| dirty.flying);
            for (block, dirty) in clean {
                landed += 1;
                charge += dirty_charge(dirty.data.resident());
                if let (true, Body::Memory(data)) = (keep, dirty.data) {
                    self.store.cache.insert(&state.generation, block, data);
                }
            }
            self.waits.blocks_went(landed, charge);
            self.count_joined(state);
        }
    }
}

fn is_range_record(item: &Item) -> bool {
    matches!(
        item,
        Item::Truncated { .. } | Item::Punched { .. } | Item::Reserved { .. }
    )
}

/// Items that a planted bug appends as a group of their own, ahead of the rest.
fn torn_off(items: &mut Vec<Item>) -> Option<Vec<Item>> {
    let early: Vec<Item> = if planted::is(Planted::RenameSplit) {
        let image = items
            .iter()
            .position(|item| matches!(item, Item::Inode(_)))?;
        items.drain(..=image).collect()
    } else if planted::is(Planted::CommitTorn) {
        let images = items.iter().enumerate();
        let mut images = images.filter(|(_, item)| matches!(item, Item::Inode(_)));
        let count = images.clone().count();
        let (at, _) = images.nth((count / 2).checked_sub(1)?)?;
        items.drain(..=at).collect()
    } else if planted::is(Planted::FreesFirst) {
        let is_free = |item: &mut Item| matches!(item, Item::Freed { .. });
        items.extract_if(.., is_free).collect()
    } else {
        return None;
    };
    (!early.is_empty()).then_some(early)
}
