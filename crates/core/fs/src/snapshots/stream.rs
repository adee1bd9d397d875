//! The bytes of the second version of the stream: a header, then numbered items, each
//! with a checksum that also depends on all before it (`docs/spec/stream.md`).
//!
//! Lengths are bounded, and memory is taken as bytes arrive.

use crate::error::Error;
use crate::layout::VolumeSnapshot;
use crate::types::Timestamp;
use std::io::{self, Read, Write};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes `VSHP`, as in the first version.
const MAGIC: u32 = u32::from_le_bytes(*b"VSHP");
const ITEM_MAGIC: u32 = u32::from_le_bytes(*b"VSIT");
const VERSION: u16 = 2;
/// Upper bound of an item's payload: content is cut into pieces of 1 MiB, attributes of a
/// file may have more.
const PAYLOAD_MAX: u32 = 16 << 20;

/// Why a stream was not sent or received.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// An operation on the volume failed.
    #[error(transparent)]
    Tree(#[from] Error),
    /// The stream could not be read or written.
    #[error("the stream: {0}")]
    Io(#[from] io::Error),
    /// The stream is damaged, or does not belong on this volume.
    #[error("{0}")]
    Refused(String),
}

pub(super) type Result<T> = std::result::Result<T, TransferError>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(TransferError::Refused(why.into()))
}

/// Values of [`SendItem::kind`].
pub mod item_kind {
    /// A file or directory of the older snapshot, by its path there.
    pub const PATH: u8 = 1;
    /// A name that the newer snapshot does not have.
    pub const DETACH: u8 = 2;
    /// A file or directory that the older snapshot does not have.
    pub const CREATE: u8 = 3;
    /// The size of a file.
    pub const SIZE: u8 = 4;
    /// Content of a file.
    pub const DATA: u8 = 5;
    /// A hole in a file.
    pub const HOLE: u8 = 6;
    /// A name that the older snapshot does not have.
    pub const ATTACH: u8 = 7;
    /// Owner, permissions, flags, time of modification and extended attributes.
    pub const ATTRIBUTES: u8 = 8;
    /// The end, with the attributes of the root.
    pub const END: u8 = 9;
}

/// Header of a stream, 80 bytes; the name of the snapshot follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SendHeader {
    /// Lower half of the XXH3 of every later byte and of the name.
    pub sum: U32,
    /// The bytes `VSHP`.
    pub magic: U32,
    /// Always 2.
    pub version: U16,
    /// Length of the name.
    pub name_bytes: U16,
    /// Zeros.
    pub spare: U32,
    /// Tag of the sender's volume.
    pub origin: U64,
    /// Number of the snapshot.
    pub number: U32,
    /// Number of the snapshot that the receiver has; 0 if it has none.
    pub base: U32,
    /// When the snapshot was taken, in nanoseconds since 1970.
    pub taken: I64,
    /// When the base was taken.
    pub base_taken: I64,
    /// Number of the first item in this stream.
    pub first: U64,
    /// Number of all items, the end included.
    pub items: U64,
    /// Bytes of content in all items.
    pub bytes: U64,
    /// Bytes of content in the items of this stream.
    pub bytes_left: U64,
}
const _: () = assert!(size_of::<SendHeader>() == 80);

impl SendHeader {
    pub(super) fn new(origin: u64, sent: &VolumeSnapshot, base: Option<&VolumeSnapshot>) -> Self {
        SendHeader {
            magic: MAGIC.into(),
            version: VERSION.into(),
            origin: origin.into(),
            number: sent.number.into(),
            base: base.map_or(0, |base| base.number).into(),
            taken: ns(sent.taken).into(),
            base_taken: base.map_or(0, |base| ns(base.taken)).into(),
            ..SendHeader::new_zeroed()
        }
    }

    /// Sums and writes the header.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&mut self, name: &str, into: &mut dyn Write) -> io::Result<u64> {
        self.name_bytes = u16::try_from(name.len()).map_err(io::Error::other)?.into();
        let sum = self.sum_with(name.as_bytes());
        self.sum = (sum as u32).into();
        into.write_all(self.as_bytes())?;
        into.write_all(name.as_bytes())?;
        Ok(sum)
    }

    fn sum_with(&self, name: &[u8]) -> u64 {
        xxh3_64_with_seed(&[&self.as_bytes()[4..], name].concat(), 0)
    }
}

fn ns(time: Timestamp) -> i64 {
    let seconds = time.seconds.saturating_mul(1_000_000_000);
    seconds.saturating_add(time.nanos.into())
}

/// An item, 64 bytes; its payload follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SendItem {
    /// XXH3 of every later byte and of the payload; its seed is the sum of the item or
    /// header before.
    pub sum: U64,
    /// The bytes `VSIT`.
    pub magic: U32,
    /// One of [`item_kind`].
    pub kind: u8,
    /// Zeros.
    pub spare: [u8; 3],
    /// Number of the item.
    pub number: U64,
    /// The file, or the directory that has the name.
    pub ino: U64,
    /// Its version.
    pub version: U32,
    /// Version of `other`.
    pub other_version: U32,
    /// Of a name the file; of a device its number; of a hole its length.
    pub other: U64,
    /// Of content and holes where they begin; of a size the size; of a new file the mode.
    pub at: U64,
    /// Length of the payload.
    pub payload_bytes: U32,
    /// Zeros.
    pub spare_2: U32,
}
const _: () = assert!(size_of::<SendItem>() == 64);

impl SendItem {
    /// An item of a kind, about a file.
    pub fn new(kind: u8, (ino, version): (u64, u32)) -> Self {
        SendItem {
            magic: ITEM_MAGIC.into(),
            kind,
            ino: ino.into(),
            version: version.into(),
            ..SendItem::new_zeroed()
        }
    }

    /// The file.
    pub fn file(&self) -> (u64, u32) {
        (self.ino.get(), self.version.get())
    }

    /// The other file.
    pub fn other(&self) -> (u64, u32) {
        (self.other.get(), self.other_version.get())
    }

    /// Sums and writes an item behind one with the sum `before`; returns its sum.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&mut self, payload: &[u8], before: u64, into: &mut dyn Write) -> io::Result<u64> {
        self.payload_bytes = u32::try_from(payload.len())
            .map_err(io::Error::other)?
            .into();
        self.sum = self.sum_with(payload, before).into();
        into.write_all(self.as_bytes())?;
        into.write_all(payload)?;
        Ok(self.sum.get())
    }

    fn sum_with(&self, payload: &[u8], before: u64) -> u64 {
        let of_header = xxh3_64_with_seed(&self.as_bytes()[8..], before);
        xxh3_64_with_seed(payload, of_header)
    }
}

/// Reads and verifies a stream.
pub(super) struct Items<'a> {
    from: &'a mut dyn Read,
    pub header: SendHeader,
    pub name: String,
    sum: u64,
    next: u64,
}

impl<'a> Items<'a> {
    pub(super) fn open(from: &'a mut dyn Read) -> Result<Self> {
        let mut header = SendHeader::new_zeroed();
        if let Err(error) = from.read_exact(header.as_mut_bytes()) {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => refused("the stream ends within its header"),
                _ => Err(error.into()),
            };
        }
        if header.magic.get() != MAGIC {
            return refused("it is not a stream of `varve send`");
        }
        match header.version.get() {
            VERSION => {}
            1 => return refused("it is a stream of `varve ship`; apply it with `varve replay`"),
            other => return refused(format!("version {other} of the stream is unknown")),
        }
        let mut name = vec![0; header.name_bytes.get().into()];
        from.read_exact(&mut name)?;
        let sum = header.sum_with(&name);
        let name = String::from_utf8(name).ok();
        match name {
            Some(name) if sum as u32 == header.sum.get() => Ok(Items {
                from,
                header,
                name,
                sum,
                next: header.first.get(),
            }),
            _ => refused("the header of the stream is damaged"),
        }
    }

    /// The next item, and its payload in `payload`.
    pub(super) fn next(&mut self, payload: &mut Vec<u8>) -> Result<SendItem> {
        let (number, items) = (self.next, self.header.items);
        let cut = || refused(format!("the stream was cut at item {number} of {items}"));
        let mut item = SendItem::new_zeroed();
        match self.from.read_exact(item.as_mut_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return cut(),
            other => other?,
        }
        let damaged = || {
            refused(format!(
                "the stream is damaged or out of order at item {number} of {items}"
            ))
        };
        let length = item.payload_bytes.get();
        if item.magic.get() != ITEM_MAGIC || item.number.get() != number || length > PAYLOAD_MAX {
            return damaged();
        }
        payload.clear();
        let read = (&mut self.from).take(length.into()).read_to_end(payload)?;
        if read < length as usize {
            return cut();
        }
        if item.sum_with(payload, self.sum) != item.sum.get() {
            return damaged();
        }
        self.sum = item.sum.get();
        self.next = number.saturating_add(1);
        Ok(item)
    }
}

/// The attributes of a file; extended attributes follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Attributes {
    pub mtime_seconds: I64,
    pub mtime_nanos: U32,
    pub mode: U32,
    pub uid: U32,
    pub gid: U32,
    pub project: U32,
    pub flags: U32,
}

/// The next extended attribute of a payload: name and value, each behind its length.
pub(super) fn next_xattr<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut part = || {
        let (length, behind) = U32::read_from_prefix(rest).ok()?;
        let (part, behind) = behind.split_at_checked(length.get() as usize)?;
        *rest = behind;
        Some(part)
    };
    Some((part()?, part()?))
}

pub(super) fn push_xattr(into: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, value] {
        into.extend_from_slice(U32::new(part.len() as u32).as_bytes());
        into.extend_from_slice(part);
    }
}
