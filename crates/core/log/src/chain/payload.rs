//! The payload of a partial segment: reading it, and comparing checksums.

use super::{ChainItem, Summary};
use crate::error::Result;
use crate::format::{Malformed, Pointer, SECTOR, crc32c};
use crate::geometry::Geometry;
use crate::reader::Reader;
use varve_fs::planted::{self, Planted};

/// Stored bytes of a partial segment, and of the plugs that belong to it.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// All of the partial segment.
    partial: Vec<u8>,
    /// By first sector: runs of plugs that stand elsewhere.
    plugs: Vec<(u64, Vec<u8>)>,
}

impl Payload {
    /// Without any plugs.
    pub fn of(partial: Vec<u8>) -> Self {
        Payload {
            partial,
            plugs: Vec::new(),
        }
    }

    fn plug(&self, pointer: &Pointer) -> &[u8] {
        let behind = self
            .plugs
            .partition_point(|(sector, _)| *sector <= pointer.sector());
        let run = behind.checked_sub(1).map(|at| &self.plugs[at]);
        let bytes = run.and_then(|(sector, bytes)| {
            let at = ((pointer.sector() - sector) * SECTOR) as usize;
            bytes.get(at..at + pointer.stored_bytes() as usize)
        });
        bytes.unwrap_or(&[])
    }
}

impl Summary {
    /// True for a plug and a map: they stand in other segments.
    pub fn is_elsewhere(&self, item: &ChainItem) -> bool {
        let start = self.header.sector.get();
        let own = start..start + u64::from(self.header.sectors.get());
        item.pointer().is_some_and(|p| !own.contains(&p.sector()))
    }

    /// The stored bytes of an item; none of a record, or of a plug that was not
    /// read.
    pub fn stored<'b>(
        &self,
        geometry: &Geometry,
        item: &ChainItem,
        payload: &'b Payload,
    ) -> &'b [u8] {
        let start = self.header.sector.get();
        let partial = &payload.partial;
        match item {
            ChainItem::Record { .. } | ChainItem::Placed { .. } => &[],
            ChainItem::Block { pointer, .. }
            | ChainItem::Node { pointer, .. }
            | ChainItem::Map { pointer, .. } => {
                if self.is_elsewhere(item) {
                    return payload.plug(pointer);
                }
                let at = ((pointer.sector() - start) * SECTOR) as usize;
                &partial[at..at + usize::from(pointer.sectors()) * SECTOR as usize]
            }
            ChainItem::Inode { place, .. } => {
                let inode_bytes = geometry.inode_bytes as usize;
                let at = ((place.sector - start) * SECTOR) as usize
                    + usize::from(place.slot) * inode_bytes;
                &partial[at..at + inode_bytes]
            }
        }
    }

    /// Checks every block and inode of the payload against its checksum.
    ///
    /// # Errors
    /// Names the first that differs.
    pub fn verify(
        &self,
        geometry: &Geometry,
        items: &[ChainItem],
        payload: &Payload,
    ) -> std::result::Result<(), Malformed> {
        if planted::is(Planted::UncheckedPayload) {
            return Ok(());
        }
        for item in items {
            let expected = match item {
                ChainItem::Record { .. } | ChainItem::Placed { .. } => continue,
                ChainItem::Block { pointer, .. }
                | ChainItem::Node { pointer, .. }
                | ChainItem::Map { pointer, .. } => pointer.crc(),
                ChainItem::Inode { place, .. } => place.crc,
            };
            let found = crc32c(self.stored(geometry, item, payload));
            if found != expected {
                let problem = format!("{item:?} has checksum {found:#010x}");
                return Err(Malformed::new("partial segment", problem));
            }
        }
        Ok(())
    }

    /// The whole partial segment and its plugs, from the device.
    ///
    /// # Errors
    /// Device errors.
    pub fn read_payload(&self, reader: &Reader, items: &[ChainItem]) -> Result<Payload> {
        if items.is_empty() {
            return Ok(Payload::default());
        }
        let mut partial = vec![0; self.bytes() as usize];
        reader.read_uncached(self.header.sector.get(), &mut partial)?;
        let mut elsewhere: Vec<&Pointer> = items
            .iter()
            .filter(|item| self.is_elsewhere(item))
            .filter_map(ChainItem::pointer)
            .collect();
        elsewhere.sort_unstable_by_key(|pointer| pointer.sector());
        let mut plugs: Vec<(u64, Vec<u8>)> = Vec::new();
        for pointer in elsewhere {
            let length = pointer.stored_bytes() as usize;
            match plugs.last_mut() {
                Some((sector, bytes))
                    if *sector + bytes.len() as u64 / SECTOR == pointer.sector() =>
                {
                    bytes.resize(bytes.len() + length, 0);
                }
                _ => plugs.push((pointer.sector(), vec![0; length])),
            }
        }
        for (sector, bytes) in &mut plugs {
            reader.read_uncached(*sector, bytes)?;
        }
        Ok(Payload { partial, plugs })
    }
}
