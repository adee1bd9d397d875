//! What the readers have in common: operations on names of blocks become
//! operations on dense numbers.

use super::{Trace, TraceError};
use crate::workload::{FileTable, Op};
use std::collections::{BTreeMap, HashMap};

/// Operations of one pass, on dense numbers already.
#[derive(Debug, Default)]
pub struct Parsed {
    /// One pass.
    pub ops: Vec<Op>,
    /// File of each block.
    pub file_of: Vec<u32>,
    /// Files of a directory.
    pub directory_files: u32,
}

impl Parsed {
    pub(super) fn into_trace(self, name: &'static str) -> Result<Trace, TraceError> {
        let blocks = self.file_of.len() as u32;
        let writes = self.ops.iter().filter(|op| matches!(op, Op::Write { .. }));
        let writes = writes.count() as u64;
        if writes == 0 {
            return Err(TraceError::Empty {
                name: name.to_owned(),
            });
        }
        Ok(Trace {
            name,
            live_max: most_alive(&self.ops, blocks),
            ops: self.ops,
            blocks,
            writes,
            locality: FileTable {
                file_of: self.file_of,
                directory_files: self.directory_files,
            },
        })
    }
}

/// Most blocks that live at a time during the second of two passes.
fn most_alive(ops: &[Op], blocks: u32) -> u32 {
    let mut alive = vec![false; blocks as usize];
    let (mut live, mut most) = (0u32, 0);
    for pass in 0..2 {
        for op in ops {
            match *op {
                Op::Write { block } => {
                    live += u32::from(!std::mem::replace(&mut alive[block as usize], true));
                }
                Op::Trim { block } => {
                    live -= u32::from(std::mem::take(&mut alive[block as usize]));
                }
                _ => {}
            }
            if pass == 1 {
                most = most.max(live);
            }
        }
    }
    most
}

/// A request of a block trace.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// When, nanoseconds since any moment.
    pub at_ns: u64,
    /// Disk or volume.
    pub device: u64,
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
}

impl Request {
    /// Device and number of every block that it touches.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let device = self.device;
        let end = self.offset.saturating_add(self.bytes).div_ceil(BLOCK);
        (self.offset / BLOCK..end).map(move |block| (device, block))
    }
}

/// What a block trace says.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// Something is read or written.
    Request(Request),
    /// Something is written, and a user waits until it and all before is durable.
    Durable(Request),
    /// What lies there is of no use any more.
    Discard {
        /// Disk or volume.
        device: u64,
        /// First byte.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// A user asks for durability.
    Sync,
}

/// Bytes of a block.
pub(super) const BLOCK: u64 = 4096;
/// Blocks that are taken for a file where there are none: a mebibyte.
pub(super) const RUN: u64 = 256;

/// A file for each run of a disk, for those who group by it.
pub fn runs_of(places: &[(u64, u64)]) -> Vec<u32> {
    let mut runs = BTreeMap::new();
    let file_of = places.iter().map(|(device, block)| {
        let next = runs.len() as u32;
        *runs.entry((*device, block / RUN)).or_insert(next)
    });
    file_of.collect()
}

/// Requests become operations. A request counts for every block it touches;
/// only blocks that are written somewhere have numbers, in order of address.
pub fn from_requests(requests: &[Request]) -> Parsed {
    let blocks_of = Request::places;
    let written = requests.iter().filter(|r| r.write).flat_map(blocks_of);
    let mut places: Vec<(u64, u64)> = written.collect();
    places.sort_unstable();
    places.dedup();
    let numbers: HashMap<(u64, u64), u32> = places.iter().copied().zip(0..).collect();
    let file_of = runs_of(&places);
    let mut ops = Vec::new();
    let mut now_ns = requests.first().map_or(0, |r| r.at_ns);
    for request in requests {
        let ns = request.at_ns.saturating_sub(now_ns);
        if ns > 0 {
            ops.push(Op::Wait { ns });
            now_ns = request.at_ns;
        }
        let known = blocks_of(request).filter_map(|place| numbers.get(&place).copied());
        ops.extend(known.map(|block| match request.write {
            true => Op::Write { block },
            false => Op::Read { block },
        }));
    }
    Parsed {
        ops,
        file_of,
        directory_files: 32,
    }
}
