//! Blocks of a file: where they go, and what of them is written in place.

use super::{Cluster, Planner};
use crate::error::{Error, Result};
use crate::format::{Image, Place, SECTOR_BYTES, place_flags};
use crate::room::Extent;
use crate::tree::place_of;
use std::sync::Arc;
use varve_format::crc32c;
use varve_fs::Item;

impl Planner<'_, '_> {
    /// How many whole blocks of a file follow each other from the first item on.
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
        // A cluster is no longer than what one request moves.
        let most = self.placement.maxcontig.min(256) as usize;
        items.iter().take(most).take_while(follows).count() as u64
    }

    /// A block's new content. `ahead` whole blocks follow, it included.
    pub(super) fn block(
        &mut self,
        image: &mut Image,
        (block, data): (u64, &Arc<Vec<u8>>),
        ahead: u64,
        journalled: bool,
    ) -> Result<()> {
        let old = place_of(&self.stage, image, block)?;
        let sectors = data.len().div_ceil(SECTOR_BYTES) as u64;
        let want = self.geometry().fragments_for(sectors);
        let sector = self.settle(image, block, old, (want, ahead), journalled)?;
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
            // Whole units: nothing that lay here before is needed.
            bytes.resize(
                bytes
                    .len()
                    .next_multiple_of(self.geometry().unit_bytes as usize),
                0,
            );
            self.flush.names = true;
            let stored = &bytes[..sectors as usize * SECTOR_BYTES];
            (place.flags, place.crc) = (place_flags::CHECKED, crc32c(stored));
            self.note_fresh(sector);
            for (at, part) in (sector..).zip(bytes.as_chunks::<SECTOR_BYTES>().0) {
                self.stage.put(at, *part);
            }
        } else {
            self.data(sector, data);
            self.flush.new |= is_new;
            self.flush.overwrites |= !is_new;
        }
        if place != old {
            self.set(image, block, place)?;
        }
        self.last = Some((block, place));
        Ok(())
    }

    /// Where a block of so many fragments is from now on.
    fn settle(
        &mut self,
        image: &Image,
        block: u64,
        old: Place,
        (want, ahead): (u64, u64),
        journalled: bool,
    ) -> Result<u64> {
        if old.is_none() || journalled && !self.is_fresh(&old) {
            if !old.is_none() {
                self.leave(old, journalled);
            }
            let extent = self.place(image, block, want, ahead)?;
            return Ok(self.geometry().fragment_sector(extent.fragment));
        }
        let have = self.extent(old.sector, old.sectors.into());
        if want < have.count {
            let rest = Extent {
                fragment: have.fragment + want,
                count: have.count - want,
            };
            self.give_up(rest, journalled);
            return Ok(old.sector);
        }
        if want == have.count || self.room.lengthen(have, want) {
            return Ok(old.sector);
        }
        let extent = self.place(image, block, want, ahead)?;
        self.give_up(have, journalled);
        Ok(self.geometry().fragment_sector(extent.fragment))
    }

    /// Room for a block that had none, or too little.
    fn place(&mut self, image: &Image, block: u64, want: u64, ahead: u64) -> Result<Extent> {
        let each = self.geometry().block_fragments();
        if let Some(cluster) = &mut self.cluster
            && cluster.next == block
            && want == each
            && cluster.blocks > 0
        {
            let fragment = cluster.fragment;
            cluster.fragment += each;
            cluster.blocks -= 1;
            cluster.next += 1;
            return Ok(Extent {
                fragment,
                count: each,
            });
        }
        self.end_cluster();
        let near = self.near(image, block)?;
        if want < each {
            return self.room.fragments(near, want).ok_or(Error::Full);
        }
        let run = self.room.run(near, ahead.max(1)).ok_or(Error::Full)?;
        self.cluster = Some(Cluster {
            fragment: run.fragment + each,
            blocks: run.count / each - 1,
            next: block + 1,
        });
        Ok(Extent {
            fragment: run.fragment,
            count: each,
        })
    }

    /// Gives back what was taken for blocks that did not come.
    pub(super) fn end_cluster(&mut self) {
        let each = self.geometry().block_fragments();
        let Some(cluster) = self.cluster.take() else {
            return;
        };
        for nth in 0..cluster.blocks {
            let extent = Extent {
                fragment: cluster.fragment + nth * each,
                count: each,
            };
            // Nobody has referred to it.
            self.room.give_up(extent);
            self.room.release(extent);
        }
    }

    /// The fragment at which a block would best be: behind the one before it, with
    /// a gap after each `maxcontig` of them; in another group after a quarter of
    /// one.
    fn near(&mut self, image: &Image, block: u64) -> Result<u64> {
        let Some(before) = block.checked_sub(1) else {
            return Ok(self.home(image));
        };
        let last = match self.last {
            Some((at, place)) if at == before => place,
            _ => place_of(&self.stage, image, before)?,
        };
        if last.is_none() {
            return Ok(self.home(image));
        }
        let geometry = self.geometry();
        let each = geometry.block_fragments();
        let at = geometry.fragment_of(last.sector) / each * each;
        if block.is_multiple_of((geometry.group_blocks / 4).max(1)) {
            let group = self.room.next_group(at / geometry.group_fragments());
            return Ok(geometry.data_fragments(group).start);
        }
        let gap = match block.is_multiple_of(self.placement.maxcontig) {
            true => self.placement.rotdelay,
            false => 0,
        };
        Ok(at + (1 + gap) * each)
    }

    /// Blocks that are to exist without content.
    pub(super) fn reserve(&mut self, image: &mut Image, from: u64, to: u64) -> Result<()> {
        let each = self.geometry().block_fragments();
        for block in from..to {
            let ahead = (to - block).min(self.placement.maxcontig).min(256);
            let extent = self.place(image, block, each, ahead)?;
            let place = Place {
                sector: self.geometry().fragment_sector(extent.fragment),
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
