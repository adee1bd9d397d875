//! Which copy counts, whatever an interrupted change left.

use super::*;
use crate::Tune;
use crate::format::superblock::incompat_flags;
use crate::mkfs::{FormatOptions, format};
use crate::tune::tune;
use std::sync::Arc;
use varve_device::{MemoryDevice, VirtualClock};

fn volume() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(16 << 20));
    let options = FormatOptions {
        seed: Some(1),
        label: "old".into(),
        ..FormatOptions::default()
    };
    format(&*device, &VirtualClock::new(0, 1), &options).unwrap();
    device
}

fn spoil(device: &MemoryDevice, offset: u64) {
    device
        .write(offset, &[IoSlice::new(&[0x5a; 4096])])
        .unwrap();
}

fn named(label: &str) -> Tune {
    Tune {
        label: Some(label.into()),
        ..Tune::default()
    }
}

#[test]
fn the_primary_counts_and_then_the_highest_generation() {
    let device = volume();
    let old = find(&*device).unwrap().superblock;
    let new = Superblock {
        label: [b'n'; 64],
        generation: (old.generation.get() + 1).into(),
        ..old
    };
    let copies: Vec<u64> = superblock_offsets(&old).skip(1).collect();
    // As an interrupted change leaves them: the last ones are new.
    write(&*device, &new, copies[4..].to_vec()).unwrap();
    let found = find(&*device).unwrap();
    assert_eq!(found.superblock.label_text(), "old");
    assert_eq!(found.disagreement, None);
    assert_eq!(newest(&*device).unwrap().label, new.label);
    spoil(&device, 0);
    let found = find(&*device).unwrap();
    assert_eq!(found.superblock.label, new.label);
    let reason = found.disagreement.unwrap();
    assert!(reason.contains("generations 1 to 2"), "{reason}");
    // The change that comes next is younger than all of them.
    let after = tune(&*device, &named("newer")).unwrap();
    assert_eq!(after.generation.get(), 3);
    for offset in superblock_offsets(&after) {
        assert_eq!(read(&*device, offset).unwrap().label_text(), "newer");
    }
}

#[test]
fn copies_of_one_generation_agree() {
    let device = volume();
    spoil(&device, 0);
    let found = find(&*device).unwrap();
    assert_eq!(found.disagreement, None);
    assert_eq!(found.superblock.label_text(), "old");
    // Even if most of them are damaged, too.
    let all: Vec<u64> = superblock_offsets(&found.superblock).collect();
    all[..all.len() - 1]
        .iter()
        .for_each(|&at| spoil(&device, at));
    let found = find(&*device).unwrap();
    assert_eq!(found.disagreement, None);
    spoil(&device, all[all.len() - 1]);
    let error = find(&*device).unwrap_err().to_string();
    assert!(error.contains("no Varve signature"), "{error}");
}

#[test]
fn a_device_that_is_too_short_is_refused_and_a_longer_one_is_not() {
    let device = volume();
    let whole = device.snapshot();
    let of = |bytes: u64| {
        let other = MemoryDevice::new(bytes);
        let mut copy = vec![0; bytes.min(16 << 20) as usize];
        whole.read(0, &mut copy);
        other.write(0, &[IoSlice::new(&copy)]).unwrap();
        other
    };
    assert!(find(&of(20 << 20)).is_ok());
    let error = find(&of((16 << 20) - 4096)).unwrap_err().to_string();
    assert!(error.contains("the volume needs 16777216 bytes"), "{error}");
}

#[test]
fn a_new_uuid_keeps_the_tag_and_an_old_one_needs_no_feature() {
    let device = volume();
    let before = find(&*device).unwrap().superblock;
    let uuid = |uuid| Tune {
        uuid,
        ..Tune::default()
    };
    let changed = tune(&*device, &uuid(Some([7; 16]))).unwrap();
    assert_eq!(changed.uuid, [7; 16]);
    assert_eq!(changed.volume_tag(), before.volume_tag());
    assert_ne!(changed.incompat.get() & incompat_flags::OWN_TAG, 0);
    let mut again = [7; 16];
    again[..8].copy_from_slice(&before.uuid[..8]);
    let back = tune(&*device, &uuid(Some(again))).unwrap();
    assert_eq!(back.volume_tag(), before.volume_tag());
    assert_eq!((back.incompat, back.tag.get()), (before.incompat, 0));
    // Nothing to do is nothing done.
    let same = tune(&*device, &uuid(Some(again))).unwrap();
    assert_eq!(same.generation, back.generation);
}

#[test]
fn a_label_that_is_too_long_changes_nothing() {
    let device = volume();
    let before = device.snapshot();
    let error = tune(&*device, &named(&"x".repeat(65))).unwrap_err();
    assert!(matches!(error, Error::Unfit(_)), "{error}");
    let (mut old, mut new) = (vec![0; 16 << 20], vec![0; 16 << 20]);
    before.read(0, &mut old);
    device.read(0, &mut new).unwrap();
    assert!(old == new);
}
