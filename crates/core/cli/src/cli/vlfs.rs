//! Commands that differ for a volume on the virtual log.

use super::info::{Held, Shown};
use super::output::{self, Failure, Outcome};
use super::size;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use varve::IoMode;
use varve::admin::{layout_of, open_device};
use varve_device::{Device, HostClock, OpenMode};
use varve_fsck::inspect::uuid_text;
use varve_vlfs::format::{CheckpointHeader, Entry, Measures, Superblock};
use varve_vlfs::{Checked, Vlfs, VlfsMountOptions, check, passed_over, whole_checkpoints};
use varve_vlog::{InOrder, Medium};

const UNCORRECTED: u8 = 4;
const OPERATIONAL: u8 = 8;

/// The superblock as JSON.
pub fn describe(superblock: &Superblock) -> Value {
    let measures = Measures::of(superblock);
    json!({
        "layout": "vlfs",
        "uuid": uuid_text(&superblock.uuid),
        "label": superblock.label_text(),
        "format_version": superblock.version.get(),
        "bytes": measures.block_byte(measures.blocks),
        "block_bytes": measures.block_bytes,
        "unit_bytes": measures.unit_bytes,
        "inodes": measures.inodes,
        "record_zone_blocks": measures.zone_blocks,
        "reserve_blocks": measures.reserve_blocks,
        "slots": measures.slots,
        "parts": measures.parts,
        "case_fold": superblock.options & 1 != 0,
        "created_ns": superblock.created_ns.get(),
    })
}

/// Message of `mkfs` after success.
pub fn made(volume: &Path, superblock: &Superblock) -> String {
    let measures = Measures::of(superblock);
    format!(
        "{}: {} on the virtual log, blocks of {}, units of {}, {} inodes, UUID {}",
        volume.display(),
        size::show(measures.block_byte(measures.blocks)),
        size::show(measures.block_bytes.into()),
        size::show(measures.unit_bytes.into()),
        measures.inodes,
        uuid_text(&superblock.uuid),
    )
}

fn medium(volume: &Path) -> Result<Arc<dyn Medium>, Failure> {
    let device = open_device(volume, OpenMode::ReadOnly, IoMode::Direct)?;
    Ok(Arc::new(InOrder(device)))
}

fn look(volume: &Path) -> Result<Vlfs, Failure> {
    let options = VlfsMountOptions {
        read_only: true,
        ..VlfsMountOptions::default()
    };
    Vlfs::mount(medium(volume)?, Arc::new(HostClock::default()), options).map_err(Failure::with(1))
}

/// `varve info`.
pub fn info(volume: &Path, superblock: &Superblock, as_json: bool) -> Outcome {
    let held = Held::of(volume);
    let usage = match held.in_use {
        true => None,
        false => look(volume).ok().map(|found| found.usage_now()),
    };
    let measures = Measures::of(superblock);
    let lines = vec![
        ("label", superblock.label_text()),
        ("UUID", uuid_text(&superblock.uuid)),
        ("layout", "VLFS, on the virtual log".to_owned()),
        ("format", format!("version {}", superblock.version)),
        ("size", size::show(measures.block_byte(measures.blocks))),
        (
            "blocks",
            format!(
                "{}, {} of them in reserve",
                size::show(measures.block_bytes.into()),
                measures.reserve_blocks
            ),
        ),
        ("units", size::show(measures.unit_bytes.into())),
        ("inodes", format!("{} at most", measures.inodes)),
    ];
    held.show(
        volume,
        Shown::new(describe(superblock), usage, lines),
        as_json,
    )
}

/// True if the volume was unmounted cleanly. Any error is reported by the check that
/// follows.
pub fn is_clean(volume: &Path) -> bool {
    look(volume)
        .is_ok_and(|found| found.recovery_report().tail_record && passed_over(&found).is_empty())
}

/// `varve fsck` without repair.
pub fn fsck(volume: &Path, data: bool, as_json: bool) -> Outcome {
    let medium = medium(volume).map_err(|failure| failure.coded(OPERATIONAL))?;
    let checked = check(medium, Arc::new(HostClock::default()), data)
        .map_err(|error| Failure::new(UNCORRECTED, error))?;
    let Checked {
        problems,
        untold,
        recovery,
        usage,
        units_used,
        bytes_read,
    } = checked;
    let sound = problems.is_empty();
    if as_json {
        output::json(&json!({
            "sound": sound,
            "problems": problems,
            "untold": untold,
            "inodes": usage.inodes,
            "blocks": usage.blocks,
            "units_used": units_used,
            "bytes_read": bytes_read,
            "unmounted": recovery.tail_record,
            "changes": recovery.changes,
            "walked": recovery.walked,
        }));
    } else {
        problems.iter().for_each(output::line);
        if untold > 0 {
            output::line(format_args!("and {untold} more"));
        }
        let verdict = match (sound, recovery.tail_record) {
            (true, true) => "clean",
            (true, false) => "sound; not unmounted cleanly, the next mount recovers it",
            (false, _) => "DAMAGED",
        };
        output::line(format_args!(
            "{} inodes, {} blocks, {units_used} units",
            usage.inodes, usage.blocks
        ));
        if recovery.changes > 0 {
            output::line(format_args!(
                "{} changes since the last full transaction, which the next mount applies",
                recovery.changes
            ));
        }
        output::line(format_args!("{}: {verdict}", volume.display()));
    }
    Ok(if sound { 0 } else { UNCORRECTED })
}

/// `varve dump`: superblock, checkpoints, and the inode map if asked.
pub fn dump(volume: &Path, inode_map: bool) -> Outcome {
    let found = look(volume)?;
    let measures = Measures::of(found.superblock());
    let whole = whole_checkpoints(Arc::clone(found.medium())).map_err(Failure::with(1))?;
    let checkpoint = |region: usize| -> Value {
        let mut bytes = vec![0; measures.block_bytes as usize];
        let at = measures.block_byte(measures.checkpoint_block(region));
        if let Err(error) = found.medium().read(at, &mut bytes) {
            return json!({ "unreadable": error.to_string() });
        }
        match CheckpointHeader::parse(&bytes, &measures) {
            Ok(head) => json!({
                "block": measures.checkpoint_block(region),
                "whole": whole[region],
                "serial": head.serial.get(),
                "record": head.seq.get(),
                "entries": head.entries.get(),
                "written_ns": head.written_ns.get(),
            }),
            Err(problem) => json!({ "damaged": problem.to_string() }),
        }
    };
    let usage = found.usage_now();
    let report = found.recovery_report();
    let mut value = json!({
        "superblock": describe(found.superblock()),
        "checkpoints": [checkpoint(0), checkpoint(1)],
        "recovery": {
            "tail_record": report.tail_record,
            "records_read": report.records_read,
            "records_discarded": report.records_discarded,
            "changes": report.changes,
            "inodes_changed": report.inodes_changed,
            "walked": report.walked,
        },
        "usage": { "inodes": usage.inodes, "blocks": usage.blocks, "sectors": usage.sectors },
        "room": found.statistics(),
    });
    if inode_map {
        let entry = |(ino, (entry, changed)): (usize, &(Entry, bool))| match entry.unit() {
            Some(unit) => json!({
                "ino": ino, "unit": unit, "crc": entry.crc(), "unfinished": entry.unfinished(),
                "changed": changed,
            }),
            // In change records alone: it has no unit before the next fold.
            None if *changed => json!({ "ino": ino, "unit": null, "changed": true }),
            None => json!({ "ino": ino, "next_version": entry.next_version() }),
        };
        value["inode_map"] = found.inode_map().iter().enumerate().map(entry).collect();
    }
    output::json(&value);
    Ok(0)
}

/// Refuses an operation that only a volume on the segmented log supports.
///
/// # Errors
/// If `volume` has another layout.
pub fn refuse(volume: &Path, what: &str, code: u8) -> Result<(), Failure> {
    let layout = match layout_of(volume) {
        varve::Layout::VirtualLog => "on the virtual log (VLFS)",
        varve::Layout::InPlace => "that is updated in place (FFS)",
        _ => return Ok(()),
    };
    let shown = volume.display();
    let text = format!("{shown} is a volume {layout}, which has no {what}");
    Err(Failure::new(code, text))
}
