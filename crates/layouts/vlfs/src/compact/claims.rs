//! The live content of a region: its owners, and its bytes.
//!
//! Unlike the cleaners of the log (`varve-lfs/src/control/claims.rs`), the compactor
//! needs no leases, because there is only one. The content is what the compactor has
//! seen, and is compared with the tree before each move.

use crate::Vlfs;
use crate::error::Result;
use crate::format::{Extent, Image, Node, NodeId, Place};
use crate::lookup::Tables;
use crate::owners::Owner;
use crate::walk::Tree;
use crate::writer::Writer;
use varve_format::index::Index;
use varve_format::{SECTOR, crc32c};
use varve_fs::InodeNo;

/// A live block, node or inode, as the compactor saw it.
#[derive(Debug)]
pub(super) struct Claim {
    pub owner: Owner,
    pub extent: Extent,
    /// The place in the tree.
    pub place: Place,
    /// The bytes of its units; `None` if the checksum does not match.
    pub bytes: Option<Vec<u8>>,
}

/// The live content of a region, in the order of files.
#[derive(Debug)]
pub struct Claims {
    pub(super) region: u32,
    pub(super) list: Vec<Claim>,
    /// Number of units of the tree whose owner is not known.
    pub(super) unknown: u64,
}

impl Vlfs {
    /// Returns the live content of a region, which is read at once.
    pub(crate) fn claim(&self, writer: &Writer, region: u32) -> Claims {
        let measures = self.measures();
        let tables = self.tables.read();
        let mut claims = Claims {
            region,
            list: Vec::new(),
            unknown: 0,
        };
        let mut units = writer.space.units_of(region);
        while let Some(unit) = units.next() {
            if !writer.space.tree.get(unit) {
                continue;
            }
            let owner = writer.owners.of(unit);
            let place = owner.map(|owner| self.place_of(&tables, owner));
            let (Some(owner), Some(Ok(Some(place)))) = (owner, place) else {
                claims.unknown += 1;
                continue;
            };
            let extent = measures.extent_of(&place);
            if !place.is_stored() || extent.unit != unit {
                claims.unknown += 1;
                continue;
            }
            units.start = extent.end();
            claims.list.push(Claim {
                owner,
                extent,
                place,
                bytes: None,
            });
        }
        drop(tables);
        if claims.unknown == 0 {
            self.read_claimed(&mut claims.list);
        }
        claims.list.sort_by_key(|claim| claim.owner);
        claims
    }

    /// Reads all units between the first and the last of `list`, which is ascending.
    fn read_claimed(&self, list: &mut [Claim]) {
        let (Some(first), Some(last)) = (list.first(), list.last()) else {
            return;
        };
        let measures = self.measures();
        let (start, end) = (first.extent.unit, last.extent.end());
        let each = measures.unit_bytes as usize;
        let mut bytes = vec![0; (end - start) as usize * each];
        let whole = self
            .store
            .medium
            .read(measures.unit_byte(start), &mut bytes);
        for claim in list {
            let at = (claim.extent.unit - start) as usize * each;
            let part = &mut bytes[at..at + claim.extent.units as usize * each];
            if whole.is_err() {
                let alone = measures.unit_byte(claim.extent.unit);
                if self.store.medium.read(alone, part).is_err() {
                    continue;
                }
            }
            let stored = usize::from(claim.place.sectors) * SECTOR as usize;
            if crc32c(&part[..stored]) == claim.place.crc {
                claim.bytes = Some(part.to_vec());
                self.remember_claimed(claim);
            }
        }
    }

    /// Caches inodes and index nodes, so that they need not be read again when they are
    /// rewritten.
    fn remember_claimed(&self, claim: &Claim) {
        let Some(bytes) = &claim.bytes else {
            return;
        };
        let measures = self.measures();
        match claim.owner {
            Owner::Inode(ino) => {
                let entry = self.tables.read().entry(ino);
                if let Ok(image) = Image::decode(bytes, measures, InodeNo(ino))
                    && entry.unit() == Some(claim.extent.unit)
                    && entry.crc() == claim.place.crc
                {
                    self.store.remember_image(&entry, image.into());
                }
            }
            Owner::Tree(id) if id.height > 0 => {
                if let Ok(node) = Node::decode(bytes, measures, id) {
                    self.store.remember(&claim.place, node.into());
                }
            }
            Owner::Tree(_) => {}
        }
    }

    /// Returns the place that the tree has for `owner`; `None` if there is no such
    /// block or node.
    pub(super) fn place_of(&self, tables: &Tables, owner: Owner) -> Result<Option<Place>> {
        let measures = self.measures();
        let ino = match owner {
            Owner::Tree(id) => id.ino,
            Owner::Inode(ino) => ino,
        };
        let entry = tables.entry(ino);
        if entry.unit().is_none() && !tables.images.contains_key(&ino) {
            return Ok(None);
        }
        match owner {
            Owner::Inode(_) => Ok(entry.unit().map(|unit| Place {
                sector: unit * measures.unit_sectors(),
                sectors: measures.unit_sectors() as u16,
                crc: entry.crc(),
            })),
            Owner::Tree(id) => self.place_in_tree(tables, id),
        }
    }

    fn place_in_tree(&self, tables: &Tables, id: NodeId) -> Result<Option<Place>> {
        let image = tables.image(&self.store, id.ino)?;
        let tree = Tree {
            measures: self.measures(),
            image: &image,
            fork: id.fork,
            fetch: &|id, place| tables.node(&self.store, id, place),
        };
        tree.find(id.spot())
    }
}
