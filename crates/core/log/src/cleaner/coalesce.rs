//! Coalescing: moving the blocks of a file into the order of the file.
//!
//! A rewrite is a move, as the cleaner's (protocol rules 18 and 19): every
//! block names the copy it was read from, counts only if that still stands
//! when its new copy is appended, and keeps its birth serial. So whoever
//! writes, truncates, removes or cleans at the same time is in nobody's way,
//! and a crash in between leaves the old copies or the new. Nothing is flushed:
//! the old copies stay until a checkpoint has folded the moves.
//!
//! Blocks are read in the order of their places, an extent at a time, and
//! appended in the order of the file in one group.

use crate::cleaner::Cleaner;
use crate::error::{Error, Result};
use crate::format::Pointer;
use crate::log::{GroupKind, LogItem, Source};
use crate::policy::{Coalescing, EXTENT_BYTES, Extent, Watermarks};
use crate::reader::ReadCause;
use varve_fs::{BlockPointer, InodeNo};

/// Times an extent that changes underfoot is tried.
const ATTEMPTS: u32 = 3;
/// Bytes looked at in one call for each byte it may move.
const SEEN: u64 = 16;

/// What one call did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coalesced {
    /// Bytes of blocks moved.
    pub moved_bytes: u64,
    /// Bytes of blocks looked at.
    pub seen_bytes: u64,
    /// Pieces those lay in before, and after.
    pub runs: (u64, u64),
    /// Blocks whose checksum is wrong, in extents left alone.
    pub damaged: u64,
    /// The first block not looked at; none at the end of the file.
    pub next: Option<u64>,
    /// It stopped because clean segments are low.
    pub short_of_room: bool,
}

/// Pieces that reading these blocks in order takes a request each for.
fn runs_of(blocks: &[(u64, Pointer)]) -> u64 {
    let breaks = blocks
        .windows(2)
        .filter(|pair| !pair[1].1.follows(&pair[0].1));
    u64::from(!blocks.is_empty()) + breaks.count() as u64
}

impl Cleaner {
    /// Rewrites what lies in pieces of a file from block `from` on, until
    /// `limit_bytes` have been moved, or sixteen times as many looked at, or
    /// clean segments are low: the caller decides how much of the device this
    /// may take, and how long.
    ///
    /// # Errors
    /// `NoInode`; device errors. A damaged block keeps its extent and is none.
    ///
    /// Source: Seltzer 1992, ch. 8.
    pub fn coalesce(
        &self,
        policy: &Coalescing,
        ino: InodeNo,
        from: u64,
        limit_bytes: u64,
    ) -> Result<Coalesced> {
        self.durability.check()?;
        if ino == InodeNo::IFILE {
            return Err(Error::NoInode(ino));
        }
        self.layers.lookup().inode(ino)?;
        let mut done = Coalesced::default();
        let length = EXTENT_BYTES / u64::from(self.geometry.block_bytes);
        let mut at = from;
        while let Some(first) = self.layers.lookup().next_block(ino, at)? {
            done.next = Some(first);
            if done.moved_bytes >= limit_bytes
                || done.seen_bytes >= limit_bytes.saturating_mul(SEEN)
            {
                return Ok(done);
            }
            let end = first.saturating_add(length);
            if !self.coalesce_extent(policy, ino, (first, end), &mut done)? {
                done.short_of_room = true;
                return Ok(done);
            }
            at = end;
        }
        done.next = None;
        Ok(done)
    }

    /// Rewrites one extent if it pays. False if there is no room for that.
    fn coalesce_extent(
        &self,
        policy: &Coalescing,
        ino: InodeNo,
        (from, to): (u64, u64),
        done: &mut Coalesced,
    ) -> Result<bool> {
        for attempt in 1..=ATTEMPTS {
            let (found, serial) = self.layers.lookup().blocks(ino, from, to)?;
            let (inode, judged) = self.layers.lookup().inode_place(ino)?;
            let (version, _) = inode.ok_or(Error::NoInode(ino))?;
            let blocks: Vec<(u64, Pointer)> =
                found.into_iter().filter(|b| !b.1.is_unwritten()).collect();
            let extent = Extent {
                runs: runs_of(&blocks),
                bytes: blocks.iter().map(|b| b.1.stored_bytes()).sum(),
            };
            let pays = policy.pays(extent);
            if pays && !self.may_coalesce(policy, extent.bytes, blocks.len() as u64) {
                return Ok(false);
            }
            let mut after = extent.runs;
            if pays && serial == judged {
                let Some(items) = self.in_order(ino, version, &blocks)? else {
                    if self.were_moved(&blocks) {
                        continue;
                    }
                    done.damaged += 1;
                    break;
                };
                let kind = GroupKind::Coalescing(serial);
                // Nobody else may be told of the same room.
                let _one_at_a_time = self.moving.lock();
                if !self
                    .space
                    .may_move(extent.bytes, self.space.fold_of_run(blocks.len() as u64))
                {
                    return Ok(false);
                }
                let Some(_) = self.writer.write_group(items, kind, None)? else {
                    continue;
                };
                done.moved_bytes += extent.bytes;
                let (moved, _) = self.layers.lookup().blocks(ino, from, to)?;
                after = runs_of(&moved);
            } else if pays && attempt < ATTEMPTS {
                // A checkpoint was completed between the two questions.
                continue;
            }
            done.seen_bytes += extent.bytes;
            done.runs.0 += extent.runs;
            done.runs.1 += after;
            break;
        }
        Ok(true)
    }

    /// True if somebody has moved one of these, and its segment has been opened
    /// anew since.
    fn were_moved(&self, blocks: &[(u64, Pointer)]) -> bool {
        blocks
            .iter()
            .any(|(_, pointer)| self.reader.is_stale(pointer))
    }

    /// These blocks as moves in the order of the file; none if one of them is
    /// damaged.
    fn in_order(
        &self,
        ino: InodeNo,
        version: u32,
        blocks: &[(u64, Pointer)],
    ) -> Result<Option<Vec<LogItem>>> {
        // Neighbours on the device in one request, whatever their order here.
        let mut by_place: Vec<(u64, Pointer)> = blocks.to_vec();
        by_place.sort_by_key(|(_, pointer)| pointer.sector());
        let read = self.reader.run_for(ReadCause::Coalescing, ino, &by_place);
        let contents = match read {
            Ok(contents) => contents,
            Err(error) if error.is_of_the_medium() => {
                if !self.were_moved(blocks) {
                    tracing::error!(%error, %ino, "coalescing leaves part of a file alone");
                }
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // The summary that had the time of each write is not at hand; no block
        // was written after the file's last write.
        let written = self.layers.lookup().inode(ino)?.0.inode.mtime;
        let mut items: Vec<(u64, LogItem)> = by_place
            .into_iter()
            .zip(contents)
            .map(|((block, pointer), data)| {
                let item = LogItem::Block {
                    ino,
                    version,
                    block,
                    data: data.into(),
                    written,
                    source: Some(Source {
                        pointer,
                        kept: false,
                    }),
                };
                (block, item)
            })
            .collect();
        items.sort_by_key(|(block, _)| *block);
        Ok(Some(items.into_iter().map(|(_, item)| item).collect()))
    }

    /// Whether there is room for a rewrite of `bytes`: for the cleaner's moves
    /// with all that folding them may write, and without its having to work
    /// for it.
    fn may_coalesce(&self, policy: &Coalescing, bytes: u64, blocks: u64) -> bool {
        let gauge = self.space.cleaning_gauge();
        let mark = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let space = Watermarks {
            clean: mark(gauge.clean),
            low: mark(gauge.low),
            high: mark(gauge.high),
        };
        let segments = bytes.div_ceil(self.space.dependable_bytes()) + 1;
        policy.may_use(&space, segments)
            && self.space.may_move(bytes, self.space.fold_of_run(blocks))
    }
}
