//! Refusals of each structure: every check of a parser fails once, by itself, with all
//! checksums right.

use super::checkpoint::CheckpointRecord;
use super::ifile::{ImapState, InodePlace, MAX_INO};
use super::inode::{InodeImage, MAX_HEIGHT, MAX_XATTR_BYTES, Root, inode_flags};
use super::node::{Node, NodeId};
use super::owner::{OwnerIdentity, OwnerRecord};
use super::pointer::pointer_flags;
use super::summary::{
    BlockEntry, Entries, FileEntry, MAX_PARTIAL_BYTES, RecordEntry, entry_kind, summary_flags,
};
use super::superblock::MAX_SEGMENT_BYTES;
use super::*;
use varve_fs::{FileKind, InodeNo};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The problem that a refusal names.
#[track_caller]
fn problem<T: std::fmt::Debug>(result: Result<T, Malformed>) -> String {
    result.expect_err("was accepted").problem
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Malformed>, why: &str) {
    let problem = problem(result);
    assert!(problem.contains(why), "{problem:?} does not say {why:?}");
}

#[test]
fn entries_are_whole_ones_only() {
    let bytes = [7; 40];
    assert_eq!(entries::<UsageDelta>(&bytes).len(), 2);
    assert_eq!(entries::<UsageDelta>(&bytes[..15]), []);
    assert_eq!(entries::<UsageDelta>(&[]), []);
}

fn superblock() -> Superblock {
    Superblock {
        magic: superblock::MAGIC,
        version: superblock::VERSION.into(),
        checksum_kind: superblock::CHECKSUM_CRC32C,
        block_bytes: 4096.into(),
        write_unit: 4096.into(),
        segment_bytes: (1 << 17).into(),
        inode_bytes: 256.into(),
        segment_count: 100.into(),
        record_bytes: 8192.into(),
        record_count: 2.into(),
        copy_stride: 13.into(),
        first_segment: (1 << 17).into(),
        owner_offset: 4096.into(),
        ring_offset: 8192.into(),
        device_bytes: (1 << 24).into(),
        reserve_segments: 10.into(),
        ..Superblock::new_zeroed()
    }
}

#[test]
fn superblocks_with_impossible_measures_are_refused() {
    type Edit = fn(&mut Superblock);
    let cases: &[(Edit, &str)] = &[
        (|sb| sb.magic[0] = b'X', "no Varve signature"),
        (|sb| sb.version = 2.into(), "format version 2"),
        (|sb| sb.checksum_kind = 9, "checksum kind 9"),
        (|sb| sb.incompat = 128.into(), "needs features 0x80"),
        (|sb| sb.block_bytes = 2048.into(), "block size: 2 KiB"),
        (|sb| sb.block_bytes = 5000.into(), "block size: 5000 bytes"),
        (|sb| sb.write_unit = 512.into(), "write unit: 512 bytes"),
        (|sb| sb.segment_bytes = 32768.into(), "segment size: 32 KiB"),
        (|sb| sb.segment_bytes = (1 << 31).into(), "segment size"),
        (|sb| sb.inode_bytes = 128.into(), "inode size: 128 bytes"),
        (|sb| sb.segment_count = 7.into(), "only 7 segments"),
        (|sb| sb.first_segment = (!4095).into(), "beyond 2^64"),
        (|sb| sb.ring_offset = (!4095).into(), "beyond 2^64"),
        (|sb| sb.record_count = 1.into(), "impossible shape"),
        (|sb| sb.record_count = 65.into(), "impossible shape"),
        (|sb| sb.record_bytes = 512.into(), "impossible shape"),
        (|sb| sb.record_bytes = 4608.into(), "impossible shape"),
        (|sb| sb.record_bytes = (1 << 29).into(), "impossible shape"),
        (|sb| sb.owner_offset = 0.into(), "overlap or are misaligned"),
        (
            |sb| sb.owner_offset = 4608.into(),
            "overlap or are misaligned",
        ),
        (
            |sb| sb.first_segment = ((1 << 17) + 512).into(),
            "overlap or are misaligned",
        ),
        (
            |sb| sb.ring_offset = 4096.into(),
            "overlap or are misaligned",
        ),
        (
            |sb| sb.ring_offset = 8704.into(),
            "overlap or are misaligned",
        ),
        (
            |sb| sb.first_segment = 4096.into(),
            "overlap or are misaligned",
        ),
        (
            |sb| sb.device_bytes = (1 << 23).into(),
            "segments end at byte",
        ),
        (
            |sb| sb.device_bytes = u64::MAX.into(),
            "segments end at byte",
        ),
        (|sb| sb.copy_stride = 0.into(), "copy stride or reserve"),
        (
            |sb| sb.reserve_segments = 100.into(),
            "copy stride or reserve",
        ),
    ];
    let sound = superblock().sealed_for(8);
    Superblock::parse(sound.as_bytes(), 8).unwrap();
    refused(
        Superblock::parse(sound.as_bytes(), 0),
        "a copy for sector 8",
    );
    refused(Superblock::parse(&sound.as_bytes()[..511], 8), "shorter");
    let mut torn = sound;
    torn.created_ns = 1.into();
    refused(Superblock::parse(torn.as_bytes(), 8), "checksum is");
    for (edit, why) in cases {
        let mut sb = superblock();
        edit(&mut sb);
        refused(Superblock::parse(sb.sealed_for(8).as_bytes(), 8), why);
    }
}

#[test]
fn owner_records_of_others_are_refused() {
    let owner = OwnerIdentity {
        host: "ship".into(),
        boot_id: "7".repeat(41),
        pid: 8,
    };
    let sealed = OwnerRecord::of(&owner, 5, 1, true, 0);
    let parsed = OwnerRecord::parse(sealed.as_bytes(), 5).unwrap();
    assert_eq!(parsed.host_text(), "ship");
    assert_eq!(parsed.boot_text(), "7".repeat(40));
    refused(OwnerRecord::parse(sealed.as_bytes(), 6), "none");
    refused(OwnerRecord::parse(&sealed.as_bytes()[1..], 5), "too short");
    let mut torn = sealed;
    torn.pid = 9.into();
    refused(OwnerRecord::parse(torn.as_bytes(), 5), "checksum differs");
}

/// Computes a slot's checksum.
fn sealed(mut slot: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&slot[12..]);
    slot[8..12].copy_from_slice(&crc.to_le_bytes());
    slot
}

#[test]
fn checkpoint_records_keep_to_their_slots() {
    let mut header = CheckpointHeader::new_zeroed();
    header.serial = 9.into();
    header.magic = checkpoint::MAGIC.into();
    header.volume_tag = 5.into();
    header.inode_bytes = 256.into();
    header.delta_count = 2.into();
    let delta = UsageDelta {
        segment: 3.into(),
        incarnation: 7.into(),
        bytes: (-512).into(),
    };
    let mut record = CheckpointRecord {
        header,
        ifile: vec![1; 256],
        deltas: vec![delta; 2],
    };
    let slot = record.encode(4096);
    let decoded = CheckpointRecord::decode(&slot, 5).unwrap();
    record.header.crc = decoded.header.crc;
    assert_eq!(decoded, record);
    refused(CheckpointRecord::decode(&slot[..200], 5), "too short");
    refused(CheckpointRecord::decode(&slot, 6), "no record of this");
    let mut torn = slot.clone();
    torn[4095] ^= 1;
    refused(CheckpointRecord::decode(&torn, 5), "torn write");
    let mut rotten = slot.clone();
    rotten[1000] ^= 1;
    refused(CheckpointRecord::decode(&rotten, 5), "checksum is");
    // A record as long as its slot, and one byte or entry more.
    let room = 4096 - 256 - 8;
    for (inode_bytes, deltas, fits) in [
        (room, 0, true),
        (room + 1, 0, false),
        (room % 16, room / 16, true),
        (room % 16 + 1, room / 16, false),
        (0, u32::MAX as usize, false),
        (u32::MAX as usize, 1, false),
    ] {
        let mut slot = slot.clone();
        let (header, _) = CheckpointHeader::mut_from_prefix(&mut slot).unwrap();
        header.inode_bytes = (inode_bytes as u32).into();
        header.delta_count = (deltas as u32).into();
        let decoded = CheckpointRecord::decode(&sealed(slot), 5);
        assert_eq!(
            decoded.is_ok(),
            fits,
            "{inode_bytes} bytes, {deltas} deltas"
        );
    }
    record.header.serial = 0.into();
    refused(
        CheckpointRecord::decode(&record.encode(4096), 5),
        "serial 0",
    );
}

fn summary(edit: impl FnOnce(&mut SummaryHeader)) -> Result<SummaryHeader, Malformed> {
    let mut header = SummaryHeader::new_zeroed();
    header.magic = summary::MAGIC.into();
    header.volume_tag = 5.into();
    header.sector = 64.into();
    header.sectors = 8.into();
    header.entry_bytes = 40.into();
    header.members = 1.into();
    edit(&mut header);
    SummaryHeader::parse(header.as_bytes(), 5, 64)
}

#[test]
fn summaries_that_no_writer_makes_are_refused() {
    summary(|_| {}).unwrap();
    refused(SummaryHeader::parse(&[0; 127], 5, 64), "too short");
    refused(summary(|h| h.magic = 0.into()), "no summary");
    refused(summary(|h| h.volume_tag = 6.into()), "another volume");
    refused(summary(|h| h.sector = 72.into()), "for sector 72");
    refused(summary(|h| h.flags = 64.into()), "unknown flags");
    refused(summary(|h| h.members = 2.into()), "unknown flags");
    refused(summary(|h| h.sectors = 0.into()), "entries exceed");
    refused(summary(|h| h.entry_bytes = 4000.into()), "entries exceed");
    let most = MAX_PARTIAL_BYTES / SECTOR as u32;
    summary(|h| h.sectors = most.into()).unwrap();
    refused(summary(|h| h.sectors = (most + 1).into()), "too many");
    // A filler may extend to the end of the largest segment.
    let most = MAX_SEGMENT_BYTES / SECTOR as u32;
    let filler = |sectors: u32| {
        summary(|h| {
            h.entry_bytes = 0.into();
            h.sectors = sectors.into();
        })
    };
    filler(most).unwrap();
    refused(filler(most + 1), "too many");
    refused(filler(u32::MAX), "too many");
    let header = summary(|h| h.flags = summary_flags::LAST.into()).unwrap();
    assert!(header.has(summary_flags::LAST) && !header.has(summary_flags::FIRST));
    refused(header.verify_entries(&[0; 40]), "checksum is");
}

#[test]
fn entries_of_impossible_kinds_end_the_walk() {
    let file = FileEntry {
        kind: entry_kind::FILE,
        ..FileEntry::new_zeroed()
    };
    let block = |kind, sectors, height| BlockEntry {
        kind,
        sectors,
        height,
        ..BlockEntry::new_zeroed()
    };
    let record = RecordEntry {
        kind: entry_kind::PUNCHED,
        ..RecordEntry::new_zeroed()
    };
    for (entry, sound) in [
        (block(entry_kind::BLOCK, 8, 0), true),
        (block(entry_kind::BLOCK, 0, 0), false),
        (block(entry_kind::BLOCK, 8, 1), false),
        (block(entry_kind::XATTRS, 8, 1), false),
        (block(entry_kind::NODE, 8, 0), false),
        (block(entry_kind::NODE, 8, 1), true),
        (block(entry_kind::NODE, 8, MAX_HEIGHT), true),
        (block(entry_kind::NODE, 8, MAX_HEIGHT + 1), false),
        (block(entry_kind::MAP, 8, 0), true),
        (block(entry_kind::MAP, 8, 1), false),
        (block(8, 8, 0), false),
    ] {
        let bytes = [file.as_bytes(), entry.as_bytes(), record.as_bytes()].concat();
        let found: Vec<bool> = Entries::new(&bytes).map(|entry| entry.is_ok()).collect();
        let wanted: &[bool] = if sound { &[true; 3] } else { &[true, false] };
        assert_eq!(found, wanted, "{entry:?}");
    }
    let mut cut = Entries::new(&record.as_bytes()[..23]);
    assert!(cut.next().unwrap().is_err() && cut.next().is_none());
}

#[test]
fn index_nodes_name_their_place() {
    let id = NodeId {
        ino: InodeNo(7),
        height: 2,
        index: 3,
    };
    let mut node = Node::default();
    node.set(0, Pointer::new(100, 8, 1, 2, 3));
    node.set(125, Pointer::new(200, 8, 1, 2, 3));
    let bytes = node.encode(id, 4, true);
    assert_eq!(Node::decode(&bytes, id, true).unwrap(), node);
    refused(Node::decode(&bytes[..47], id, true), "too short");
    refused(Node::decode(&bytes[..48 + 33], id, true), "cut short");
    let others = [
        NodeId {
            ino: InodeNo(8),
            ..id
        },
        NodeId { height: 1, ..id },
        NodeId { index: 4, ..id },
    ];
    for other in others {
        refused(Node::decode(&bytes, other, true), "stands in its place");
    }
    let edited = |edit: fn(&mut NodeHeader)| {
        let mut bytes = bytes.clone();
        edit(NodeHeader::mut_from_prefix(&mut bytes).unwrap().0);
        Node::decode(&bytes, id, true)
    };
    refused(edited(|h| h.magic = 0.into()), "no node");
    // A pointer whose slot the bitmap has and whose bytes are zeros.
    refused(edited(|h| h.bitmap[1] = 1), "slot 125 is malformed");
    let mut unwritten = Node::default();
    unwritten.set(5, Pointer::unwritten_block(8, 9));
    refused(
        Node::decode(&unwritten.encode(id, 4, true), id, true),
        "slot 5",
    );
    let leaf = NodeId { height: 1, ..id };
    assert_eq!(
        Node::decode(&unwritten.encode(leaf, 4, true), leaf, true).unwrap(),
        unwritten
    );
}

#[test]
fn pointers_agree_with_their_flags() {
    let place = |sector: u64, sectors: u64, flags: u8| {
        let place = sector | sectors << 48 | u64::from(flags) << 56;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&place.to_le_bytes());
        Pointer::read_from_bytes(&bytes).unwrap().is_sane()
    };
    assert!(place(0, 0, 0) && place(9, 8, 0));
    assert!(place(0, 8, pointer_flags::UNWRITTEN));
    assert!(!place(9, 8, pointer_flags::UNWRITTEN) && !place(0, 8, 0));
    assert!(!place(9, 0, 0) && !place(9, 8, pointer_flags::SHARED));
}

#[test]
fn blocks_that_are_unwritten_store_nothing_and_follow_nothing() {
    use varve_fs::BlockPointer;
    let (stored, unwritten) = (
        Pointer::new(100, 8, 1, 2, 3),
        Pointer::unwritten_block(8, 2),
    );
    assert_eq!((stored.stored_bytes(), unwritten.stored_bytes()), (4096, 0));
    // One after the other, with space for a summary between them.
    let next = |sector| Pointer::new(sector, 8, 1, 2, 3);
    assert!(next(108).follows(&stored) && next(140).follows(&stored));
    assert!(!next(107).follows(&stored) && !next(141).follows(&stored));
    assert!(!unwritten.follows(&stored) && !stored.follows(&unwritten));
    assert!(!next(8).follows(&unwritten));
}

#[test]
#[should_panic(expected = "48 bits")]
fn no_pointer_leads_beyond_the_last_sector() {
    Pointer::new(pointer::MAX_SECTOR + 1, 8, 1, 2, 3);
}

fn inode(edit: impl FnOnce(&mut DiskInode)) -> Result<InodeImage, Malformed> {
    let mut header = DiskInode::new_zeroed();
    header.magic = inode::MAGIC.into();
    header.ino = 7.into();
    header.mode = (FileKind::Regular.mode_bits() | 0o644).into();
    header.flags = inode_flags::ROOT.into();
    edit(&mut header);
    let mut bytes = [0; 256];
    bytes[..160].copy_from_slice(header.as_bytes());
    InodeImage::decode(&bytes, InodeNo(7))
}

#[test]
fn inodes_that_no_writer_makes_are_refused() {
    let sound = inode(|_| {}).unwrap();
    assert_eq!(sound.root, Some(Root::default()));
    assert_eq!(inode(|h| h.flags = 0.into()).unwrap().root, None);
    refused(InodeImage::decode(&[0; 159], InodeNo(7)), "too short");
    refused(inode(|h| h.magic = 0.into()), "no inode");
    refused(inode(|h| h.ino = 8.into()), "inode 8 stands");
    refused(inode(|h| h.mode = 0o644.into()), "names no type");
    refused(inode(|h| h.inline_bytes = 5.into()), "5 bytes of inline");
    let inline = |h: &mut DiskInode| {
        h.flags = varve_fs::flags::INLINE.into();
        h.size = 5.into();
        h.inline_bytes = 5.into();
    };
    assert_eq!(inode(inline).unwrap().inode.inline, [0; 5]);
    refused(
        inode(|h| {
            inline(h);
            h.inline_bytes = 97.into();
        }),
        "97 bytes of inline",
    );
    refused(
        inode(|h| {
            inline(h);
            h.size = 6.into();
        }),
        "differs from the size",
    );
    refused(inode(|h| h.size = (1 << 60 | 1).into()), "out of range");
    let second = 1_000_000_000;
    refused(inode(|h| h.nanos[3] = second.into()), "out of range");
    refused(inode(|h| h.height = MAX_HEIGHT + 1), "impossible index");
    refused(
        inode(|h| h.xattr_bytes = (MAX_XATTR_BYTES as u32 + 1).into()),
        "exceed",
    );
    refused(inode(|h| h.xattr_bytes = 1.into()), "exceed");
    let mut bytes = [0; 256];
    sound.encode(&mut bytes);
    bytes[160..168].copy_from_slice(&(9u64 | 8 << 48 | 4 << 56).to_le_bytes());
    refused(InodeImage::decode(&bytes, InodeNo(7)), "malformed pointer");
}

#[test]
fn inode_map_entries_mean_what_they_were_made_of() {
    let place = InodePlace {
        sector: 77,
        slot: 3,
        birth: 1 << 50,
        crc: 5,
        incarnation: 6,
    };
    for state in [
        ImapState::Unused,
        ImapState::Used {
            version: 9,
            place,
            epoch: 0,
        },
        ImapState::Free {
            next_version: 9,
            previous: MAX_INO,
            next: MAX_INO,
        },
    ] {
        assert_eq!(ImapEntry::new(state).state().unwrap(), state);
    }
    let back = ImapState::Free {
        next_version: 9,
        previous: MAX_INO + 1,
        next: 0,
    };
    refused(ImapEntry::new(back).state(), "free list leads back");
    let mut flagged = [0; 32];
    flagged[7] = 2;
    refused(
        ImapEntry::read_from_bytes(&flagged).unwrap().state(),
        "flags 0x2",
    );
}
