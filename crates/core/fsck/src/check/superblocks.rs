//! Superblock copies and the checkpoint ring.

use super::fixes::Fix;
use super::report::{FindingKind, Findings, Subject};
use varve_device::Device;
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::format::{Malformed, Superblock};
use varve_lfs::internal::read_ring;
use varve_lfs::{Error, Result, superblock_offsets};

/// Verifies that every copy is valid and equal to the one in use.
pub fn copies(device: &dyn Device, superblock: &Superblock, found: &mut Findings) {
    let mut bytes = vec![0; superblock.write_unit.get() as usize];
    for offset in superblock_offsets(superblock) {
        let subject = Subject::Superblock(offset);
        let parsed = device
            .read(offset, &mut bytes)
            .map_err(|error| error.to_string())
            .and_then(|()| {
                Superblock::parse(&bytes, offset / 512).map_err(|malformed| malformed.problem)
            });
        if !matches!(&parsed, Ok(copy) if copy.sealed_for(0) == superblock.sealed_for(0)) {
            found.fix(Fix::Superblock { offset });
        }
        match parsed {
            Ok(copy) if copy.sealed_for(0) == superblock.sealed_for(0) => {}
            Ok(copy) => {
                let text = format!(
                    "generation {} differs from the one in use, generation {}",
                    copy.generation, superblock.generation
                );
                found.warning(FindingKind::SuperblockCopy, subject, text);
            }
            Err(problem) => found.warning(FindingKind::SuperblockCopy, subject, problem),
        }
    }
}

/// Verifies every slot of the ring, and returns the valid records, newest first.
///
/// # Errors
/// `NoCheckpoint` if no slot is valid.
pub fn ring(
    device: &dyn Device,
    superblock: &Superblock,
    found: &mut Findings,
) -> Result<Vec<CheckpointRecord>> {
    let slots = read_ring(device, superblock);
    let mut records: Vec<CheckpointRecord> = slots.iter().flatten().cloned().collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.header.serial.get()));
    let Some(newest) = records.first() else {
        let refused = slots.into_iter().find_map(std::result::Result::err);
        return Err(Error::NoCheckpoint {
            device: device.name(),
            reason: refused
                .unwrap_or_else(|| Malformed::new("checkpoint record", "the ring is empty")),
        });
    };
    let serial = newest.header.serial.get();
    let count = slots.len() as u64;
    for (slot, record) in (0..).zip(&slots) {
        let subject = Subject::Slot(slot);
        match record {
            Ok(record) if record.header.serial.get() % count != u64::from(slot) => {
                let text = format!(
                    "holds record {}, which belongs elsewhere",
                    record.header.serial
                );
                let routine = false;
                found.fix(Fix::Slot { slot, routine });
                found.warning(FindingKind::CheckpointSlot, subject, text);
            }
            Ok(_) => {}
            Err(_) if serial < count && !written(serial, count, slot) => {
                // The slot has never been written.
            }
            Err(malformed) => {
                let text = format!(
                    "{}: the volume relies on checkpoint {serial} alone",
                    malformed.problem
                );
                // The power may have failed while the record after the newest was
                // written. The owner record cannot confirm this, because it may be older
                // on the device.
                let routine = u64::from(slot) == (serial + 1) % count;
                found.fix(Fix::Slot { slot, routine });
                found.warning(FindingKind::CheckpointSlot, subject, text);
            }
        }
    }
    Ok(records)
}

/// Returns true if records 1 to `serial` have filled `slot`.
fn written(serial: u64, count: u64, slot: u32) -> bool {
    (1..=serial).any(|record| record % count == u64::from(slot))
}
