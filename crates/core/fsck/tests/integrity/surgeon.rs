//! Edits one structure of a volume and every checksum above it, as a fault of Varve
//! itself would, not of the device.

use crate::volume::{Image, checked};
use std::sync::Arc;
use varve_device::{Device, MemoryDevice};
use varve_fs::InodeNo;
use varve_fsck::check::CheckReport;
use varve_lfs::format::checkpoint::{CheckpointHeader, CheckpointRecord};
use varve_lfs::format::ifile::{ENTRY_BYTES, IMAP_OFFSET, ImapState, InodePlace};
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::format::node::{FANOUT, Node, NodeHeader, NodeId};
use varve_lfs::format::shape::SummaryParts;
use varve_lfs::format::summary::{Entries, Entry, HEADER_BYTES};
use varve_lfs::format::{
    ImapEntry, Pointer, SECTOR, SummaryHeader, Superblock, UsageEntry, crc32c,
};
use varve_lfs::{Geometry, Lfs};
use zerocopy::{FromBytes, IntoBytes};

/// Changes a pointer, and possibly its block.
pub type Leaf<'l> = &'l mut dyn FnMut(&mut Surgeon, Pointer) -> Pointer;

/// An unmounted volume in memory.
#[derive(Clone)]
pub struct Surgeon {
    pub bytes: Vec<u8>,
    pub superblock: Superblock,
    pub geometry: Geometry,
    slot: u64,
    pub record: CheckpointRecord,
}

impl Surgeon {
    pub fn new(device: &MemoryDevice) -> Surgeon {
        let mut bytes = vec![0; device.geometry().size as usize];
        device.read(0, &mut bytes).unwrap();
        let superblock = Lfs::find_superblock(device).unwrap();
        let length = u64::from(superblock.record_bytes.get());
        let (record, slot) = (0..u64::from(superblock.record_count.get()))
            .filter_map(|slot| {
                let at = (superblock.ring_offset.get() + slot * length) as usize;
                let bytes = &bytes[at..at + length as usize];
                let record = CheckpointRecord::decode(bytes, superblock.volume_tag()).ok()?;
                Some((record, slot))
            })
            .max_by_key(|(record, _)| record.header.serial.get())
            .unwrap();
        Surgeon {
            geometry: Geometry::from(&superblock),
            bytes,
            superblock,
            slot,
            record,
        }
    }

    pub fn image(&self) -> Image {
        let device = MemoryDevice::new(self.bytes.len() as u64);
        device.apply_write(0, &self.bytes).unwrap();
        Image::from(device.snapshot())
    }

    pub fn check(&self, data: bool) -> CheckReport {
        checked(&self.image(), data)
    }

    pub fn device(&self) -> Arc<MemoryDevice> {
        self.image().0
    }

    /// Returns the byte address of the newest record's slot.
    pub fn slot_offset(&self) -> usize {
        let length = u64::from(self.superblock.record_bytes.get());
        (self.superblock.ring_offset.get() + self.slot * length) as usize
    }

    fn write_record(&mut self) {
        let length = self.superblock.record_bytes.get() as usize;
        let encoded = self.record.encode(length);
        let at = self.slot_offset();
        self.bytes[at..at + length].copy_from_slice(&encoded);
    }

    pub fn edit_record(&mut self, edit: impl FnOnce(&mut CheckpointHeader)) {
        edit(&mut self.record.header);
        self.write_record();
    }

    fn stored(&mut self, pointer: &Pointer) -> &mut [u8] {
        let at = (pointer.sector() * SECTOR) as usize;
        &mut self.bytes[at..at + pointer.stored_bytes() as usize]
    }

    /// Returns the pointer with the block's new checksum, and updates the summary.
    pub fn resealed(&mut self, pointer: &Pointer) -> Pointer {
        let crc = crc32c(self.stored(pointer));
        self.reseal(pointer.sector() * SECTOR, crc);
        Pointer::new(
            pointer.sector(),
            pointer.sectors(),
            crc,
            pointer.birth(),
            pointer.incarnation(),
        )
    }

    /// Returns an edit of a block's bytes that also updates its pointer.
    pub fn content(edit: impl Fn(&mut [u8])) -> impl FnMut(&mut Surgeon, Pointer) -> Pointer {
        move |surgeon, pointer| {
            edit(surgeon.stored(&pointer));
            surgeon.resealed(&pointer)
        }
    }

    /// Finds the summary entry of the block at `byte` and changes its checksum.
    fn reseal(&mut self, byte: u64, crc: u32) {
        let segment = self.geometry.segment_of(byte / SECTOR).unwrap();
        let mut offset = self.geometry.payload_start(segment);
        while self.geometry.partial_fits(offset) {
            let at = self.geometry.byte(segment, offset) as usize;
            let tag = self.superblock.volume_tag();
            let sector = at as u64 / SECTOR;
            let Ok(header) = SummaryHeader::parse(&self.bytes[at..], tag, sector) else {
                break;
            };
            if self.reseal_within(at, header, byte, crc) {
                return;
            }
            offset += header.sectors.get() * SECTOR as u32;
        }
        panic!("no summary describes the block at byte {byte}");
    }

    fn reseal_within(&mut self, at: usize, header: SummaryHeader, byte: u64, crc: u32) -> bool {
        let end = at + HEADER_BYTES + header.entry_bytes.get() as usize;
        let summary = self.bytes[at + HEADER_BYTES..end].to_vec();
        let entries: Vec<Entry<'_>> = Entries::new(&summary).map(Result::unwrap).collect();
        let full =
            |sectors: u8| u64::from(sectors) * SECTOR == u64::from(self.geometry.block_bytes);
        let mut parts = SummaryParts {
            summary: header.summary_sectors(),
            ..SummaryParts::default()
        };
        for entry in &entries {
            match entry {
                Entry::Block(block) if full(block.sectors) => {
                    parts.full += u64::from(block.sectors)
                }
                Entry::Block(block) => parts.short += u64::from(block.sectors),
                _ => {}
            }
        }
        let inodes = entries
            .iter()
            .filter(|e| matches!(e, Entry::Inode(_)))
            .count() as u64;
        parts.inodes = (inodes * u64::from(self.geometry.inode_bytes)).div_ceil(SECTOR);
        let shape = parts.placed(self.geometry.aligned_unit());
        let byte_of = |sector: u64| at as u64 + sector * SECTOR;
        let (mut full_at, mut short_at) = (byte_of(shape.full), byte_of(shape.short));
        let mut inode_at = byte_of(shape.inodes);
        let aligned = self.geometry.aligned;
        let mut entry_at = at + HEADER_BYTES;
        let mut found = false;
        for entry in entries {
            match entry {
                Entry::Block(mut block) => {
                    let block_at = match aligned && !full(block.sectors) {
                        true => &mut short_at,
                        false => &mut full_at,
                    };
                    if *block_at == byte {
                        block.crc = crc.into();
                        self.bytes[entry_at..entry_at + 40].copy_from_slice(block.as_bytes());
                        found = true;
                    }
                    *block_at += u64::from(block.sectors) * SECTOR;
                    entry_at += 40;
                }
                Entry::Inode(mut inode) => {
                    if inode_at == byte {
                        inode.crc = crc.into();
                        self.bytes[entry_at..entry_at + 24].copy_from_slice(inode.as_bytes());
                        found = true;
                    }
                    inode_at += u64::from(self.geometry.inode_bytes);
                    entry_at += 24;
                }
                Entry::File(_) => entry_at += 16,
                Entry::Record(_) => entry_at += 24,
                Entry::Placed(placed) => entry_at += placed.bytes.len(),
            }
        }
        let mut header = header;
        header.crc = header
            .computed_crc(&self.bytes[at + HEADER_BYTES..end])
            .into();
        self.bytes[at..at + HEADER_BYTES].copy_from_slice(header.as_bytes());
        found
    }

    /// Descends an index to `block` (or to the node of `to_height` above it), lets `leaf`
    /// change that pointer, and updates the nodes above.
    fn edit_below(
        &mut self,
        ino: InodeNo,
        pointer: Pointer,
        (height, to_height): (u8, u8),
        block: u64,
        leaf: Leaf<'_>,
    ) -> Pointer {
        if height == to_height {
            return leaf(self, pointer);
        }
        assert!(!pointer.is_none(), "{ino} has no block {block}");
        let bytes = self.stored(&pointer).to_vec();
        let version = NodeHeader::ref_from_prefix(&bytes).unwrap().0.version.get();
        let id = NodeId {
            ino,
            height,
            index: block / FANOUT.pow(height.into()),
        };
        let mut node = Node::decode(&bytes, id, self.geometry.packed).unwrap();
        let slot = (block / FANOUT.pow(u32::from(height) - 1) % FANOUT) as usize;
        let child = self.edit_below(ino, node.get(slot), (height - 1, to_height), block, leaf);
        node.set(slot, child);
        let encoded = node.encode(id, version, self.geometry.packed);
        assert_eq!(encoded.len(), bytes.len(), "an edit keeps the node's size");
        self.stored(&pointer).copy_from_slice(&encoded);
        self.resealed(&pointer)
    }

    fn edit_root(
        &mut self,
        ino: InodeNo,
        root: &mut Root,
        to_height: u8,
        block: u64,
        leaf: Leaf<'_>,
    ) {
        let slot = (block / FANOUT.pow(root.height.into())) as usize;
        let heights = (root.height, to_height);
        root.slots[slot] = self.edit_below(ino, root.slots[slot], heights, block, leaf);
    }

    /// Changes the pointer of a block of the ifile.
    pub fn edit_ifile(&mut self, block: u64, leaf: Leaf<'_>) {
        let mut image = InodeImage::decode(&self.record.ifile, InodeNo::IFILE).unwrap();
        let mut root = image.root.take().unwrap();
        self.edit_root(InodeNo::IFILE, &mut root, 0, block, leaf);
        image.root = Some(root);
        image.encode(&mut self.record.ifile);
        self.write_record();
    }

    pub fn imap_block(&self, ino: InodeNo) -> u64 {
        IMAP_OFFSET / u64::from(self.geometry.block_bytes)
            + ino.0 / self.geometry.entries_per_block()
    }

    pub fn edit_imap(&mut self, ino: InodeNo, edit: &dyn Fn(ImapState) -> ImapState) {
        let block = self.imap_block(ino);
        let at = (ino.0 % self.geometry.entries_per_block()) as usize * ENTRY_BYTES;
        let mut leaf = Surgeon::content(|bytes| {
            let entry = &mut bytes[at..at + ENTRY_BYTES];
            let state = ImapEntry::read_from_bytes(entry).unwrap().state().unwrap();
            entry.copy_from_slice(ImapEntry::new(edit(state)).as_bytes());
        });
        self.edit_ifile(block, &mut leaf);
    }

    pub fn imap(&mut self, ino: InodeNo) -> ImapState {
        let block = self.imap_block(ino);
        let at = (ino.0 % self.geometry.entries_per_block()) as usize * ENTRY_BYTES;
        let mut state = ImapState::Unused;
        self.edit_ifile(block, &mut |surgeon, pointer| {
            let bytes = &surgeon.stored(&pointer)[at..at + ENTRY_BYTES];
            state = ImapEntry::read_from_bytes(bytes).unwrap().state().unwrap();
            pointer
        });
        state
    }

    fn place(&mut self, ino: InodeNo) -> InodePlace {
        match self.imap(ino) {
            ImapState::Used { place, .. } => place,
            other => panic!("{ino}: {other:?}"),
        }
    }

    fn inode_bytes(&mut self, place: &InodePlace) -> &mut [u8] {
        let length = self.geometry.inode_bytes as usize;
        let at = (place.sector * SECTOR) as usize + usize::from(place.slot) * length;
        &mut self.bytes[at..at + length]
    }

    pub fn inode(&mut self, ino: InodeNo) -> InodeImage {
        let place = self.place(ino);
        InodeImage::decode(self.inode_bytes(&place), ino).unwrap()
    }

    /// Changes the stored bytes of an inode.
    pub fn edit_inode_bytes(&mut self, ino: InodeNo, edit: impl FnOnce(&mut [u8])) {
        let place = self.place(ino);
        edit(self.inode_bytes(&place));
        let crc = crc32c(self.inode_bytes(&place));
        let length = u64::from(self.geometry.inode_bytes);
        let byte = place.sector * SECTOR + u64::from(place.slot) * length;
        self.reseal(byte, crc);
        self.edit_imap(ino, &|state| match state {
            ImapState::Used {
                version,
                place,
                epoch,
            } => ImapState::Used {
                epoch,
                version,
                place: InodePlace { crc, ..place },
            },
            other => other,
        });
    }

    pub fn edit_inode(&mut self, ino: InodeNo, edit: impl FnOnce(&mut InodeImage)) {
        let mut image = self.inode(ino);
        edit(&mut image);
        self.edit_inode_bytes(ino, |bytes| image.encode(bytes));
    }

    /// Changes the pointer of a file's block, or with `height` that of the index node of
    /// that height above it.
    pub fn edit_pointer(&mut self, ino: InodeNo, height: u8, block: u64, leaf: Leaf<'_>) {
        let mut image = self.inode(ino);
        let mut root = image.root.take().unwrap();
        self.edit_root(ino, &mut root, height, block, leaf);
        self.edit_inode(ino, |image| image.root = Some(root));
    }

    pub fn pointer(&mut self, ino: InodeNo, height: u8, block: u64) -> Pointer {
        let mut found = Pointer::NONE;
        self.edit_pointer(ino, height, block, &mut |_, pointer| {
            found = pointer;
            pointer
        });
        found
    }

    /// Damages the stored bytes of a block and nothing else.
    pub fn rot(&mut self, pointer: &Pointer) {
        self.stored(pointer)[100] ^= 0x10;
    }

    pub fn edit_usage(&mut self, segment: u32, edit: impl Fn(&mut UsageEntry)) {
        let per_block = self.geometry.entries_per_block();
        let block = u64::from(segment) / per_block;
        let at = (u64::from(segment) % per_block) as usize * ENTRY_BYTES;
        let mut leaf = Surgeon::content(|bytes| {
            let bytes = &mut bytes[at..at + ENTRY_BYTES];
            let mut entry = UsageEntry::read_from_bytes(bytes).unwrap();
            edit(&mut entry);
            bytes.copy_from_slice(entry.as_bytes());
        });
        self.edit_ifile(block, &mut leaf);
    }

    /// Changes the inode number and kind of a name in a small directory.
    pub fn edit_name(&mut self, directory: InodeNo, name: &str, ino: u64, kind: Option<u8>) {
        let mut leaf = Surgeon::content(|bytes| {
            let name = name.as_bytes();
            let at = (18..bytes.len() - name.len())
                .find(|&at| {
                    &bytes[at..at + name.len()] == name && bytes[at - 1] as usize == name.len()
                })
                .unwrap();
            bytes[at - 10..at - 2].copy_from_slice(&ino.to_le_bytes());
            if let Some(kind) = kind {
                bytes[at - 2] = kind;
            }
        });
        self.edit_pointer(directory, 0, 0, &mut leaf);
    }
}
