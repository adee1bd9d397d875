//! Every crash point of a volume in use: subsets and torn pieces of the writes that
//! were not flushed, and crashes after the recovery from a crash.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use varve_device::{
    CrashExplorer, Device, Event, Limits, MemoryDevice, MemoryImage, RecordingDevice, VirtualClock,
};
use varve_disk::{SimulatedDisk, drives};

use super::bench::{Draw, block, check, memory, options, versions};
use crate::medium::{InDrive, InOrder, Medium};
use crate::vld::{FormatOptions, Granularity, Options, Vld};
use std::io::IoSlice;

const LOGICAL: u64 = 100;
/// Flag in a mark: the operation has returned, and all before it is durable.
const DURABLE: u64 = 1 << 32;

type Recorded = Arc<RecordingDevice<MemoryDevice>>;

fn recorded(image: &MemoryImage) -> Recorded {
    Arc::new(RecordingDevice::new(MemoryDevice::from_image(image)))
}

/// The parameters of a volume and its medium.
#[derive(Clone, Copy)]
struct Shape {
    unit: u32,
    block: u32,
    anywhere: bool,
    in_drive: bool,
    /// True for the smallest medium that suffices, with nearly all blocks mapped.
    full: bool,
}

const fn shape(unit: u32, block: u32, anywhere: bool, in_drive: bool) -> Shape {
    Shape {
        unit,
        block,
        anywhere,
        in_drive,
        full: false,
    }
}

/// Records that share a block, and records with a block of their own; data at aligned
/// places, and anywhere, with ample space or where new blocks need data astride to be
/// moved.
const SHAPES: [Shape; 5] = [
    shape(512, 1024, false, false),
    shape(1024, 1024, false, false),
    shape(512, 1024, true, false),
    shape(512, 4096, true, true),
    Shape {
        full: true,
        ..shape(512, 2048, true, false)
    },
];

impl Shape {
    /// Returns a formatted volume and the content of its blocks.
    fn formatted(&self) -> (MemoryImage, Vec<u64>) {
        let each = u64::from(self.block);
        let format = |blocks: u64| {
            let device = Arc::new(memory(blocks * each, self.unit));
            let medium = self.medium(device.clone());
            Vld::format(&medium, self.options())
                .ok()
                .map(|_| (device, medium))
        };
        if !self.full {
            let (device, _) = format(LOGICAL * 9 / 4).expect("large enough");
            return (device.snapshot(), vec![0; LOGICAL as usize]);
        }
        let (device, medium) = (LOGICAL..).find_map(format).expect("one is large enough");
        let (vld, _) = Vld::open(medium, Options::default()).unwrap();
        assert!(vld.layout().astride_max(LOGICAL) < 3);
        // All blocks have content, except those that the story writes.
        let held = |at: u64| if at.is_multiple_of(9) { 0 } else { 777 };
        for at in (0..LOGICAL).filter(|&at| held(at) > 0) {
            let bytes = block(held(at), self.block);
            vld.write(at * each, &[IoSlice::new(&bytes)]).unwrap();
        }
        vld.flush().unwrap();
        (device.snapshot(), (0..LOGICAL).map(held).collect())
    }

    fn options(&self) -> FormatOptions {
        FormatOptions {
            anywhere: self.anywhere,
            ..options(self.block, Some(LOGICAL * u64::from(self.block)))
        }
    }

    fn medium<D: Device + 'static>(&self, device: Arc<D>) -> Arc<dyn Medium> {
        self.medium_at(device, Arc::new(VirtualClock::new(0, 0)))
    }

    fn medium_at<D: Device + 'static>(
        &self,
        device: Arc<D>,
        clock: Arc<VirtualClock>,
    ) -> Arc<dyn Medium> {
        if !self.in_drive {
            return Arc::new(InOrder(device));
        }
        let drive = drives::st19101().with_cylinders(1);
        let disk = SimulatedDisk::over(device, drive, clock, 1);
        Arc::new(InDrive(Arc::new(disk)))
    }

    fn opened(&self, image: &MemoryImage, options: Options, told: &str) -> Vld<Arc<dyn Medium>> {
        let medium = self.medium(Arc::new(MemoryDevice::from_image(image)));
        let opened = Vld::open(medium, options);
        opened.unwrap_or_else(|error| panic!("{told}: {error}")).0
    }
}

/// A volume in use: the state after each operation, and the trace.
struct Story {
    shape: Shape,
    base: MemoryImage,
    trace: Vec<Event>,
    /// The versions after each operation; the first element is before all operations.
    states: Vec<Vec<u64>>,
    /// Number of blocks that were moved because they were astride.
    realigned: u64,
}

/// Returns the operation and the block for step `nth` on a volume that is nearly full.
/// All blocks are discarded; half of them are written and overwritten, each durably,
/// until as much data is astride as allowed; then the other half is written.
fn nth_of_cycle(nth: u64) -> (u64, u64) {
    const FLUSH: (u64, u64) = (14, 0);
    match nth % 40 {
        which @ 0..=11 => (7, which),
        nth @ 12..=17 => (0, nth - 12),
        nth @ 19..=32 if nth % 2 == 1 => (0, nth / 2 % 6),
        nth @ 33..=38 => (0, nth - 27),
        _ => FLUSH,
    }
}

/// Runs `operations` random operations on `base`, which contains `versions`.
fn tell(shape: Shape, base: MemoryImage, first: Vec<u64>, operations: u64, seed: u64) -> Story {
    let recorder = recorded(&base);
    let clock = Arc::new(VirtualClock::new(0, 0));
    let medium = shape.medium_at(recorder.clone(), clock.clone());
    let (block_bytes, each) = (shape.block, u64::from(shape.block));
    let run = Options {
        synchronous: seed.is_multiple_of(3),
        seed,
        ..Options::default()
    };
    let (mut vld, _) = Vld::open(medium.clone(), run).unwrap();
    let mut states = vec![first];
    let mut draw = Draw(seed);
    let (mut settled, mut realigned) = (0, 0);
    for nth in 1..=operations {
        let mut now = states.last().unwrap().clone();
        let mut durable = run.synchronous;
        // The platter turns meanwhile.
        clock.advance(Duration::from_nanos(draw.below(6_000_000)));
        let (choice, which) = match shape.full {
            true => nth_of_cycle(nth),
            false => (draw.below(15), draw.below(12)),
        };
        // The blocks are few, and belong to every piece of the map.
        let at = which * 9;
        match choice {
            0..=6 => {
                let bytes = block(nth + seed * 1000, block_bytes);
                vld.write(at * each, &[IoSlice::new(&bytes)]).unwrap();
                now[at as usize] = nth + seed * 1000;
            }
            7 => {
                vld.discard(at * each, each).unwrap();
                now[at as usize] = 0;
            }
            8 => {
                vld.checkpoint().unwrap();
                durable = true;
            }
            9 => {
                let until = medium.now_ns().map_or(0, |now| now + 50_000_000);
                vld.compact(until, Granularity::Track).unwrap();
                durable = true;
            }
            10 => {
                // The server process dies and the medium does not: uncommitted writes
                // are lost, and recovered ones stay.
                drop(vld);
                vld = Vld::open(medium.clone(), run).unwrap().0;
                now = versions(&vld, LOGICAL, block_bytes);
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
        realigned = realigned.max(vld.statistics().blocks_realigned);
        states.push(now);
        recorder.mark(if durable { DURABLE + nth } else { nth });
    }
    if seed.is_multiple_of(2) {
        vld.park().unwrap();
        recorder.mark(DURABLE + operations);
    }
    Story {
        shape,
        base,
        trace: recorder.take_trace(),
        states,
        realigned,
    }
}

/// Returns the number of operations that had returned, and the last one that was
/// durable.
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

/// Visits every crash state, and passes some of them to `deeper`.
fn explore(
    story: &Story,
    limits: Limits,
    seed: u64,
    mut deeper: impl FnMut(MemoryImage, Vec<u64>),
) -> u64 {
    // Number of bytes that are written whole or not at all.
    let unit = story.base.geometry().physical_block;
    let mut explorer = CrashExplorer::new(&story.base, &story.trace, unit, limits);
    let mut count = 0u64;
    for stop in explorer.stops().collect::<Vec<_>>() {
        let (returned, durable) = owed(explorer.marks(stop));
        let may_be = &story.states[durable..(returned + 2).min(story.states.len())];
        let flow = explorer.for_each::<()>(stop, seed, |image, description| {
            let vld = story
                .shape
                .opened(&image, Options::default(), &description.to_string());
            check(&vld);
            let found = versions(&vld, LOGICAL, story.shape.block);
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

/// Acknowledged writes are present, and the state found is one that existed.
#[test]
fn every_crash_leaves_a_state_that_was() {
    let (mut images, mut realigned) = (0, 0);
    for seed in 1..=20 {
        eprintln!("seed {seed}");
        let shape = SHAPES[seed as usize % SHAPES.len()];
        let (image, first) = shape.formatted();
        let operations = if shape.full { 79 } else { 60 };
        let story = tell(shape, image, first, operations, seed);
        realigned += u64::from(story.realigned > 0 && shape.full);
        let mut crashed = Vec::new();
        images += explore(&story, limits(), seed, |image, found| {
            crashed.push((image, found))
        });
        // A recovered volume continues, and crashes again.
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
            let story = tell(shape, image, found, 8, 100 + seed + 7 * nth as u64);
            images += explore(&story, fewer, seed, |_, _| {});
        }
    }
    eprintln!("{images} images");
    assert!(images > 10_000, "{images}");
    assert!(
        realigned > 1,
        "{realigned} stories moved what lay astride for new blocks"
    );
}

/// A crash while a volume is made over an old one leaves the old one, none, or the new
/// one.
#[test]
fn a_crash_while_formatting_leaves_no_mixture() {
    let shape = SHAPES[0];
    let block_bytes = u64::from(shape.block);
    let (image, first) = shape.formatted();
    let story = tell(shape, image, first, 20, 3);
    let recorder = recorded(&story.base);
    for event in &story.trace {
        if let Event::Write { offset, data } = event {
            recorder.inner().apply_write(*offset, data).unwrap();
        }
    }
    let base = recorder.inner().snapshot();
    let mut new = options(shape.block, Some(50 * block_bytes));
    new.volume = 99;
    Vld::format(&shape.medium(recorder.clone()), new).unwrap();
    let trace = recorder.take_trace();
    let mut explorer = CrashExplorer::new(&base, &trace, 512, Limits::default());
    for stop in explorer.stops().collect::<Vec<_>>() {
        let flow = explorer.for_each::<()>(stop, 1, |image, description| {
            let medium = Arc::new(InOrder(MemoryDevice::from_image(&image)));
            let Ok((vld, _)) = Vld::open(medium, Options::default()) else {
                return ControlFlow::Continue(());
            };
            let blocks = vld.layout().logical_blocks;
            let found = versions(&vld, blocks, shape.block);
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
        &recorder.inner().snapshot(),
    )));
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    assert_eq!(vld.layout().logical_blocks, 50);
    assert!(vld.geometry().size == 50 * block_bytes);
}
