//! The checkpoint ring: which of its records are valid.
//!
//! Slots are read twice before one is refused. [`super::image`] decides whether the image
//! of a valid record can be loaded.

use super::RecoveryReport;
use crate::error::{Error, Result};
use crate::format::checkpoint::CheckpointRecord;
use crate::format::{Malformed, Superblock};
use crate::heads::LogEnd;
use varve_device::Device;

/// Reads every slot of the checkpoint ring. A refused slot is represented by the reason,
/// device errors included.
pub fn read_ring(
    device: &dyn Device,
    superblock: &Superblock,
) -> Vec<std::result::Result<CheckpointRecord, Malformed>> {
    let slot_bytes = u64::from(superblock.record_bytes.get());
    let read = |slot| {
        let mut bytes = vec![0; slot_bytes as usize];
        device
            .read(superblock.ring_offset.get() + slot * slot_bytes, &mut bytes)
            .map_err(|error| Malformed::new("checkpoint record", error.to_string()))?;
        CheckpointRecord::decode(&bytes, superblock.volume_tag())
    };
    // A slot that is refused is read a second time before the refusal is accepted.
    (0..u64::from(superblock.record_count.get()))
        .map(|slot| read(slot).or_else(|_| read(slot)))
        .collect()
}

/// The position of the record to which recovery could fall back from the newest of
/// `records`, the complete list. It is the newest's own if there is no other, as after a
/// power cut while one was written. `None` if it is unknown, or if the newest record does
/// not state that all log before its position is durable: there may be a gap then.
pub fn before_newest(
    device: &dyn Device,
    superblock: &Superblock,
    records: &[CheckpointRecord],
) -> Option<LogEnd> {
    let newest = &records.first()?.header;
    if superblock.record_count.get() != 2
        || newest.durable_through.get() < newest.position.serial.get()
    {
        return None;
    }
    match records.get(1) {
        Some(older) if older.header.serial.get() + 1 == newest.serial.get() => {
            Some(LogEnd::from(&older.header))
        }
        Some(_) => None,
        None => {
            let slot_bytes = superblock.record_bytes.get();
            let slot = 1 - newest.serial.get() % 2;
            let mut bytes = vec![0; slot_bytes as usize];
            let place = superblock.ring_offset.get() + slot * u64::from(slot_bytes);
            // A slot that cannot be read now may be readable later.
            device.read(place, &mut bytes).ok()?;
            let void = CheckpointRecord::decode(&bytes, superblock.volume_tag()).is_err();
            void.then(|| LogEnd::from(newest))
        }
    }
}

/// The valid records of the ring, newest first; refused ones are reported.
///
/// # Errors
/// `NoCheckpoint` if there is none.
pub fn valid_records(
    device: &dyn Device,
    superblock: &Superblock,
    report: &mut RecoveryReport,
) -> Result<Vec<CheckpointRecord>> {
    let mut records = Vec::new();
    let mut reason = Malformed::new("checkpoint record", "the ring is empty");
    for record in read_ring(device, superblock) {
        match record {
            Ok(record) => records.push(record),
            Err(malformed) => {
                report.refused_records.push(malformed.to_string());
                reason = malformed;
            }
        }
    }
    records.sort_by_key(|record| std::cmp::Reverse(record.header.serial.get()));
    if records.is_empty() {
        let device = device.name();
        return Err(Error::NoCheckpoint { device, reason });
    }
    Ok(records)
}
