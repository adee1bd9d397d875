//! Blocks that files no longer lead to and snapshots have, since the last checkpoint.
//!
//! A block that the cleaner moved, and that a file displaced before the next checkpoint,
//! is stored where neither the image nor the history says. The delta keeps its place.
//!
//! Invariant: every block of a snapshot is stored where a delta says (a moved block of a
//! file, or `kept`), or else where the image's index or the history says.

use crate::delta::Delta;
use crate::format::Pointer;
use crate::format::history::{HISTORY, Identity};
use crate::geometry::Geometry;
use varve_fs::InodeNo;
use varve_fs::planted::{self, Planted};

/// The identity of a data block.
pub fn data_block(ino: InodeNo, version: u32, block: u64) -> Identity {
    Identity {
        ino: ino.0,
        version,
        xattrs: false,
        block,
    }
}

/// The identity of a file's extended attributes.
pub fn attributes(ino: InodeNo, version: u32) -> Identity {
    Identity {
        ino: ino.0,
        version,
        xattrs: true,
        block: 0,
    }
}

/// True if a block at this pointer may be part of a snapshot, of which the newest ends at
/// serial `through`.
pub(crate) fn is_old(identity: Identity, pointer: &Pointer, through: u64) -> bool {
    let stored = !pointer.is_none() && !pointer.is_unwritten();
    let of_user = identity.ino != HISTORY.0 && identity.ino != InodeNo::IFILE.0;
    stored && of_user && pointer.birth() <= through
}

impl Delta {
    /// A pointer of this delta lost its place to `newer`, if to any. Its block is no
    /// longer counted, unless it is old enough to be part of a snapshot: then it is one
    /// that the cleaner moved, and this delta alone knows its place.
    pub(crate) fn displace(
        &mut self,
        geometry: &Geometry,
        identity: Identity,
        former: Pointer,
        newer: Option<&Pointer>,
    ) {
        let is_move = newer.is_some_and(|newer| newer.birth() == former.birth());
        let kept = self.may_be_kept(identity, &former) && !planted::is(Planted::KeptMoveDropped);
        if kept && !is_move {
            self.put_kept(geometry, identity, former);
        } else {
            self.count_block(geometry, &former, -1);
        }
    }

    /// True if a snapshot may have this block.
    pub fn may_be_kept(&self, identity: Identity, pointer: &Pointer) -> bool {
        is_old(identity, pointer, self.kept_through)
    }

    /// The cleaner moved a block that only snapshots have.
    pub(crate) fn keep(&mut self, geometry: &Geometry, identity: Identity, pointer: Pointer) {
        self.count_block(geometry, &pointer, 1);
        self.put_kept(geometry, identity, pointer);
    }

    fn put_kept(&mut self, geometry: &Geometry, identity: Identity, pointer: Pointer) {
        let key = (identity, pointer.birth());
        if let Some(former) = self.kept.insert(key, pointer) {
            self.count_block(geometry, &former, -1);
        }
    }

    /// Where this delta moved a block to, for its file or for snapshots.
    pub(crate) fn moved(&self, identity: Identity, birth: u64) -> Option<Pointer> {
        if let Some(kept) = self.kept.get(&(identity, birth)) {
            return Some(*kept);
        }
        let entry = self.inode(identity.ino)?;
        let pointer = match identity.xattrs {
            true => entry.xattrs,
            false => entry.blocks.get(identity.block),
        };
        pointer.filter(|p| entry.version == identity.version && p.birth() == birth)
    }
}
