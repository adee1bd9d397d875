//! The accounts of space: whether the live blocks and the pending changes fit.
//!
//! The number of live blocks is known exactly: blocks with a unit of the tree, and
//! reserved blocks without a place. A short block counts as a whole one, because it may
//! need one ([`Vlfs::lives`]). Pending changes are priced at their worst ([`Prices`]);
//! changes that were written back are known. Because a copy of all pending changes must
//! fit next to the live blocks, a group always finds space once older versions are
//! freed.
//!
//! The log's accounts (`varve-lfs/src/space`) are of segments, and of the space that
//! cleaning can gain. Here nothing needs to be cleaned before it is overwritten.

use crate::Vlfs;
use crate::error::Result;
use crate::prices::{PATH_MAX, WORST};
use crate::writer::Writer;
use varve_fs::planted::{self, Planted};
use varve_fs::{Answer, Purpose, Request, StatFs, Unwritten, Usage, Waiting};

/// Number of bytes of one operation that are counted as scattered; bytes beyond are
/// those of a file, in sequence.
const SCATTERED: u64 = 64 << 10;

/// Maximum number of blocks that a removal asks for, without the longest attributes
/// that it may leave.
const REMOVAL_BLOCKS: u64 = 20;

/// The appended state at one moment. A transaction converts owed blocks into live ones.
struct Committed {
    /// Number of live blocks, including reserved ones.
    live: u64,
    /// Number of live blocks, or the number that they may grow to ([`Vlfs::lives`]).
    comes_to: u64,
    /// Number of blocks for nodes and inodes that are not yet written.
    owed: u64,
    usage: Usage,
}

impl Vlfs {
    fn committed(&self) -> Committed {
        let writer = self.writer.lock();
        // Their nodes are owed until they are written, and live afterwards.
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

    /// Returns the number of blocks for the extended attributes that the admitted
    /// operations are about to set: their blocks, and a node and an inode for each.
    /// Blocks of a file's attributes are adjacent.
    fn attributes_of(&self, waiting: &Waiting) -> u64 {
        let bytes = (waiting.promised_attributes).saturating_add(waiting.asked_attributes);
        let blocks = bytes.div_ceil(self.measures().block_bytes.into());
        match blocks {
            0 => 0,
            // The last block of each operation may be incomplete.
            _ => (blocks - 1).saturating_add(waiting.operations.max(1).saturating_mul(3)),
        }
    }

    /// Returns the number of live blocks, or the number that they may grow to. A
    /// rewrite is placed where it can be soonest, so that in the end each block of
    /// several units may have a block of its own, however they are packed now. The
    /// number of these follows from the totals: of each block, at most all sectors
    /// beyond one unit are counted.
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
        // For blocks of extended attributes longer than a unit, one sector more than a
        // unit is counted.
        let long = writer.long_xattrs;
        let beyond = sectors.saturating_sub(stored + long * (unit + 1));
        let several = stored.min(beyond / unit);
        // The other units are those of nodes and inodes.
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
            // If owed blocks are not the cause of the shortage, a transaction and its
            // flush would be useless.
            false if need > room || owed == 0 => Answer::Refused,
            false => Answer::Clean,
        })
    }

    /// Returns how many blocks may live after an operation for this purpose, which
    /// includes `attributes` blocks of extended attributes.
    fn room_for(&self, purpose: Purpose, attributes: u64) -> u64 {
        let measures = self.measures();
        let reserve = measures.reserve_blocks;
        let reserve = match purpose {
            Purpose::Grow => reserve + self.prices.margin(measures),
            // The margin suffices for one block or a few. Long attributes are copied as
            // a whole, into the part for removals, except for what two removals ask
            // for.
            Purpose::Rewrite => {
                let removals = reserve / 2 + 2 * REMOVAL_BLOCKS;
                reserve - attributes.min(reserve.saturating_sub(removals))
            }
            Purpose::Shrink => reserve / 2,
        };
        measures.capacity_blocks().saturating_sub(reserve)
    }

    /// Returns the number of blocks that will live, and the number of blocks for nodes
    /// and inodes that were appended and not written.
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
            // The number that they may grow to does not count here. A volume that an
            // older program filled, without a margin or with more short blocks, can be
            // overwritten as long as there is space, and emptied.
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

    /// Returns true if pending changes should be written back, because their worst
    /// price is close to the remaining space.
    pub(super) fn is_short_of(&self, waiting: Unwritten) -> bool {
        let worst = self.prices.of_unwritten(waiting);
        let Committed { comes_to: live, .. } = self.committed();
        let left = self.measures().capacity_blocks().saturating_sub(live);
        left < worst + 2 * self.measures().reserve_blocks + PATH_MAX
    }

    pub(super) fn answer_statfs(&self, total: Usage) -> StatFs {
        let measures = self.measures();
        // This is the space that growth is admitted to, less the nodes that lead there.
        let room = self.room_for(Purpose::Grow, 0);
        let Committed {
            comes_to, usage, ..
        } = self.committed();
        // An inode takes a unit once it is written.
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
