//! A durable partial that is lost, one after the other.
//!
//! The mount must report the loss if anything on the device proves that the partial was
//! durable, in any head of the log and at any place of the proof.

use crate::model::Model;
use crate::mounted::Subject;
use crate::operation::story;
use crate::runner::{Runner, new_clock};
use std::sync::Arc;
use varve_device::{MemoryDevice, MemoryImage};
use varve_fsck::inspect::Inspector;

/// Some syncs that use several heads, if there are several, without a checkpoint in
/// between.
const STORY: &str = "create a; write a 0+98304 #1; sync; create b; write b 0+32768 #2; sync; \
                     write a 0+49152 #3; sync; write a 49152+98304 #4; sync; mkdir c; sync; \
                     write b 0+65536 #5; sync";

/// Clears the header of every partial behind the checkpoint, one at a time. Returns the
/// number of those that a later partial knows to have been durable, and the serials of
/// those whose loss was not reported.
///
/// # Panics
/// If the subject does not mount.
pub fn unreported(subject: &impl Subject) -> (u64, Vec<u64>) {
    let image = volume(subject);
    let device = Arc::new(MemoryDevice::from_image(&image));
    let inspector = Inspector::open(device, new_clock()).expect("a volume");
    let boundary = {
        let slots = inspector.checkpoints();
        let newest = slots.iter().filter_map(|slot| slot.record.as_ref());
        newest
            .map(|record| record.position.serial)
            .max()
            .expect("a record")
    };
    let mut partials: Vec<_> = (0..inspector.geometry().segment_count)
        .filter_map(|segment| inspector.contents(segment, false).ok())
        .flat_map(|contents| contents.partials)
        .filter(|partial| partial.serial > boundary)
        .collect();
    partials.sort_by_key(|partial| partial.serial);
    let (mut tried, mut unreported) = (0, Vec::new());
    for (nth, lost) in partials.iter().enumerate() {
        let mut later = partials[nth + 1..].iter();
        if !later.any(|witness| witness.durable_through >= lost.serial) {
            continue;
        }
        tried += 1;
        let mut damaged = image.clone();
        damaged.write(lost.sector * 512, &[0; 512]);
        let device = Arc::new(MemoryDevice::from_image(&damaged));
        let mounted = subject.mount(device, new_clock(), 77).expect("mount");
        if mounted.damage().is_empty() {
            unreported.push(lost.serial);
        }
    }
    (tried, unreported)
}

fn volume(subject: &impl Subject) -> MemoryImage {
    let device = Arc::new(MemoryDevice::new(subject.device_bytes()));
    let clock = new_clock();
    subject
        .format(device.clone(), clock.clone())
        .expect("format");
    let mounted = subject
        .mount(device.clone(), clock.clone(), 1)
        .expect("mount");
    let mut runner = Runner::new(mounted, clock, Model::new(4096));
    for operation in story(STORY) {
        runner.perform(&operation).expect("performed");
    }
    device.snapshot()
}
