//! Applying changes to the tree in memory: when they are appended, and again at
//! recovery.

use crate::error::Result;
use crate::format::{Change, Fork, Image, Measures, Place};
use crate::stage::Stage;
use std::vec::IntoIter;
use varve_fs::{Group, InodeNo, Item, Version};

/// Returns the changes of a group, given the places of its data in the order of its
/// items.
pub(super) fn changes_of(
    group: &Group,
    measures: &Measures,
    mut written: IntoIter<Place>,
) -> Vec<Change> {
    let mut place = || written.next().expect("a place for each block");
    let mut changes = Vec::with_capacity(group.items.len());
    for item in &group.items {
        changes.push(match item {
            Item::Freed { ino, next_version } => Change::Freed {
                ino: ino.0,
                next_version: *next_version,
            },
            Item::Truncated {
                ino,
                version,
                from_block,
            } => Change::Cut {
                ino: ino.0,
                version: *version,
                from: *from_block,
                to: u64::MAX,
            },
            Item::Punched {
                ino,
                version,
                from_block,
                to_block,
            } => Change::Cut {
                ino: ino.0,
                version: *version,
                from: *from_block,
                to: *to_block,
            },
            Item::Reserved {
                ino,
                version,
                from_block,
                to_block,
            } => Change::Reserved {
                ino: ino.0,
                version: *version,
                from: *from_block,
                to: *to_block,
            },
            Item::Block {
                ino,
                version,
                block,
                ..
            } => Change::Block {
                ino: ino.0,
                version: *version,
                block: *block,
                place: place(),
            },
            Item::Xattrs { ino, version, data } => {
                let blocks = measures.blocks_of(data.len());
                let change = |place| Change::Xattrs {
                    ino: ino.0,
                    version: *version,
                    place,
                };
                if blocks == 1 {
                    changes.push(change(place()));
                    continue;
                }
                changes.push(change(Place::NONE));
                changes.extend((0..blocks).map(|block| Change::XattrBlock {
                    ino: ino.0,
                    version: *version,
                    block,
                    place: place(),
                }));
                continue;
            }
            // Snapshots, and therefore spilled blocks, do not exist in this layout.
            Item::Placed { .. } => continue,
            Item::Inode(inode) => Change::Inode(inode.clone()),
        });
    }
    changes
}

impl Stage<'_> {
    /// Applies one change.
    ///
    /// # Errors
    /// If an inode or an index cannot be read.
    pub fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Freed { ino, next_version } => self.free(InodeNo(*ino), *next_version),
            Change::Cut {
                ino,
                version,
                from,
                to,
            } => self.change(*ino, *version, |stage, image| {
                stage.cut(image, Fork::Content, *from, *to)
            }),
            Change::Reserved {
                ino,
                version,
                from,
                to,
            } => {
                let whole = self.store.measures.block_sectors() as u16;
                self.change(*ino, *version, |stage, image| {
                    let reserved = Place::unwritten(whole);
                    (*from..*to)
                        .try_for_each(|block| stage.set(image, Fork::Content, block, reserved))
                })
            }
            Change::Block {
                ino,
                version,
                block,
                place,
            } => self.change(*ino, *version, |stage, image| {
                stage.set(image, Fork::Content, *block, *place)
            }),
            Change::Xattrs {
                ino,
                version,
                place,
            } => self.change(*ino, *version, |stage, image| {
                stage.set_xattrs(image, *place)
            }),
            Change::XattrBlock {
                ino,
                version,
                block,
                place,
            } => self.change(*ino, *version, |stage, image| {
                stage.set(image, Fork::Attributes, *block, *place)
            }),
            Change::Inode(inode) => self.change(inode.ino.0, inode.version, |_, image| {
                image.inode = (**inode).clone();
                Ok(())
            }),
        }
    }

    fn change(
        &mut self,
        ino: u64,
        version: Version,
        work: impl FnOnce(&mut Self, &mut Image) -> Result<()>,
    ) -> Result<()> {
        let mut image = self.take_image(InodeNo(ino), version)?;
        work(self, &mut image)?;
        self.put_image(image);
        Ok(())
    }
}
