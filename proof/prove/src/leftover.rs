//! A torn partial of one life, completed by a torn one of the next.
//!
//! Recovery drops a partial of which one unit is missing. The next life writes at the
//! same place, partly the same bytes; of its write only the missing unit survives. The
//! dropped partial is now complete, and must not be accepted, because the running system
//! has seen that it was dropped.

use crate::generator::{Generator, Kind, Profile};
use crate::model::Model;
use crate::mounted::Subject;
use crate::operation::{Operation, story};
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use crate::tree::{Bounds, Tree, walk};
use std::sync::Arc;
use varve_device::{Device, Event, MemoryDevice, MemoryImage, RecordingDevice};

/// Runs `text` on `image` and returns the writes since the last flush.
fn live(subject: &impl Subject, image: &MemoryImage, text: &str, seed: u64) -> Live {
    let device = Arc::new(RecordingDevice::new(MemoryDevice::from_image(image)));
    let clock = new_clock();
    let mounted = subject
        .mount(device.clone(), clock.clone(), seed)
        .expect("mount");
    let mut runner = Runner::new(mounted, clock, Model::new(4096));
    for operation in story(text) {
        let _ = runner.perform(&operation);
    }
    let trace = device.take_trace();
    let last_flush = trace
        .iter()
        .rposition(|event| matches!(event, Event::Flush { .. }));
    let before = last_flush.map_or(0, |index| index + 1);
    let mut durable = image.clone();
    let mut unflushed = Vec::new();
    for (index, event) in trace.iter().enumerate() {
        if let Event::Write { offset, data } = event {
            match index < before {
                true => durable.write(*offset, data),
                false => unflushed.push((*offset, data.to_vec())),
            }
        }
    }
    Live { durable, unflushed }
}

struct Live {
    durable: MemoryImage,
    unflushed: Vec<(u64, Vec<u8>)>,
}

fn tree_of(subject: &impl Subject, image: &MemoryImage) -> Tree {
    let device = Arc::new(MemoryDevice::from_image(image));
    let mounted = subject.mount(device, new_clock(), 77).expect("mount");
    walk(&*mounted, Bounds::default()).expect("a tree")
}

fn formatted(subject: &impl Subject) -> MemoryImage {
    let device = Arc::new(MemoryDevice::new(subject.device_bytes()));
    subject.format(device.clone(), new_clock()).expect("format");
    device.flush().expect("flush");
    device.snapshot()
}

/// Tries every unit of every write. Returns the number of leftovers tried, and of those
/// accepted.
///
/// # Panics
/// If the subject does not mount.
pub fn returned(subject: &impl Subject, unit: usize) -> (u64, u64) {
    let first = live(
        subject,
        &formatted(subject),
        "create b; sync; mkdir c; write b 0+24576 #1; write-back",
        1,
    );
    let (mut tried, mut returned) = (0, 0);
    for (offset, data) in &first.unflushed {
        for missing in 0..data.len() / unit {
            let mut torn = first.durable.clone();
            for (other, bytes) in &first.unflushed {
                torn.write(*other, bytes);
            }
            let at = offset + (missing * unit) as u64;
            let mut old = vec![0; unit];
            first.durable.read(at, &mut old);
            torn.write(at, &old);
            let recovered = tree_of(subject, &torn);
            if recovered.lines.iter().any(|line| line.path == b"c") {
                continue; // the unit was not needed
            }
            let second = live(subject, &torn, "mkdir d; write b 0+24576 #1; write-back", 2);
            let mut completed = second.durable.clone();
            for (other, bytes) in &second.unflushed {
                let end = other + bytes.len() as u64;
                if (*other..end).contains(&at) {
                    let within = (at - other) as usize;
                    completed.write(at, &bytes[within..within + unit]);
                }
            }
            let found = tree_of(subject, &completed);
            tried += 1;
            returned += u64::from(found.lines.iter().any(|line| line.path == b"c"));
        }
    }
    (tried, returned)
}

fn told(operations: &[Operation]) -> String {
    let told: Vec<String> = operations.iter().map(ToString::to_string).collect();
    told.join("; ")
}

/// Returns `image` with the units of `writes` for whose address `lands` returns true.
fn landed(
    image: &MemoryImage,
    writes: &[(u64, Vec<u8>)],
    unit: usize,
    mut lands: impl FnMut(u64) -> bool,
) -> MemoryImage {
    let mut image = image.clone();
    for (offset, data) in writes {
        for (at, bytes) in (*offset..).step_by(unit).zip(data.chunks(unit)) {
            if lands(at) {
                image.write(at, bytes);
            }
        }
    }
    image
}

/// Tears a random life at random, then repeats a similar life of which only the missing
/// writes survive, and possibly others, five times. Returns the same as [`returned`].
///
/// # Panics
/// If the subject does not mount.
pub fn returned_at_random(subject: &impl Subject, unit: usize, seed: u64) -> (u64, u64) {
    let unwanted = [
        Kind::Open,
        Kind::Close,
        Kind::WriteOpen,
        Kind::Fsync,
        Kind::FsyncDirectory,
        Kind::Sync,
        Kind::Checkpoint,
        Kind::LayoutCheckpoint,
        Kind::Clean,
        Kind::Maintain,
        Kind::Remount,
        Kind::Kill,
    ];
    let profile = Profile::crash().without(&unwanted);
    let mut random = Random::new(seed);
    let mut generator = Generator::new(profile, Random::new(random.word()));
    let before = told(&generator.take(random.below(40)));
    let length = random.below(6);
    let again = told(&generator.take(length));
    let long = ["", "write b 0+98304 #1; write-back"][random.below(2) as usize];
    let first = live(
        subject,
        &formatted(subject),
        &format!(
            "{before}; {long}; create b; sync; mkdir c; {again}; write b 0+24576 #1; write-back"
        ),
        1,
    );
    let (mut tried, mut returned) = (0, 0);
    for _ in 0..20 {
        let mut missing = Vec::new();
        let few = random.below(24) + 1;
        let mut torn = landed(&first.durable, &first.unflushed, unit, |at| {
            let lost = random.once_in(few);
            missing.extend(lost.then_some(at));
            !lost
        });
        // Names that a recovery has dropped.
        let (mut refused, mut newest): (Vec<&str>, _) = (Vec::new(), "c");
        for name in ["d", "e", "f", "g", "h"] {
            let tree = tree_of(subject, &torn);
            let there = |name: &str| tree.lines.iter().any(|line| line.path == name.as_bytes());
            tried += refused.len() as u64;
            returned += refused.iter().filter(|name| there(name)).count() as u64;
            if !there(newest) {
                refused.push(newest);
            }
            let text = format!("mkdir {name}; {again}; write b 0+24576 #1; write-back");
            let next = live(subject, &torn, &text, random.word());
            let others = random.below(20) + 1;
            let (mut lost, same) = (Vec::new(), random.once_in(2));
            torn = landed(&next.durable, &next.unflushed, unit, |at| {
                let lands = missing.contains(&at) || others > 1 && random.once_in(others);
                lost.extend((!lands).then_some(at));
                lands
            });
            if !same {
                missing = lost;
            }
            newest = name;
        }
    }
    (tried, returned)
}
