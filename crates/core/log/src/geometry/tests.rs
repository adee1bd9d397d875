//! What index nodes may take on volumes of all sizes.

use super::*;
use crate::format::Pointer;
use crate::format::node::{Node, NodeId};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use varve_fs::InodeNo;

pub(crate) fn volume(bytes: u64, block_bytes: u32, packed: bool) -> Geometry {
    let segment_bytes = crate::mkfs::default_segment_bytes(bytes).max(32 * block_bytes);
    Geometry {
        block_bytes,
        write_unit: 4096,
        segment_bytes,
        inode_bytes: 256,
        segment_count: (bytes / u64::from(segment_bytes)) as u32,
        first_segment: 1 << 16,
        copy_stride: 4,
        reserve_segments: 12,
        aligned: true,
        packed,
        long_xattrs: true,
        spills: true,
        snapshots: true,
        shrunk: false,
    }
}

/// Pointers as unlike each other as the volume allows.
fn extremes(geometry: &Geometry, seed: u64, count: u64) -> Node {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let end = (geometry.first_segment + geometry.volume_bytes()) / SECTOR;
    let most_sectors = (geometry.block_bytes / SECTOR as u32) as u8;
    let openings = u64::from(u32::MAX);
    let last_serial = openings * u64::from(geometry.segment_bytes / geometry.write_unit);
    let mut slots: Vec<usize> = (0..FANOUT as usize).collect();
    let mut node = Node::default();
    for nth in 0..count {
        let slot = slots.swap_remove(rng.random_range(0..slots.len()));
        let birth = rng.random_range(1..=last_serial);
        let any = rng.random_range(0..4) == 0;
        let pointer = match nth {
            0 => Pointer::unwritten_block(1, 1),
            1 => Pointer::new(end - 1, most_sectors, 1, last_serial, u32::MAX),
            _ if any => Pointer::unwritten_block(most_sectors, birth),
            _ => {
                let sectors = rng.random_range(1..=most_sectors);
                Pointer::new(rng.random_range(1..end), sectors, 7, birth, rng.random())
            }
        };
        node.set(slot, pointer);
    }
    node
}

const LEAF: NodeId = NodeId {
    ino: InodeNo(7),
    height: 1,
    index: 3,
};

fn volumes() -> impl Iterator<Item = Geometry> {
    let sizes = [8 << 20, 256 << 20, 1 << 30, 100 << 30, 16 << 40];
    let each = |bytes| [4096, 65536].map(|block| volume(bytes, block, true));
    sizes.into_iter().flat_map(each)
}

#[test]
fn no_node_takes_more_than_it_is_priced_for() {
    for geometry in volumes() {
        let most = geometry.node_bytes(FANOUT);
        let mut reached = false;
        for seed in 0..20 {
            for count in 0..=FANOUT {
                let stored = extremes(&geometry, seed, count).encode(LEAF, 1, true).len() as u64;
                let bound = geometry.node_bytes(count);
                assert!(
                    stored <= bound && bound <= most,
                    "{count}: {stored} of {bound}"
                );
                reached |= stored == most && count == FANOUT;
            }
        }
        assert!(reached, "{most} of {geometry:?}");
        assert!(most < 4096, "{most}");
    }
    let plain = volume(1 << 30, 4096, false);
    assert_eq!((plain.node_bytes(FANOUT), plain.node_growth()), (4096, 0));
    assert_eq!(
        extremes(&plain, 1, FANOUT).encode(LEAF, 1, false).len(),
        4096
    );
}

#[test]
fn a_full_leaf_is_priced_by_the_size_of_its_volume() {
    let price = |bytes| volume(bytes, 4096, true).node_bytes(FANOUT);
    let prices = [256 << 20, 1 << 30, 100 << 30].map(price);
    assert_eq!(prices, [2560; 3]);
}

/// From the two sectors that a packed node has at least.
#[test]
fn a_node_grows_by_no_more_than_its_pointers_are_priced_for() {
    for geometry in volumes() {
        let growth = geometry.node_growth();
        for count in 0..=FANOUT {
            let most = geometry.node_bytes(count);
            // A thirtieth is for the nodes above.
            assert!(
                most <= 1024 + count * growth * 30 / 31,
                "{count}: {most}, {growth}"
            );
        }
        let full = geometry.node_bytes(FANOUT) - 1024;
        assert!(growth <= full / FANOUT + 5, "{growth} for {full}");
    }
}

#[test]
fn extended_attributes_fit_a_partial_and_a_pointer() {
    let mut geometry = volume(1 << 30, 4096, true);
    assert_eq!(geometry.xattr_bytes(), 130_560);
    geometry.long_xattrs = false;
    assert_eq!(geometry.xattr_bytes(), 65_536);
    for long_xattrs in [true, false] {
        geometry.long_xattrs = long_xattrs;
        geometry.segment_bytes = 64 << 10;
        assert_eq!(geometry.xattr_bytes(), 48 << 10);
    }
}
