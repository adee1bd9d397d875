//! Encoding and decoding of the structures, and refusal of invalid bytes.

use super::*;
use crate::allocate::Policy;
use crate::{FfsFormatOptions, plan};
use varve_device::MemoryDevice;
use varve_format::Pointer;
use varve_fs::{FileKind, Inode, InodeNo, Timestamp, flags};
use zerocopy::IntoBytes;

fn geometry() -> Geometry {
    let options = FfsFormatOptions {
        seed: Some(1),
        ..FfsFormatOptions::default()
    };
    Geometry::of(&plan(&MemoryDevice::new(32 << 20), &options, 0).unwrap())
}

fn image(geometry: &Geometry) -> Image {
    let ino = InodeNo(77);
    let mode = FileKind::Regular.mode_bits() | 0o640;
    let mut image = Image::blank(ino, 3);
    image.inode = Inode::new(ino, 3, mode, Timestamp::from_ns(5));
    image.inode.size = 100_000;
    let sector = geometry.fragment_sector(geometry.data_fragments(1).start);
    image.direct[3] = Place {
        sector,
        sectors: 8,
        flags: place_flags::UNWRITTEN,
        crc: 0,
    };
    image.indirect[0] = Place {
        sector: sector + 8,
        sectors: 8,
        flags: 0,
        crc: 0,
    };
    image.xattrs = Pointer::new(sector + 16, 2, 7, 0, 0);
    image.inode.xattr_bytes = 1000;
    image
}

#[test]
fn an_inode_is_read_as_it_is_written() {
    let geometry = geometry();
    let mut image = image(&geometry);
    let sector = image.encode(&geometry);
    let read = Slot::decode(&sector, &geometry, image.inode.ino).unwrap();
    assert_eq!(read, Slot::Used(Box::new(image.clone())));
    image.inode.flags = flags::INLINE;
    image.inode.inline = vec![9; INLINE_BYTES];
    image.inode.size = INLINE_BYTES as u64;
    (image.direct, image.indirect) = ([Place::NONE; DIRECT], [Place::NONE; INDIRECT]);
    let sector = image.encode(&geometry);
    let read = Slot::decode(&sector, &geometry, image.inode.ino).unwrap();
    assert_eq!(read, Slot::Used(Box::new(image)));
    let free = Slot::free(&geometry, InodeNo(9), 12);
    let read = Slot::decode(&free, &geometry, InodeNo(9)).unwrap();
    assert_eq!(read, Slot::Free(12));
}

#[test]
fn every_flipped_bit_of_an_inode_is_found_and_so_is_another_place() {
    let geometry = geometry();
    let image = image(&geometry);
    let sector = image.encode(&geometry);
    for bit in 0..512 * 8 {
        let mut flipped = sector;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Slot::decode(&flipped, &geometry, image.inode.ino).is_err());
    }
    assert!(Slot::decode(&sector, &geometry, InodeNo(78)).is_err());
}

#[test]
fn a_record_is_read_as_it_is_written_and_no_torn_one_is() {
    let geometry = geometry();
    let sector = geometry.maps_sector(0);
    let runs = [
        Run { sector, count: 2 },
        Run {
            sector: sector + 5,
            count: 1,
        },
    ];
    let mut bytes = vec![0; record_bytes(2, 3, 4096)];
    let payload = RecordHeader::payload(2);
    bytes[payload..payload + 3 * 512].fill(7);
    let identity = Identity {
        tag: geometry.tag,
        mount_id: 4,
        position: 8192,
        follows: 4096,
    };
    RecordHeader::write(&mut bytes, identity, &runs, DiskUsage::default(), 1);
    assert_eq!(RecordHeader::length(&bytes, identity, 1 << 20), Some(4096));
    let (found, _) = RecordHeader::parse(&bytes, &geometry).unwrap().unwrap();
    assert_eq!(found, runs);
    let others = [
        Identity {
            position: 0,
            ..identity
        },
        Identity {
            follows: 8192,
            ..identity
        },
    ];
    for other in others {
        assert_eq!(RecordHeader::length(&bytes, other, 1 << 20), None);
    }
    for torn in 1..8 {
        let mut bytes = bytes.clone();
        bytes[torn * 512..].fill(0xaa);
        assert_eq!(RecordHeader::parse(&bytes, &geometry).unwrap(), None);
    }
    let wild = [Run {
        sector: 0,
        count: 2,
    }];
    let mut bytes = vec![0; record_bytes(1, 2, 4096)];
    RecordHeader::write(&mut bytes, identity, &wild, DiskUsage::default(), 1);
    assert!(RecordHeader::parse(&bytes, &geometry).is_err());
}

/// Superblocks with random fields and a correct checksum.
#[test]
fn absurd_measures_are_refused() {
    let options = FfsFormatOptions {
        seed: Some(1),
        ..FfsFormatOptions::default()
    };
    let sound = plan(&MemoryDevice::new(32 << 20), &options, 0).unwrap();
    let tail = 1..64u32;
    let powers = tail.flat_map(|n| [(1u64 << n) - 1, 1 << n, (1 << n) + 1]);
    let values: Vec<u64> = powers.chain([0, u64::MAX, u64::MAX - 1]).collect();
    type Set = fn(&mut Superblock, u64);
    let sets: [Set; 8] = [
        |s, to| s.block_bytes = (to as u32).into(),
        |s, to| s.fragment_bytes = (to as u32).into(),
        |s, to| s.blocks = to.into(),
        |s, to| s.journal_blocks = to.into(),
        |s, to| s.group_blocks = to.into(),
        |s, to| s.group_inodes = to.into(),
        |s, to| s.reserve_blocks = to.into(),
        |s, to| s.unit_bytes = (to as u32).into(),
    ];
    for first in &sets {
        for second in &sets {
            for &value in &values {
                let mut crafted = sound;
                first(&mut crafted, value);
                second(&mut crafted, value);
                let Ok(parsed) = Superblock::parse(crafted.sealed().as_bytes()) else {
                    continue;
                };
                let geometry = Geometry::of(&parsed);
                assert!(geometry.reserve_blocks <= geometry.data_blocks());
                let last = geometry.data_fragments(geometry.groups() - 1).end;
                assert!(last <= geometry.fragments() && geometry.map_units() > 0);
                let ino = geometry.inodes() - 1;
                assert!(geometry.inode_sector(ino) < geometry.blocks * geometry.block_sectors());
            }
        }
    }
}

#[test]
fn absurd_options_are_refused() {
    let device = MemoryDevice::new(32 << 20);
    for value in [1, 7, 512, 1 << 31, 1 << 32, 1 << 40, 1 << 62, u64::MAX] {
        let base = FfsFormatOptions::default();
        let all = [
            FfsFormatOptions {
                group_blocks: value,
                inode_ratio: 1,
                ..base.clone()
            },
            FfsFormatOptions {
                inode_ratio: value,
                ..base.clone()
            },
            FfsFormatOptions {
                journal_bytes: value,
                ..base.clone()
            },
            FfsFormatOptions {
                block_bytes: value as u32,
                ..base.clone()
            },
            FfsFormatOptions {
                fragment_bytes: value as u32,
                ..base.clone()
            },
            FfsFormatOptions {
                group_data_blocks: value,
                inode_ratio: 1,
                ..base
            },
        ];
        for mut options in all {
            let _ = plan(&device, &options, 0);
            options.policy = Policy::Buddy;
            let _ = plan(&device, &options, 0);
            options.group_data_blocks = options.group_data_blocks.max(16);
            let _ = plan(&device, &options, 0);
        }
    }
}

/// A group of the largest blocks has at most eight inodes for each block.
#[test]
fn the_largest_blocks_fit_a_device_of_any_size() {
    let options = FfsFormatOptions {
        block_bytes: 65536,
        ..FfsFormatOptions::default()
    };
    for blocks in 1000..1100 {
        let made = plan(&MemoryDevice::new(blocks << 16), &options, 0);
        assert!(made.is_ok(), "{blocks} blocks: {made:?}");
    }
}

#[test]
fn nothing_of_a_group_lies_over_anything_else() {
    let geometry = geometry();
    let mut sectors = std::collections::BTreeSet::new();
    for group in 0..geometry.groups() {
        assert!(sectors.insert(geometry.group_block(group) * geometry.block_sectors()));
        for map in GroupMap::OF_INODES {
            assert!(sectors.insert(geometry.map_sector(group, map, 0)));
        }
        for nth in 0..geometry.fragment_map_sectors() {
            let index = nth * BITS_PER_SECTOR;
            assert!(sectors.insert(geometry.map_sector(group, GroupMap::Fragments, index)));
        }
    }
    for ino in 0..geometry.inodes() {
        assert!(sectors.insert(geometry.inode_sector(ino)));
    }
    for group in 0..geometry.groups() {
        for fragment in geometry.data_fragments(group) {
            assert!(sectors.insert(geometry.fragment_sector(fragment)));
            assert!(geometry.may_hold(geometry.fragment_sector(fragment), 1));
        }
    }
    assert!(*sectors.last().unwrap() < geometry.last_block() * geometry.block_sectors());
}
