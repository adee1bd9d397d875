//! W6: the power is cut between the writes of one virtual segment (WOLF,
//! Wang & Hu 2002, §2.4): all of its buffers are recovered, or none.
//!
//! On the real log, through a recording device: two virtual segments one behind
//! the other, neither flushed, each a group parted between several heads. Cut
//! are every prefix of the sectors written, and every choice of partials that
//! reach the medium; of each the last may be torn. What is recovered must be a
//! prefix of the two, each whole; and in the log the blocks of each buffer stand
//! in arrival order.

use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Event, MemoryDevice, MemoryImage, RecordingDevice, SECTOR, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_fsck::inspect::Inspector;
use varve_lfs::policy::PolicyKind;
use varve_lfs::{FormatOptions, Lfs, MountOptions};
use varve_prove::runner::new_clock;

pub const W6: Experiment = Experiment::new("W6", points, verdicts, picture);

const BLOCK: u64 = 4096;
const DEVICE_BYTES: u64 = 16 << 20;
/// Blocks of each kind in a virtual segment: written before, and new.
const EACH: u64 = 20;

fn points(_: &Context) -> Vec<Point> {
    let point = |heads: u32| {
        Point::new(format!("{heads} heads"), move |context: &Context| {
            Ok(vec![cut(context, heads, &told(context, heads))])
        })
    };
    [4, 5].into_iter().map(point).collect()
}

fn options(context: &Context, heads: u32) -> MountOptions {
    MountOptions {
        seed: Some(context.seed),
        policy: PolicyKind::LIFE_CLASSES,
        heads,
        head_bytes: 8 * BLOCK,
        ..MountOptions::default()
    }
}

fn mounted<D: varve_device::Device + 'static>(
    device: &Arc<D>,
    clock: Arc<VirtualClock>,
    options: MountOptions,
) -> FileSystem<Lfs> {
    let layout = Lfs::mount(Arc::clone(device) as _, clock.clone(), options).expect("mount");
    FileSystem::mount(Arc::new(layout), clock, Options::default()).expect("mount")
}

/// What is written: a value for each block of the file.
type Content = BTreeMap<u64, u8>;

fn write(fs: &FileSystem<Lfs>, ino: InodeNo, content: &Content) {
    let root = Caller::root();
    for (block, value) in content {
        let data = [*value; BLOCK as usize];
        fs.write(&root, ino, block * BLOCK, &data).expect("written");
    }
}

/// A volume whose file holds the first blocks, and the file.
fn volume(context: &Context, heads: u32) -> (MemoryImage, InodeNo, Content) {
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES));
    let clock = new_clock();
    let format = FormatOptions {
        segment_bytes: 128 << 10,
        seed: Some(context.seed),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format).expect("format");
    let layout = Lfs::mount(device.clone(), clock.clone(), options(context, heads));
    let layout = layout.expect("mount");
    FileSystem::format(&layout, &*clock, (0, 0)).expect("format");
    layout.unmount().expect("unmount");
    drop(layout);
    let fs = mounted(&device, clock, options(context, heads));
    let root = Caller::root();
    let made = fs.mknod(&root, InodeNo::ROOT, b"blocks", 0o100_644, 0);
    let ino = made.expect("a file").ino;
    let content: Content = (0..EACH).map(|block| (block, 1)).collect();
    write(&fs, ino, &content);
    fs.sync().expect("sync");
    fs.layout().unmount().expect("unmount");
    (device.snapshot(), ino, content)
}

/// A partial on its way to the device.
type Partial = (u64, Vec<u8>);

/// The two virtual segments, as they are written; and the contents of the file
/// before, between and after them.
struct Story {
    image: MemoryImage,
    ino: InodeNo,
    partials: Vec<Partial>,
    contents: [Content; 3],
}

fn told(context: &Context, heads: u32) -> Story {
    let (image, ino, first) = volume(context, heads);
    let device = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&image)));
    let clock = new_clock();
    let fs = mounted(&device, clock.clone(), options(context, heads));
    // Learns which blocks come back, so that they part from new ones.
    write(&fs, ino, &first);
    fs.sync().expect("sync");
    let before = device.inner().snapshot();
    device.take_trace();
    let group = |value: u8, new: u64| -> Content {
        let again = (0..EACH).map(|block| (block, value));
        let new = (0..EACH).map(|block| (new + block, value));
        again.chain(new).collect()
    };
    let mut contents = [first.clone(), first.clone(), first];
    let mut partials = Vec::new();
    for (nth, changes) in [group(2, 100), group(3, 200)].into_iter().enumerate() {
        write(&fs, ino, &changes);
        // Longer than anything may stay in memory.
        clock.advance(Duration::from_secs(60));
        while fs.write_back().expect("write-back") {}
        for later in &mut contents[nth + 1..] {
            later.extend(&changes);
        }
    }
    for event in device.take_trace() {
        match event {
            Event::Write { offset, data } => partials.push((offset, data.to_vec())),
            Event::Flush { .. } => panic!("nothing asks for a flush here"),
            _ => {}
        }
    }
    Story {
        image: before,
        ino,
        partials,
        contents,
    }
}

/// The writes taken apart where partials begin: a request may hold several.
fn parted(story: &Story) -> Vec<Partial> {
    let mut parts: Vec<Partial> = Vec::new();
    for (offset, data) in &story.partials {
        for (at, unit) in (*offset..)
            .step_by(BLOCK as usize)
            .zip(data.chunks(BLOCK as usize))
        {
            match parts.last_mut() {
                Some((_, bytes)) if at != *offset && unit[4..8] != *b"VSUM" => {
                    bytes.extend_from_slice(unit);
                }
                _ => parts.push((at, unit.to_vec())),
            }
        }
    }
    parts
}

/// How many of the virtual segments are there after a power cut; `None` for
/// anything else.
fn recovered(context: &Context, heads: u32, story: &Story, image: &MemoryImage) -> Option<usize> {
    let device = Arc::new(MemoryDevice::from_image(image));
    let options = MountOptions {
        read_only: true,
        ..options(context, heads)
    };
    let fs = mounted(&device, new_clock(), options);
    if !fs.layout().recovery_report().damage.is_empty() {
        return None;
    }
    let holds = |content: &Content| {
        let last = content.keys().max().map_or(0, |block| block + 1);
        let size = fs.getattr(story.ino).map(|attr| attr.size);
        size.is_ok_and(|size| size == last * BLOCK)
            && content.iter().all(|(block, value)| {
                let mut bytes = [0; BLOCK as usize];
                let read = fs.read(story.ino, block * BLOCK, &mut bytes);
                read.is_ok() && bytes == [*value; BLOCK as usize]
            })
    };
    (0..3).find(|nth| holds(&story.contents[*nth]))
}

fn cut(context: &Context, heads: u32, story: &Story) -> Row {
    let parts = parted(story);
    let (mut states, mut broken, mut whole) = (0u64, 0u64, [0u64; 3]);
    let mut judge = |image: &MemoryImage, least: usize| {
        states += 1;
        match recovered(context, heads, story, image) {
            Some(found) if found >= least => whole[found] += 1,
            _ => broken += 1,
        }
    };
    // Every sector in turn, as a device writes them that keeps the order.
    let mut image = story.image.clone();
    let step = context.size(1, 8);
    judge(&image, 0);
    for (offset, data) in &parts {
        for (nth, sectors) in data.chunks(step * SECTOR as usize).enumerate() {
            image.write(offset + nth as u64 * step as u64 * SECTOR, sectors);
            judge(&image, 0);
        }
    }
    judge(&image, 2);
    // Every choice of partials, each of which may be the one that is torn.
    let choices = 1u64 << parts.len().min(context.size(12, 8));
    for choice in 0..choices {
        let mut image = story.image.clone();
        for (nth, (offset, data)) in parts.iter().enumerate() {
            if choice >> nth & 1 != 0 {
                image.write(*offset, data);
            }
        }
        judge(&image, 0);
        for (nth, (offset, data)) in parts.iter().enumerate() {
            if choice >> nth & 1 == 0 && (choice as usize + nth).is_multiple_of(context.size(1, 4))
            {
                let mut torn = image.clone();
                torn.write(*offset, &data[..data.len() / 2]);
                judge(&torn, 0);
            }
        }
    }
    let (used, ordered) = in_log(&image);
    Row::new("virtual segments", f64::from(heads), context.seed)
        .with("states", states as f64)
        .with("broken", broken as f64)
        .with("none", whole[0] as f64)
        .with("first", whole[1] as f64)
        .with("both", whole[2] as f64)
        .with("partials", parts.len() as f64)
        .with("heads_of_a_group", used as f64)
        .with("out_of_order", ordered as f64)
}

/// Heads that one group has partials in, at most; and blocks that stand before
/// one that arrived earlier in the same group and head.
fn in_log(image: &MemoryImage) -> (usize, usize) {
    let device = Arc::new(MemoryDevice::from_image(image));
    let inspector = Inspector::open(device, new_clock()).expect("a volume");
    let contents = |segment| inspector.contents(segment, true).expect("a segment");
    let all = (0..inspector.geometry().segment_count).flat_map(|s| contents(s).partials);
    let mut partials: Vec<_> = all.collect();
    partials.sort_by_key(|partial| partial.serial);
    let (mut most, mut wrong) = (0, 0);
    let mut heads: BTreeMap<u8, Vec<(u64, u64)>> = BTreeMap::new();
    for partial in partials {
        let blocks = heads.entry(partial.head).or_default();
        let entries = partial.entries.iter().filter(|entry| entry.kind == "block");
        blocks.extend(entries.map(|entry| (entry.ino, entry.number)));
        if partial.flags.contains(&"last") {
            most = most.max(heads.len());
            // Of one file: the files of a group stand in the order of their inodes' items.
            let early = |blocks: &Vec<(u64, u64)>| {
                let mut last = BTreeMap::new();
                let early = |(ino, block): &&(u64, u64)| last.insert(*ino, *block) > Some(*block);
                blocks.iter().filter(early).count()
            };
            if !partial.flags.contains(&"checkpoint") {
                wrong += heads.values().map(early).sum::<usize>();
            }
            heads.clear();
        }
    }
    (most, wrong)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for heads in [4.0, 5.0] {
        let value = |name| mean(rows, "virtual segments", heads, name);
        let (states, broken) = (value("states"), value("broken"));
        verdicts.push(Verdict::of(
            format!(
                "virtual segments in {} of {heads} heads, cut",
                value("heads_of_a_group")
            ),
            "all or none",
            format!("{broken} of {states} states are neither"),
            broken == 0.0 && value("heads_of_a_group") > 1.0 && value("both") > 0.0,
        ));
        let wrong = value("out_of_order");
        verdicts.push(Verdict::of(
            format!("blocks in each buffer of {heads} heads"),
            "in arrival order",
            format!("{wrong} are not"),
            wrong == 0.0,
        ));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |name| {
        Curve::all(rows, name).into_iter().map(move |curve| Curve {
            name: format!("{name} recovered"),
            ..curve
        })
    };
    Picture {
        title: "Power cuts in two virtual segments".into(),
        x: "heads of the log".into(),
        y: "states".into(),
        y_max: None,
        curves: ["none", "first", "both"]
            .into_iter()
            .flat_map(curve)
            .collect(),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive that loses a write which it has acknowledged.
    #[test]
    fn a_wrong_drive_fails() {
        let context = Context::tiny();
        let mut story = told(&context, 4);
        let pass = |story: &Story| verdicts(&[cut(&context, 4, story)])[0].pass;
        assert!(pass(&story));
        story.partials.pop();
        assert!(!pass(&story));
    }
}
