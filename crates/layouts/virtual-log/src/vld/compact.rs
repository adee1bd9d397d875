//! The compactor, which empties tracks in idle time.
//!
//! It chooses a track at random, copies its live blocks into holes elsewhere by eager
//! writing, and commits; the track is then empty. Eager writing is fastest on empty
//! tracks (Wang et al. 1999, §2.3 and §4.2). The compactor never copies to an empty
//! track, because that would gain nothing. A track that is emptied at once is read in
//! one request first, as in the paper.
//!
//! Its copies begin at the beginning of a block, also on volumes whose data may begin
//! anywhere. When no track is worth emptying, blocks that are still astride are moved
//! by themselves (`realign.rs`), to an empty track if there is no hole: a block astride
//! has broken two blocks of the medium, so that the move is nevertheless a gain.

use std::ops::Range;
use varve_device::{Operation, Result};

use super::Vld;
use super::state::State;
use crate::eager::{Avoid, Want};
use crate::format::{Entry, crc32c};
use crate::medium::Medium;

/// The amount that the compactor moves between two looks at the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// A track, as in the paper.
    Track,
    /// A number of blocks: the compactor stops sooner when a request arrives.
    Blocks(u32),
}

/// The result of compaction in idle time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Number of blocks copied.
    pub blocks_moved: u64,
    /// Number of tracks emptied.
    pub tracks_emptied: u64,
    /// True if there is nothing more to gain.
    pub finished: bool,
}

/// The track that is being emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub region: u32,
    /// The next place to examine.
    next: u32,
}

/// The live part of a track, read at once.
#[derive(Debug)]
struct Track {
    /// The first place that was read.
    first: u32,
    /// The bytes stored from that place on.
    bytes: Vec<u8>,
}

/// The result of moving a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    Done,
    /// The block cannot be read and stays at its place.
    Unreadable,
    /// There is no hole outside of the target and the empty tracks.
    NoHole,
}

impl<M: Medium> Vld<M> {
    /// Compacts until the medium's clock has passed `until_ns` or there is nothing to
    /// gain. It looks at the clock after each `granularity`. A medium without a clock
    /// compacts once.
    ///
    /// # Errors
    /// If the medium fails, or the volume takes no writes.
    pub fn compact(&self, until_ns: u64, granularity: Granularity) -> Result<Compaction> {
        let mut done = Compaction::default();
        let before = |medium: &M| medium.now_ns().is_some_and(|now| now < until_ns);
        let clockless = self.medium.now_ns().is_none();
        while !done.finished && (clockless || before(&self.medium)) {
            let mut state = self.state.write();
            self.writable(&state, Operation::Write, 0, 0)?;
            let copied = |state: &State| state.counts.blocks_moved + state.counts.blocks_realigned;
            let (moved, emptied) = (copied(&state), state.counts.tracks_emptied);
            let blocks = match granularity {
                Granularity::Track => u32::MAX,
                Granularity::Blocks(blocks) => blocks.max(1),
            };
            // After an error another track is chosen, because this one may fail again.
            let more = state
                .compact(self, blocks)
                .inspect_err(|_| state.compacting = None);
            done.finished = !more?;
            done.blocks_moved += copied(&state) - moved;
            done.tracks_emptied += state.counts.tracks_emptied - emptied;
            if clockless {
                break;
            }
        }
        Ok(done)
    }
}

impl State {
    /// Moves at most `blocks` blocks off the present target; returns false if no track
    /// is worth it.
    fn compact<M: Medium>(&mut self, vld: &Vld<M>, blocks: u32) -> Result<bool> {
        // The host's writes are committed first, because only then the free space is
        // known.
        self.commit(vld)?;
        let Some(mut target) = self.compacting.or_else(|| self.choose_target()) else {
            return self.realign(vld, blocks as usize);
        };
        self.compacting = Some(target);
        let range = self.free.regions().blocks(target.region as usize);
        let end = range.end * self.layout.places_per_block();
        let mut left = blocks;
        let track = match blocks {
            u32::MAX => self.read_track(vld, target.next..end),
            _ => None,
        };
        while target.next < end && left > 0 {
            let owner = self.owners[target.next as usize];
            if owner > 0 {
                let bytes = self.live_block(vld, track.as_ref(), target.next);
                let moved = match bytes {
                    Some(bytes) => self.move_block(vld, owner - 1, target.region, &bytes)?,
                    // A reader of this block gets the error; the other blocks are
                    // moved.
                    None => Moved::Unreadable,
                };
                if moved == Moved::NoHole {
                    self.compacting = None;
                    return self.realign(vld, blocks as usize);
                }
                left -= 1;
            }
            target.next += 1;
        }
        self.compacting = Some(target);
        if target.next < end {
            self.commit(vld)?;
            return Ok(true);
        }
        // The track's map records are moved as well.
        let each = u64::from(self.free.units_per_block());
        let units = u64::from(range.start) * each..u64::from(range.end) * each;
        self.dirty.extend(self.log.pieces_in(units));
        self.commit(vld)?;
        self.compacting = None;
        let emptied = self.free.empty_regions().contains(&target.region);
        self.counts.tracks_emptied += u64::from(emptied);
        Ok(true)
    }

    /// Reads a track from its first live block to its last. Returns `None` if it has
    /// none or cannot be read as a whole; blocks are then read one by one.
    fn read_track<M: Medium>(&self, vld: &Vld<M>, places: Range<u32>) -> Option<Track> {
        let live = |place: &u32| self.owners[*place as usize] > 0;
        let first = places.clone().find(live)?;
        let last = places.rev().find(live)?;
        let block_bytes = self.layout.block_bytes as usize;
        let place_bytes = block_bytes / self.layout.places_per_block() as usize;
        let length = (last - first) as usize * place_bytes + block_bytes;
        let mut bytes = vec![0; length];
        self.read_blocks(vld, first, &mut bytes).ok()?;
        Some(Track { first, bytes })
    }

    /// Returns the live block at `place`, from `track` if that contains it. Returns
    /// `None` if the block cannot be read, or is damaged.
    fn live_block<M: Medium>(
        &self,
        vld: &Vld<M>,
        track: Option<&Track>,
        place: u32,
    ) -> Option<Vec<u8>> {
        let logical = self.owners[place as usize].checked_sub(1)?;
        let block_bytes = self.layout.block_bytes as usize;
        let place_bytes = block_bytes / self.layout.places_per_block() as usize;
        let read = track.and_then(|track| {
            let from = place.checked_sub(track.first)? as usize * place_bytes;
            track.bytes.get(from..from + block_bytes)
        });
        if let Some(bytes) = read.filter(|bytes| crc32c(bytes) == self.map.get(logical).crc) {
            return Some(bytes.to_vec());
        }
        let mut bytes = vec![0; block_bytes];
        self.read_run(vld, logical, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Copies one block with the content `bytes` into a hole.
    fn move_block<M: Medium>(
        &mut self,
        vld: &Vld<M>,
        logical: u32,
        region: u32,
        bytes: &[u8],
    ) -> Result<Moved> {
        if self.uncommitted() >= self.layout.uncommitted_max() {
            self.commit(vld)?;
        }
        let avoid = Avoid {
            region: Some(region),
            empty: true,
            ..Avoid::default()
        };
        let Some(unit) = self.choose(&vld.medium, Want::Block, avoid) else {
            return Ok(Moved::NoHole);
        };
        let block = self.free.place(unit).0;
        let to = self.free.regions().of(block) as u32;
        if to == region || self.free.empty_regions().contains(&to) {
            return Ok(Moved::NoHole);
        }
        let Some((place, _)) = self.place_run(vld, bytes, Want::Block, avoid)? else {
            return Ok(Moved::NoHole);
        };
        let crc = self.map.get(logical).crc;
        self.remap(logical, Entry { place, crc });
        self.counts.blocks_moved += 1;
        Ok(Moved::Done)
    }

    /// Chooses a track at random that is not empty, not being filled, and has blocks
    /// that can be moved. Returns `None` if the holes elsewhere cannot take the blocks
    /// of a track.
    fn choose_target(&mut self) -> Option<Target> {
        let regions = self.free.regions().len() as u32;
        let empty_blocks: u64 = {
            let regions = self.free.regions();
            let empty = self.free.empty_regions().iter();
            empty
                .map(|&region| regions.blocks(region as usize).len() as u64)
                .sum()
        };
        let holes = self.free.free_blocks() - empty_blocks;
        for _ in 0..16 {
            // One step of splitmix64.
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let region = ((mixed >> 32) % u64::from(regions)) as u32;
            let blocks = self.free.regions().blocks(region as usize);
            let fixed = blocks
                .clone()
                .any(|block| !self.layout.is_eager(u64::from(block)));
            let step = self.layout.places_per_block();
            let places = blocks.start * step..blocks.end * step;
            let live = places
                .clone()
                .filter(|&place| self.owners[place as usize] > 0)
                .count();
            let own_holes = blocks
                .clone()
                .filter(|&block| self.free.mask(block) == 0)
                .count();
            let usable = !fixed
                && live > 0
                && self.eager.filling() != Some(region)
                && holes - own_holes as u64 > live as u64;
            if usable {
                return Some(Target {
                    region,
                    next: places.start,
                });
            }
        }
        None
    }
}
