//! Replay of the journal at a mount, and the search for a superblock.

use crate::error::{Error, Result};
use crate::format::{Geometry, Identity, JournalHead, RecordHeader, SECTOR_BYTES, Sector};
use crate::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::Device;
use varve_format::Malformed;
use varve_fs::Usage;

/// The content of the journal.
pub(crate) struct Replayed {
    pub head: JournalHead,
    /// Sectors of valid records, which may not be in place.
    pub sectors: BTreeMap<u64, Arc<Sector>>,
    /// Position behind the last valid record.
    pub end: u64,
    pub usage: Usage,
    pub records: u64,
}

/// Returns both heads of the journal, or for each the reason why it is invalid.
pub(crate) fn heads(
    device: &dyn Device,
    geometry: &Geometry,
) -> [std::result::Result<JournalHead, Malformed>; 2] {
    [0, 1].map(|copy| {
        let block = Geometry::HEAD_BLOCK + copy;
        let mut bytes = vec![0; geometry.unit_bytes as usize];
        // A head that cannot be read was torn.
        match device.read(geometry.block_byte(block), &mut bytes) {
            Ok(()) => JournalHead::parse(&bytes, geometry.tag),
            Err(error) => Err(Malformed::new("journal head", error.to_string())),
        }
    })
}

/// Returns the newer of the two heads, of which at least one must be valid.
pub(crate) fn newest_head(device: &dyn Device, geometry: &Geometry) -> Result<JournalHead> {
    let [one, other] = heads(device, geometry);
    match (one, other) {
        (Ok(one), Ok(other)) if one.serial.get() >= other.serial.get() => Ok(one),
        (Ok(head), Err(_)) | (_, Ok(head)) => Ok(head),
        (Err(_), Err(problem)) => Err(Error::Damaged(problem)),
    }
}

/// Returns the newest head of a volume whose metadata is written in place.
pub(crate) fn head_only(store: &Store) -> Result<Replayed> {
    Ok(Replayed::nothing(newest_head(
        &*store.device,
        &store.geometry,
    )?))
}

impl Replayed {
    /// Returns a journal without a record behind this head.
    pub fn nothing(head: JournalHead) -> Self {
        Replayed {
            head,
            sectors: BTreeMap::new(),
            end: head.first.get(),
            usage: head.usage.into(),
            records: 0,
        }
    }
}

/// Reads the valid records.
pub(crate) fn replay(store: &Store) -> Result<Replayed> {
    let geometry = &store.geometry;
    let head = newest_head(&*store.device, geometry)?;
    let all = geometry.journal_bytes();
    let mut replayed = Replayed::nothing(head);
    let tail = head.first.get();
    loop {
        let behind = replayed.end.next_multiple_of(all);
        let mut candidates = [replayed.end, behind].into_iter();
        let end = replayed.end;
        let found = candidates.find_map(|at| match record_at(store, &head, (at, end), tail) {
            Ok(None) => None,
            other => Some(other.map(|found| found.map(|record| (at, record)))),
        });
        let Some((at, record)) = found.transpose()?.flatten() else {
            return Ok(replayed);
        };
        let Some((runs, usage)) = RecordHeader::parse(&record, geometry)? else {
            return Ok(replayed);
        };
        let payload = &record[RecordHeader::payload(runs.len())..];
        let (sectors, _) = payload.as_chunks::<SECTOR_BYTES>();
        let addresses = runs
            .iter()
            .flat_map(|run| run.sector..run.sector + u64::from(run.count));
        for (address, bytes) in addresses.zip(sectors) {
            replayed.sectors.insert(address, Arc::new(*bytes));
        }
        replayed.usage = usage.into();
        replayed.end = at + record.len() as u64;
        replayed.records += 1;
    }
}

/// Returns the bytes of the record at position `at`, if there is one that follows the
/// record that ends at `end`, and its checksum is right.
fn record_at(
    store: &Store,
    head: &JournalHead,
    (at, end): (u64, u64),
    tail: u64,
) -> Result<Option<Vec<u8>>> {
    let geometry = &store.geometry;
    let all = geometry.journal_bytes();
    let place = at % all;
    let most = (all - place).min((tail + all).saturating_sub(at));
    let identity = Identity {
        tag: geometry.tag,
        mount_id: head.mount_id.get(),
        position: at,
        follows: end,
    };
    let first = (geometry.block_byte(Geometry::JOURNAL_BLOCK) + place) / SECTOR_BYTES as u64;
    if most < u64::from(geometry.unit_bytes) {
        return Ok(None);
    }
    // Units that cannot be read were torn. A record consists of whole units, so no
    // other record is affected.
    let Ok(front) = store.read(first, geometry.unit_sectors()) else {
        return Ok(None);
    };
    let Some(length) = RecordHeader::length(&front, identity, most) else {
        return Ok(None);
    };
    let Ok(record) = store.read(first, length / SECTOR_BYTES as u64) else {
        return Ok(None);
    };
    let is_whole = RecordHeader::parse(&record, geometry)?.is_some();
    Ok(is_whole.then_some(record))
}

/// Reads a superblock at a byte address and checks that it fits the device.
pub(crate) fn superblock_at(
    device: &dyn Device,
    at: u64,
) -> Result<std::result::Result<crate::format::Superblock, Malformed>> {
    let disk = device.geometry();
    let fits = |found: crate::format::Superblock| {
        let bytes = found.blocks.get() * u64::from(found.block_bytes.get());
        match bytes <= disk.size && found.unit_bytes.get() >= disk.logical_block {
            true => Ok(found),
            false => Err(Malformed::new(
                "superblock",
                format!(
                    "a volume of {bytes} bytes in units of {} on a device of {} in blocks of {}",
                    found.unit_bytes, disk.size, disk.logical_block
                ),
            )),
        }
    };
    let mut bytes = vec![0; disk.logical_block.max(512) as usize];
    device.read(at, &mut bytes)?;
    Ok(crate::format::Superblock::parse(&bytes).and_then(fits))
}

/// Returns the superblock in the first block, or a copy.
pub(crate) fn find_superblock(device: &dyn Device) -> Result<crate::format::Superblock> {
    let disk = device.geometry();
    let step = u64::from(disk.logical_block.max(512));
    let read = |at: u64| superblock_at(device, at);
    let no_volume = |reason| Error::NoVolume {
        device: device.name(),
        reason,
    };
    if disk.size < step {
        return Err(no_volume(Malformed::new("superblock", "an empty device")));
    }
    let reason = match read(0) {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(reason)) => reason,
        Err(error) => Malformed::new("superblock", error.to_string()),
    };
    // The copy is in the last whole block, whatever the block size.
    for power in 12..=16 {
        let block = 1u64 << power;
        let at = (disk.size / block).saturating_sub(1) * block;
        if at > 0
            && at.is_multiple_of(step)
            && let Ok(Ok(found)) = read(at)
            && Geometry::of(&found).block_byte(found.blocks.get() - 1) == at
        {
            return Ok(found);
        }
    }
    Err(no_volume(reason))
}
