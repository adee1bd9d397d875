//! The wire: numbers and structures, declared once. All big-endian.
//!
//! Source: the protocol's document, `doc/proto.md` of the NBD project. Names
//! are its names without the prefix `NBD_`.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `NBDMAGIC`, the first thing a server says.
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// `IHAVEOPT`: newstyle, and before every option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Before every answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before every simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before every chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the server's and the client's alike.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// No 124 zeros behind the answer to `EXPORT_NAME`.
pub const NO_ZEROES: u16 = 1 << 1;
/// Those zeros.
pub const PADDING_BYTES: usize = 124;

/// Transmission flags.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is served.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The flag FUA is served.
    pub const SEND_FUA: u16 = 1 << 3;
    /// It is slow to seek.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is served.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is served.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The flag DF is served.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush covers what other connections were told is written.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// The flag FAST_ZERO is served.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Options.
pub mod option {
    /// Choose an export and begin, without errors.
    pub const EXPORT_NAME: u32 = 1;
    /// End.
    pub const ABORT: u32 = 2;
    /// Name the exports.
    pub const LIST: u32 = 3;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin.
    pub const GO: u32 = 7;
    /// Answer in chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Which metadata there is.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Which metadata is wanted.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of answers to options.
pub mod answer {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name.
    pub const SERVER: u32 = 2;
    /// About an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Not known here.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// It makes no sense.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// What can be told about an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Name.
    pub const NAME: u16 = 1;
    /// A text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, best and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Requests.
pub mod command {
    /// Bytes, please.
    pub const READ: u16 = 0;
    /// Bytes follow.
    pub const WRITE: u16 = 1;
    /// Goodbye; there is no answer.
    pub const DISC: u16 = 2;
    /// Make durable what was acknowledged.
    pub const FLUSH: u16 = 3;
    /// Nothing of value is there.
    pub const TRIM: u16 = 4;
    /// Zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// What is where.
    pub const BLOCK_STATUS: u16 = 7;

    /// Durable before the answer.
    pub const FLAG_FUA: u16 = 1 << 0;
    /// Zeros are to be stored.
    pub const FLAG_NO_HOLE: u16 = 1 << 1;
    /// One chunk, please.
    pub const FLAG_DF: u16 = 1 << 2;
    /// One extent, please.
    pub const FLAG_REQ_ONE: u16 = 1 << 3;
    /// Only if it is faster than writing.
    pub const FLAG_FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub mod chunk {
    /// The last of its reply.
    pub const FLAG_DONE: u16 = 1 << 0;
    /// Nothing but the end.
    pub const NONE: u16 = 0;
    /// Bytes.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// A failure.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// The one metadata context there is.
pub const ALLOCATION: &str = "base:allocation";
/// Its number.
pub const ALLOCATION_ID: u32 = 1;
/// Flags of an extent: nothing stored, reads as zeros.
pub const STATE_HOLE: u32 = 1 << 0;
/// Reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;

/// Error numbers of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// EPERM: the export takes no changes.
    NotPermitted = 1,
    /// EIO.
    Io = 5,
    /// ENOMEM.
    Memory = 12,
    /// EINVAL.
    Invalid = 22,
    /// ENOSPC.
    Space = 28,
    /// EOVERFLOW: too long for one chunk.
    Overflow = 75,
    /// ENOTSUP: not faster than writing.
    NotSupported = 95,
}

/// What the server says first.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Greeting {
    /// [`GREETING_MAGIC`].
    pub magic: U64,
    /// [`OPTION_MAGIC`].
    pub style: U64,
    /// [`FIXED_NEWSTYLE`], [`NO_ZEROES`].
    pub flags: U16,
}
const _: () = assert!(size_of::<Greeting>() == 18);

/// Before an option's data.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OptionHeader {
    /// [`OPTION_MAGIC`].
    pub magic: U64,
    /// One of [`option`].
    pub option: U32,
    /// Bytes of data that follow.
    pub length: U32,
}
const _: () = assert!(size_of::<OptionHeader>() == 16);

/// Before the data of an answer to an option.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OptionReply {
    /// [`OPTION_REPLY_MAGIC`].
    pub magic: U64,
    /// The option answered.
    pub option: U32,
    /// One of [`answer`].
    pub kind: U32,
    /// Bytes of data that follow.
    pub length: U32,
}
const _: () = assert!(size_of::<OptionReply>() == 20);

/// A request; the bytes of a WRITE follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RequestHeader {
    /// [`REQUEST_MAGIC`].
    pub magic: U32,
    /// Flags of [`command`].
    pub flags: U16,
    /// One of [`command`].
    pub kind: U16,
    /// The client's name for the request, as it likes.
    pub cookie: U64,
    /// Byte address.
    pub offset: U64,
    /// Bytes.
    pub length: U32,
}
const _: () = assert!(size_of::<RequestHeader>() == 28);

/// A simple reply; the bytes of a READ that succeeded follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SimpleReply {
    /// [`SIMPLE_REPLY_MAGIC`].
    pub magic: U32,
    /// 0, or an [`Errno`].
    pub error: U32,
    /// The request's.
    pub cookie: U64,
}
const _: () = assert!(size_of::<SimpleReply>() == 16);

/// Before the payload of a chunk.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Chunk {
    /// [`CHUNK_MAGIC`].
    pub magic: U32,
    /// [`chunk::FLAG_DONE`].
    pub flags: U16,
    /// One of [`chunk`].
    pub kind: U16,
    /// The request's.
    pub cookie: U64,
    /// Bytes of payload.
    pub length: U32,
}
const _: () = assert!(size_of::<Chunk>() == 20);

/// An extent, in the payload of a chunk of block status.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    /// Bytes.
    pub length: U32,
    /// [`STATE_HOLE`], [`STATE_ZERO`].
    pub state: U32,
}
