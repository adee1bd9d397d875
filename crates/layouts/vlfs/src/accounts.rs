//! Whether what lives, and what is going to, fits.
//!
//! What lives is known exactly: blocks of which the tree uses a unit, and
//! blocks that are reserved and take none yet; a short block counts as a whole
//! one, as it may come to that ([`Vlfs::lives`]). What waits in memory is priced
//! at its worst ([`Prices`]); what has been written back is known. As every copy
//! of everything that waits must fit beside what lives, a group always finds
//! room once older versions are freed.
//!
//! The log's accounts (`varve-lfs/src/space`) are of segments, and of what cleaning
//! can gain. Nothing needs to be cleaned here before it is written over.

use crate::Vlfs;
use crate::error::Result;
use crate::prices::{PATH_MAX, WORST};
use crate::writer::Writer;
use varve_fs::planted::{self, Planted};
use varve_fs::{Answer, Purpose, Request, StatFs, Unwritten, Usage, Waiting};

/// Bytes asked for by one operation up to which they may be scattered; beyond,
/// they are a file's, in sequence.
const SCATTERED: u64 = 64 << 10;

/// Blocks that a removal asks for at most, the longest attributes that it may
/// leave left out.
const REMOVAL_BLOCKS: u64 = 20;

/// What has been appended, at one moment: a transaction turns what is owed into
/// what lives.
struct Committed {
    /// Blocks that live, reserved ones included.
    live: u64,
    /// The same, or what that comes to ([`Vlfs::lives`]).
    comes_to: u64,
    /// Blocks that nodes and inodes which are to be written take.
    owed: u64,
    usage: Usage,
}

impl Vlfs {
    fn committed(&self) -> Committed {
        let writer = self.writer.lock();
        // Their nodes are owed until they are written, and live then.
        let reserved = writer.usage.blocks.saturating_sub(writer.stored);
        Committed {
            live: writer.space.live_blocks() + reserved,
            comes_to: self.lives(&writer) + reserved,
            owed: self
                .owed()
                .div_ceil(self.measures().units_per_block().into()),
            usage: writer.usage,
        }
    }

    /// Blocks that the extended attributes take which operations are about to set,
    /// so many at once: their own, node and inode. A file's lie behind each other.
    fn attributes_of(&self, waiting: &Waiting) -> u64 {
        let bytes = (waiting.promised_attributes).saturating_add(waiting.asked_attributes);
        let blocks = bytes.div_ceil(self.measures().block_bytes.into());
        match blocks {
            0 => 0,
            // The last of each is begun, too.
            _ => (blocks - 1).saturating_add(waiting.operations.max(1).saturating_mul(3)),
        }
    }

    /// Blocks that live, or come to: what is written again goes where it can be
    /// soonest, so that in the end each block of several units may have another
    /// one to itself, however they are packed now. How many those are is told by
    /// the totals: of each, at most all but a unit's sectors are beyond one.
    pub(super) fn lives(&self, writer: &Writer) -> u64 {
        let measures = self.measures();
        let live = writer.space.live_blocks();
        if !measures.parts {
            return live;
        }
        let (stored, usage) = (writer.stored, writer.usage);
        let unit = measures.unit_sectors();
        let reserved =
            (usage.blocks.saturating_sub(stored)).saturating_mul(measures.block_sectors());
        let sectors = usage.sectors.saturating_sub(reserved);
        // Of blocks of extended attributes longer than a unit, a sector more than
        // that.
        let long = writer.long_xattrs;
        let beyond = sectors.saturating_sub(stored + long * (unit + 1));
        let several = stored.min(beyond / unit);
        // What is not data: nodes and inodes.
        let data = sectors.saturating_add(stored * (unit - 1)) / unit;
        let others = writer.space.tree_units().saturating_sub(data);
        let units = stored - several + others.max(usage.inodes);
        live.max((several + long).saturating_add(units / u64::from(measures.units_per_block())))
    }

    pub(super) fn answer(&self, request: &Request) -> Result<Answer> {
        self.writable()?;
        let &Request {
            total,
            waiting,
            purpose,
            writes_back,
        } = request;
        if writes_back && self.is_short_of(waiting.unwritten) {
            return Ok(Answer::WriteBack);
        }
        let measures = self.measures();
        if total.inodes > measures.inodes.saturating_sub(varve_fs::InodeNo::FIRST.0) {
            return Ok(Answer::Refused);
        }
        let room = match planted::is(Planted::RoomUncounted) {
            true => u64::MAX,
            false => self.room_for(purpose, self.attributes_of(&waiting)),
        };
        let (need, owed) = self.need_of(total, waiting, purpose);
        Ok(match need.saturating_add(owed) <= room {
            true => Answer::Granted,
            // If what is owed is not what is missing, a transaction and its flush would
            // be in vain.
            false if need > room || owed == 0 => Answer::Refused,
            false => Answer::Clean,
        })
    }

    /// Blocks that may live once an operation for this purpose is done, of which
    /// so many are of extended attributes.
    fn room_for(&self, purpose: Purpose, attributes: u64) -> u64 {
        let measures = self.measures();
        let reserve = measures.reserve_blocks;
        let reserve = match purpose {
            Purpose::Grow => reserve + self.prices.margin(measures),
            // The margin has room for a block or a few; a long blob is copied as a
            // whole, into what removals have, but for what two of them ask for.
            Purpose::Rewrite => {
                let removals = reserve / 2 + 2 * REMOVAL_BLOCKS;
                reserve - attributes.min(reserve.saturating_sub(removals))
            }
            Purpose::Shrink => reserve / 2,
        };
        measures.capacity_blocks().saturating_sub(reserve)
    }

    /// Blocks that are to live; and beside them what is owed for nodes and inodes
    /// that were appended and not written.
    fn need_of(&self, total: Usage, waiting: Waiting, purpose: Purpose) -> (u64, u64) {
        let measures = self.measures();
        let Committed {
            live,
            comes_to,
            owed,
            usage,
        } = self.committed();
        let live = match purpose {
            Purpose::Grow => comes_to,
            // Not what they may come to: a volume that an older program filled,
            // without a margin or with more short blocks, can be written over as
            // long as there is room, and emptied.
            Purpose::Rewrite | Purpose::Shrink => live,
        };
        let block = u64::from(measures.block_bytes);
        let asked = match waiting.asked.saturating_sub(waiting.asked_attributes) {
            scattered @ ..=SCATTERED => scattered * WORST,
            run => SCATTERED * WORST + (run - SCATTERED) / 16 * 17,
        };
        let promised =
            (waiting.promised.saturating_sub(waiting.promised_attributes)).saturating_mul(WORST);
        let changes = (promised.saturating_add(asked).div_ceil(block))
            .saturating_add(self.attributes_of(&waiting))
            .saturating_add(self.prices.of_unwritten(waiting.unwritten));
        let grown = total.blocks.saturating_sub(usage.blocks);
        let grown = self.prices.with_nodes(grown);
        (live.saturating_add(changes).saturating_add(grown), owed)
    }

    /// True if what waits should be written back, as its worst price is near
    /// what is left.
    pub(super) fn is_short_of(&self, waiting: Unwritten) -> bool {
        let worst = self.prices.of_unwritten(waiting);
        let Committed { comes_to: live, .. } = self.committed();
        let left = self.measures().capacity_blocks().saturating_sub(live);
        left < worst + 2 * self.measures().reserve_blocks + PATH_MAX
    }

    pub(super) fn answer_statfs(&self, total: Usage) -> StatFs {
        let measures = self.measures();
        // What growth is admitted to, less the nodes that lead there.
        let room = self.room_for(Purpose::Grow, 0);
        let Committed {
            comes_to, usage, ..
        } = self.committed();
        // An inode is a unit, once it is written.
        let each = u64::from(measures.units_per_block());
        let with_inodes = |usage: Usage| usage.blocks.saturating_add(usage.inodes / each);
        let (before, after) = (with_inodes(usage), with_inodes(total));
        let grown = after.saturating_sub(before);
        let gone = before.saturating_sub(after);
        let taken = comes_to.saturating_add(grown).saturating_sub(gone);
        let numbers = measures.inodes.saturating_sub(varve_fs::InodeNo::FIRST.0);
        StatFs {
            blocks: self.prices.without_nodes(room),
            free: self.prices.without_nodes(room.saturating_sub(taken)),
            files: total.inodes,
            files_free: numbers.saturating_sub(total.inodes),
        }
    }
}
