//! The examples of the thesis, one test for each.

use super::*;

const K: u64 = 1;
const M: u64 = 1024;

fn extent(start: u64, units: u64) -> Extent {
    Extent { start, units }
}

fn map(units: u64, sizes: &[u64], grow: u64, region: Option<u64>) -> Restricted {
    Restricted::new(units, sizes, Grow(grow), region).unwrap()
}

/// Returns the units of the blocks that a file gets one after the other.
fn steps(map: &mut Restricted, count: usize) -> Vec<u64> {
    let mut file = FileView::default();
    let mut step = || {
        let mut out = Vec::new();
        map.extend(&file, 1, &mut out).unwrap();
        let before = file.held;
        file = file.with(&out);
        file.held - before
    };
    (0..count).map(|_| step()).collect()
}

#[test]
fn the_grow_policy_is_that_of_section_3_3_2_2() {
    // Blocks of 1 and 8 KB, grow factor 1: eight of 1 KB before one of 8 KB; then, if
    // there are blocks of 64 KB, eight of 8 KB.
    let expected = |grow| {
        let mut steps = vec![1; 8 * grow];
        steps.extend(vec![8; 8 * grow]);
        steps.push(64);
        steps
    };
    for grow in [1, 2] {
        let mut map = map(4 * M, &[K, 8 * K, 64 * K], grow as u64, None);
        assert_eq!(steps(&mut map, 16 * grow + 1), expected(grow));
    }
}

#[test]
fn a_file_needs_a_block_of_64_from_72_or_144_kilobytes_on() {
    // Figure 3-4 and the text before it.
    for (grow, from) in [(1, 72), (2, 144)] {
        let map = map(4 * M, &[K, 8 * K, 64 * K], grow, None);
        let file = FileView::default();
        assert_eq!(map.rounded(&file, from), from);
        assert_eq!(map.rounded(&file, from + 1), from + 64);
        assert_eq!(map.rounded(&file, 5), 5);
        assert_eq!(map.rounded(&file, 8 * grow + 1), 8 * grow + 8);
    }
}

#[test]
fn the_block_after_72_kilobytes_is_not_contiguous() {
    // Figure 3-4: with grow factor 1 the next block of 64 KB is not the one in which
    // the file's blocks end. With grow factor 2 there is a seek, too, but later.
    let mut map = map(M, &[K, 8 * K, 64 * K, M], 1, None);
    let mut out = Vec::new();
    map.extend(&FileView::default(), 72 + 64, &mut out).unwrap();
    assert_eq!(out, [extent(0, 72), extent(128, 64)]);
}

#[test]
fn given_back_siblings_become_their_parent() {
    let mut map = map(2 * M, &[K, 8 * K, 64 * K, M], 1, None);
    let mut out = Vec::new();
    map.extend(&FileView::default(), 3, &mut out).unwrap();
    assert_eq!(out, [extent(0, 3)]);
    // Five of 1 KB, seven of 8 KB, fifteen of 64 KB, one of 1 MB.
    assert_eq!(map.free_runs().len(), 5 + 7 + 15 + 1);
    map.release(extent(1, 2)).unwrap();
    assert_eq!(map.free_runs().len(), 7 + 7 + 15 + 1);
    map.release(extent(0, 1)).unwrap();
    assert_eq!(map.free_runs(), [extent(0, M), extent(M, M)]);
}

#[test]
fn regions_are_chosen_as_table_3_5_says() {
    let sizes = [K, 8 * K, 64 * K];
    let file = |home| FileView {
        home,
        ..FileView::default()
    };
    let mut map = map(4 * 256, &sizes, 1, Some(256));
    let mut out = Vec::new();
    // The block is in the inode's region, by splitting there, although other regions
    // have more.
    map.extend(&file(256), 1, &mut out).unwrap();
    assert_eq!(out, [extent(256, 1)]);
    // The block is in the region of the last block.
    let grown = file(700).with(&out);
    map.occupy(extent(257, 1)).unwrap();
    out.clear();
    map.extend(&grown, 1, &mut out).unwrap();
    assert_eq!(out, [extent(258, 1)]);
    // When that one is full, the region is chosen in which most of the free space is
    // split.
    map.occupy(extent(259, 253)).unwrap();
    map.occupy(extent(600, 8)).unwrap();
    out.clear();
    map.extend(&grown, 1, &mut out).unwrap();
    assert_eq!(map.map.region_of(out[0].start), 2, "{out:?}");
    // A largest block is taken from the region in which least is split.
    let large = FileView {
        held: 72,
        ..file(256)
    };
    out.clear();
    map.extend(&large, 1, &mut out).unwrap();
    assert_eq!(out, [extent(0, 64)]);
    // A directory is placed where least is split; among equals, where most is free.
    assert_eq!(map.home(256, Kind::Directory), 768);
    assert_eq!(map.home(256, Kind::File), 256);
}

#[test]
fn impossible_configurations_are_refused() {
    let refused =
        |sizes: &[u64], grow, region| Restricted::new(1000, sizes, Grow(grow), region).unwrap_err();
    for sizes in [&[][..], &[0, 8], &[8, 8], &[8, 12]] {
        let error = refused(sizes, 1, None);
        assert_eq!(error, RestrictedError::Sizes(sizes.to_vec()));
    }
    assert!(matches!(
        refused(&[1, 8], 1, Some(8)),
        RestrictedError::Region { .. }
    ));
    assert_eq!(refused(&[1, 8], 0, None), RestrictedError::Grow);
}
