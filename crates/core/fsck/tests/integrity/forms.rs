//! Packed and plain index nodes: the volumes on which each form occurs.

use crate::repair::sweep::{bytes_of, mend, repaired};
use crate::salvage::{assert_same, salvage, wipe};
use crate::surgeon::Surgeon;
use crate::tree::Tree;
use crate::volume::{Image, Volume, checked, formatted, pattern};
use std::mem::offset_of;
use std::sync::Arc;
use varve_device::MemoryDevice;
use varve_fs::InodeNo;
use varve_fsck::check::FindingKind as Kind;
use varve_lfs::format::node::{MAGIC, node_form};
use varve_lfs::format::superblock::incompat_flags;
use varve_lfs::format::{NodeHeader, SECTOR};
use varve_lfs::{FormatOptions, Lfs, superblock_offsets};
use zerocopy::IntoBytes;

const BYTES: u64 = 16 << 20;

/// Changes every superblock to the format before index nodes could be packed.
fn age(device: &MemoryDevice) {
    let mut superblock = Lfs::find_superblock(device).unwrap();
    let features = superblock.incompat.get();
    assert_ne!(features & incompat_flags::PACKED, 0);
    superblock.incompat = (features & !incompat_flags::PACKED).into();
    for offset in superblock_offsets(&superblock) {
        let copy = superblock.sealed_for(offset / SECTOR);
        device.apply_write(offset, copy.as_bytes()).unwrap();
    }
}

/// Returns the number of nodes of both forms, live or dead.
fn forms(device: &MemoryDevice) -> [usize; 2] {
    let bytes = bytes_of(device);
    let sectors = bytes.chunks(SECTOR as usize);
    let nodes = sectors.filter(|sector| sector.starts_with(&MAGIC.to_le_bytes()));
    let mut found = [0; 2];
    nodes.for_each(|node| found[usize::from(node[offset_of!(NodeHeader, form)])] += 1);
    found
}

fn populated(aged: bool) -> (Arc<MemoryDevice>, Tree) {
    let (device, clock) = formatted(BYTES, FormatOptions::default());
    if aged {
        age(&device);
    }
    let volume = Volume::mount(device, clock, 2);
    volume.populate();
    volume.unmount();
    let tree = Tree::of(&volume.device);
    (volume.device.clone(), tree)
}

#[test]
fn a_volume_from_before_packed_nodes_is_used_as_before() {
    let (device, before) = populated(true);
    assert!(checked(&Image::from(device.snapshot()), true).is_spotless());
    assert_eq!(forms(&device)[usize::from(node_form::PACKED)], 0);
    // The volume is mounted again, written, and crashes.
    let (_, clock) = formatted(BYTES, FormatOptions::default());
    let volume = Volume::mount(device, clock, 5);
    let home = volume.lookup(InodeNo::ROOT, "home");
    let large = volume.lookup(volume.lookup(home, "deep"), "large");
    for block in 0..100 {
        volume.write(large, block * 2 * 4096, &pattern(block, 4096));
    }
    volume.system.checkpoint().unwrap();
    volume.write(large, 4096, &pattern(1, 4096));
    volume.system.sync().unwrap();
    let volume = volume.crash(6);
    volume.unmount();
    assert!(volume.check().is_spotless());
    let after = Tree::of(&volume.device);
    let changed: Vec<String> = (before.differences(&after).iter())
        .map(|difference| difference.path.clone())
        .collect();
    assert!(
        changed
            .iter()
            .all(|path| path.contains("large") || path.contains("hard"))
    );
    assert_eq!(forms(&volume.device)[usize::from(node_form::PACKED)], 0);
    // The volume is repaired, and salvaged.
    let mut surgeon = Surgeon::new(&volume.device);
    let node = surgeon.pointer(large, 1, 0);
    surgeon.rot(&node);
    let damaged = surgeon.device();
    let (report, differences) = repaired(&damaged, &after, "a rotten node");
    assert!(report.changed() && differences.is_empty(), "{report}");
    assert_eq!(forms(&damaged)[usize::from(node_form::PACKED)], 0);
    let (_, _, copy) = salvage(&wipe(&volume.device, true, true));
    assert_same(&after, &copy, "salvaged");
}

#[test]
fn a_packed_node_has_no_business_on_a_volume_from_before() {
    let (device, before) = populated(false);
    let [plain, packed] = forms(&device);
    assert!(plain > 0 && packed > 0, "{plain} {packed}");
    age(&device);
    let report = checked(&Image::from(device.snapshot()), true);
    let nodes = (report.errors.iter()).filter(|finding| finding.kind == Kind::IndexNode);
    let texts: Vec<&str> = nodes.map(|finding| finding.text.as_str()).collect();
    assert!(!texts.is_empty(), "{report}");
    assert!(
        texts.iter().all(|text| text.contains("without such")),
        "{texts:?}"
    );
    let report = mend(&device, true);
    assert!(report.is_whole() && report.changed(), "{report}");
    assert!(checked(&Image::from(device.snapshot()), true).is_spotless());
    assert_eq!(before, Tree::of(&device));
}
