//! Looking for holes where something cannot be read, or is metadata.

use super::*;
use crate::chain::ChainItem;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

impl Volume {
    /// Looks for holes for a group, and says in which segments there are some.
    fn stock(&self, file: InodeNo) -> BTreeSet<u32> {
        // A checkpoint may have made some clean.
        self.leave_clean(self.lfs.space.cleaning_gauge().high);
        self.lfs.log.lock().holes.clear();
        self.lfs.cleaner.stock_holes(&group_of(file)).unwrap();
        let log = self.lfs.log.lock();
        log.holes.iter().map(|holes| holes.segment).collect()
    }

    fn refuse_segment(&self, segment: u32) {
        self.errands.refuse(self.bytes_of(segment));
        self.lfs.drop_caches();
    }
}

#[test]
fn one_looks_for_holes_at_a_time() {
    let (v, file, _) = Volume::crowded();
    v.lfs.cleaner.finding_holes.store(true, Relaxed);
    assert_eq!(v.stock(file), BTreeSet::new());
    v.lfs.cleaner.finding_holes.store(false, Relaxed);
    assert_ne!(v.stock(file), BTreeSet::new());
}

/// A block that shares its write units with others cannot be written alone.
#[test]
fn where_blocks_do_not_lie_on_write_units_nothing_is_plugged() {
    for aligned in [true, false] {
        let format = FormatOptions {
            aligned,
            ..FormatOptions::default()
        };
        let (v, file, _) = Volume::crowded_on(&format);
        assert_eq!(v.lfs.geometry.aligned, aligned);
        assert!(v.lfs.cleaner.is_short());
        assert_eq!(v.stock(file).is_empty(), !aligned);
    }
}

/// Another checkpoint would show more of them, but must find room.
#[test]
fn where_no_checkpoint_fits_holes_are_looked_for_without_one() {
    let checkpoints = [true, false].map(|fits| {
        let (v, file, _) = Volume::crowded();
        if !fits {
            // Nor in what is left of the open segment.
            v.leave_clean(0);
            v.lfs.layers.change().live.counts.bytes = 64 << 20;
        }
        assert_eq!(v.lfs.checkpoints.checkpoint_fits(), fits);
        let all = v.lfs.segments.lock().pluggable();
        for (segment, _) in all {
            v.lfs.segments.lock().get_mut(segment).suspect = true;
        }
        v.lfs.layers.change().live.log_bytes = v.lfs.geometry.volume_bytes() / 8;
        let before = v.lfs.statistics().checkpoints;
        v.stock(file);
        assert_eq!(v.lfs.stopped(), None);
        v.lfs.statistics().checkpoints - before
    });
    assert_eq!(checkpoints, [1, 0]);
}

/// Neither a segment nor the index need be legible: there are others, and a
/// user who writes is told nothing of it.
#[test]
fn segments_that_cannot_be_read_are_not_plugged() {
    let (v, file, _) = Volume::crowded();
    let found = v.stock(file);
    let segment = *found.first().unwrap();
    v.refuse_segment(segment);
    let others = v.stock(file);
    assert!(!others.is_empty() && !others.contains(&segment));
    assert!(!v.lfs.segments.lock().get(segment).suspect);
    // All blocks are found by way of the file's inode.
    let inode = v
        .lfs
        .layers
        .lookup()
        .inode_place(file)
        .unwrap()
        .0
        .unwrap()
        .1;
    v.refuse_segment(v.lfs.geometry.segment_of(inode.sector).unwrap());
    assert_eq!(v.stock(file), BTreeSet::new());
    v.errands.refuse(0..0);
    assert!(v.stock(file).contains(&segment));
    assert_eq!(v.lfs.stopped(), None);
}

#[test]
fn a_map_that_cannot_be_read_is_not_believed_either() {
    let (v, file, blocks) = Volume::crowded();
    v.plug(file, blocks, 7);
    v.checkpoint();
    let (segment, edition) = v.plugged()[0];
    let holes_of = || {
        let known = v.lfs.mechanism.recorded(segment);
        let contents = v.lfs.cleaner.read_for_holes(&[(segment, edition)]).unwrap();
        let contents = contents.into_iter().next().unwrap();
        contents.map(|contents| {
            let led_to = v.lfs.mechanism.led_to(&contents, &known).unwrap();
            led_to.map(|led_to| led_to.len())
        })
    };
    assert!(holes_of().flatten() > Some(0));
    v.refuse_segment(segment);
    // Nothing is known to live there, and something is known to.
    assert_eq!(holes_of(), Some(None));
    // Nor if the map is forgotten, and the segment is read as a whole.
    v.lfs.segments.lock().unmapped(segment);
    assert_eq!(holes_of(), None);
    v.errands.refuse(0..0);
    assert!(holes_of().flatten() > Some(0));
}

/// A segment into which the newest image leads for metadata is not plugged;
/// attributes are data, and those that were replaced are none.
#[test]
fn metadata_keeps_a_segment_from_being_plugged_and_attributes_do_not() {
    let v = Volume::new();
    let file = v.create("file");
    let attribute = |value: u8| {
        let caller = Caller::root();
        let value = [value; 900];
        v.fs.setxattr(&caller, file, b"user.x", &value, false, false)
            .unwrap();
    };
    attribute(1);
    v.write(file, 0, 20);
    v.checkpoint();
    let place = || {
        v.lfs
            .layers
            .lookup()
            .inode_place(file)
            .unwrap()
            .0
            .unwrap()
            .1
    };
    let xattrs = v.lfs.layers.lookup().xattrs(file).unwrap();
    type Is = fn(&ChainItem) -> bool;
    let is_inode: Is = |item| matches!(item, ChainItem::Inode { .. });
    let is_xattrs: Is = |item| matches!(item, ChainItem::Block { xattrs: true, .. });
    let of_ifile: Is = |item| item.ino() == InodeNo::IFILE;
    let node: Is = |item| matches!(item, ChainItem::Node { .. });
    let led_to = |sector: u64, is_one: Is, bytes: u64| {
        let segment = v.lfs.geometry.segment_of(sector).unwrap();
        let mut contents = v.lfs.mechanism.read_segment(segment).unwrap();
        contents.blocks.retain(|info| is_one(&info.item));
        assert!(!contents.blocks.is_empty());
        let (base, _) = v.lfs.mechanism.recorded(segment);
        let led_to = v.lfs.mechanism.led_to(&contents, &(base, bytes)).unwrap();
        led_to.map(|led_to| led_to.len())
    };
    let (inode, index) = (place().sector, v.node(file).sector());
    assert_eq!(led_to(inode, is_inode, 0), None);
    assert_eq!(led_to(index, node, 0), None);
    assert_eq!(led_to(index, of_ifile, 0), None);
    let bytes = xattrs.stored_bytes();
    assert_eq!(led_to(xattrs.sector(), is_xattrs, bytes), Some(1));
    // With other bytes than the table says something is missing.
    assert_eq!(led_to(xattrs.sector(), is_xattrs, bytes + 512), None);
    attribute(2);
    v.checkpoint();
    assert_eq!(led_to(xattrs.sector(), is_xattrs, 0), Some(0));
}
