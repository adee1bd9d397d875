//! Every structure to bytes and back, and what must be refused.

use super::*;
use varve_fs::{FileKind, Inode, InodeNo, Timestamp, flags};
use varve_vlog::format::RecordHeader;
use zerocopy::FromZeros;

pub(in crate::vlfs) fn measures(unit_bytes: u32) -> Measures {
    Measures {
        volume: 7,
        unit_bytes,
        block_bytes: 4096,
        blocks: 4096,
        inodes: 1000,
        zone_blocks: 0,
        reserve_blocks: 128,
    }
}

fn inode() -> Inode {
    Inode {
        ino: InodeNo(9),
        version: 3,
        mode: FileKind::Regular.mode_bits() | 0o644,
        uid: 1,
        gid: 2,
        nlink: 1,
        rdev: 0,
        size: 5,
        blocks: 1,
        sectors: 1,
        atime: Timestamp::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        flags: 0,
        project: 0,
        parent: InodeNo(0),
        inline: Vec::new(),
        xattr_bytes: 0,
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
