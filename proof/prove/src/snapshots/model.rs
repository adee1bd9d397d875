//! The rules of snapshots (`docs/design/snapshots.md`), as an abstract machine.
//!
//! It has one inode number, files of two blocks that are created and freed on it, and
//! slots that store one block each (a slot represents a segment). Groups are durable at
//! once; interrupted groups are explored elsewhere (`crate::abstract_log`). Two records
//! are retained, and recovery may have to use the older one.

use super::rules::Missing;
use std::collections::BTreeMap;

/// Serial of a write, which identifies one content for ever.
pub type Birth = u16;
/// Place of a block.
pub type Slot = usize;

/// Blocks per file.
pub const BLOCKS: usize = 2;
/// Number of slots of the volume.
pub const SLOTS: usize = 6;

/// Place and content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer {
    /// Place of the block.
    pub slot: Slot,
    /// Content of the block.
    pub birth: Birth,
}

/// The identity of a block, without its birth: version of the file, number of the block.
pub type Key = (u16, usize);

/// A file: its version, attributes and pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct File {
    /// Version of the file with its number.
    pub version: u16,
    /// Serial of the last change of its attributes.
    pub attributes: Birth,
    /// Blocks of the file; `None` is a hole.
    pub blocks: [Option<Pointer>; BLOCKS],
}

/// The user's view of a file; births represent contents.
pub type Seen = Option<(u16, Birth, [Option<Birth>; BLOCKS])>;

/// The change of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A file is created.
    Create {
        /// Version of the file.
        version: u16,
        /// Serial of the creation.
        birth: Birth,
    },
    /// The attributes of the file change.
    Change {
        /// Serial of the change.
        birth: Birth,
    },
    /// A block is written.
    Write {
        /// Number of the block.
        block: usize,
        /// Place and content.
        pointer: Pointer,
    },
    /// A block becomes a hole.
    Punch {
        /// Number of the block.
        block: usize,
    },
    /// The file is removed.
    Free,
    /// The cleaner has made a copy.
    Move {
        /// Identity of the block.
        key: Key,
        /// Place and content of the original.
        from: Pointer,
        /// Place of the copy.
        to: Slot,
        /// True if only a snapshot has it.
        kept: bool,
    },
    /// The next fold writes the inode again although no user changed it.
    Touch,
}

/// Row of the table of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Number of the snapshot; numbers ascend and are never reused.
    pub number: u16,
    /// Serial of the last group that it includes.
    pub position: Birth,
    /// True if this checkpoint deleted it; it still counts, because the older record has
    /// it.
    pub deleted: bool,
}

/// A displaced block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Displaced {
    /// Identity of the block.
    pub key: Key,
    /// The newest snapshot when it was displaced.
    pub last: u16,
    /// Place and content.
    pub pointer: Pointer,
}

/// A displaced inode image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Image {
    /// Version of the file.
    pub version: u16,
    /// Serial of the last change of the attributes.
    pub attributes: Birth,
    /// The newest earlier snapshot that does not have it.
    pub after: u16,
    /// The newest snapshot that has it.
    pub last: u16,
}

/// A checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Base {
    /// Serial of the last group that it includes.
    pub position: Birth,
    /// Number of the newest snapshot ever taken.
    pub next_number: u16,
    /// The file, if there is one.
    pub file: Option<File>,
    /// The newest snapshot when the file's image last changed for a user.
    pub epoch: u16,
    /// The snapshots, oldest first.
    pub rows: Vec<Row>,
    /// The history of blocks.
    pub blocks: Vec<Displaced>,
    /// The history of inode images.
    pub images: Vec<Image>,
}

/// Changes above a base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Delta {
    /// True if nothing below belongs to the present file any more.
    pub reborn: bool,
    /// `None`: unchanged. `Some(None)`: removed.
    pub image: Option<Option<(u16, Birth)>>,
    /// Blocks that differ from below; the inner `None` is a hole.
    pub blocks: [Option<Option<Pointer>>; BLOCKS],
    /// Slots to which the cleaner has moved blocks that only snapshots have.
    pub kept: BTreeMap<(Key, Birth), Slot>,
    /// True if the fold writes the inode again although no user changed it.
    pub touched: bool,
    /// Groups up to this serial are in the delta or below.
    pub boundary: Birth,
}

/// A snapshot or a deletion that a checkpoint includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Neither.
    Nothing,
    /// The checkpoint takes a snapshot.
    Take,
    /// The checkpoint deletes this snapshot.
    Delete(u16),
}

/// Returns the present file from the layers, newest first.
pub fn current(base: &Base, deltas: &[&Delta]) -> Option<File> {
    let mut file = base.file.clone();
    for delta in deltas.iter().rev() {
        if delta.reborn {
            file = None;
        }
        match delta.image {
            Some(None) => file = None,
            Some(Some((version, attributes))) => {
                let blocks = file.map(|file| file.blocks).unwrap_or_default();
                file = Some(File {
                    version,
                    attributes,
                    blocks,
                });
            }
            None => {}
        }
        if let Some(file) = &mut file {
            for (mine, change) in file.blocks.iter_mut().zip(delta.blocks) {
                *mine = change.unwrap_or(*mine);
            }
        }
    }
    file
}

/// Returns the newest snapshot below a delta; blocks that the delta displaces may belong
/// to it.
pub fn newest(rows: &[Row]) -> Option<Row> {
    rows.last().copied()
}

impl Delta {
    /// Applies an entry, in the same manner at append and at replay. `below` is the state
    /// before it, `newest` the newest snapshot below this delta.
    pub fn apply(
        &mut self,
        entry: &Entry,
        below: Option<&File>,
        newest: Option<Row>,
        missing: Option<Missing>,
    ) {
        let keep = |delta: &mut Delta, block: usize| {
            // A copy that the cleaner made in this delta is displaced in it; a snapshot
            // may need it.
            let former = delta.blocks[block].flatten();
            let is_old = |p: &Pointer| newest.is_some_and(|row| p.birth <= row.position);
            if let (Some(former), Some(file)) = (former.filter(is_old), below)
                && missing != Some(Missing::MovedThenDisplaced)
            {
                delta
                    .kept
                    .insert(((file.version, block), former.birth), former.slot);
            }
        };
        match *entry {
            Entry::Create { version, birth } => {
                self.reborn = true;
                self.image = Some(Some((version, birth)));
                self.blocks = Default::default();
            }
            Entry::Change { birth } => {
                let version = below.map_or(0, |file| file.version);
                self.image = Some(Some((version, birth)));
            }
            Entry::Write { block, pointer } => {
                keep(self, block);
                self.blocks[block] = Some(Some(pointer));
            }
            Entry::Punch { block } => {
                keep(self, block);
                self.blocks[block] = Some(None);
            }
            Entry::Free => {
                (0..BLOCKS).for_each(|block| keep(self, block));
                self.image = Some(None);
                self.reborn = true;
                self.blocks = Default::default();
            }
            Entry::Move {
                key,
                from,
                to,
                kept,
            } => {
                let lives = below
                    .filter(|file| file.version == key.0)
                    .is_some_and(|file| file.blocks[key.1] == Some(from));
                if lives {
                    self.blocks[key.1] = Some(Some(Pointer { slot: to, ..from }));
                } else if kept {
                    self.kept.insert((key, from.birth), to);
                }
            }
            Entry::Touch => self.touched = true,
        }
    }

    /// Adds a younger delta, because this one's checkpoint has failed. `newest` is the
    /// newest snapshot of the base, because that of the failed checkpoint was never
    /// taken.
    pub fn absorb(
        &mut self,
        younger: &Delta,
        base: &Base,
        newest: Option<Row>,
        missing: Option<Missing>,
    ) {
        let below = current(base, &[self]);
        let is_old = |p: &Pointer| newest.is_some_and(|row| p.birth <= row.position);
        for block in 0..BLOCKS {
            let former = self.blocks[block].flatten();
            let now = younger.blocks[block];
            let is_displaced = younger.reborn
                || now.is_some_and(|now| now.map(|p| p.birth) != former.map(|p| p.birth));
            if let (true, Some(former), Some(file)) = (is_displaced, former.filter(is_old), &below)
                && missing != Some(Missing::MergedThenDisplaced)
            {
                let key = (file.version, block);
                self.kept.insert((key, former.birth), former.slot);
            }
            if younger.reborn {
                self.blocks[block] = None;
            }
            if now.is_some() {
                self.blocks[block] = now;
            }
        }
        self.reborn |= younger.reborn;
        if younger.image.is_some() {
            self.image = younger.image;
        }
        self.touched |= younger.touched;
        self.kept.extend(younger.kept.iter());
        self.boundary = younger.boundary;
    }
}

/// Returns the base that a checkpoint makes of a base and a delta.
pub fn fold(base: &Base, delta: &Delta, request: Request, missing: Option<Missing>) -> Base {
    let newest = newest(&base.rows);
    let mut next = base.clone();
    let mut kept = delta.kept.clone();
    let file = current(base, &[delta]);
    if let Some(former) = &base.file {
        for (block, pointer) in former.blocks.iter().enumerate() {
            let Some(pointer) = *pointer else { continue };
            let key = (former.version, block);
            let stays = file
                .as_ref()
                .filter(|file| file.version == former.version)
                .and_then(|file| file.blocks[block])
                .is_some_and(|now| now.birth == pointer.birth);
            let Some(row) = newest.filter(|row| pointer.birth <= row.position) else {
                continue;
            };
            if !stays {
                let slot = kept.remove(&(key, pointer.birth)).unwrap_or(pointer.slot);
                let pointer = Pointer { slot, ..pointer };
                next.blocks.push(Displaced {
                    key,
                    last: row.number,
                    pointer,
                });
            }
        }
        let same = file.as_ref().is_some_and(|file| {
            (file.version, file.attributes) == (former.version, former.attributes)
        });
        if let Some(row) = newest
            && !same
            && base.epoch < row.number
        {
            next.images.push(Image {
                version: former.version,
                attributes: former.attributes,
                after: base.epoch,
                last: row.number,
            });
        }
        let is_rewritten = !same || (delta.touched && missing == Some(Missing::EpochKept));
        if is_rewritten {
            next.epoch = newest.map_or(0, |row| row.number);
        }
    } else {
        next.epoch = newest.map_or(0, |row| row.number);
    }
    // The rest are moves of blocks that were displaced before.
    for ((key, birth), slot) in kept {
        for entry in next.blocks.iter_mut() {
            if (entry.key, entry.pointer.birth) == (key, birth) {
                entry.pointer.slot = slot;
                if missing == Some(Missing::LastKept) {
                    entry.last = newest.map_or(0, |row| row.number);
                }
            }
        }
    }
    next.file = file;
    next.position = delta.boundary;
    next.rows.retain(|row| !row.deleted);
    match request {
        Request::Nothing => {}
        Request::Take => {
            next.next_number += 1;
            let (number, position) = (next.next_number, delta.boundary);
            next.rows.push(Row {
                number,
                position,
                deleted: false,
            });
        }
        Request::Delete(number) if missing == Some(Missing::DeletionWaits) => {
            next.rows.retain(|row| row.number != number);
        }
        Request::Delete(number) => {
            for row in next.rows.iter_mut().filter(|row| row.number == number) {
                row.deleted = true;
            }
        }
    }
    let rows = next.rows.clone();
    next.blocks.retain(|entry| is_kept(&rows, entry));
    next.images.retain(|image| {
        rows.iter()
            .any(|row| image.after < row.number && row.number <= image.last)
    });
    next.blocks.sort_unstable();
    next.images.sort_unstable();
    next
}

/// Returns true if a snapshot has this block.
pub fn is_kept(rows: &[Row], entry: &Displaced) -> bool {
    rows.iter()
        .any(|row| row.position >= entry.pointer.birth && row.number <= entry.last)
}

/// Returns the state that snapshot `row` shows, read from a base and the deltas above it:
/// each block with the slot from which it is read.
pub fn read(
    base: &Base,
    deltas: &[&Delta],
    row: Row,
    missing: Option<Missing>,
) -> Option<(u16, Birth, [Option<Pointer>; BLOCKS])> {
    let image = base
        .images
        .iter()
        .filter(|image| image.last >= row.number)
        .min_by_key(|image| image.last);
    let (version, attributes) = match (image, &base.file) {
        (Some(image), _) if image.after < row.number => (image.version, image.attributes),
        (None, Some(file)) if base.epoch < row.number => (file.version, file.attributes),
        _ => return None,
    };
    let blocks = std::array::from_fn(|block| {
        let own = base.file.as_ref().filter(|file| file.version == version);
        let pointer = own
            .and_then(|file| file.blocks[block])
            .filter(|p| p.birth <= row.position)
            .or_else(|| {
                let wanted =
                    |entry: &&Displaced| entry.key == (version, block) && entry.last >= row.number;
                let entry = base
                    .blocks
                    .iter()
                    .filter(wanted)
                    .min_by_key(|entry| entry.last);
                entry.map(|e| e.pointer).filter(|p| p.birth <= row.position)
            })?;
        if missing == Some(Missing::PlaceAsked) {
            return Some(pointer);
        }
        let key = (version, block);
        let moved = deltas.iter().find_map(|delta| {
            let live = delta.blocks[block]
                .flatten()
                .filter(|p| p.birth == pointer.birth);
            let slot = live.map(|p| p.slot);
            slot.or_else(|| delta.kept.get(&(key, pointer.birth)).copied())
        });
        Some(Pointer {
            slot: moved.unwrap_or(pointer.slot),
            ..pointer
        })
    });
    Some((version, attributes, blocks))
}
