//! The byte format of the toy log. The decoder trusts a payload once its checksum is
//! right.

use std::sync::Arc;
use varve_fs::{Inode, InodeNo, Item, Timestamp};

const MAGIC: u32 = 0x7479_6f74;

/// The sector before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) serial: u64,
    pub(super) life: u64,
    pub(super) predecessor: u32,
    pub(super) payload_bytes: u32,
    pub(super) payload_sum: u32,
    pub(super) last: bool,
}

pub(super) fn sum(bytes: &[u8]) -> u32 {
    xxhash_rust::xxh3::xxh3_64(bytes) as u32
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.u32(MAGIC);
        out.u64(self.serial);
        out.u64(self.life);
        out.u32(self.predecessor);
        out.u32(self.payload_bytes);
        out.u32(self.payload_sum);
        out.u32(u32::from(self.last));
        out.u32(sum(&out.0));
        out.0.resize(512, 0);
        out.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let mut input = Reader { bytes, at: 0 };
        let magic = input.u32();
        let header = Header {
            serial: input.u64(),
            life: input.u64(),
            predecessor: input.u32(),
            payload_bytes: input.u32(),
            payload_sum: input.u32(),
            last: input.u32() == 1,
        };
        let expected = sum(&bytes[..input.at]);
        (magic == MAGIC && input.u32() == expected).then_some(header)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.0.extend_from_slice(value);
    }

    fn time(&mut self, time: Timestamp) {
        self.u64(time.seconds as u64);
        self.u32(time.nanos);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Takes the next `count` bytes, or fewer at the end of the input.
    fn take(&mut self, count: usize) -> &'a [u8] {
        let end = self.at.saturating_add(count).min(self.bytes.len());
        let taken = &self.bytes[self.at..end];
        self.at = end;
        taken
    }

    /// Takes the next `N` bytes. Bytes after the end of the input are zeros.
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn bytes(&mut self) -> Vec<u8> {
        let count = self.u32() as usize;
        let mut bytes = self.take(count).to_vec();
        if count <= 1 << 20 {
            bytes.resize(count, 0);
        }
        bytes
    }

    fn time(&mut self) -> Timestamp {
        Timestamp {
            seconds: self.u64() as i64,
            nanos: self.u32(),
        }
    }
}

/// Encodes a group, with the number of its items first.
pub(super) fn encode_items(items: &[Item]) -> Vec<u8> {
    let mut out = Writer(Vec::new());
    out.u32(items.len() as u32);
    for item in items {
        encode_item(&mut out, item);
    }
    out.0
}

fn encode_item(out: &mut Writer, item: &Item) {
    let mut head = |kind: u32, ino: &InodeNo, version: u32| {
        out.u32(kind);
        out.u64(ino.0);
        out.u32(version);
    };
    match item {
        Item::Placed { .. } => unreachable!("this layout spills nothing"),
        Item::Freed { ino, next_version } => head(1, ino, *next_version),
        Item::Truncated {
            ino,
            version,
            from_block,
        } => {
            head(2, ino, *version);
            out.u64(*from_block);
        }
        Item::Punched {
            ino,
            version,
            from_block,
            to_block,
        } => {
            head(3, ino, *version);
            out.u64(*from_block);
            out.u64(*to_block);
        }
        Item::Reserved {
            ino,
            version,
            from_block,
            to_block,
        } => {
            head(4, ino, *version);
            out.u64(*from_block);
            out.u64(*to_block);
        }
        Item::Block {
            ino,
            version,
            block,
            data,
            written,
        } => {
            head(5, ino, *version);
            out.u64(*block);
            out.time(*written);
            out.bytes(data);
        }
        Item::Xattrs { ino, version, data } => {
            head(6, ino, *version);
            out.bytes(data);
        }
        Item::Inode(image) => {
            head(7, &image.ino, image.version);
            encode_inode(out, image);
        }
    }
}

fn encode_inode(out: &mut Writer, inode: &Inode) {
    for value in [
        inode.mode,
        inode.uid,
        inode.gid,
        inode.nlink,
        inode.flags,
        inode.project,
    ] {
        out.u32(value);
    }
    out.u32(inode.xattr_bytes);
    for value in [
        inode.rdev,
        inode.size,
        inode.blocks,
        inode.sectors,
        inode.parent.0,
    ] {
        out.u64(value);
    }
    for time in [inode.atime, inode.mtime, inode.ctime, inode.btime] {
        out.time(time);
    }
    out.bytes(&inode.inline);
}

/// Decodes the items of a group. An unknown item ends the list.
pub(super) fn decode_items(bytes: &[u8]) -> Vec<Item> {
    let mut input = Reader { bytes, at: 0 };
    let count = input.u32();
    let mut items = Vec::new();
    while (items.len() as u32) < count && input.at < bytes.len() {
        match decode_item(&mut input) {
            Some(item) => items.push(item),
            None => break,
        }
    }
    items
}

fn decode_item(input: &mut Reader<'_>) -> Option<Item> {
    let kind = input.u32();
    let ino = InodeNo(input.u64());
    let version = input.u32();
    Some(match kind {
        1 => Item::Freed {
            ino,
            next_version: version,
        },
        2 => Item::Truncated {
            ino,
            version,
            from_block: input.u64(),
        },
        3 => Item::Punched {
            ino,
            version,
            from_block: input.u64(),
            to_block: input.u64(),
        },
        4 => Item::Reserved {
            ino,
            version,
            from_block: input.u64(),
            to_block: input.u64(),
        },
        5 => {
            let (block, written) = (input.u64(), input.time());
            Item::Block {
                ino,
                version,
                block,
                data: Arc::new(input.bytes().into()),
                written,
            }
        }
        6 => Item::Xattrs {
            ino,
            version,
            data: Arc::new(input.bytes().into()),
        },
        7 => Item::Inode(Box::new(decode_inode(input, ino, version))),
        _ => return None,
    })
}

fn decode_inode(input: &mut Reader<'_>, ino: InodeNo, version: u32) -> Inode {
    Inode {
        ino,
        version,
        mode: input.u32(),
        uid: input.u32(),
        gid: input.u32(),
        nlink: input.u32(),
        flags: input.u32(),
        project: input.u32(),
        xattr_bytes: input.u32(),
        rdev: input.u64(),
        size: input.u64(),
        blocks: input.u64(),
        sectors: input.u64(),
        parent: InodeNo(input.u64()),
        atime: input.time(),
        mtime: input.time(),
        ctime: input.time(),
        btime: input.time(),
        inline: input.bytes(),
    }
}
