//! Another number of heads.

use super::*;
use crate::mkfs::FormatOptions;
use crate::options::MountOptions;
use std::sync::Arc;
use varve_device::{MemoryDevice, VirtualClock};

fn mounted(heads: u32) -> Lfs {
    let device = Arc::new(MemoryDevice::new(16 << 20));
    let clock = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    Lfs::format(&*device, &*clock, &FormatOptions::default()).expect("format");
    let options = MountOptions {
        policy: PolicyKind::LIFE_CLASSES,
        heads,
        ..MountOptions::default()
    };
    Lfs::mount(device, clock, options).expect("mount")
}

#[test]
fn heads_stay_where_there_is_no_room_for_checkpoints() {
    let mut lfs = mounted(4);
    assert_eq!(lfs.space.heads(), 4);
    Arc::make_mut(&mut lfs.options).heads = 1;
    let end = lfs.log.lock().end;
    let folds = u64::from(lfs.geometry.segment_bytes);
    lfs.layers.change().live.counts.bytes = folds;
    let mut taken = Vec::new();
    while lfs.checkpoints.checkpoints_fit(2) {
        let segment = lfs.segments.lock().take(0).expect("a clean segment");
        taken.push(segment);
    }
    let reserve = lfs.space.reserve();
    lfs.arrange_heads(true).expect("arranged");
    assert_eq!(
        (lfs.space.heads(), lfs.log.lock().end, lfs.space.reserve()),
        (4, end, reserve)
    );
    for segment in taken {
        lfs.segments.lock().put_back(segment);
    }
    lfs.layers.change().live.counts.bytes = 0;
    let clean = lfs.space.clean_segments_now();
    lfs.arrange_heads(true).expect("arranged");
    assert_eq!((lfs.space.heads(), lfs.log.lock().end.heads()), (1, 1));
    assert_eq!(
        lfs.space.clean_segments_now(),
        clean + 3,
        "what they had named"
    );
}

#[test]
fn what_heads_enter_is_kept_for_them() {
    let lfs = mounted(4);
    let folds = u64::from(lfs.geometry.segment_bytes);
    lfs.layers.change().live.counts.bytes = folds;
    while lfs.space.may_move(1, Default::default()) {
        lfs.segments.lock().take(0).expect("a clean segment");
    }
    // What is left of the first one's has room for what a table takes.
    assert_eq!(lfs.space.clean_segments_now(), 3 + 1);
}
