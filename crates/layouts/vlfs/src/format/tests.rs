//! Encoding and decoding of every structure, and bytes that must be refused.

use super::*;
use varve_fs::{FileKind, Inode, InodeNo, Timestamp, flags};
use varve_vlog::format::RecordHeader;
use zerocopy::FromZeros;

pub(crate) fn measures(unit_bytes: u32) -> Measures {
    Measures {
        volume: 7,
        unit_bytes,
        block_bytes: 4096,
        blocks: 4096,
        inodes: 1000,
        zone_blocks: 0,
        reserve_blocks: 128,
        slots: 16,
        parts: true,
        long_xattrs: true,
    }
}

fn inode() -> Inode {
    let mode = FileKind::Regular.mode_bits() | 0o644;
    Inode {
        uid: 1,
        gid: 2,
        nlink: 1,
        size: 5,
        blocks: 1,
        sectors: 1,
        ..Inode::new(InodeNo(9), 3, mode, Timestamp::default())
    }
}

#[test]
fn structures_survive_the_device() {
    for unit in [512, 4096] {
        let measures = measures(unit);
        assert_eq!(measures.check(), Ok(()));
        let at = measures.eager_units().start;
        let place = Place {
            sector: at * measures.unit_sectors(),
            sectors: 1,
            crc: 11,
        };
        let mut image = Image::new(inode(), &measures);
        image.height = 2;
        (image.slots[0], image.xattrs) = (place, place);
        let bytes = image.encode(&measures);
        assert_eq!(
            Image::decode(&bytes, &measures, InodeNo(9)),
            Ok(image.clone())
        );
        assert!(Image::decode(&bytes, &measures, InodeNo(8)).is_err());
        image.inode.flags = flags::INLINE;
        image.inode.inline = b"hello".to_vec();
        (image.height, image.slots[0]) = (0, Place::NONE);
        let bytes = image.encode(&measures);
        assert_eq!(Image::decode(&bytes, &measures, InodeNo(9)), Ok(image));

        let id = NodeId {
            ino: 9,
            fork: Fork::Content,
            height: 1,
            index: 4,
        };
        let mut node = Node::empty(&measures);
        node.slots[3] = Place::unwritten(8);
        let bytes = node.encode(&measures, id, 3);
        assert_eq!(bytes.len(), unit as usize);
        assert_eq!(Node::decode(&bytes, &measures, id), Ok(node));
        let higher = NodeId { height: 2, ..id };
        assert!(Node::decode(&bytes, &measures, higher).is_err());
    }
}

#[test]
fn attributes_of_several_blocks_survive_the_device_or_are_refused() {
    for unit in [512, 1024, 2048, 4096] {
        let measures = measures(unit);
        assert_eq!(measures.xattr_bytes(), 130_560);
        let old = Measures {
            long_xattrs: false,
            ..measures
        };
        assert_eq!(old.xattr_bytes(), 4096);
        let place = |sectors: u64| Place {
            sector: measures.eager_start() * 8,
            sectors: sectors as u16,
            crc: 11,
        };
        let mut image = Image::new(inode(), &measures);
        image.inode.xattr_bytes = 130_560;
        (image.xattrs, image.xattrs_height) = (place(measures.unit_sectors()), 1);
        let decoded = |image: &Image, measures: &Measures| {
            Image::decode(&image.encode(measures), measures, InodeNo(9))
        };
        assert_eq!(decoded(&image, &measures), Ok(image.clone()));
        assert!(decoded(&image, &old).is_err(), "on a volume from before");
        for (bytes, height) in [(130_561, 1), (130_560, 0), (100, 2), (100, 255)] {
            image.inode.xattr_bytes = bytes;
            image.xattrs_height = height;
            assert!(decoded(&image, &measures).is_err(), "{bytes}, {height}");
        }

        let id = NodeId {
            ino: 9,
            fork: Fork::Attributes,
            height: 1,
            index: 0,
        };
        let mut node = Node::empty(&measures);
        (node.slots[0], node.slots[1]) = (place(8), place(1));
        let bytes = node.encode(&measures, id, 3);
        assert_eq!(Node::decode(&bytes, &measures, id), Ok(node.clone()));
        let content = NodeId {
            fork: Fork::Content,
            ..id
        };
        // A node of one fork is not accepted as one of the other.
        assert!(Node::decode(&bytes, &measures, content).is_err());
        let bytes = node.encode(&measures, content, 3);
        assert!(Node::decode(&bytes, &measures, id).is_err());
        node.slots[1] = Place::unwritten(8);
        let bytes = node.encode(&measures, id, 3);
        assert!(Node::decode(&bytes, &measures, id).is_err(), "reserved");

        let change = |block| Change::XattrBlock {
            ino: 9,
            version: 3,
            block,
            place: place(8),
        };
        let last = measures.fanout() as u64 - 1;
        let bytes = change(last).encode(true);
        assert_eq!(
            Change::decode(&bytes, &measures),
            Ok((change(last), true, &[][..]))
        );
        assert!(Change::decode(&bytes, &old).is_err());
        let beyond = change(last + 1).encode(true);
        assert!(Change::decode(&beyond, &measures).is_err());
    }
}

proptest::proptest! {
    /// Random bytes in a unit are refused, or are the stored form of the result.
    #[test]
    fn bytes_are_a_node_or_an_inode_of_either_fork_or_refused(
        unit in 0usize..4,
        patches in proptest::collection::vec((0usize..4096, proptest::num::u8::ANY), 0..12),
        height in 0u8..3,
    ) {
        let measures = measures(512 << unit);
        let each = measures.unit_bytes as usize;
        for fork in Fork::ALL {
            let id = NodeId { ino: 9, fork, height, index: 0 };
            let mut node = Node::empty(&measures).encode(&measures, id, 3);
            let mut image = Image::new(inode(), &measures).encode(&measures);
            for &(at, byte) in &patches {
                (node[at % each], image[at % each]) = (byte, byte);
            }
            if let Ok(found) = Node::decode(&node, &measures, id) {
                let again = Node::decode(&found.encode(&measures, id, 3), &measures, id);
                proptest::prop_assert_eq!(again, Ok(found));
            }
            if let Ok(found) = Image::decode(&image, &measures, InodeNo(9)) {
                let again = Image::decode(&found.encode(&measures), &measures, InodeNo(9));
                proptest::prop_assert_eq!(again, Ok(found));
            }
        }
    }
}

#[test]
fn places_outside_of_the_volume_are_refused() {
    let measures = measures(512);
    let sound = Place {
        sector: measures.eager_start() * 8,
        sectors: 8,
        crc: 0,
    };
    assert_eq!(sound.check(&measures), Ok(()));
    for (sector, sectors) in [
        (sound.sector + 1, 8),
        (sound.sector, 9),
        (8, 8),
        (measures.last_block() * 8, 8),
        (1 << 47, 1),
    ] {
        let place = Place {
            sector,
            sectors,
            crc: 0,
        };
        assert!(place.check(&measures).is_err(), "{place:?}");
    }
}

#[test]
fn places_lie_within_a_block_and_on_older_volumes_take_all_of_it() {
    for unit_bytes in [512, 1024, 2048, 4096] {
        let new = measures(unit_bytes);
        let old = Measures {
            parts: false,
            ..new
        };
        let each = u64::from(new.units_per_block());
        let first = new.eager_units().start;
        for sectors in 1..=8u16 {
            let need = u64::from(sectors).div_ceil(new.unit_sectors());
            for nth in 0..each {
                let place = Place {
                    sector: (first + nth) * new.unit_sectors(),
                    sectors,
                    crc: 0,
                };
                let taken = u64::from(new.extent_of(&place).units);
                assert_eq!(taken, need);
                assert_eq!(place.check(&new).is_ok(), nth + need <= each, "{place:?}");
                let taken = u64::from(old.extent_of(&place).units);
                assert_eq!(taken, if need == 1 { 1 } else { each });
                assert_eq!(place.check(&old).is_ok(), need == 1 || nth == 0);
            }
        }
    }
}

#[test]
fn a_record_says_where_it_is() {
    let measures = measures(512);
    let unit = measures.record_units().start;
    let mut header = RecordHeader::new_zeroed();
    header.volume = 7.into();
    (header.seq, header.first) = (5.into(), 5.into());
    (header.count, header.live) = (1.into(), 1.into());
    header.unit = unit.into();
    let record = Record {
        header,
        totals: Totals::default(),
        runs: vec![Run {
            unit: (unit as u32 + 1).into(),
            units: 2.into(),
            crc: 3.into(),
        }],
        entries: vec![Entry::free(4); measures.entries_per_record()],
    };
    let bytes = record.encode(&measures);
    let found = Record::parse(&bytes, unit, &measures).unwrap();
    assert_eq!((found.runs, found.entries), (record.runs, record.entries));
    assert!(Record::parse(&bytes, unit + 1, &measures).is_err());
    for at in 0..bytes.len() {
        let mut torn = bytes.clone();
        torn[at] ^= 1;
        assert!(Record::parse(&torn, unit, &measures).is_err(), "byte {at}");
    }
}

#[test]
fn a_reserve_of_any_size_is_judged() {
    let mut measures = measures(4096);
    for reserve in [0, 63, 4096, u64::MAX / 2 + 1, u64::MAX] {
        measures.reserve_blocks = reserve;
        assert!(measures.check().is_err(), "a reserve of {reserve} blocks");
    }
}

#[test]
fn changes_survive_the_device() {
    for unit_bytes in [512, 4096] {
        let measures = measures(unit_bytes);
        let place = Place {
            sector: measures.eager_start() * 8,
            sectors: 8,
            crc: 99,
        };
        let (ino, version) = (9, 3);
        let mut full = inode();
        (full.size, full.mtime.nanos, full.uid) = (1 << 40, 7, u32::MAX);
        let mut inlined = inode();
        (inlined.flags, inlined.inline) = (flags::INLINE, b"hello".to_vec());
        let all = [
            Change::Block {
                ino,
                version,
                block: 1 << 40,
                place,
            },
            Change::Xattrs {
                ino,
                version,
                place: Place::NONE,
            },
            Change::XattrBlock {
                ino,
                version,
                block: 31,
                place,
            },
            Change::Inode(Box::new(full)),
            Change::Inode(Box::new(inlined)),
            Change::Freed {
                ino,
                next_version: u32::MAX,
            },
            Change::Cut {
                ino,
                version,
                from: 5,
                to: u64::MAX,
            },
            Change::Reserved {
                ino,
                version,
                from: 5,
                to: 9,
            },
        ];
        let unit = measures.record_units().start;
        let mut header = RecordHeader::new_zeroed();
        (header.volume, header.unit) = (7.into(), unit.into());
        (header.seq, header.first, header.previous) = (5.into(), 5.into(), 4.into());
        (header.count, header.live) = (1.into(), 1.into());
        header.piece = (measures.pieces() as u32 + 2).into();
        for (nth, change) in all.into_iter().enumerate() {
            let bytes = change.encode(true);
            assert!(bytes.len() < 160, "{} bytes for {change:?}", bytes.len());
            for end in 0..bytes.len() {
                assert!(Change::decode(&bytes[..end], &measures).is_err(), "{end}");
            }
            let record = Delta {
                header,
                totals: Totals::default(),
                folded: 4,
                changes: vec![(change, nth % 2 == 0)],
            };
            let mut bytes = record.encode(&measures);
            let found = Delta::parse(&bytes, unit, &measures).unwrap();
            assert_eq!((found.changes, found.folded), (record.changes, 4));
            assert!(Record::parse(&bytes, unit, &measures).is_err());
            bytes[200] ^= 1;
            assert!(Delta::parse(&bytes, unit, &measures).is_err());
        }
    }
}

#[test]
fn changes_that_no_volume_has_are_refused() {
    let measures = measures(512);
    let number = |mut number: u64| {
        let mut bytes = Vec::new();
        while number >= 128 {
            bytes.push(number as u8 | 128);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let place = [1, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0];
    for (tag, numbers, rest) in [
        (0, vec![9, 1], &place[..]),
        (8, vec![9, 1], &place),
        // A place before the eager space, no place, and a block beyond a node.
        (7, vec![9, 1, 0], &place),
        (7, vec![9, 1, 0], &[0; 12]),
        (7, vec![9, 1, 40], &place),
        (1, vec![measures.inodes, 1, 0], &place),
        (1, vec![9, 1 << 32, 0], &place),
        // A place before the eager space, and no place.
        (1, vec![9, 1, 0], &place),
        (1, vec![9, 1, 0], &[0; 12]),
        (1, vec![9, 1, 1 << 60], &place),
        (3, vec![9, 1 << 40], &[255; 400]),
        (3, vec![9, 0], &[255; 400]),
        (6, vec![9, 1, 0, 1 << 30], &[]),
    ] {
        let numbers = numbers.iter().flat_map(|&n| number(n));
        let bytes: Vec<u8> = [tag]
            .into_iter()
            .chain(numbers)
            .chain(rest.to_vec())
            .collect();
        assert!(Change::decode(&bytes, &measures).is_err(), "{bytes:?}");
    }
    // A number of more than 64 bits.
    assert!(Change::decode(&[&[4][..], &[255; 10], &[3, 1]].concat(), &measures).is_err());
}
