//! Packed nodes: encoding and decoding are inverse, and invalid bytes are refused.

use super::*;
use crate::format::SECTOR;
use crate::format::node::{FANOUT, Node, NodeHeader, NodeId, node_form};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::mem::offset_of;
use varve_fs::InodeNo;

const LEAF: NodeId = NodeId {
    ino: InodeNo(7),
    height: 1,
    index: 3,
};
/// Offset of the columns.
const COLUMNS: usize = size_of::<NodeHeader>() + size_of::<PackedHeader>();

fn node_of(pointers: impl IntoIterator<Item = Pointer>) -> Node {
    let mut node = Node::default();
    for (slot, pointer) in pointers.into_iter().enumerate() {
        node.set(slot, pointer);
    }
    node
}

/// Blocks of a file that was written at random over 1 GiB.
fn scattered(seed: u64) -> Node {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    node_of((0..FANOUT).map(|_| {
        let sector = 128 + 8 * rng.random_range(0..1 << 18);
        let birth = rng.random_range(100_000..200_000);
        Pointer::new(sector, 8, rng.random(), birth, rng.random_range(1..4000))
    }))
}

#[test]
fn a_scattered_leaf_takes_three_sectors() {
    let node = scattered(1);
    let bytes = node.encode(LEAF, 4, true);
    assert_eq!(bytes.len(), 3 * 512);
    assert_eq!(bytes[offset_of!(NodeHeader, form)], node_form::PACKED);
    assert_eq!(Node::decode(&bytes, LEAF, true), Ok(node.clone()));
    assert_eq!(node.encode(LEAF, 4, false).len(), 8 * 512);
}

#[test]
fn a_file_written_in_one_go_takes_two_sectors() {
    let next = |at: u64| Pointer::new(4000 + 8 * at, 8, 0x0e37_79b9 + at as u32, 17, 5);
    let node = node_of((0..FANOUT).map(next));
    let bytes = node.encode(LEAF, 4, true);
    assert_eq!(bytes.len(), 2 * 512);
    let (header, _) = PackedHeader::ref_from_prefix(&bytes[48..]).unwrap();
    let expected = PackedHeader {
        address_base: 4000.into(),
        birth_base: 17.into(),
        incarnation_base: 5.into(),
        sectors_base: 8,
        address_shift: 3,
        address_bits: 7,
        ..PackedHeader::default()
    };
    assert_eq!(*header, expected);
    // Slot 2: seven bits from bit 14 on, and the third checksum.
    assert_eq!(bytes[COLUMNS + 1] >> 6 | (bytes[COLUMNS + 2] & 31) << 2, 2);
    let crc = COLUMNS + (126 * 7usize).div_ceil(8) + 8;
    assert_eq!(bytes[crc..crc + 4], 0x0e37_79bb_u32.to_le_bytes());
}

#[test]
fn small_nodes_stay_plain() {
    let pointer = |at: u64| Pointer::new(64 + 8 * at, 8, 1, 1, 1);
    for count in 0..=FANOUT {
        let node = node_of((0..count).map(pointer));
        let bytes = node.encode(LEAF, 4, true);
        let plain = node.encode(LEAF, 4, false);
        match bytes[offset_of!(NodeHeader, form)] {
            node_form::PLAIN => assert!(count <= 30 && bytes == plain, "{count}"),
            _ => assert!(count > 30 && bytes.len() == 1024, "{count}"),
        }
    }
}

/// Numbers of all sizes, equal or not.
fn any_number(rng: &mut Xoshiro256PlusPlus, most: u64) -> impl FnMut() -> u64 + use<> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(rng.random());
    let wide = move |rng: &mut Xoshiro256PlusPlus| {
        let bits = rng.random_range(0..=64);
        (rng.random::<u64>().checked_shr(bits).unwrap_or(0)).min(most)
    };
    let (base, span) = (wide(&mut rng), wide(&mut rng));
    let shift = rng.random_range(0..8) * rng.random_range(0..2);
    move || match rng.random_range(0..200) {
        0 => wide(&mut rng),
        1 => most,
        _ => base
            .saturating_add(rng.random_range(0..=span) >> shift << shift)
            .min(most),
    }
}

/// Nodes from empty to full, with all kinds of pointers.
fn any_node(seed: u64) -> Node {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut sector = any_number(&mut rng, MAX_SECTOR);
    let mut sectors = any_number(&mut rng, 255);
    let mut birth = any_number(&mut rng, u64::MAX);
    let mut incarnation = any_number(&mut rng, u32::MAX.into());
    let full = rng.random_range(0..=100);
    let unwritten = rng.random_range(0..=100) * rng.random_range(0..2);
    let tagged = rng.random_range(0..16) == 0;
    let mut node = Node::default();
    for slot in 0..FANOUT as usize {
        if rng.random_range(0..100) >= full {
            continue;
        }
        let sectors = sectors().max(1) as u8;
        let pointer = match rng.random_range(0..100) < unwritten {
            true => Pointer::unwritten_block(sectors, birth()),
            false => {
                let crc = rng.random();
                let incarnation = incarnation() as u32;
                Pointer::new(sector().max(1), sectors, crc, birth(), incarnation)
            }
        };
        let mut bytes = [0; 32];
        bytes.copy_from_slice(pointer.as_bytes());
        if tagged && slot > 100 {
            bytes[24] = 1;
        }
        node.set(slot, Pointer::read_from_bytes(&bytes).unwrap());
    }
    node
}

#[test]
fn any_node_comes_back_and_takes_no_more_than_plain() {
    let mut packed = 0;
    for seed in 0..20_000 {
        let node = any_node(seed);
        let plain = node.encode(LEAF, 4, false);
        let bytes = node.encode(LEAF, 4, true);
        assert!(bytes.len() <= plain.len(), "seed {seed}");
        assert!(bytes.len().is_multiple_of(SECTOR as usize));
        assert_eq!(
            Node::decode(&bytes, LEAF, true).as_ref(),
            Ok(&node),
            "seed {seed}"
        );
        assert_eq!(
            Node::decode(&plain, LEAF, true).as_ref(),
            Ok(&node),
            "seed {seed}"
        );
        assert_eq!(node.clone().encode(LEAF, 4, true), bytes);
        if bytes[offset_of!(NodeHeader, form)] == node_form::PACKED {
            assert!(bytes.len() < plain.len(), "seed {seed}");
            packed += 1;
        } else {
            assert_eq!(bytes, plain);
        }
    }
    assert!(packed > 5000, "{packed}");
}

/// The full width of every column at once.
#[test]
fn the_widest_numbers_come_back() {
    for count in [2, 3, 125, 126u64] {
        let last = |at: u64| at == count - 1;
        let pointer = |at: u64| match last(at) {
            true => Pointer::new(MAX_SECTOR, 255, u32::MAX, u64::MAX, u32::MAX),
            false => Pointer::unwritten_block(1, 0),
        };
        let pointers: Vec<Pointer> = (0..count).map(pointer).collect();
        let mut columns = Columns::empty();
        assert!(columns.fill(pointers.iter().copied()));
        let header = columns.header();
        assert_eq!(header.columns().map(|c| c.bits), [48, 8, 1, 64, 32]);
        let mut bytes = Vec::new();
        columns.put(&header, &mut bytes);
        assert_eq!(bytes.len(), header.bytes(count as usize));
        let mut columns = Columns::empty();
        columns.parse(&bytes, count as usize).unwrap();
        let back: Vec<Pointer> = (0..count as usize).map(|n| columns.pointer(n)).collect();
        assert_eq!(back, pointers);
    }
}

#[track_caller]
fn refused(bytes: &[u8], id: NodeId, why: &str) {
    let problem = Node::decode(bytes, id, true).unwrap_err().problem;
    assert!(problem.contains(why), "{problem:?}, not {why:?}");
}

#[test]
fn columns_that_cannot_be_are_refused() {
    let bytes = scattered(2).encode(LEAF, 4, true);
    let edited = |edit: fn(&mut PackedHeader)| {
        let mut bytes = bytes.clone();
        edit(PackedHeader::mut_from_prefix(&mut bytes[48..]).unwrap().0);
        bytes
    };
    let short = "cut short";
    let wide = "impossible";
    let large = "beyond";
    type Edit = fn(&mut PackedHeader);
    let cases: &[(Edit, &str)] = &[
        (|h| h.address_bits = 46, wide),
        (|h| h.address_bits = 255, wide),
        (|h| h.address_shift = 40, wide),
        (|h| h.address_shift = 255, wide),
        (|h| h.sectors_bits = 9, wide),
        (|h| h.flags_bits = 9, wide),
        (|h| h.birth_bits = 65, wide),
        (|h| h.incarnation_bits = 33, wide),
        (|h| h.birth_bits = 64, short),
        (|h| h.address_base = MAX_SECTOR.into(), large),
        (|h| h.address_base = (MAX_SECTOR + 1).into(), wide),
        (|h| h.address_base = u64::MAX.into(), wide),
        (|h| h.birth_base = u64::MAX.into(), large),
        (|h| h.incarnation_base = u32::MAX.into(), large),
        (|h| h.flags_base = 2, "slot 0 is malformed"),
        (|h| h.flags_base = 1, "slot 0 is malformed"),
        (|h| h.sectors_base = 0, "slot 0 is malformed"),
    ];
    for (edit, why) in cases {
        refused(&edited(*edit), LEAF, why);
    }
    for length in [48, 75, 76, 77, 1024] {
        refused(&bytes[..length], LEAF, short);
    }
}

#[test]
fn a_packed_node_is_refused_where_it_may_not_be() {
    let node = scattered(3);
    let bytes = node.encode(LEAF, 4, true);
    let problem = Node::decode(&bytes, LEAF, false).unwrap_err().problem;
    assert!(problem.contains("on a volume without such"), "{problem}");
    let mut other = bytes.clone();
    other[offset_of!(NodeHeader, form)] = 2;
    refused(&other, LEAF, "unknown form 2");
    let elsewhere = NodeId { index: 4, ..LEAF };
    refused(&bytes, elsewhere, "stands in its place");
    // Above height 1, packed nodes are allowed, and unwritten pointers are not.
    let above = NodeId { height: 2, ..LEAF };
    let bytes = node.encode(above, 4, true);
    assert_eq!(bytes.len(), 1536);
    assert_eq!(Node::decode(&bytes, above, true), Ok(node.clone()));
    let mut mixed = node;
    mixed.set(77, Pointer::unwritten_block(8, 9));
    refused(&mixed.encode(above, 4, true), above, "slot 77 is malformed");
    let leaf = mixed.encode(LEAF, 4, true);
    assert_eq!(leaf[offset_of!(NodeHeader, form)], node_form::PACKED);
    assert_eq!(Node::decode(&leaf, LEAF, true), Ok(mixed));
}

/// Any bytes are a node or an error.
#[test]
fn no_bytes_do_harm() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut taken = 0;
    for seed in 0..20_000 {
        let mut bytes = any_node(seed).encode(LEAF, 4, true);
        bytes[offset_of!(NodeHeader, form)] = node_form::PACKED;
        for _ in 0..rng.random_range(0..4) {
            let at = rng.random_range(offset_of!(NodeHeader, bitmap)..COLUMNS + 20);
            bytes[at] = rng.random();
        }
        bytes.truncate(rng.random_range(0..2 * bytes.len()));
        if let Ok(node) = Node::decode(&bytes, LEAF, true) {
            let again = node.encode(LEAF, 4, true);
            assert_eq!(Node::decode(&again, LEAF, true), Ok(node));
            taken += 1;
        }
    }
    assert!(taken > 2000, "{taken}");
}
