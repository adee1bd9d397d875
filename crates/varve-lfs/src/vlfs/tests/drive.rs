//! On a simulated drive: what small synchronous updates cost, in virtual time.

use super::*;
use varve_device::Device;
use varve_vlog::{FormatOptions, Vld};

const BLOCK: u64 = 4096;
const UPDATES: u64 = 1000;

/// The blocks of a file of `blocks` in the order in which they are updated.
fn updates(blocks: u64) -> impl Iterator<Item = u64> {
    (1..=UPDATES).map(move |nth| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks)
}

/// Nanoseconds that one of the updates takes in the mean.
fn mean_ns(disk: &SimulatedDisk, blocks: u64, mut update: impl FnMut(u64)) -> u64 {
    let begun = disk.clock().monotonic_ns();
    updates(blocks).for_each(|block| update(block * BLOCK));
    (disk.clock().monotonic_ns() - begun) / UPDATES
}

/// A file of so many blocks on the volume, written and synced.
fn filled(system: &System, blocks: u64) -> InodeNo {
    let file = create(system, "file");
    for block in (0..blocks).step_by(64) {
        let length = (blocks - block).min(64) * BLOCK;
        write(system, file, block * BLOCK, &vec![1; length as usize]).unwrap();
        system.fsync(View::Live, file, false).unwrap();
    }
    file
}

#[test]
fn small_updates_of_a_full_drive_take_no_longer_than_on_the_virtual_log_disk() {
    let disk = disk_of(11);
    let blocks = disk.geometry().size / BLOCK * 8 / 10;
    let vld = {
        let medium = Arc::new(InDrive(disk_of(11)));
        let options = FormatOptions {
            block_bytes: BLOCK as u32,
            logical_bytes: Some(blocks * BLOCK),
            volume: 1,
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
        mean_ns(&medium.0, blocks, put)
    };
    let medium: Arc<dyn Medium> = Arc::new(InDrive(Arc::clone(&disk)));
    let system = made(&medium, 0);
    let file = filled(&system, blocks - 20);
    assert!(system.layout().statistics().blocks_live >= blocks);
    let vlfs = mean_ns(&disk, blocks - 20, |at| {
        write(&system, file, at, &[2; BLOCK as usize]).unwrap();
        system.fsync(View::Live, file, true).unwrap();
    });
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
    for block in updates(1000) {
        write(&system, file, block * BLOCK, &[2; BLOCK as usize]).unwrap();
        system.fsync(View::Live, file, true).unwrap();
    }
    assert_eq!(disk.statistics().requests.reads, before, "nodes read again");
}
