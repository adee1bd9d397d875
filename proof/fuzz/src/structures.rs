//! One target for each structure of `varve_lfs::format`, and attribute blobs.

use crate::input::Input;
use crate::sample::{self, SEGMENT_BYTES};
use std::mem::offset_of;
use varve_fs::InodeNo;
use varve_lfs::Geometry;
use varve_lfs::format::checkpoint::{CheckpointHeader, CheckpointRecord};
use varve_lfs::format::inode::InodeImage;
use varve_lfs::format::map::{self, MapHeader};
use varve_lfs::format::node::{Node, NodeHeader, NodeId, node_form};
use varve_lfs::format::owner::OwnerRecord;
use varve_lfs::format::summary::{Entries, HEADER_BYTES, SummaryHeader, summary_flags};
use varve_lfs::format::{
    DiskInode, ImapEntry, Superblock, UsageEntry, checkpoint, crc32c, inode, node, owner, summary,
    superblock,
};
use varve_lfs::fuzzing;
use zerocopy::{FromBytes, IntoBytes};

/// `data` over zeros, so that every input is long enough for a `T`.
fn padded<T: FromBytes + IntoBytes>(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(bytes.len().max(size_of::<T>()), 0);
    bytes
}

/// The superblock: bytes as found, and with a right checksum.
pub fn superblock(data: &[u8]) {
    let _ = Superblock::parse(data, 0);
    let bytes = padded::<Superblock>(data);
    let (mut sealed, _) = Superblock::read_from_prefix(&bytes).expect("padded");
    sealed.magic = superblock::MAGIC;
    sealed.version = superblock::VERSION.into();
    sealed.checksum_kind = superblock::CHECKSUM_CRC32C;
    let sealed = sealed.sealed_for(0);
    let Ok(parsed) = Superblock::parse(sealed.as_bytes(), 0) else {
        return;
    };
    let _ = (parsed.label_text(), parsed.volume_tag(), parsed.case_fold());
    measure(&parsed);
    let copies = parsed.segment_count.get() / parsed.copy_stride.get();
    if copies < 1 << 16 {
        let offsets = varve_lfs::superblock_offsets(&parsed).collect::<Vec<_>>();
        let end = parsed.device_bytes.get() - u64::from(parsed.write_unit.get());
        assert!(offsets.iter().all(|&offset| offset <= end));
    }
}

/// Everything that is computed from an accepted superblock.
fn measure(superblock: &Superblock) {
    let geometry = Geometry::from(superblock);
    let last = geometry.segment_count - 1;
    for segment in [0, 1, last] {
        let start = geometry.payload_start(segment);
        assert!(geometry.partial_fits(start));
        assert!(geometry.payload_bytes(segment) >= geometry.max_partial());
        let sector = geometry.byte(segment, start) / 512;
        assert_eq!(geometry.segment_of(sector), Some(segment));
        assert!(geometry.within_segment(sector, 1));
    }
    let _ = geometry.segment_of(u64::MAX);
    let _ = geometry.within_segment(u64::MAX, u64::MAX);
    assert!(geometry.root_slots() > 0 && geometry.inodes_per_sector() > 0);
    assert!(geometry.entries_per_block() > 0 && geometry.inline_bytes() > 0);
}

/// The owner record.
pub fn owner(data: &[u8]) {
    let tag = sample::superblock().volume_tag();
    let _ = OwnerRecord::parse(data, tag);
    let bytes = padded::<OwnerRecord>(data);
    let (mut record, _) = OwnerRecord::read_from_prefix(&bytes).expect("padded");
    record.magic = owner::MAGIC.into();
    record.volume_tag = tag.into();
    let sealed = record.sealed();
    let parsed = OwnerRecord::parse(sealed.as_bytes(), tag).expect("sealed just now");
    let _ = (parsed.host_text(), parsed.boot_text());
}

/// A slot of the checkpoint ring.
pub fn checkpoint(data: &[u8]) {
    let tag = sample::superblock().volume_tag();
    let _ = CheckpointRecord::decode(data, tag);
    let mut bytes = padded::<[u8; 512]>(data);
    seal_record(&mut bytes, tag);
    let Ok(record) = CheckpointRecord::decode(&bytes, tag) else {
        return;
    };
    let mut again = CheckpointRecord::decode(&record.encode(bytes.len()), tag)
        .expect("what was parsed can be encoded");
    again.header.crc = record.header.crc;
    assert_eq!(again, record);
    let _ = InodeImage::decode(&record.ifile, InodeNo::IFILE);
}

/// A partial segment: header, entries, places, payload.
pub fn summary(data: &[u8]) {
    let superblock = sample::superblock();
    let geometry = Geometry::from(superblock);
    let _ = SummaryHeader::parse(data, superblock.volume_tag(), 0);
    for entry in Entries::new(data) {
        let _ = entry;
    }
    let (segment, offset) = (1, geometry.payload_start(1));
    let mut image = vec![0; SEGMENT_BYTES as usize];
    let length = data.len().min(image.len());
    image[..length].copy_from_slice(&data[..length]);
    let _ = fuzzing::partial(&image, superblock, segment, offset);
    let sector = geometry.byte(segment, offset) / 512;
    seal_summary(&mut image, superblock.volume_tag(), sector);
    if let Ok(partial) = fuzzing::partial(&image, superblock, segment, offset) {
        for payload in &partial.payload {
            assert!(payload.range.end <= partial.header.sectors.get() as usize * 512);
            assert!(payload.range.start >= HEADER_BYTES);
        }
    }
}

/// A page of the map of a segment, by itself and among the segment's bytes.
pub fn map(data: &[u8]) {
    let superblock = sample::superblock();
    let geometry = Geometry::from(superblock);
    let tag = superblock.volume_tag();
    let (of, offset) = ((1, 3), 5 * geometry.write_unit);
    let sector = geometry.byte(of.0, offset) / 512;
    let _ = map::parse(data, tag, sector, of);
    let mut page = data.to_vec();
    page.resize(geometry.block_bytes as usize, 0);
    let (header, _) = MapHeader::mut_from_prefix(&mut page).expect("a block");
    header.magic = map::MAGIC.into();
    header.volume_tag = tag.into();
    header.sector = sector.into();
    (header.segment, header.incarnation) = (of.0.into(), of.1.into());
    let crc = crc32c(&page[4..]);
    page[..4].copy_from_slice(&crc.to_le_bytes());
    let named = match map::parse(&page, tag, sector, of) {
        Ok((header, entries)) => {
            assert_eq!(entries.len(), header.entry_count.get() as usize);
            entries.len()
        }
        Err(_) => 0,
    };
    let mut image = vec![0; SEGMENT_BYTES as usize];
    image[offset as usize..][..page.len()].copy_from_slice(&page);
    assert!(fuzzing::mapped(&image, superblock, of.0, of.1) <= named);
}

/// The history file of snapshots.
pub fn history(data: &[u8]) {
    let _ = fuzzing::history(data);
    let mut file = data.to_vec();
    if let Some(magic) = file.get_mut(..4) {
        magic.copy_from_slice(&varve_lfs::format::history::MAGIC.to_le_bytes());
    }
    let _ = fuzzing::history(&file);
}

/// A sound one.
pub fn history_seeds() -> Vec<Vec<u8>> {
    let example = fuzzing::history_example();
    fuzzing::history(&example).expect("a sound history");
    vec![example]
}

/// Makes signature, place and checksum of the summary that `bytes` begin with right.
fn seal_summary(bytes: &mut [u8], volume_tag: u64, sector: u64) {
    let (header, entries) = SummaryHeader::mut_from_prefix(bytes).expect("a segment's bytes");
    header.magic = summary::MAGIC.into();
    header.volume_tag = volume_tag.into();
    header.sector = sector.into();
    header.flags = (header.flags.get() & summary_flags::KNOWN).into();
    header.members = 1.into();
    let length = (header.entry_bytes.get() as usize).min(entries.len());
    header.crc = header.computed_crc(&entries[..length]).into();
}

/// An inode of each size; once more with a size that agrees with its inline
/// content, which no mutation hits on.
pub fn inode(data: &[u8]) {
    let ino = InodeNo(7);
    let _ = InodeImage::decode(data, ino);
    let mut bytes = padded::<DiskInode>(data);
    let (header, _) = DiskInode::mut_from_prefix(&mut bytes).expect("padded");
    header.magic = inode::MAGIC.into();
    header.ino = ino.0.into();
    inode_of_each_size(&bytes, ino);
    let (header, _) = DiskInode::mut_from_prefix(&mut bytes).expect("padded");
    header.flags = (header.flags.get() | varve_fs::flags::INLINE).into();
    header.size = u64::from(header.inline_bytes.get()).into();
    inode_of_each_size(&bytes, ino);
}

fn inode_of_each_size(bytes: &[u8], ino: InodeNo) {
    let mut bytes = bytes.to_vec();
    for inode_bytes in [256, 512, 4096] {
        bytes.resize(inode_bytes, 0);
        let Ok(image) = InodeImage::decode(&bytes, ino) else {
            continue;
        };
        let mut encoded = vec![0xff; inode_bytes];
        image.encode(&mut encoded);
        let again = InodeImage::decode(&encoded, ino).expect("what was parsed can be encoded");
        assert_eq!(again, image);
    }
}

/// A node of a file's index, in the form it says it has, and in each.
pub fn index_node(data: &[u8]) {
    let bytes = padded::<NodeHeader>(data);
    for height in [1, 2, 9] {
        let id = NodeId {
            ino: InodeNo(7),
            height,
            index: 3,
        };
        let _ = Node::decode(data, id, true);
        let mut bytes = bytes.clone();
        let (header, _) = NodeHeader::mut_from_prefix(&mut bytes).expect("padded");
        header.magic = node::MAGIC.into();
        header.ino = id.ino.0.into();
        header.index = id.index.into();
        header.height = height;
        for form in [header.form, node_form::PLAIN, node_form::PACKED] {
            bytes[offset_of!(NodeHeader, form)] = form;
            index_node_in_both_forms(&bytes, id);
        }
    }
}

/// A node that can be read is the same stored either way, and packed never
/// takes more sectors.
fn index_node_in_both_forms(bytes: &[u8], id: NodeId) {
    let (header, _) = NodeHeader::ref_from_prefix(bytes).expect("padded");
    let Ok(node) = Node::decode(bytes, id, true) else {
        return;
    };
    let version = header.version.get();
    let plain = node.encode(id, version, false);
    let packed = node.encode(id, version, true);
    assert!(packed.len() <= plain.len() && plain.len() <= 4096);
    assert_eq!(Node::decode(&plain, id, false).as_ref(), Ok(&node));
    assert_eq!(Node::decode(&packed, id, true).as_ref(), Ok(&node));
    assert_eq!(node.encode(id, version, true), packed);
}

/// Entries of the ifile's tables.
pub fn ifile(data: &[u8]) {
    for chunk in data.chunks_exact(size_of::<ImapEntry>()) {
        let entry = ImapEntry::read_from_bytes(chunk).expect("32 bytes");
        if let Ok(state) = entry.state() {
            assert_eq!(ImapEntry::new(state).state(), Ok(state));
        }
        let usage = UsageEntry::read_from_bytes(chunk).expect("32 bytes");
        assert_eq!(usage.as_bytes(), chunk);
    }
}

/// A blob of extended attributes, and an access control list.
pub fn xattrs(data: &[u8]) {
    let mut input = Input::new(data);
    let mode = input.number(4) as u32;
    let name_bytes = usize::from(input.byte());
    let name = input.take(name_bytes);
    let blob = input.take(usize::MAX);
    let value = varve_fs::fuzzing::access_control_list(blob, mode).ok();
    for value in [None, Some(&blob[..blob.len().min(100)]), value.as_deref()] {
        if let Ok(changed) = varve_fs::fuzzing::xattr_blob(blob, name, value) {
            let again = varve_fs::fuzzing::xattr_blob(&changed, name, value);
            assert_eq!(again.ok(), Some(changed), "setting twice is setting once");
        }
    }
}

/// Blobs of one and more attributes, behind the bytes [`xattrs`] takes first.
pub fn xattr_seeds() -> Vec<Vec<u8>> {
    let head = b"\xa4\x81\0\0\x06user.b";
    let mut blob = Vec::new();
    let mut seeds = vec![head.to_vec()];
    for name in [&b"user.a"[..], b"user.b", b"security.selinux", b"trusted.x"] {
        let value = name.repeat(3);
        blob = varve_fs::fuzzing::xattr_blob(&blob, name, Some(&value)).expect("room");
        seeds.push([head, &blob[..]].concat());
    }
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, bits) in [(1u16, 7u16), (2, 6), (4, 5), (16, 4), (32, 0)] {
        list.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        list.extend(10u32.to_le_bytes());
    }
    seeds.push([head, &list[..]].concat());
    seeds
}

/// Makes signature, trailing serial and checksum of a record's slot right.
pub fn seal_record(slot: &mut [u8], volume_tag: u64) {
    let (header, _) = CheckpointHeader::mut_from_prefix(slot).expect("a slot holds a header");
    // A log with one head or several, as the count says; 0 to 7 often enough.
    let further = header.further_heads.get() % 8;
    header.further_heads = further.into();
    let magic = match further {
        0 => checkpoint::MAGIC,
        _ => checkpoint::HEADS_MAGIC,
    };
    header.magic = magic.into();
    header.volume_tag = volume_tag.into();
    let serial = header.serial;
    let end = slot.len();
    slot[end - 8..].copy_from_slice(serial.as_bytes());
    let at = offset_of!(CheckpointHeader, crc);
    let crc = crc32c(&slot[at + 4..]);
    slot[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}
