//! Commands that differ for a volume that is updated in place.

use super::info::{Held, Shown};
use super::output::{self, Failure, Outcome};
use super::size;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use varve::IoMode;
use varve::admin::{Found, identity, open_device, probe};
use varve_device::{HostClock, OpenMode};
use varve_ffs::allocate::{Fit, Policy};
use varve_ffs::format::{Geometry, Metadata, Superblock};
use varve_ffs::{
    Checked, Error, Examine, Ffs, FfsMountOptions, FreeSpace, Repaired, check, passed_over, search,
};
use varve_fsck::inspect::uuid_text;

const CORRECTED: u8 = 1;
const UNCORRECTED: u8 = 4;
const OPERATIONAL: u8 = 8;

/// The superblock as JSON.
pub fn describe(superblock: &Superblock) -> Value {
    let geometry = Geometry::of(superblock);
    json!({
        "layout": "ffs",
        "uuid": uuid_text(&superblock.uuid),
        "label": superblock.label_text(),
        "format_version": superblock.version.get(),
        "bytes": geometry.block_byte(geometry.blocks),
        "block_bytes": geometry.block_bytes,
        "fragment_bytes": geometry.fragment_bytes,
        "unit_bytes": geometry.unit_bytes,
        "journal_bytes": geometry.journal_bytes(),
        "cylinder_groups": geometry.groups(),
        "group_blocks": geometry.group_blocks,
        "group_inodes": geometry.group_inodes,
        "inodes": geometry.inodes(),
        "reserve_blocks": geometry.reserve_blocks,
        "policy": policy(superblock),
        "maxcontig": superblock.maxcontig.get(),
        "rotdelay": superblock.rotdelay.get(),
        "metadata": superblock.metadata().name(),
        "case_fold": superblock.options & 1 != 0,
        "created_ns": superblock.created_ns.get(),
    })
}

/// The allocation policy as JSON.
fn policy(superblock: &Superblock) -> Value {
    let Ok(policy) = superblock.policy() else {
        return Value::Null;
    };
    let mut value = json!({ "name": policy.name(), "text": policy.to_string() });
    match policy {
        Policy::Ffs { clusters, .. } => value["clusters"] = json!(clusters),
        Policy::Fixed { shuffled } => value["shuffled"] = json!(shuffled),
        Policy::Extents { fit, sizes } => {
            value["fit"] = json!(if fit == Fit::Best { "best" } else { "first" });
            value["size_blocks"] = json!(sizes);
        }
        Policy::Buddy => {}
        Policy::Restricted {
            sizes,
            grow,
            region,
        } => {
            value["size_blocks"] = json!(sizes);
            value["grow"] = json!(grow);
            value["region_blocks"] = json!(region);
        }
    }
    value
}

/// The allocation policy as text.
fn placement(superblock: &Superblock) -> String {
    let policy = superblock.policy();
    policy.map_or_else(|error| error.to_string(), |policy| policy.to_string())
}

/// Message of `mkfs` after success.
pub fn made(volume: &Path, superblock: &Superblock) -> String {
    let geometry = Geometry::of(superblock);
    let metadata = match superblock.metadata() {
        Metadata::Journal => format!("a journal of {}", size::show(geometry.journal_bytes())),
        other => format!("metadata {}", other.name()),
    };
    format!(
        "{}: {} in {} cylinder groups, blocks of {}, fragments of {}, {metadata}, {} inodes, \
         {}, UUID {}",
        volume.display(),
        size::show(geometry.block_byte(geometry.blocks)),
        geometry.groups(),
        size::show(geometry.block_bytes.into()),
        size::show(geometry.fragment_bytes.into()),
        geometry.inodes(),
        placement(superblock),
        uuid_text(&superblock.uuid),
    )
}

fn look(volume: &Path) -> Result<Ffs, Failure> {
    let device = open_device(volume, OpenMode::ReadOnly, IoMode::Direct)?;
    let options = FfsMountOptions {
        read_only: true,
        ..FfsMountOptions::default()
    };
    let clock = Arc::new(HostClock::default());
    Ffs::mount(device, clock, options).map_err(Failure::with(1))
}

/// `varve info`.
pub fn info(volume: &Path, superblock: &Superblock, as_json: bool) -> Outcome {
    let held = Held::of(volume);
    let found = match held.in_use {
        true => None,
        false => look(volume).ok(),
    };
    let usage = found.as_ref().map(Ffs::usage_now);
    let free = found.as_ref().map(Ffs::free_space);
    let geometry = Geometry::of(superblock);
    let shown = |bytes: u64| size::show(bytes);
    let lines = vec![
        ("label", superblock.label_text()),
        ("UUID", uuid_text(&superblock.uuid)),
        (
            "layout",
            format!(
                "FFS, updated in place, metadata {}",
                superblock.metadata().name()
            ),
        ),
        ("format", format!("version {}", superblock.version)),
        ("size", shown(geometry.block_byte(geometry.blocks))),
        (
            "blocks",
            format!(
                "{}, {} of them in reserve",
                shown(geometry.block_bytes.into()),
                geometry.reserve_blocks
            ),
        ),
        ("fragments", shown(geometry.fragment_bytes.into())),
        (
            "groups",
            format!("{} of {} blocks", geometry.groups(), geometry.group_blocks),
        ),
        ("journal", shown(geometry.journal_bytes())),
        ("placement", placement(superblock)),
        ("inodes", format!("{} at most", geometry.inodes())),
        ("free room", free.as_ref().map(pieces).unwrap_or_default()),
    ];
    let mut value = describe(superblock);
    value["free_space"] = json!(free);
    held.show(volume, Shown::new(value, usage, lines), as_json)
}

/// Fragmentation of free space, as text.
fn pieces(free: &FreeSpace) -> String {
    format!(
        "{} fragments in {} runs, half of them in runs of {} or more",
        free.fragments, free.runs, free.median
    )
}

/// True if the volume was unmounted cleanly. Any error is reported by the check that
/// follows.
pub fn is_clean(volume: &Path) -> bool {
    look(volume).is_ok_and(|found| {
        let report = found.recovery_report();
        let is_clean = report.records == 0 && report.unfinished == 0 && !report.unclean;
        is_clean && passed_over(&found).is_empty()
    })
}

/// True if a superblock is found anywhere, and no known format has replaced the volume.
pub fn has_copy(volume: &Path) -> bool {
    let Ok(device) = open_device(volume, OpenMode::ReadOnly, IoMode::Direct) else {
        return false;
    };
    // A start of the volume that cannot be read is no evidence.
    let is_taken = matches!(probe(&device), Ok(Some(Found::Known(_))));
    !is_taken && !matches!(search(&device), Ok(None))
}

/// `varve fsck --repair`: repairs all flaws.
pub fn repair(volume: &Path, as_json: bool) -> Outcome {
    let device = open_device(volume, OpenMode::ReadWrite, IoMode::Direct)
        .map_err(|error| Failure::from(error).coded(OPERATIONAL))?;
    let options = FfsMountOptions {
        owner: identity(),
        ..FfsMountOptions::default()
    };
    let clock = Arc::new(HostClock::default());
    let done = varve_ffs::repair(device, clock, options).map_err(|error| match error {
        // The volume is unchanged, or repaired as far as possible.
        Error::Stopped(reason) => Failure::new(UNCORRECTED, reason),
        error => Failure::new(OPERATIONAL, error),
    })?;
    let changed = done.superblocks > 0
        || !done.recovery.repairs.is_empty()
        || !done.recovery.losses.is_empty();
    let left = checked(volume, false)?.problems;
    tell_repair(volume, &done, &left, as_json);
    let left = if left.is_empty() { 0 } else { UNCORRECTED };
    Ok(left | if changed { CORRECTED } else { 0 })
}

/// `varve fsck --preen`: repairs the effects of a crash, and leaves other flaws.
pub fn preen(volume: &Path, as_json: bool) -> Outcome {
    let device = open_device(volume, OpenMode::ReadWrite, IoMode::Direct)
        .map_err(|error| Failure::from(error).coded(OPERATIONAL))?;
    let options = FfsMountOptions {
        owner: identity(),
        examine: Examine::IfUnclean,
        ..FfsMountOptions::default()
    };
    let clock = Arc::new(HostClock::default());
    let failed = |error| Failure::new(UNCORRECTED, error);
    let mounted = Ffs::mount(device, clock, options).map_err(failed)?;
    let mended = match mounted.stopped() {
        None => mounted.recovery_report().repairs.clone(),
        Some(_) => Vec::new(),
    };
    mounted.unmount().map_err(failed)?;
    drop(mounted);
    // The flaws that remain, and the contents of an unmounted volume.
    let left = look_over(volume, false, as_json, &mended)?;
    Ok(left | if mended.is_empty() { 0 } else { CORRECTED })
}

fn tell_repair(volume: &Path, done: &Repaired, left: &[String], as_json: bool) {
    let Repaired {
        superblocks,
        recovery,
    } = done;
    if as_json {
        output::json(&json!({
            "superblocks": superblocks,
            "repairs": recovery.repairs,
            "losses": recovery.losses,
            "untold": recovery.untold,
            "left": left,
        }));
        return;
    }
    if *superblocks > 0 {
        output::line(format_args!(
            "mended: {superblocks} copies of the superblock written again"
        ));
    }
    for repair in &recovery.repairs {
        output::line(format_args!("mended: {repair}"));
    }
    for loss in &recovery.losses {
        output::line(format_args!("lost: {loss}"));
    }
    if recovery.untold > 0 {
        output::line(format_args!("and {} more", recovery.untold));
    }
    for problem in left {
        output::line(format_args!("not mended: {problem}"));
    }
    let nothing = *superblocks == 0 && recovery.repairs.is_empty() && recovery.losses.is_empty();
    let verdict = match (left.is_empty(), nothing) {
        (true, true) => "clean",
        (true, false) => "REPAIRED",
        (false, _) => "STILL DAMAGED",
    };
    output::line(format_args!("{}: {verdict}", volume.display()));
}

/// `varve fsck` without repair.
pub fn fsck(volume: &Path, data: bool, as_json: bool) -> Outcome {
    look_over(volume, data, as_json, &[])
}

/// Runs a check.
fn checked(volume: &Path, data: bool) -> Result<Checked, Failure> {
    let device = open_device(volume, OpenMode::ReadOnly, IoMode::Direct)
        .map_err(|error| Failure::from(error).coded(OPERATIONAL))?;
    check(device, Arc::new(HostClock::default()), data)
        .map_err(|error| Failure::new(UNCORRECTED, error))
}

/// Checks the volume, after the repairs in `mended`, and prints the result.
fn look_over(volume: &Path, data: bool, as_json: bool, mended: &[String]) -> Outcome {
    let Checked {
        problems,
        untold,
        recovery,
        usage,
        fragments_used,
        bytes_read,
        policy: found,
        free_space: free,
    } = checked(volume, data)?;
    let sound = problems.is_empty();
    if as_json {
        output::json(&json!({
            "sound": sound,
            "problems": problems,
            "untold": untold,
            "inodes": usage.inodes,
            "blocks": usage.blocks,
            "fragments_used": fragments_used,
            "policy": found.name(),
            "free_space": free,
            "bytes_read": bytes_read,
            "records": recovery.records,
            "unclean": recovery.unclean,
            "repairs": recovery.repairs,
            "mended": mended,
        }));
    } else {
        let tell = |what: &str, text: &String| output::line(format_args!("{what}: {text}"));
        mended.iter().for_each(|text| tell("mended", text));
        recovery
            .repairs
            .iter()
            .for_each(|text| tell("to be mended", text));
        problems.iter().for_each(output::line);
        if untold > 0 {
            output::line(format_args!("and {untold} more"));
        }
        let verdict = match (sound, recovery.records) {
            (true, _) if recovery.unclean => {
                "sound; not unmounted cleanly, the next mount checks and mends it"
            }
            (true, 0) => "clean",
            (true, _) => "sound; not unmounted cleanly, the next mount replays the journal",
            (false, _) => "DAMAGED",
        };
        output::line(format_args!(
            "{} inodes, {} blocks, {fragments_used} fragments",
            usage.inodes, usage.blocks
        ));
        output::line(format_args!("{found}; free: {}", pieces(&free)));
        output::line(format_args!("{}: {verdict}", volume.display()));
    }
    Ok(if sound { 0 } else { UNCORRECTED })
}

/// `varve dump`: superblock, journal, and the free space of each cylinder group if asked.
pub fn dump(volume: &Path, groups: bool) -> Outcome {
    let found = look(volume)?;
    let usage = found.usage_now();
    let mut value = json!({
        "superblock": describe(found.superblock()),
        "journal": found.recovery_report(),
        "usage": { "inodes": usage.inodes, "blocks": usage.blocks, "sectors": usage.sectors },
        "room": found.statistics(),
        "free_space": found.free_space(),
    });
    if groups {
        value["cylinder_groups"] = json!(found.group_rooms());
    }
    output::json(&value);
    Ok(0)
}
