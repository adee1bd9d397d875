//! Learning the owners of units: a walk over all inodes and index nodes, a few at a
//! time, as the tree is at that moment.

use crate::Vlfs;
use crate::error::Result;
use crate::format::{Fork, Place};
use crate::owners::{Owner, Progress};
use crate::walk::Tree;
use crate::writer::Writer;
use varve_format::index::Index;

/// Number of inodes and index nodes examined while appends have to wait.
const STEP: u32 = 16;
/// Number of entries of the inode map examined in one step, including free ones.
const ENTRIES: u64 = 4096;

impl Vlfs {
    /// Makes a step of the walk. It needs no transaction, because an append meanwhile
    /// records the owners of its units. What cannot be read has no owner, and is not
    /// moved.
    pub(crate) fn learn(&self, writer: &mut Writer) {
        let mut left = STEP;
        for _ in 0..ENTRIES {
            let Some(at) = writer.owners.progress.filter(|_| left > 0) else {
                return;
            };
            if at.ino >= self.tables.read().map.len() as u64 {
                writer.owners.progress = None;
                return;
            }
            let next = Progress {
                ino: at.ino + 1,
                block: 0,
            };
            let found = self.learn_inode(writer, at, &mut left);
            if let Err(error) = &found {
                tracing::warn!(%error, ino = at.ino, "the rest of an inode is not compacted");
            }
            writer.owners.progress = Some(found.ok().flatten().unwrap_or(next));
        }
    }

    /// Walks an inode. Returns the position to continue at, if `left` did not suffice.
    fn learn_inode(
        &self,
        writer: &mut Writer,
        at: Progress,
        left: &mut u32,
    ) -> Result<Option<Progress>> {
        let tables = self.tables.read();
        let Some(unit) = tables.entry(at.ino).unit() else {
            return Ok(None);
        };
        *left -= 1;
        let image = tables.image(&self.store, at.ino)?;
        let measures = self.measures();
        let owners = &mut writer.owners;
        owners.note(unit, Owner::Inode(at.ino));
        let fetch = |id, place: &Place| tables.node(&self.store, id, place);
        let tree = |fork| Tree {
            measures,
            image: &image,
            fork,
            fetch: &fetch,
        };
        // The attributes have at most one node.
        let attributes = tree(Fork::Attributes);
        attributes.places(0, &mut |at, place| {
            if place.is_stored() {
                let owner = Owner::Tree(attributes.id(at));
                owners.note(measures.extent_of(&place).unit, owner);
            }
            Ok(true)
        })?;
        let mut rest = None;
        let content = tree(Fork::Content);
        content.places(at.block, &mut |spot, place| {
            if place.is_stored() {
                let owner = Owner::Tree(content.id(spot));
                owners.note(measures.extent_of(&place).unit, owner);
            }
            if spot.height == 0 || rest.is_some() {
                return Ok(false);
            }
            if *left == 0 {
                rest = Some(Progress {
                    block: spot
                        .index
                        .saturating_mul(measures.index().span(spot.height)),
                    ..at
                });
                return Ok(false);
            }
            *left -= 1;
            Ok(true)
        })?;
        Ok(rest)
    }
}
