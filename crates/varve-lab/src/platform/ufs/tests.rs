//! What the generator asks of its disk.

use super::*;
use crate::platform::host::Host;
use crate::platform::store::Places;
use crate::platform::{Disk, seagate};

fn ufs(times: bool) -> Ufs {
    let store = Store::new(
        seagate(),
        Disk::Regular,
        Places::default(),
        Host::SPARCSTATION_10,
        1,
    )
    .unwrap();
    Ufs::new(store, times)
}

/// Writes and reads of the drive that `work` causes.
fn requests(ufs: &mut Ufs, work: impl FnOnce(&mut Ufs)) -> (u64, u64) {
    let count = |ufs: &Ufs| ufs.store.drive().statistics().requests;
    let before = count(ufs);
    work(ufs);
    let after = count(ufs);
    (after.writes - before.writes, after.reads - before.reads)
}

#[test]
fn names_cost_two_synchronous_writes() {
    let mut ufs = ufs(false);
    ufs.create(0).unwrap();
    let made = requests(&mut ufs, |ufs| ufs.create(1).unwrap());
    assert_eq!(made, (2, 0), "inode and directory");
    let written = requests(&mut ufs, |ufs| ufs.write(1, 0, 1024, true).unwrap());
    assert_eq!(written, (2, 0), "data and inode");
    let gone = requests(&mut ufs, |ufs| ufs.delete(1).unwrap());
    assert_eq!(gone, (2, 0), "directory and inode");
    assert_eq!(
        requests(&mut ufs, |ufs| ufs.sync().unwrap()),
        (1, 0),
        "bitmaps"
    );
    assert_eq!(requests(&mut ufs, |ufs| ufs.sync().unwrap()), (0, 0));
}

#[test]
fn updates_in_place_are_one_write_and_two_with_times() {
    for (times, expected) in [(false, 1), (true, 2)] {
        let mut ufs = ufs(times);
        ufs.create(0).unwrap();
        for block in 0..100 {
            ufs.write(0, block * BLOCK, 4096, false).unwrap();
        }
        ufs.sync().unwrap();
        let place = ufs.files[&0].blocks[40];
        let update = |ufs: &mut Ufs| ufs.write(0, 40 * BLOCK, 4096, true).unwrap();
        assert_eq!(requests(&mut ufs, update), (expected, 0));
        assert_eq!(ufs.files[&0].blocks[40], place);
    }
}

#[test]
fn large_files_have_indirect_blocks_and_are_read_in_clusters() {
    assert_eq!(Ufs::ways(11), 0..0);
    assert_eq!(Ufs::ways(12), 0..1);
    assert_eq!(Ufs::ways(1035), 0..1);
    assert_eq!(
        Ufs::ways(1036),
        1..3,
        "the double one and the first below it"
    );
    assert_eq!(Ufs::ways(2060), 1..4);
    let mut ufs = ufs(false);
    ufs.create(0).unwrap();
    for block in 0..1200 {
        ufs.write(0, block * BLOCK, 4096, false).unwrap();
    }
    ufs.sync().unwrap();
    assert_eq!(ufs.files[&0].indirect.len(), 3);
    ufs.forget();
    let (_, reads) = requests(&mut ufs, |ufs| {
        for block in 0..1200 {
            ufs.read(0, block * BLOCK, 4096).unwrap();
        }
    });
    assert!(
        (1200 / CLUSTER..1200 / CLUSTER + 20).contains(&reads),
        "{reads}"
    );
    let (_, reads) = requests(&mut ufs, |ufs| ufs.read(0, 0, 4096).unwrap());
    assert_eq!(reads, 0, "what was read stays in memory");
    ufs.forget();
    let update = |ufs: &mut Ufs| ufs.write(0, 1199 * BLOCK, 4096, true).unwrap();
    let way = "both indirect blocks and the inode";
    assert_eq!(requests(&mut ufs, update), (1, 3), "{way}");
    assert_eq!(requests(&mut ufs, update), (1, 0));
}

#[test]
fn small_files_share_a_block_and_room_comes_back() {
    let mut ufs = ufs(false);
    for file in 0..4 {
        ufs.create(file).unwrap();
        ufs.write(file, 0, 1024, true).unwrap();
    }
    let places: Vec<u64> = (0..4).map(|f| ufs.files[&f].blocks[0].fragment).collect();
    let first = places[0];
    assert_eq!(places, [first, first + 1, first + 2, first + 3]);
    let room = |ufs: &mut Ufs| {
        let mut blocks = 0;
        ufs.create(9).unwrap();
        while ufs.write(9, blocks * BLOCK, 4096, false).is_ok() {
            blocks += 1;
        }
        ufs.delete(9).unwrap();
        blocks
    };
    let before = room(&mut ufs);
    assert!(before > 5000, "{before}");
    assert_eq!(room(&mut ufs), before);
}
