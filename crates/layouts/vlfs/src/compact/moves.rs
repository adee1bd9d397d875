//! Moving: data is copied to a hole; index nodes and inodes are marked as changed, and
//! the next transaction writes them elsewhere.

use super::claims::Claim;
use crate::Vlfs;
use crate::append::Need;
use crate::error::Result;
use crate::format::{Change, Extent, Fork, NodeId, Place};
use crate::owners::Owner;
use crate::prices::{PATH_MAX, TRIES};
use crate::stage::{Changes, Stage};
use crate::writer::Writer;
use std::io::IoSlice;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_fs::InodeNo;
use varve_fs::planted::{self, Planted};

/// The result of moving a block, node or inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Done,
    /// It has been replaced or removed since, or has moved.
    Gone,
    /// It stays at its place, because it cannot be read; a reader gets the error.
    Unreadable,
    /// There is no hole, or too little free space for appends.
    NoRoom,
}

impl Vlfs {
    /// Moves one block, node or inode, if the tree still refers to it.
    pub(super) fn move_claim(&self, claim: &Claim) -> Result<Moved> {
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        self.writable()?;
        let found = self.place_of(&self.tables.read(), claim.owner);
        let stands = matches!(found, Ok(Some(place)) if place == claim.place);
        if !stands && !planted::is(Planted::MoveUnchecked) {
            return Ok(Moved::Gone);
        }
        let Some(bytes) = &claim.bytes else {
            self.counts
                .units_immovable
                .fetch_add(claim.extent.units.into(), Relaxed);
            return Ok(Moved::Unreadable);
        };
        // As much as for an appended block, and one block more.
        let need = Need {
            blocks: 2 * (PATH_MAX + 1),
            units: PATH_MAX + 1,
        };
        if !self.has_room(writer, need) {
            return Ok(Moved::NoRoom);
        }
        let copied = match claim.owner {
            Owner::Tree(NodeId { height: 0, .. }) => {
                match self.copy(writer, claim.extent.units, bytes)? {
                    Some(extent) => Some(extent),
                    None => return Ok(Moved::NoRoom),
                }
            }
            Owner::Tree(_) | Owner::Inode(_) => None,
        };
        let place = copied.map(|extent| Place {
            sector: extent.unit * self.measures().unit_sectors(),
            ..claim.place
        });
        let said = place.map_or(Ok(None), |place| self.said(claim.owner, place));
        let changed = |said: Option<Change>| {
            let changes = self.changed(claim.owner, said.as_ref())?;
            Ok((changes, said))
        };
        let (changes, said) = match said.and_then(changed) {
            Ok(changed) => changed,
            Err(error) => {
                // The copy was written, and no tree refers to it.
                copied.map_or(Ok(()), |extent| self.release(writer, extent))?;
                tracing::warn!(%error, owner = ?claim.owner, "cannot be moved");
                return Ok(Moved::Unreadable);
            }
        };
        if let Some(extent) = copied {
            writer.owners.note(extent.unit, claim.owner);
        }
        match said {
            Some(change) => writer.unfolded.note(change),
            None => writer.unfolded.only_full(),
        }
        self.adopt(writer, changes)?;
        writer.appended += 1;
        self.counts
            .units_moved
            .fetch_add(claim.extent.units.into(), Relaxed);
        Ok(Moved::Done)
    }

    /// Writes a copy to a hole, or to another one if that fails.
    fn copy(&self, writer: &mut Writer, units: u32, bytes: &[u8]) -> Result<Option<Extent>> {
        for _ in 0..TRIES {
            let Some(extent) = writer.space.take_hole(&self.store.medium, units) else {
                return Ok(None);
            };
            let at = self.measures().unit_byte(extent.unit);
            match self.store.medium.write(at, &[IoSlice::new(bytes)]) {
                Ok(()) => {
                    writer.runs.data(extent.unit, units, bytes);
                    writer.since_checkpoint += bytes.len() as u64;
                    return Ok(Some(extent));
                }
                Err(error) => {
                    tracing::warn!(%error, "a hole is not used again");
                    writer.space.spoil(extent);
                }
            }
        }
        // A later write will find out whether any place can be written.
        Ok(None)
    }

    /// Returns the move of data as a change; `None` for a node or inode, which is only
    /// rewritten.
    fn said(&self, owner: Owner, place: Place) -> Result<Option<Change>> {
        let Owner::Tree(NodeId {
            ino,
            fork,
            height: 0,
            index: block,
        }) = owner
        else {
            return Ok(None);
        };
        let version = 0;
        Ok(Some(match fork {
            Fork::Content => Change::Block {
                ino,
                version,
                block,
                place,
            },
            // A single block replaces all former attributes, whatever their number.
            Fork::Attributes => match self.tables.read().image(&self.store, ino)?.xattrs_height {
                0 => Change::Xattrs {
                    ino,
                    version,
                    place,
                },
                _ => Change::XattrBlock {
                    ino,
                    version,
                    block,
                    place,
                },
            },
        }))
    }

    /// Returns the changes of the tree: the given one, or `owner` marked to be
    /// rewritten.
    fn changed(&self, owner: Owner, said: Option<&Change>) -> Result<Changes> {
        let tables = self.tables.read();
        let mut stage = Stage::new(&self.store, &tables);
        if let Some(change) = said {
            stage.apply(change)?;
            return Ok(stage.changes);
        }
        let ino = match owner {
            Owner::Tree(id) => id.ino,
            Owner::Inode(ino) => ino,
        };
        let image = stage.take_image(InodeNo(ino), 0)?;
        if let Owner::Tree(id) = owner {
            stage.touch(&image, id)?;
        }
        stage.put_image(image);
        Ok(stage.changes)
    }

    /// Marks the records in a region to be rewritten by the next transaction; returns
    /// false if there is none.
    pub(super) fn release_records(&self, region: u32) -> bool {
        let mut writer = self.writer.lock();
        let pieces = writer.log.pieces_in(writer.space.units_of(region));
        let some = !pieces.is_empty();
        // Records of changes are dead after the next full transaction.
        let of_the_map = |piece: &u32| u64::from(*piece) < self.measures().pieces();
        writer.dirty.extend(pieces.into_iter().filter(of_the_map));
        if some {
            writer.unfolded.only_full();
            writer.appended += 1;
        }
        some
    }

    /// Makes the moves durable, with everything appended before them.
    pub(super) fn commit_moves(&self) -> Result<()> {
        let _one = self.committing.lock();
        let sealed = {
            let mut writer = self.writer.lock();
            if writer.durable >= writer.appended {
                // Another transaction has included them.
                return Ok(());
            }
            self.writable()?;
            writer.space.plug(true);
            let outcome = self.seal(&mut writer);
            writer.space.plug(false);
            outcome?;
            writer.sealed
        };
        if !planted::is(Planted::ReuseUnsettled) {
            self.flush()?;
        }
        self.settle(&mut self.writer.lock(), sealed);
        Ok(())
    }
}
