//! Checkpoints: the bits of used units and the whole inode map in one place, so that
//! the log can be truncated and a mount begins there.

use crate::Vlfs;
use crate::error::Result;
use crate::format::{CheckpointHeader, Entry, Malformed, Measures, Totals};
use crate::lookup::Store;
use crate::numbers::{in_use, not_sparse};
use crate::space::Bits;
use crate::writer::Writer;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::Crc32c;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_vlog::recovery::Threaded;
use varve_vlog::{Access, Medium};
use zerocopy::IntoBytes;

/// Number of bytes written or read at once.
const PART: usize = 1 << 20;

impl Vlfs {
    /// Writes a checkpoint over the older one. Before that, everything appended is made
    /// durable. Afterwards the log is truncated at the checkpoint that is then the
    /// older one, and space that waited for the checkpoint is free.
    pub(super) fn write_checkpoint(&self, writer: &mut Writer) -> Result<()> {
        self.commit_all(writer)?;
        self.store.medium.command(Access::Write);
        let written = self.write_regions(writer);
        written.inspect_err(|error| self.stop(format!("a checkpoint failed: {error}")))
    }

    fn write_regions(&self, writer: &mut Writer) -> Result<()> {
        let measures = self.measures();
        let of = |region: usize| writer.checkpoints[region].map_or(0, |(serial, _)| serial);
        let region = usize::from(of(1) < of(0));
        let serial = of(0).max(of(1)) + 1;
        writer.checkpoints[region] = None;
        let mut crc = Crc32c::default();
        let head = measures.checkpoint_block(region);
        let bits = &writer.space.tree.0;
        let map = self.tables.read().map.clone();
        let mut at = measures.block_byte(head + 1);
        for body in [&bits[..], map.as_bytes()] {
            for part in body.chunks(PART) {
                crc.update(part);
                let padded = part.len().next_multiple_of(measures.block_bytes as usize);
                let mut bytes = part.to_vec();
                bytes.resize(padded, 0);
                self.store.medium.write(at, &[IoSlice::new(&bytes)])?;
                at += padded as u64;
            }
            at = measures.block_byte(head + 1 + measures.bits_blocks());
        }
        let seq = writer.log.reached();
        let header = CheckpointHeader {
            crc: 0.into(),
            magic: 0.into(),
            volume: measures.volume.into(),
            serial: serial.into(),
            seq: seq.into(),
            entries: (map.len() as u64).into(),
            totals: Totals::new(writer.usage, writer.stored),
            written_ns: self.clock.now_ns().into(),
            body_crc: crc.value().into(),
            empty: 0.into(),
            long_xattrs: (writer.long_xattrs + 1).into(),
        };
        write_head(&self.store.medium, measures, region, &header)?;
        // Body and head are checked together, so one flush is enough for both.
        self.flush()?;
        writer.checkpoints[region] = Some((serial, seq));
        writer.checkpoint_ns = self.clock.monotonic_ns();
        writer.since_checkpoint = 0;
        // If the other one is damaged, the log keeps its length.
        let floor = match writer.checkpoints {
            [Some((_, one)), Some((_, other))] => one.min(other),
            _ => writer.log.floor(),
        };
        for unit in writer.log.truncate(floor) {
            writer.space.give_record(unit);
        }
        writer.space.checkpointed();
        self.counts.checkpoints.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Returns for each of the two checkpoints whether head and body are valid. A
/// checkpoint is invalid while it is being written.
///
/// # Errors
/// If there is no volume, or errors of the device.
pub fn whole_checkpoints(medium: Arc<dyn Medium>) -> Result<[bool; 2]> {
    let superblock = Vlfs::find_superblock(&*medium)?;
    let store = Store::new(medium, Measures::of(&superblock), 0);
    Ok([0, 1].map(|region| {
        let head = read_head(&store, region);
        head.is_some_and(|head| read_body(&store, region, &head).is_ok())
    }))
}

/// Writes the head of a checkpoint.
pub(super) fn write_head(
    medium: &dyn Medium,
    measures: &Measures,
    region: usize,
    header: &CheckpointHeader,
) -> varve_device::Result<()> {
    let mut block = vec![0; measures.block_bytes as usize];
    block[..size_of::<CheckpointHeader>()].copy_from_slice(header.sealed().as_bytes());
    let at = measures.block_byte(measures.checkpoint_block(region));
    medium.write(at, &[IoSlice::new(&block)])
}

/// Reads the head in a region.
pub(super) fn read_head(store: &Store, region: usize) -> Option<CheckpointHeader> {
    let measures = &store.measures;
    let mut block = vec![0; measures.block_bytes as usize];
    let at = measures.block_byte(measures.checkpoint_block(region));
    store.read_patiently(at, &mut block).ok()?;
    CheckpointHeader::parse(&block, measures).ok()
}

/// Reads the body that a head declares.
///
/// # Errors
/// If the body is not valid.
pub(super) fn read_body(
    store: &Store,
    region: usize,
    header: &CheckpointHeader,
) -> Result<(Bits, Vec<Entry>)> {
    let measures = &store.measures;
    let mut bits = Bits::new(measures);
    if header.empty.get() == 1 {
        return Ok((bits, Vec::new()));
    }
    let head = measures.checkpoint_block(region);
    let mut crc = Crc32c::default();
    let mut read = |at: &mut u64, part: &mut [u8]| -> Result<()> {
        let padded = part.len().next_multiple_of(measures.block_bytes as usize);
        let mut bytes = vec![0; padded];
        store.read_patiently(*at, &mut bytes)?;
        part.copy_from_slice(&bytes[..part.len()]);
        crc.update(part);
        *at += padded as u64;
        Ok(())
    };
    let mut at = measures.block_byte(head + 1);
    let mut parts = bits.0.chunks_mut(PART);
    parts.try_for_each(|part| read(&mut at, part))?;
    at = measures.block_byte(head + 1 + measures.bits_blocks());
    let (mut map, mut used) = (Vec::new(), 0);
    // The map grows while it is read, because a damaged head may declare more than the
    // device has.
    while (map.len() as u64) < header.entries.get() {
        let left = header.entries.get() as usize - map.len();
        let mut part = vec![Entry::default(); left.min(PART / size_of::<Entry>())];
        read(&mut at, part.as_mut_bytes())?;
        used += in_use(&part);
        map.append(&mut part);
        not_sparse(used, map.len() as u64)?;
    }
    let found = crc.value();
    if found != header.body_crc.get() {
        return Err(Malformed::checksum("checkpoint", found, header.body_crc.get()).into());
    }
    for entry in &map {
        entry.check(&measures.eager_units())?;
    }
    Ok((bits, map))
}
