//! The metadata that a full transaction writes before its records: index nodes from the
//! leaves up, then inodes.
//!
//! Many units are written to whole blocks, as many adjacent ones as there are: this
//! needs one request and one search for a place, and the blocks become free as a whole
//! when the next fold rewrites the units. Few units are written to single units of
//! blocks that are broken already. On a device with a head, a unit is written before
//! the next place is chosen, because the next place is near the head's position at that
//! time. If two nearby places were chosen together, one might have passed by the time
//! that the other is written, and would cost a revolution.

use crate::Vlfs;
use crate::error::Result;
use crate::format::{Entry, Extent, Image, Node, NodeId, Place};
use crate::owners::Owner;
use crate::prices::TRIES;
use crate::writer::Writer;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use varve_format::crc32c;

/// Metadata with its places, ready to be written.
#[derive(Default)]
pub(super) struct Plan {
    /// The units, in the order in which space was taken.
    units: Vec<(u64, Vec<u8>)>,
    /// Number of these units that are on the device.
    written: usize,
    /// Space that was taken and has no content yet.
    room: std::ops::Range<u64>,
    pub nodes: Vec<(Place, Arc<Node>)>,
    pub images: Vec<(Entry, Arc<Image>)>,
    pub owners: Vec<(u64, Owner)>,
    pub released: Vec<Extent>,
}

impl Vlfs {
    /// Writes the nodes and inodes that changed. If a write fails, all of them are
    /// written elsewhere.
    pub(super) fn write_metadata(&self, writer: &mut Writer) -> Result<Plan> {
        let mut failed = None;
        for _ in 0..TRIES {
            let mut plan = Plan::default();
            let planned = self.plan(writer, &mut plan);
            let outcome = planned.and_then(|()| self.write_units(&mut plan));
            plan.room.clone().for_each(|unit| writer.space.untake(unit));
            let Err(error) = outcome else {
                for (unit, bytes) in &plan.units {
                    writer.runs.metadata(*unit, 1, bytes);
                    writer.since_checkpoint += bytes.len() as u64;
                }
                return Ok(plan);
            };
            for &(unit, _) in &plan.units {
                writer.space.spoil(Extent { unit, units: 1 });
            }
            // There is no other attempt if too little space was free, which stops the volume.
            self.writable()?;
            failed = Some(error);
        }
        let error = failed.expect("a try that failed");
        self.stop(format!("a write failed at {TRIES} places: {error}"));
        Err(error)
    }

    /// Finds space for the nodes and inodes that changed.
    fn plan(&self, writer: &mut Writer, plan: &mut Plan) -> Result<()> {
        let measures = self.measures();
        let tables = self.tables.read();
        let mut nodes: BTreeMap<NodeId, Node> = tables
            .nodes
            .iter()
            .map(|(id, node)| (*id, (**node).clone()))
            .collect();
        let mut images: BTreeMap<u64, Image> = tables
            .images
            .iter()
            .map(|(ino, image)| (*ino, (**image).clone()))
            .collect();
        // The order is by file and height, so that a node's place is known before its
        // parent is written.
        while let Some((id, node)) = nodes.pop_first() {
            let left = (1 + nodes.len() + images.len()) as u64;
            let image = images.get_mut(&id.ino).expect("a changed node's inode");
            let version = image.inode.version;
            let (height, slots) = image.root_mut(id.fork);
            let slot = match id.height == *height {
                true => &mut slots[id.index as usize],
                false => {
                    let fanout = measures.fanout() as u64;
                    let above = NodeId {
                        height: id.height + 1,
                        index: id.index / fanout,
                        ..id
                    };
                    let parent = nodes.get_mut(&above).expect("a changed node's parent");
                    &mut parent.slots[(id.index % fanout) as usize]
                }
            };
            let old = *slot;
            *slot = Place::NONE;
            if !node.is_empty() {
                let bytes = node.encode(measures, id, version);
                let (unit, crc) = self.place(writer, plan, bytes, left)?;
                let place = Place {
                    sector: unit * measures.unit_sectors(),
                    sectors: measures.unit_sectors() as u16,
                    crc,
                };
                *slot = place;
                plan.nodes.push((place, Arc::new(node)));
                plan.owners.push((unit, Owner::Tree(id)));
            }
            if old.is_stored() {
                self.store.forget(&old);
                plan.released.push(measures.extent_of(&old));
            }
        }
        let mut left = images.len() as u64;
        for (ino, image) in images {
            let (unit, crc) = self.place(writer, plan, image.encode(measures), left)?;
            left -= 1;
            let entry = Entry::used(unit, crc, image.inode.is_unfinished());
            let old = tables.entry(ino);
            if let Some(old_unit) = old.unit() {
                self.store.forget_image(&old);
                plan.released.push(Extent {
                    unit: old_unit,
                    units: 1,
                });
            }
            plan.images.push((entry, Arc::new(image)));
            plan.owners.push((unit, Owner::Inode(ino)));
        }
        Ok(())
    }

    /// Takes space for a unit, of which at most `left` follow, this one included.
    /// Returns the unit and its checksum.
    fn place(
        &self,
        writer: &mut Writer,
        plan: &mut Plan,
        bytes: Vec<u8>,
        left: u64,
    ) -> Result<(u64, u32)> {
        let medium = &self.store.medium;
        if plan.room.is_empty() {
            if medium.head().is_some() {
                self.write_units(plan)?;
            }
            let each = u64::from(self.measures().units_per_block());
            let many = match left >= each.div_ceil(2).max(2) {
                true => writer.space.take_units(medium, left),
                false => None,
            };
            let one = || writer.space.take_unit(medium).map(|unit| (unit, 1));
            let taken = many.or_else(one);
            let (first, count) = taken.ok_or_else(|| self.no_room("an inode or an index node"))?;
            plan.room = first..first + count;
        }
        let unit = plan.room.next().expect("room that was taken");
        let crc = crc32c(&bytes);
        plan.units.push((unit, bytes));
        Ok((unit, crc))
    }

    /// Writes the planned units that are not written yet, adjacent ones in one request.
    fn write_units(&self, plan: &mut Plan) -> Result<()> {
        let units = &plan.units[plan.written..];
        for run in units.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
            let buffers: Vec<IoSlice<'_>> =
                run.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
            let at = self.measures().unit_byte(run[0].0);
            self.store.medium.write(at, &buffers)?;
        }
        plan.written = plan.units.len();
        Ok(())
    }
}
