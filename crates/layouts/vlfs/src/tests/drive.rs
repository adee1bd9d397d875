//! The cost of small synchronous updates on a simulated drive, in virtual time.

use super::*;
use std::time::Duration;
use varve_device::Device;
use varve_vlog::{FormatOptions, Vld};

const BLOCK: u64 = 4096;
const UPDATES: u64 = 1000;
/// More updates than the drive has blocks, so that no space is empty or in order any
/// more.
const LASTING: u64 = 6000;

/// Returns `times` blocks of a file of `blocks` blocks, in the order in which they are
/// updated.
fn updates(times: u64, blocks: u64) -> impl Iterator<Item = u64> {
    (1..=times).map(move |nth| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks)
}

/// Returns the mean time of an update, in nanoseconds.
fn mean_ns(disk: &SimulatedDisk, times: u64, blocks: u64, mut update: impl FnMut(u64)) -> u64 {
    let begun = disk.clock().monotonic_ns();
    updates(times, blocks).for_each(|block| update(block * BLOCK));
    (disk.clock().monotonic_ns() - begun) / times
}

/// Creates a file of `blocks` blocks on the volume, written and synced.
fn filled(system: &System, blocks: u64) -> InodeNo {
    let file = create(system, "file");
    for block in (0..blocks).step_by(64) {
        let length = (blocks - block).min(64) * BLOCK;
        write(system, file, block * BLOCK, &vec![1; length as usize]).unwrap();
        system.fsync(file, false).unwrap();
    }
    file
}

/// Returns the time of an update on the virtual log disk and on VLFS, on a drive that
/// is full to 80 %: of the first thousand updates or, with `lasting` and a pause of the
/// host before each, of as many after all ordered space has been used.
fn updates_of_a_full_drive(lasting: bool) -> (u64, u64) {
    let disk = disk_of(11);
    let blocks = disk.geometry().size / BLOCK * 8 / 10;
    let mean = |disk: &SimulatedDisk, blocks, update: &mut dyn FnMut(u64)| {
        if !lasting {
            return mean_ns(disk, UPDATES, blocks, update);
        }
        let mut update = |at| {
            disk.clock().advance(Duration::from_micros(660));
            update(at);
        };
        mean_ns(disk, LASTING, blocks, &mut update);
        mean_ns(disk, LASTING, blocks, &mut update)
    };
    let vld = {
        let medium = Arc::new(InDrive(disk_of(11)));
        let options = FormatOptions {
            block_bytes: BLOCK as u32,
            logical_bytes: Some(blocks * BLOCK),
            volume: 1,
            anywhere: false,
        };
        Vld::format(&medium, options).unwrap();
        let run = varve_vlog::Options {
            synchronous: true,
            ..varve_vlog::Options::default()
        };
        let (vld, _) = Vld::open(Arc::clone(&medium), run).unwrap();
        let data = [1; BLOCK as usize];
        let put = |at: u64| vld.write(at, &[std::io::IoSlice::new(&data)]).unwrap();
        (0..blocks).for_each(|block| put(block * BLOCK));
        mean(&medium.0, blocks, &mut |at| put(at))
    };
    let medium: Arc<dyn Medium> = Arc::new(InDrive(Arc::clone(&disk)));
    let system = made(&medium, 0);
    let file = filled(&system, blocks - 20);
    assert!(system.layout().statistics().blocks_live >= blocks);
    let vlfs = mean(&disk, blocks - 20, &mut |at| {
        write(&system, file, at, &[2; BLOCK as usize]).unwrap();
        system.fsync(file, true).unwrap();
    });
    (vld, vlfs)
}

#[test]
fn small_updates_of_a_full_drive_take_no_longer_than_on_the_virtual_log_disk() {
    let (vld, vlfs) = updates_of_a_full_drive(false);
    assert!(vlfs <= vld, "VLFS {vlfs} ns, VLD {vld} ns");
}

#[test]
fn updates_that_use_up_all_holes_take_no_longer_than_on_the_virtual_log_disk() {
    let (vld, vlfs) = updates_of_a_full_drive(true);
    assert!(vlfs <= vld, "VLFS {vlfs} ns, VLD {vld} ns");
}

#[test]
fn replaced_nodes_do_not_push_living_ones_out_of_memory() {
    let disk = disk_of(11);
    let medium: Arc<dyn Medium> = Arc::new(InDrive(Arc::clone(&disk)));
    made(&medium, 0).layout().unmount().unwrap();
    let options = VlfsMountOptions {
        cache_bytes: 256 << 10,
        ..VlfsMountOptions::default()
    };
    let layout = Arc::new(Vlfs::mount(medium, clock(), options).unwrap());
    let system = FileSystem::mount(layout, clock(), super::options()).unwrap();
    let file = filled(&system, 1000);
    let before = disk.statistics().requests.reads;
    for block in updates(UPDATES, 1000) {
        write(&system, file, block * BLOCK, &[2; BLOCK as usize]).unwrap();
        system.fsync(file, true).unwrap();
    }
    assert_eq!(disk.statistics().requests.reads, before, "nodes read again");
}
