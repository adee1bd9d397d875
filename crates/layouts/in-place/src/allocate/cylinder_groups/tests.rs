//! Places of blocks and tails in FFS's policy, also when little space is free.

use super::*;

fn groups(block: u64, clusters: bool) -> CylinderGroups {
    let shape = Shape {
        units: 8 * 512 * block,
        block,
        group: 512 * block,
        head: 16 * block,
    };
    CylinderGroups::new(shape, placement(clusters))
}

fn placement(clusters: bool) -> Placement {
    Placement {
        maxcontig: 256,
        rotdelay: 0,
        clusters,
        scarce: 0,
    }
}

fn file(home: u64) -> FileView {
    FileView {
        home,
        ..FileView::default()
    }
}

fn extended(map: &mut CylinderGroups, file: &FileView, units: u64) -> Vec<Extent> {
    let mut out = Vec::new();
    map.extend(file, units, &mut out).unwrap();
    out
}

#[test]
fn a_tail_goes_where_it_fits_best() {
    let mut map = groups(8, true);
    let near = map.data(0).start;
    let three = map.fragments(near, 3).unwrap();
    let two = map.fragments(near, 2).unwrap();
    assert_eq!(two.start, three.end());
    // 3 fragments are free behind these, and another block has 4.
    let four = map.fragments(near, 4).unwrap();
    assert_ne!(map.block_of(four.start), map.block_of(two.start));
    assert_eq!(map.fragments(near, 3).unwrap().start, two.end());
}

#[test]
fn a_file_is_laid_behind_itself_and_a_cluster_is_found() {
    let mut map = groups(1, true);
    let data = map.data(1);
    let near = data.start;
    assert_eq!(
        map.run(near, 20),
        Some(Extent {
            start: near,
            units: 20
        })
    );
    let hole = Extent {
        start: near + 5,
        units: 1,
    };
    map.release(hole).unwrap();
    // A single block is free nearby, but no run of eight.
    assert_eq!(map.run(near, 8).unwrap().start, near + 20);
    assert_eq!(map.run(near, 1), Some(hole));
    // When a group is full, blocks are taken from another one.
    while map.groups[1].free_blocks > 0 {
        assert!(data.contains(&map.run(near, 1).unwrap().start));
    }
    assert!(!data.contains(&map.run(near, 1).unwrap().start));
}

/// The later FFS reallocates blocks so that they are contiguous; the earlier one takes
/// the free ones.
#[test]
fn block_by_block_a_file_takes_the_holes() {
    for clusters in [true, false] {
        let mut map = groups(8, clusters);
        let near = map.data(0).start;
        let taken = extended(&mut map, &file(near), 64);
        assert_eq!(
            taken,
            [Extent {
                start: near,
                units: 64
            }]
        );
        let holes = [1, 4, 6].map(|block| Extent {
            start: near + block * 8,
            units: 8,
        });
        holes.iter().for_each(|hole| map.release(*hole).unwrap());
        let taken = extended(&mut map, &file(near), 4 * 8);
        let blocks: Vec<u64> = taken.iter().map(|extent| extent.units / 8).collect();
        match clusters {
            true => assert_eq!(blocks, [4]),
            false => assert_eq!(blocks, [1, 1, 1, 1]),
        }
    }
}

#[test]
fn a_large_file_moves_on_and_an_early_one_after_twelve_blocks() {
    let mut map = groups(1, true);
    let near = map.data(0).start;
    let taken = extended(&mut map, &file(near), 300);
    let groups_of = |taken: &[Extent], map: &CylinderGroups| -> Vec<(u64, u64)> {
        let group = |extent: &Extent| (map.group_of(extent.start), extent.units);
        taken.iter().map(group).collect()
    };
    // With `clusters`, the blocks of one request stay together.
    assert_eq!(groups_of(&taken, &map), [(0, 300)]);
    let mut view = file(map.data(2).start);
    let mut steps = Vec::new();
    for _ in 0..130 {
        let more = extended(&mut map, &view, 1);
        view = view.with(&more);
        steps.push(map.group_of(more[0].start));
    }
    assert!(steps[..128].iter().all(|&group| group == 2), "{steps:?}");
    assert!(steps[128..].iter().all(|&group| group == 3), "{steps:?}");
    let mut map = groups(1, false);
    let taken = extended(&mut map, &file(near), 20);
    assert_eq!(groups_of(&taken, &map), [(0, 12), (1, 8)]);
}

#[test]
fn gaps_follow_where_the_placement_says() {
    let mut map = groups(8, false);
    map.placement.maxcontig = 2;
    map.placement.rotdelay = 1;
    let near = map.data(0).start;
    for clusters in [false, true] {
        map.placement.clusters = clusters;
        let taken = extended(&mut map, &file(near), 8 * 6);
        let starts: Vec<u64> = taken
            .iter()
            .map(|e| (e.start - taken[0].start) / 8)
            .collect();
        assert_eq!(starts, [0, 3, 6], "{taken:?}");
        taken
            .iter()
            .for_each(|extent| map.release(*extent).unwrap());
    }
}

#[test]
fn scarce_blocks_are_broken_last() {
    for (scarce, elsewhere) in [(0, false), (10_000, true)] {
        let mut map = groups(8, true);
        map.placement.scarce = scarce;
        let far = map.data(5).start;
        map.occupy(Extent {
            start: far,
            units: 3,
        })
        .unwrap();
        let taken = map.fragments(map.data(0).start, 2).unwrap();
        assert_eq!(map.group_of(taken.start) == 5, elsewhere);
    }
}

#[test]
fn heads_of_groups_are_nobodys() {
    let mut map = groups(8, true);
    let capacity = map.capacity();
    for (start, units) in [(0, 8), (120, 16), (512 * 8 - 8, 16), (512 * 8 + 8, 8)] {
        let extent = Extent { start, units };
        let refused = Err(MapError::Outside { extent, capacity });
        assert_eq!(map.occupy(extent), refused);
        assert_eq!(map.release(extent), refused);
    }
    assert_eq!(map.free_units(), 8 * (512 - 16) * 8);
    assert_eq!(map.free_in_blocks(), map.free_units());
}
