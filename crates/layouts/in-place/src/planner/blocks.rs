//! The blocks of a file: their places, and which of them are overwritten in place.

use super::{Cluster, Planner};
use crate::allocate::{Extent, FileView};
use crate::error::{Error, Result};
use crate::format::{Image, Place, SECTOR_BYTES, place_flags};
use crate::tree::place_of;
use std::sync::Arc;
use varve_device::Block;
use varve_format::crc32c;
use varve_fs::Item;
use varve_fs::planted::{self, Planted};

impl Planner<'_, '_> {
    /// Returns the number of whole blocks of a file that follow each other from the
    /// first item on.
    pub(super) fn blocks_ahead(&self, items: &[&Item]) -> u64 {
        let whole = self.geometry().block_bytes as usize - SECTOR_BYTES;
        let mut next = None;
        let follows = |item: &&&Item| match item {
            Item::Block { block, data, .. } => {
                let fits = data.len() > whole && next.is_none_or(|next| next == *block);
                next = Some(block + 1);
                fits
            }
            _ => false,
        };
        // A cluster is at most as long as one request.
        let most = self.maxcontig.min(256) as usize;
        items.iter().take(most).take_while(follows).count() as u64
    }

    /// Plans the new content of a block. `ahead` whole blocks follow, this one
    /// included.
    pub(super) fn block(
        &mut self,
        image: &mut Image,
        (block, data): (u64, &Arc<Block>),
        ahead: u64,
        journalled: bool,
    ) -> Result<()> {
        let old = place_of(&self.stage, image, block)?;
        let sectors = data.len().div_ceil(SECTOR_BYTES) as u64;
        let want = self.geometry().fragments_for(sectors);
        let overwrites = journalled && self.overwrites(&old, sectors);
        let stays = overwrites || !journalled || self.is_fresh(&old);
        let sector = self.settle(image, block, old, (want, ahead), stays, journalled)?;
        let is_new = old.is_none()
            || old.is_unwritten()
            || old.sector != sector
            || u64::from(old.sectors) < sectors;
        let mut place = Place {
            sector,
            sectors: sectors as u8,
            flags: 0,
            crc: 0,
        };
        if journalled {
            let mut bytes = (**data).clone();
            // Whole units are written, so that the former content is not needed.
            bytes.resize(
                bytes
                    .len()
                    .next_multiple_of(self.geometry().unit_bytes as usize),
            );
            self.flush.names = true;
            place.flags = place_flags::CHECKED;
            if self.directories.is_none() {
                place.crc = crc32c(&bytes[..sectors as usize * SECTOR_BYTES]);
            }
            if !overwrites {
                self.note_fresh(sector);
            }
            for (at, part) in (sector..).zip(bytes.as_chunks::<SECTOR_BYTES>().0) {
                self.stage.put(at, *part);
            }
        } else {
            self.data(sector, data);
            self.flush.new |= is_new;
            self.flush.overwrites |= !is_new;
            if planted::is(Planted::MovedTailUnflushed) && !old.is_none() && old.sector != sector {
                self.flush.new = false;
            }
        }
        if place != old {
            self.set(image, block, place)?;
        }
        self.last = Some((block, place));
        Ok(())
    }

    /// Returns the first sector for a block of `want` fragments: the old one if the block
    /// may stay there and has or gets enough fragments, otherwise a new one.
    fn settle(
        &mut self,
        image: &Image,
        block: u64,
        old: Place,
        (want, ahead): (u64, u64),
        stays: bool,
        journalled: bool,
    ) -> Result<u64> {
        if stays && !old.is_none() {
            let have = self.extent(old.sector, old.sectors.into());
            if want < have.units {
                let rest = have.start + want..have.end();
                self.give_up(rest.into(), journalled);
                return Ok(old.sector);
            }
            if want == have.units || self.room.lengthen(have, want) {
                return Ok(old.sector);
            }
        }
        self.leave(old, journalled);
        let start = self.place(image, block, want, ahead)?;
        self.held += 1;
        Ok(self.geometry().fragment_sector(start))
    }

    /// Returns the first fragment of the space for a block that had none, or too
    /// little.
    fn place(&mut self, image: &Image, block: u64, want: u64, ahead: u64) -> Result<u64> {
        let each = self.geometry().block_fragments();
        if want == each
            && let Some(start) = self.next_of_cluster(block)
        {
            return Ok(start);
        }
        self.end_cluster();
        let file = self.view(image, block)?;
        let units = match want < each {
            true => want,
            false => ahead.max(1) * each,
        };
        let extents = self.room.take(&file, units).ok_or(Error::Full)?;
        let start = extents[0].start;
        if want == each {
            self.cluster = Some(Cluster {
                extents: extents.into(),
                next: block,
            });
            return Ok(self.next_of_cluster(block).expect("it has a block"));
        }
        Ok(start)
    }

    /// Returns the space that was taken for this block together with those before it.
    fn next_of_cluster(&mut self, block: u64) -> Option<u64> {
        let each = self.geometry().block_fragments();
        let cluster = self.cluster.as_mut().filter(|c| c.next == block)?;
        let first = cluster.extents.front_mut()?;
        let start = first.start;
        (first.start, first.units) = (start + each, first.units - each);
        if first.units == 0 {
            cluster.extents.pop_front();
        }
        cluster.next += 1;
        Some(start)
    }

    /// Releases the space of blocks that did not follow.
    pub(super) fn end_cluster(&mut self) {
        let cluster = self.cluster.take();
        for extent in cluster.into_iter().flat_map(|cluster| cluster.extents) {
            // Nothing ever referred to it.
            self.room.give_up(extent);
            self.room.release(extent);
        }
    }

    /// Returns the properties of the file that a policy uses when it places a block.
    fn view(&self, image: &Image, block: u64) -> Result<FileView> {
        let geometry = self.geometry();
        let last = match (block.checked_sub(1), self.last) {
            (None, _) => Place::NONE,
            (Some(before), Some((at, place))) if at == before => place,
            (Some(before), _) => place_of(&self.stage, image, before)?,
        };
        let end = (!last.is_none()).then(|| self.extent(last.sector, last.sectors.into()).end());
        Ok(FileView {
            number: image.inode.ino.0,
            held: self.held * geometry.block_fragments(),
            end,
            home: self.home(image),
            wish: 0,
        })
    }

    /// Gives a file the available space, without content: up to `most` whole blocks,
    /// then the pieces of broken ones. Returns the numbers of blocks and of sectors.
    pub(crate) fn fill(&mut self, image: &mut Image, most: u64) -> Result<(u64, u64)> {
        let each = self.geometry().block_fragments();
        let first = image.inode.size / u64::from(self.geometry().block_bytes);
        self.held = image.inode.blocks;
        let (mut want, mut blocks, mut sectors) = (each, 0, 0);
        while blocks < most && want > 0 {
            let block = first + blocks;
            let start = match self.place(image, block, want, most - blocks) {
                Ok(start) => start,
                Err(Error::Full) => {
                    want -= 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let place = Place {
                sector: self.geometry().fragment_sector(start),
                sectors: (want * self.geometry().fragment_sectors()) as u8,
                flags: place_flags::UNWRITTEN,
                crc: 0,
            };
            match self.set(image, block, place) {
                // The space does not suffice for an indirect block: the piece stays
                // free.
                Err(Error::Full) => {
                    let start = Extent { start, units: want };
                    self.room.give_up(start);
                    self.room.release(start);
                    break;
                }
                other => other?,
            }
            (blocks, sectors) = (blocks + 1, sectors + u64::from(place.sectors));
            self.held += 1;
            self.last = Some((block, place));
        }
        self.end_cluster();
        image.inode.size += blocks * u64::from(self.geometry().block_bytes);
        image.inode.blocks += blocks;
        image.inode.sectors += sectors;
        let sector = self.geometry().inode_sector(image.inode.ino.0);
        let bytes = image.encode(self.geometry());
        self.stage.put(sector, bytes);
        Ok((blocks, sectors))
    }

    /// Reserves blocks without content.
    pub(super) fn reserve(&mut self, image: &mut Image, from: u64, to: u64) -> Result<()> {
        let each = self.geometry().block_fragments();
        for block in from..to {
            let ahead = (to - block).min(self.maxcontig).min(256);
            let start = self.place(image, block, each, ahead)?;
            self.held += 1;
            let place = Place {
                sector: self.geometry().fragment_sector(start),
                sectors: self.geometry().block_sectors() as u8,
                flags: place_flags::UNWRITTEN,
                crc: 0,
            };
            self.set(image, block, place)?;
            self.last = Some((block, place));
        }
        self.end_cluster();
        Ok(())
    }
}
