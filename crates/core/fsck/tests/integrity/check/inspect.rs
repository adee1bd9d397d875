//! Inspection of undamaged and damaged volumes.

use crate::surgeon::Surgeon;
use crate::volume::{Volume, formatted};
use std::sync::Arc;
use varve_device::{MemoryDevice, VirtualClock};
use varve_fs::{FileKind, InodeNo};
use varve_fsck::inspect::{Inspector, RunState};
use varve_lfs::FormatOptions;

fn open(device: &MemoryDevice) -> Inspector {
    let device = Arc::new(MemoryDevice::from_image(&device.snapshot()));
    let inspector = Inspector::open(device.clone(), Arc::new(VirtualClock::new(0, 0))).unwrap();
    assert_eq!(device.counters().snapshot().bytes_written, 0);
    inspector
}

/// Returns every view, as text and as JSON.
pub fn everything(inspector: &Inspector) -> String {
    let mut text = format!("{}\n", inspector.volume());
    let json = serde_json::to_string(&inspector.volume()).unwrap();
    assert!(json.starts_with('{'));
    for copy in inspector.superblocks() {
        text += &format!("{copy}\n{}\n", serde_json::to_string(&copy).unwrap());
    }
    text += &format!("{:?}\n", inspector.owner().map(|owner| owner.to_string()));
    for slot in inspector.checkpoints() {
        text += &format!("{slot}\n{}\n", serde_json::to_string(&slot).unwrap());
    }
    for segment in inspector.segments() {
        text += &format!("{segment}\n");
    }
    for segment in 0..inspector.geometry().segment_count {
        let contents = inspector.contents(segment, true).unwrap();
        text += &format!("{contents}\n");
        serde_json::to_string(&contents).unwrap();
    }
    if let Ok(ifile) = inspector.ifile() {
        text += &format!("{ifile}\n");
        serde_json::to_string(&ifile).unwrap();
    }
    for ino in 0..200 {
        let inode = inspector.inode(InodeNo(ino));
        text += &format!("{inode}\n");
        serde_json::to_string(&inode).unwrap();
    }
    text
}

#[test]
fn a_populated_volume() {
    let volume = Volume::new(16 << 20);
    volume.populate();
    for unmounted in [false, true] {
        if unmounted {
            volume.unmount();
        } else {
            volume.system.sync().unwrap();
        }
        let inspector = open(&volume.device);
        let view = inspector.volume();
        assert_eq!(view.clean, unmounted);
        assert_eq!(view.problems, Vec::<String>::new());
        assert_eq!(view.used[0], 175);
        assert_eq!(inspector.owner().unwrap().mounted, !unmounted);
        assert!(inspector.superblocks().iter().all(|copy| copy.in_use));
        let slots = inspector.checkpoints();
        assert_eq!(slots.iter().filter(|slot| slot.used).count(), 1);
        everything(&inspector);

        let large = inspector.lookup(b"/home/deep/large").unwrap();
        assert_eq!(inspector.lookup(b"home/hard").unwrap(), large);
        assert_eq!(inspector.lookup(b"/home/deep/../hard").unwrap(), large);
        assert!(inspector.lookup(b"/home/nothing").is_err());
        let inode = inspector.inode(large);
        assert_eq!((inode.state, inode.kind), ("used", Some("regular")));
        assert_eq!((inode.size, inode.nlink), (900_000, 2));
        assert_eq!(inode.logged, !unmounted);
        let blocks: u64 = inode.runs.iter().map(|run| run.blocks).sum();
        assert_eq!(blocks, inode.blocks);
        let (_, bytes) = inspector.read(large, 219).unwrap().unwrap();
        assert_eq!(
            bytes[..10],
            crate::volume::pattern(77, 900_000)[219 * 4096..][..10]
        );
        assert!(inspector.read(large, 220).unwrap().is_none());

        let reserved = inspector.inode(inspector.lookup(b"/home/reserved").unwrap());
        assert_eq!(reserved.runs.len(), 1);
        assert_eq!(reserved.runs[0].state, RunState::Unwritten);
        assert_eq!(reserved.runs[0].blocks, 25);
        let labelled = inspector.inode(inspector.lookup(b"/home/labelled").unwrap());
        assert!(
            labelled
                .xattrs
                .is_some_and(|(bytes, sector)| bytes > 900 && sector > 0)
        );
        let names = inspector.names(InodeNo::ROOT).unwrap();
        let mut names: Vec<_> = names
            .into_iter()
            .map(|(name, _, kind)| (name, kind))
            .collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let directory = FileKind::Directory;
        assert_eq!(
            names,
            [(b"home".to_vec(), directory), (b"many".to_vec(), directory)]
        );
    }
}

#[test]
fn live_entries_are_what_the_usage_table_counts() {
    let volume = Volume::new(16 << 20);
    volume.populate();
    volume.unmount();
    let inspector = open(&volume.device);
    for segment in inspector.segments() {
        let contents = inspector.contents(segment.segment, false).unwrap();
        let entries = contents
            .partials
            .iter()
            .flat_map(|partial| &partial.entries);
        let live: u64 = entries
            .filter(|entry| entry.live)
            .map(|entry| entry.bytes)
            .sum();
        assert_eq!(live, u64::from(segment.live_bytes), "{segment}");
    }
}

#[test]
fn a_new_volume_has_no_root_yet() {
    let device = MemoryDevice::new(8 << 20);
    let clock = VirtualClock::new(0, 0);
    varve_lfs::Lfs::format(&device, &clock, &FormatOptions::default()).unwrap();
    let inspector = open(&device);
    assert!(inspector.owner().is_err());
    assert!(inspector.lookup(b"/x").is_err());
    assert_eq!(inspector.inode(InodeNo::ROOT).state, "unused");
    everything(&inspector);
}

#[test]
fn damaged_volumes_show_what_is_left() {
    let (device, _) = formatted(8 << 20, FormatOptions::default());
    let sound = Surgeon::new(&device);
    // Both records are lost: superblocks and summaries remain.
    let mut surgeon = sound.clone();
    let ring = surgeon.superblock.ring_offset.get() as usize;
    let length = surgeon.superblock.record_bytes.get() as usize;
    surgeon.bytes[ring..ring + 2 * length].fill(7);
    let inspector = open(&surgeon.device());
    assert!(
        inspector
            .checkpoints()
            .iter()
            .all(|slot| slot.problem.is_some())
    );
    assert_eq!(inspector.volume().problems.len(), 1);
    assert!(inspector.segments().is_empty());
    assert!(!inspector.contents(0, true).unwrap().partials.is_empty());
    assert_eq!(inspector.inode(InodeNo::ROOT).problems.len(), 1);
    everything(&inspector);
    // The usage tables of both checkpoints are lost.
    let mut surgeon = sound.clone();
    surgeon.edit_ifile(0, &mut |surgeon, pointer| {
        surgeon.rot(&pointer);
        pointer
    });
    everything(&open(&surgeon.device()));
    // The primary superblock is lost.
    let mut surgeon = sound.clone();
    surgeon.bytes[..4096].fill(0);
    let inspector = open(&surgeon.device());
    let copies = inspector.superblocks();
    assert!(copies[0].problem.is_some() && copies[1].in_use);
    // The payload of a partial is damaged.
    let mut surgeon = sound;
    let root = surgeon.imap(InodeNo::ROOT);
    let varve_lfs::format::ifile::ImapState::Used { place, .. } = root else {
        panic!("{root:?}");
    };
    surgeon.bytes[(place.sector * 512 + 8) as usize] ^= 1;
    let inspector = open(&surgeon.device());
    let geometry = inspector.geometry();
    let segment = geometry.segment_of(place.sector).unwrap();
    let contents = inspector.contents(segment, true).unwrap();
    assert!(
        contents
            .partials
            .iter()
            .any(|partial| partial.problem.is_some())
    );
    assert_eq!(inspector.inode(InodeNo::ROOT).problems.len(), 1);
    everything(&inspector);
}
