//! Every crash point of a volume in use: subsets and torn pieces of what was
//! not flushed, and crashes after the recovery from a crash.

use std::ops::ControlFlow;
use std::sync::Arc;

use varve_device::{
    CrashExplorer, Device, Event, Limits, MemoryDevice, MemoryImage, RecordingDevice,
};

use super::bench::{Draw, Shared, block, memory, options, versions};
use crate::medium::InOrder;
use crate::vld::{Granularity, Options, Vld};
use std::io::IoSlice;

const BLOCK: u32 = 1024;
const LOGICAL: u64 = 100;
/// Marks: an operation has returned; what preceded it is durable.
const DURABLE: u64 = 1 << 32;

type Recorded = Shared<RecordingDevice<MemoryDevice>>;

fn recorded(image: &MemoryImage) -> Recorded {
    Arc::new(InOrder(RecordingDevice::new(MemoryDevice::from_image(
        image,
    ))))
}

/// With records that share a block, or such that have one each.
fn formatted(unit: u32) -> MemoryImage {
    let medium = Arc::new(InOrder(memory(224 << 10, unit)));
    Vld::format(&medium, options(BLOCK, Some(LOGICAL * u64::from(BLOCK)))).unwrap();
    medium.0.snapshot()
}

/// A volume in use: what each operation left, and the trace.
struct Story {
    base: MemoryImage,
    trace: Vec<Event>,
    /// The versions after each operation, the first one's before all.
    states: Vec<Vec<u64>>,
}

/// Runs `operations` random operations on `base`, which holds `versions`.
fn tell(base: MemoryImage, first: Vec<u64>, operations: u64, seed: u64) -> Story {
    let medium = recorded(&base);
    let run = Options {
        synchronous: seed.is_multiple_of(3),
        seed,
        ..Options::default()
    };
    let (mut vld, _) = Vld::open(medium.clone(), run).unwrap();
    let mut states = vec![first];
    let mut draw = Draw(seed);
    let mut settled = 0;
    for nth in 1..=operations {
        let mut now = states.last().unwrap().clone();
        let mut durable = run.synchronous;
        match draw.below(15) {
            0..=6 => {
                // Few blocks, of every piece of the map.
                let at = draw.below(12) * 9 % LOGICAL;
                let bytes = block(nth + seed * 1000, BLOCK);
                vld.write(at * u64::from(BLOCK), &[IoSlice::new(&bytes)])
                    .unwrap();
                now[at as usize] = nth + seed * 1000;
            }
            7 => {
                let at = draw.below(12) * 9 % LOGICAL;
                vld.discard(at * u64::from(BLOCK), u64::from(BLOCK))
                    .unwrap();
                now[at as usize] = 0;
            }
            8 => {
                vld.checkpoint().unwrap();
                durable = true;
            }
            9 => {
                vld.compact(0, Granularity::Track).unwrap();
                durable = true;
            }
            10 => {
                // The server dies, the medium does not: what was not committed
                // is forgotten, and what is found stays.
                drop(vld);
                vld = Vld::open(medium.clone(), run).unwrap().0;
                now = versions(&vld, LOGICAL, BLOCK);
                assert!(states[settled..].contains(&now), "operation {nth}");
                durable = true;
            }
            _ => {
                vld.flush().unwrap();
                durable = true;
            }
        }
        if durable {
            settled = nth as usize;
        }
        states.push(now);
        medium.0.mark(if durable { DURABLE + nth } else { nth });
    }
    if seed.is_multiple_of(2) {
        vld.park().unwrap();
        medium.0.mark(DURABLE + operations);
    }
    Story {
        base,
        trace: medium.0.take_trace(),
        states,
    }
}

/// The operations that had returned, and the last that was durable.
fn owed(marks: impl Iterator<Item = u64>) -> (usize, usize) {
    marks.fold((0, 0), |(returned, durable), mark| {
        let nth = (mark % DURABLE) as usize;
        (
            returned.max(nth),
            if mark >= DURABLE {
                durable.max(nth)
            } else {
                durable
            },
        )
    })
}

/// Visits every crash state; gives some of them to `deeper`.
fn explore(
    story: &Story,
    limits: Limits,
    seed: u64,
    mut deeper: impl FnMut(MemoryImage, Vec<u64>),
) -> u64 {
    // Bytes that are written whole or not at all.
    let unit = story.base.geometry().physical_block;
    let mut explorer = CrashExplorer::new(&story.base, &story.trace, unit, limits);
    let mut count = 0u64;
    for stop in explorer.stops().collect::<Vec<_>>() {
        let (returned, durable) = owed(explorer.marks(stop));
        let may_be = &story.states[durable..(returned + 2).min(story.states.len())];
        let flow = explorer.for_each::<()>(stop, seed, |image, description| {
            let medium = Arc::new(InOrder(MemoryDevice::from_image(&image)));
            let (vld, _) = Vld::open(medium, Options::default())
                .unwrap_or_else(|error| panic!("{description}: {error}"));
            vld.state.read().log.check();
            let found = versions(&vld, LOGICAL, BLOCK);
            assert!(
                may_be.contains(&found),
                "{description}: {returned} operations had returned, {durable} were durable; none \
                 of the states since is {found:?}"
            );
            count += 1;
            if count.is_multiple_of(97) {
                deeper(image, found);
            }
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
    }
    count
}

fn limits() -> Limits {
    Limits {
        exhaustive_writes: 5,
        random_subsets: 12,
        each_shape: 8,
        torn_writes: 2,
        torn_variants: 5,
        scattered: 3,
    }
}

/// Nothing acknowledged is lost, and what is found is a state that was.
#[test]
fn every_crash_leaves_a_state_that_was() {
    let mut images = 0;
    for seed in 1..=20 {
        eprintln!("seed {seed}");
        let unit = if seed % 4 < 2 { 512 } else { BLOCK };
        let story = tell(formatted(unit), vec![0; LOGICAL as usize], 60, seed);
        let mut crashed = Vec::new();
        images += explore(&story, limits(), seed, |image, found| {
            crashed.push((image, found))
        });
        // What was recovered goes on, and crashes again.
        let fewer = Limits {
            exhaustive_writes: 3,
            random_subsets: 4,
            each_shape: 3,
            torn_writes: 1,
            torn_variants: 3,
            scattered: 1,
        };
        let step = (crashed.len() / 25).max(1);
        for (nth, (image, found)) in crashed.into_iter().step_by(step).enumerate() {
            let story = tell(image, found, 8, 100 + seed + 7 * nth as u64);
            images += explore(&story, fewer, seed, |_, _| {});
        }
    }
    eprintln!("{images} images");
    assert!(images > 10_000, "{images}");
}

/// Formatting over an old volume leaves the old one, none, or the new one.
#[test]
fn a_crash_while_formatting_leaves_no_mixture() {
    let story = tell(formatted(512), vec![0; LOGICAL as usize], 20, 3);
    let medium = recorded(&story.base);
    for event in &story.trace {
        if let Event::Write { offset, data } = event {
            medium.0.inner().apply_write(*offset, data).unwrap();
        }
    }
    let base = medium.0.inner().snapshot();
    let mut new = options(BLOCK, Some(50 * u64::from(BLOCK)));
    new.volume = 99;
    Vld::format(&medium, new).unwrap();
    let trace = medium.0.take_trace();
    let mut explorer = CrashExplorer::new(&base, &trace, 512, Limits::default());
    for stop in explorer.stops().collect::<Vec<_>>() {
        let flow = explorer.for_each::<()>(stop, 1, |image, description| {
            let medium = Arc::new(InOrder(MemoryDevice::from_image(&image)));
            let Ok((vld, _)) = Vld::open(medium, Options::default()) else {
                return ControlFlow::Continue(());
            };
            let blocks = vld.layout().logical_blocks;
            let found = versions(&vld, blocks, BLOCK);
            let expected = match blocks {
                LOGICAL => story.states.last().unwrap().clone(),
                _ => vec![0; 50],
            };
            assert_eq!(found, expected, "{description}");
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
    }
    let medium = Arc::new(InOrder(MemoryDevice::from_image(
        &medium.0.inner().snapshot(),
    )));
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    assert_eq!(vld.layout().logical_blocks, 50);
    assert!(vld.geometry().size == 50 * u64::from(BLOCK));
}
