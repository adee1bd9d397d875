//! Whole images: a sound volume with patches, its checksums repaired or not.
//!
//! An input is a byte of flags and then patches of a few bytes each. Places
//! are counted over what a parser reads, so that no patch is wasted on the
//! content of a file. Repair goes in the order of the log: the checksum of a
//! stored block is replaced wherever the sound image had it (entries, index
//! nodes, inodes, inode map), then the summary's own, then what its successor
//! or a checkpoint record says of it, and the records at last.

use crate::input::Input;
use crate::mutate::EXTREMES;
use crate::sample::{self, Sample};
use crate::structures::seal_record;
use crate::walk;
use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::offset_of;
use std::sync::{Arc, OnceLock};
use varve_device::{Device, MemoryDevice, MemoryImage};
use varve_fsck::check::{self, CheckOptions};
use varve_fsck::repair::{RepairOptions, repair as repair_volume};
use varve_fsck::salvage::{self, SalvageOptions};
use varve_lfs::format::superblock::incompat_flags;
use varve_lfs::format::{SummaryHeader, Superblock, crc32c};
use varve_lfs::{Lfs, ResizeOptions, Tune};
use zerocopy::{FromBytes, IntoBytes};

/// Bits of the first byte of an input.
const CLEAN: u8 = 1;
const REPAIR: u8 = 2;
const READ_ONLY: u8 = 4;
/// The volume is walked and not changed.
const WALK: u8 = 8;
/// The volume is checked offline and not mounted.
const CHECK: u8 = 16;
/// The superblock says that the volume has been larger: less is refused then.
const SHRUNK: u8 = 32;

/// Bytes of the device on which sizes are changed.
const RESIZED: u64 = 16 << 20;

/// Patches of one input: more would leave nothing of the volume.
const PATCHES_MAX: usize = 16;

/// The image that an input stands for, and its flags.
fn crafted(data: &[u8]) -> (Arc<MemoryDevice>, u8) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let sample = &sample::images()[usize::from(flags & CLEAN)];
    let mut bytes = sample.bytes.clone();
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        patch(sample, &mut bytes, &mut input);
    }
    if flags & REPAIR != 0 {
        repair(sample, &mut bytes);
    }
    let image = assemble(sample, &bytes);
    let device = Arc::new(MemoryDevice::from_image(&image));
    if flags & SHRUNK != 0
        && let Ok(mut superblock) = Lfs::find_superblock(&*device)
    {
        superblock.incompat = (superblock.incompat.get() | incompat_flags::SHRUNK).into();
        let sealed = superblock.sealed_for(0);
        let write = device.write(0, &[IoSlice::new(sealed.as_bytes())]);
        write.expect("memory");
    }
    (device, flags)
}

/// Mounts an image, walks it, changes it, unmounts; or checks it.
pub fn mount_image(data: &[u8]) {
    let (device, flags) = crafted(data);
    if let Ok(superblock) = Lfs::find_superblock(&*device) {
        let _ = Lfs::read_owner(&*device, &superblock);
    }
    if flags & CHECK != 0 {
        let options = CheckOptions {
            data: true,
            ..CheckOptions::default()
        };
        let _ = check::check(device, sample::clock(), &options);
    } else if let Ok((lfs, system)) = sample::mount(device, flags & READ_ONLY != 0) {
        if flags & WALK != 0 {
            walk::walk(&system);
        } else {
            walk::all(&lfs, &system);
        }
    }
}

/// Repairs an image, or with `WALK` salvages it. What repair calls whole is
/// so, and stays as it is.
pub fn mend_image(data: &[u8]) {
    let (device, flags) = crafted(data);
    if flags & WALK != 0 {
        let options = SalvageOptions::default();
        if let Ok(salvaged) = salvage::open(device, sample::clock(), &options) {
            let target = sample::blank(8 << 20);
            let _ = salvaged.copy_to(target, &sample::clock(), &options);
        }
        return;
    }
    let options = RepairOptions {
        data: flags & CHECK != 0,
        safe_only: flags & READ_ONLY != 0,
        seed: Some(1),
        ..RepairOptions::default()
    };
    let Ok(first) = repair_volume(device.clone(), sample::clock(), &options) else {
        return;
    };
    if !first.is_whole() || !first.changed() {
        return;
    }
    let options = CheckOptions {
        data: options.data,
        ..CheckOptions::default()
    };
    let check = check::check(device.clone(), sample::clock(), &options).expect("repaired");
    assert!(check.errors.is_empty(), "{check}\nafter {first}");
    let written = device.counters().snapshot().bytes_written;
    let options = RepairOptions {
        data: options.data,
        ..RepairOptions::default()
    };
    let second = repair_volume(device.clone(), sample::clock(), &options).expect("repaired");
    assert!(!second.changed(), "after {first}\nagain {second}");
    assert_eq!(device.counters().snapshot().bytes_written, written);
}

/// Gives an image on a larger device another size, that the last byte draws: on a
/// mount with `WALK`, else offline. What was sound stays so.
pub fn resize_image(data: &[u8]) {
    let (small, flags) = crafted(data);
    let device = Arc::new(MemoryDevice::new(RESIZED));
    let mut bytes = vec![0; small.geometry().size.min(RESIZED) as usize];
    let (from, to) = (small.read(0, &mut bytes), IoSlice::new(&bytes));
    from.and_then(|()| device.write(0, &[to])).expect("memory");
    let drawn = u64::from(data.last().copied().unwrap_or(0));
    let wanted = RESIZED / 8 + drawn * (RESIZED / 256);
    if flags & WALK != 0 {
        if let Ok((lfs, system)) = sample::mount(device, flags & READ_ONLY != 0) {
            let _ = lfs.grow(Some(wanted));
            walk::all(&lfs, &system);
        }
        return;
    }
    let errors = || {
        let options = CheckOptions {
            data: true,
            ..CheckOptions::default()
        };
        let checked = check::check(device.clone(), sample::clock(), &options);
        checked.map_or(usize::MAX, |report| report.errors.len())
    };
    let sound = errors() == 0;
    let options = ResizeOptions {
        seed: Some(1),
        ..ResizeOptions::default()
    };
    let shared: Arc<dyn Device> = device.clone();
    let tuning = Tune {
        label: Some("fuzzed".into()),
        uuid: Some([flags | 1; 16]),
        snapshots: true,
    };
    if varve_lfs::resize(&shared, sample::clock(), wanted, &options).is_ok() {
        let _ = varve_lfs::tune(&*device, &tuning);
    }
    assert!(!sound || errors() == 0, "unsound after a change of size");
    if let Ok((lfs, system)) = sample::mount(device, false) {
        walk::all(&lfs, &system);
    }
}

/// The place in `bytes` that three bytes of input name; the highest bit wants
/// one in a header or an entry.
fn place(sample: &Sample, input: &mut Input<'_>) -> usize {
    let word = input.number(3) as usize;
    let ranges = if word >> 23 != 0 {
        &sample.heads
    } else {
        &sample.hot
    };
    let total: usize = ranges.iter().map(|range| range.len()).sum();
    let mut left = word % total;
    for range in ranges {
        if left < range.len() {
            return range.start + left;
        }
        left -= range.len();
    }
    unreachable!("the remainder is below the total")
}

fn patch(sample: &Sample, bytes: &mut [u8], input: &mut Input<'_>) {
    let kind = input.byte() % 7;
    let at = place(sample, input);
    let word = at & !7;
    match kind {
        0 => bytes[at] ^= 1 << (input.byte() % 8),
        1 => bytes[at] = input.byte(),
        2 => {
            let half = at & !3;
            bytes[half..half + 4].copy_from_slice(&(input.number(4) as u32).to_le_bytes());
        }
        3 => {
            let extreme = EXTREMES[usize::from(input.byte()) % EXTREMES.len()];
            bytes[word..word + 8].copy_from_slice(&extreme.to_le_bytes());
        }
        4 => {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[word..word + 8]);
            let sum = u64::from_le_bytes(value).wrapping_add(i64::from(input.byte() as i8) as u64);
            bytes[word..word + 8].copy_from_slice(&sum.to_le_bytes());
        }
        5 => {
            let from = place(sample, input);
            let length = usize::from(input.byte()) + 1;
            let end = (from + length).min(bytes.len());
            let length = (end - from).min(bytes.len() - at);
            bytes.copy_within(from..from + length, at);
        }
        _ => {
            let length = usize::from(input.byte() % 16) + 1;
            let new = input.take(length);
            let end = (at + new.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&new[..end - at]);
        }
    }
}

/// Where the sound image has which word.
type Words = HashMap<u32, Vec<usize>>;

fn words(sample: &Sample) -> &'static Words {
    static WORDS: [OnceLock<Words>; 2] = [OnceLock::new(), OnceLock::new()];
    let nth = usize::from(std::ptr::eq(sample, &sample::images()[1]));
    WORDS[nth].get_or_init(|| {
        let mut words = Words::new();
        for range in &sample.hot {
            for at in (range.start & !3..range.end.saturating_sub(3)).step_by(4) {
                words
                    .entry(word_at(&sample.bytes, at))
                    .or_default()
                    .push(at);
            }
        }
        words
    })
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

/// Replaces the word `old` by `new` wherever the sound image had it.
fn replace(sample: &Sample, bytes: &mut [u8], old: u32, new: u32) {
    if old == new {
        return;
    }
    for &at in words(sample).get(&old).into_iter().flatten() {
        if word_at(bytes, at) == old {
            bytes[at..at + 4].copy_from_slice(&new.to_le_bytes());
        }
    }
}

/// Makes right what the change of other bytes made wrong, in the order of the log.
pub fn repair(sample: &Sample, bytes: &mut [u8]) {
    for (start, partial) in &sample.partials {
        for payload in &partial.payload {
            let before = crc32c(&sample.bytes[payload.range.clone()]);
            let now = crc32c(&bytes[payload.range.clone()]);
            replace(sample, bytes, before, now);
        }
        let (header, rest) = SummaryHeader::mut_from_prefix(&mut bytes[*start..]).expect("whole");
        let stored = partial.header.sectors.get() as usize * 512 - size_of::<SummaryHeader>();
        let length = (header.entry_bytes.get() as usize).min(stored);
        header.crc = header.computed_crc(&rest[..length]).into();
        let now = header.chain_crc();
        replace(sample, bytes, partial.header.chain_crc(), now);
    }
    for slot in &sample.records {
        if word_at(bytes, slot.start + 12) != 0 {
            seal_record(&mut bytes[slot.clone()], sample.superblock.volume_tag());
        }
    }
    for &at in &sample.superblocks {
        let crc = crc32c(&bytes[at + 12..at + size_of::<Superblock>()]);
        let place = at + offset_of!(Superblock, crc);
        bytes[place..place + 4].copy_from_slice(crc.as_bytes());
    }
}

/// The sample's device with `bytes` in their places.
pub fn assemble(sample: &Sample, bytes: &[u8]) -> MemoryImage {
    let mut image = sample.image.clone();
    let mut at = 0;
    for range in &sample.used {
        let length = (range.end - range.start) as usize;
        for from in (0..length).step_by(4096) {
            let here = at + from..at + (from + 4096).min(length);
            if bytes[here.clone()] != sample.bytes[here.clone()] {
                image.write(range.start + from as u64, &bytes[here]);
            }
        }
        at += length;
    }
    image
}

/// No patch at all; limits in every word of superblock, records and summaries;
/// a few patches of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0], vec![CLEAN], vec![READ_ONLY]];
    let sample = &sample::images()[0];
    let total: usize = sample.heads.iter().map(|range| range.len()).sum();
    let place = |at: usize| (at as u32 | 1 << 23).to_le_bytes();
    for at in (0..total).step_by(8) {
        // Superblock and records first, and thoroughly.
        let limits = if at < 232 + 2 * 640 {
            0..8
        } else {
            at as u8 / 8..at as u8 / 8 + 1
        };
        for limit in limits {
            let place = &place(at)[..3];
            seeds.push([&[REPAIR, 3], place, &[limit]].concat());
            seeds.push([&[REPAIR | CHECK, 3], place, &[limit]].concat());
        }
    }
    for at in (0..total.min(4096)).step_by(4) {
        for value in [u32::MAX, 1 << 31, 0] {
            let place = &place(at)[..3];
            seeds.push([&[REPAIR, 2], place, &value.to_le_bytes()].concat());
        }
    }
    let mut random = crate::mutate::Random::new(1, 1);
    for kind in 0..64u8 {
        let mut seed = vec![REPAIR | kind & (CLEAN | READ_ONLY | WALK | CHECK)];
        for _ in 0..1 + kind % 3 {
            seed.push(kind);
            seed.extend(&random.word().to_le_bytes()[..6]);
        }
        seeds.push(seed);
    }
    seeds
}
