//! Transactions, which are committed as a whole, and the writing of journal heads.

use crate::error::Result;
use crate::format::{Geometry, JournalHead, Sector};
use crate::planner::{Flush, GivenUp};
use std::collections::{BTreeMap, HashSet};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Device;
use varve_fs::Usage;
use zerocopy::IntoBytes;

/// A transaction: all groups since the record before.
pub(crate) struct Transaction {
    pub sectors: BTreeMap<u64, Arc<Sector>>,
    pub given_up: GivenUp,
    /// Sectors of the directory block that is overwritten.
    pub overwritten: Option<Range<u64>>,
    pub freed: Vec<u64>,
    pub entered: HashSet<u64>,
    pub flush: Flush,
    pub usage: Usage,
    pub through: u64,
    pub groups: u64,
}

/// Writes a head to the block that its serial determines.
pub(crate) fn write_head(
    device: &dyn Device,
    geometry: &Geometry,
    head: &JournalHead,
) -> Result<()> {
    let mut block = vec![0; geometry.block_bytes as usize];
    block[..512].copy_from_slice(head.as_bytes());
    // mkfs writes serials 1 and 2 in this order.
    let at = Geometry::HEAD_BLOCK + (head.serial.get() + 1) % 2;
    Ok(device.write(geometry.block_byte(at), &[IoSlice::new(&block)])?)
}
