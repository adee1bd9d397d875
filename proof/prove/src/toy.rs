//! A toy layout on a device, and the bugs planted in it.
//!
//! It is the simplest layout that keeps the promises: a journal of groups that is never
//! reclaimed, with everything in memory as well. It has two purposes. Without a bug it
//! separates faults of the file system from those of a real layout. With a [`Bug`] it
//! shows that the explorer finds what it should.
//!
//! On the device: from byte 4096, partials one behind the other, each a header sector and
//! a payload, in whole write units. A group is one or several partials, the last of them
//! marked; it is accepted when all are valid. Each header contains the checksum of its
//! predecessor's, and the number of the mount that wrote it, so that leftovers of an
//! earlier life do not fit.

mod codec;
mod state;

use codec::{Header, decode_items, encode_items};
use state::{State, Stored};
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use varve_device::{Block, Device, SECTOR};
use varve_fs::{
    Answer, BlockPointer, Error, FileKind, Group, Inode, InodeNo, Item, Layout, LayoutGeometry,
    Mapping, Position, Purpose, Request, Result, StatFs, Usage, Version, View,
};

/// Address of the first partial.
const START: u64 = 4096;
/// Bytes of payload in a partial: small, so that groups have several.
const PARTIAL_BYTES: usize = 3 * WRITE_UNIT - SECTOR as usize;
const BLOCK_BYTES: u32 = 4096;
/// Partials end on multiples of this, so that none can tear its predecessor.
const WRITE_UNIT: usize = 4096;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// `commit` returns without a flush.
    SkippedFlush,
    /// The payload's checksum is not compared.
    UncheckedPayload,
    /// Partials are accepted although the last one of their group is missing (rule 1).
    HalfGroups,
    /// Recovery stops one group early.
    LostAcknowledged,
    /// Truncates are not logged (rule 5).
    NoTruncateRecords,
    /// Frees are not logged (rule 5).
    NoFreedRecords,
    /// Records take effect after the blocks of their group (rule 3).
    RecordsLast,
    /// One block in four is not written, but its pointer is (rule 4).
    UnwrittenBlocks,
    /// Images without data have sizes that are not logged yet (rule 4).
    EarlySizes,
    /// A partial fits behind any predecessor, of any life (rule 9).
    AnyPredecessor,
    /// The last item of a group is sometimes left out.
    ShortGroups,
    /// The group's items are appended as two groups (rule 6).
    SplitGroups,
    /// Recovery shows the last block written to a file a second time, at another place.
    MisplacedBlock,
    /// Recovery panics on a torn header.
    PanicOnTornHeader,
    /// Extended attributes of an old version return.
    StaleXattrs,
    /// A mount assumes that everything it reads is durable (rule 12).
    NoFlushAtMount,
    /// A mount leaves a torn partial at the journal's end in place.
    NoFreshStart,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 17] = [
        Bug::SkippedFlush,
        Bug::UncheckedPayload,
        Bug::HalfGroups,
        Bug::LostAcknowledged,
        Bug::NoTruncateRecords,
        Bug::NoFreedRecords,
        Bug::RecordsLast,
        Bug::UnwrittenBlocks,
        Bug::EarlySizes,
        Bug::AnyPredecessor,
        Bug::ShortGroups,
        Bug::SplitGroups,
        Bug::MisplacedBlock,
        Bug::PanicOnTornHeader,
        Bug::StaleXattrs,
        Bug::NoFlushAtMount,
        Bug::NoFreshStart,
    ];
}

/// Place of a block: a number that no other content ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToyPointer {
    id: u64,
    sectors: u32,
    unwritten: bool,
}

impl BlockPointer for ToyPointer {
    fn sectors(&self) -> u32 {
        self.sectors
    }

    fn unwritten(&self) -> bool {
        self.unwritten
    }

    fn place(&self) -> u64 {
        self.id
    }

    fn follows(&self, previous: &Self) -> bool {
        self.id == previous.id + 1
    }

    fn same_write(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

struct Journal {
    state: State,
    tail: u64,
    /// Checksum of the header before the tail.
    predecessor: u32,
    serial: u64,
    life: u64,
    appended: u64,
    failed: bool,
}

/// The toy layout on a device.
pub struct ToyLayout {
    device: Arc<dyn Device>,
    bug: Option<Bug>,
    unfinished: Vec<InodeNo>,
    journal: Mutex<Journal>,
}

impl ToyLayout {
    /// Reads the journal. An empty device is an empty volume.
    ///
    /// # Errors
    /// Device errors.
    pub fn open(device: Arc<dyn Device>, life: u64, bug: Option<Bug>) -> Result<Self> {
        let mut journal = Journal {
            state: State::new(),
            tail: START,
            predecessor: 0,
            serial: 0,
            life,
            appended: 0,
            failed: false,
        };
        let groups = replay(&*device, &mut journal, bug)?;
        if bug != Some(Bug::NoFlushAtMount) {
            // Data that was read may still be in a volatile cache (rule 12).
            device.flush()?;
        }
        let kept =
            groups.len() - usize::from(bug == Some(Bug::LostAcknowledged) && groups.len() > 2);
        for items in &groups[..kept] {
            for item in ordered(items, bug) {
                journal.state.apply(item);
            }
        }
        if bug == Some(Bug::MisplacedBlock) {
            journal.state.misplace();
        }
        journal.state.mounted();
        let layout = ToyLayout {
            device,
            bug,
            unfinished: journal.state.unfinished(),
            journal: Mutex::new(journal),
        };
        if bug != Some(Bug::NoFreshStart) {
            layout.start_afresh()?;
        }
        Ok(layout)
    }

    /// Clears the sector of a header at the tail before any other write. If this is
    /// omitted, the rest of a torn partial there can be completed by a new torn one, and
    /// a group that was dropped becomes valid. It clears one sector only, because a
    /// longer write can itself be torn.
    fn start_afresh(&self) -> Result<()> {
        let zeros = [0; SECTOR as usize];
        self.device
            .write(self.journal().tail, &[IoSlice::new(&zeros)])?;
        if self.bug == Some(Bug::NoFlushAtMount) {
            return Ok(());
        }
        Ok(self.device.flush()?)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_group(&self, journal: &mut Journal, items: &[Item]) -> Result<()> {
        let payload = encode_items(items);
        let mut parts = payload.chunks(PARTIAL_BYTES).peekable();
        while let Some(part) = parts.next() {
            let mut part = part.to_vec();
            let bytes = (part.len() + SECTOR as usize).next_multiple_of(WRITE_UNIT);
            part.resize(bytes - SECTOR as usize, 0);
            let header = Header {
                serial: journal.serial,
                life: journal.life,
                predecessor: journal.predecessor,
                payload_bytes: part.len() as u32,
                payload_sum: codec::sum(&part),
                last: parts.peek().is_none(),
            };
            let encoded = header.encode();
            self.device
                .write(journal.tail, &[IoSlice::new(&encoded), IoSlice::new(&part)])?;
            journal.tail += SECTOR + part.len() as u64;
            journal.predecessor = codec::sum(&encoded);
            journal.serial += 1;
        }
        Ok(())
    }

    /// Leaves out the items that the bug leaves out.
    fn logged(&self, items: Vec<Item>, appended: u64) -> Vec<Item> {
        let mut items = items;
        match self.bug {
            Some(Bug::NoTruncateRecords) => {
                items.retain(|item| !matches!(item, Item::Truncated { .. }));
            }
            Some(Bug::NoFreedRecords) => items.retain(|item| !matches!(item, Item::Freed { .. })),
            Some(Bug::UnwrittenBlocks) => {
                let mut count = appended;
                items.retain(|item| {
                    count += u64::from(matches!(item, Item::Block { .. }));
                    !matches!(item, Item::Block { .. }) || !count.is_multiple_of(4)
                });
            }
            Some(Bug::ShortGroups) if appended % 5 == 4 => {
                items.pop();
            }
            Some(Bug::EarlySizes) => {
                let block = u64::from(BLOCK_BYTES);
                for item in &mut items {
                    if let Item::Inode(image) = item
                        && image.mode >> 12 == 8
                        && image.size > 0
                        && image.flags == 0
                    {
                        image.size = image.size.next_multiple_of(block);
                    }
                }
            }
            Some(Bug::StaleXattrs) => items
                .retain(|item| !matches!(item, Item::Xattrs { .. }) || appended.is_multiple_of(2)),
            _ => {}
        }
        items
    }
}

/// Returns the order in which the items of a group take effect.
fn ordered(items: &[Item], bug: Option<Bug>) -> Vec<&Item> {
    let mut order: Vec<&Item> = items.iter().collect();
    if bug == Some(Bug::RecordsLast) {
        order.sort_by_key(|item| matches!(item, Item::Truncated { .. } | Item::Punched { .. }));
    }
    order
}

/// Reads partials from the journal's tail until one does not fit, and sets the tail
/// behind the last complete group.
fn replay(device: &dyn Device, journal: &mut Journal, bug: Option<Bug>) -> Result<Vec<Vec<Item>>> {
    let mut groups = Vec::new();
    let mut pending = Vec::new();
    let (mut at, mut predecessor, mut serial) = (journal.tail, 0, 0);
    let mut sector = [0; SECTOR as usize];
    while at + SECTOR <= device.geometry().size {
        device.read(at, &mut sector)?;
        let header = Header::decode(&sector);
        if header.is_none() && bug == Some(Bug::PanicOnTornHeader) {
            assert!(
                sector.iter().all(|&byte| byte == 0),
                "a torn header at {at}"
            );
        }
        let Some(header) = header else { break };
        let fits = header.serial == serial && header.predecessor == predecessor;
        if !fits && bug != Some(Bug::AnyPredecessor) {
            break;
        }
        let end = at + SECTOR + u64::from(header.payload_bytes);
        if end > device.geometry().size || header.payload_bytes > 1 << 20 {
            break;
        }
        let mut payload = vec![0; header.payload_bytes as usize];
        device.read(at + SECTOR, &mut payload)?;
        let valid = codec::sum(&payload) == header.payload_sum;
        if !valid && bug != Some(Bug::UncheckedPayload) {
            break;
        }
        at = end;
        predecessor = codec::sum(&sector);
        serial = header.serial + 1;
        pending.extend_from_slice(&payload);
        let half = bug == Some(Bug::HalfGroups);
        if !header.last && !half {
            continue;
        }
        groups.push(decode_items(&pending));
        if header.last {
            pending.clear();
            (journal.tail, journal.predecessor, journal.serial) = (at, predecessor, serial);
        }
    }
    Ok(groups)
}

impl Layout for ToyLayout {
    type Pointer = ToyPointer;

    fn geometry(&self) -> LayoutGeometry {
        LayoutGeometry {
            block_bytes: BLOCK_BYTES,
            inline_bytes: 100,
            xattr_bytes: 255 * 512,
            max_file_bytes: 1 << 60,
            group_bytes: 32 * 1024,
            bounds_groups: false,
            hash_seed: 1,
            case_fold: false,
            snapshots: false,
            read_only: self.journal().failed.then(|| "a request failed".to_owned()),
        }
    }

    fn usage(&self) -> Usage {
        self.journal().state.usage()
    }

    fn allocate_inode(&self, _near: InodeNo, _kind: FileKind) -> Result<(InodeNo, Version)> {
        Ok(self.journal().state.allocate())
    }

    fn forget_inode(&self, ino: InodeNo) {
        self.journal().state.forget(ino);
    }

    fn read_inode(&self, _view: View, ino: InodeNo) -> Result<Inode> {
        Ok(self.journal().state.file(ino)?.inode.clone())
    }

    fn read_xattrs(&self, _view: View, ino: InodeNo) -> Result<Vec<u8>> {
        Ok(self.journal().state.file(ino)?.xattrs.to_vec())
    }

    fn unfinished(&self) -> Result<Vec<InodeNo>> {
        Ok(self.unfinished.clone())
    }

    fn map(
        &self,
        _view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<ToyPointer>>> {
        let journal = self.journal();
        let blocks = journal
            .state
            .file(ino)?
            .blocks
            .range(first..first.saturating_add(count));
        let mapping = |(&block, stored): (&u64, &Stored)| Mapping {
            block,
            pointer: stored.pointer,
        };
        Ok(blocks.map(mapping).collect())
    }

    fn next_mapped(&self, _view: View, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        let journal = self.journal();
        Ok(journal
            .state
            .file(ino)?
            .blocks
            .range(from..)
            .next()
            .map(|(block, _)| *block))
    }

    fn read(&self, ino: InodeNo, blocks: &[Mapping<ToyPointer>]) -> Result<Vec<Arc<Block>>> {
        let journal = self.journal();
        let file = journal.state.file(ino)?;
        let one = |mapping: &Mapping<ToyPointer>| {
            let stored = file.blocks.get(&mapping.block);
            let stored = stored.filter(|stored| stored.pointer == mapping.pointer);
            stored
                .map(|stored| stored.data.clone())
                .ok_or_else(|| Error::Damaged {
                    ino: Some(ino),
                    detail: format!("block {} moved", mapping.block),
                })
        };
        blocks.iter().map(one).collect()
    }

    fn admit(&self, request: &Request) -> Result<Answer> {
        let journal = self.journal();
        if journal.failed {
            return Err(Error::ReadOnly("a request failed".to_owned()));
        }
        let full = request.total.sectors * SECTOR > self.device.geometry().size / 2;
        Ok(match full && request.purpose != Purpose::Shrink {
            true => Answer::Refused,
            false => Answer::Granted,
        })
    }

    fn append(&self, group: Group) -> Result<Position> {
        let mut journal = self.journal();
        let journal = &mut *journal;
        if journal.failed {
            return Err(Error::ReadOnly("a request failed".to_owned()));
        }
        let logged = self.logged(group.items.clone(), journal.appended);
        let middle = logged.len().div_ceil(2);
        let written = if self.bug == Some(Bug::SplitGroups) && logged.len() > 1 {
            self.write_group(journal, &logged[..middle])
                .and_then(|()| self.write_group(journal, &logged[middle..]))
        } else {
            self.write_group(journal, &logged)
        };
        if let Err(error) = written {
            journal.failed = true;
            return Err(error);
        }
        for item in &group.items {
            journal.state.apply(item);
        }
        journal.appended += 1;
        Ok(Position(journal.appended))
    }

    fn commit(&self, _position: Position) -> Result<()> {
        if self.journal().failed {
            return Err(Error::ReadOnly("a request failed".to_owned()));
        }
        if self.bug == Some(Bug::SkippedFlush) {
            return Ok(());
        }
        let flushed = self.device.flush();
        if flushed.is_err() {
            self.journal().failed = true;
        }
        Ok(flushed?)
    }

    fn checkpoint(&self) -> Result<()> {
        self.commit(Position(0))
    }

    fn maintain(&self) -> Result<()> {
        Ok(())
    }

    fn statfs(&self, total: Usage) -> StatFs {
        let blocks = self.device.geometry().size / 2 / u64::from(BLOCK_BYTES);
        StatFs {
            blocks,
            free: blocks.saturating_sub(total.sectors / 8),
            files: total.inodes,
            files_free: 1 << 20,
        }
    }

    fn stop(&self, _reason: &str) {
        self.journal().failed = true;
    }
}
