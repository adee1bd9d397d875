//! The numbers and structures of the protocol, declared once. All are big-endian.
//!
//! Source: the protocol's document, `doc/proto.md` of the NBD project. Names are its
//! names without the prefix `NBD_`.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `NBDMAGIC`, the first bytes that a server sends.
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// `IHAVEOPT`: in the greeting of a newstyle server, and before every option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Magic number before every answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic number before every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic number before every simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic number before every chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag of server and client: fixed newstyle.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of server and client: no padding behind the answer to `EXPORT_NAME`.
pub const NO_ZEROES: u16 = 1 << 1;
/// Number of zeros behind the answer to `EXPORT_NAME`, unless the flag excludes them.
pub const PADDING_BYTES: usize = 124;

/// Transmission flags.
pub mod transmission {
    /// Always set, because the other flags are valid.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is supported.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The flag FUA is supported.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The device is slow to seek.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is supported.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is supported.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The flag DF is supported.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush covers the acknowledged writes of other connections, too.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// The flag FAST_ZERO is supported.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Numbers of options.
pub mod option {
    /// Choose an export and begin transmission; errors cannot be reported.
    pub const EXPORT_NAME: u32 = 1;
    /// End the connection.
    pub const ABORT: u32 = 2;
    /// List the names of the exports.
    pub const LIST: u32 = 3;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin transmission.
    pub const GO: u32 = 7;
    /// Answer with structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Select metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of answers to options.
pub mod answer {
    /// Success.
    pub const ACK: u32 = 1;
    /// The name of an export.
    pub const SERVER: u32 = 2;
    /// Information about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Error: the option is not supported.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Error: the option is malformed.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// Error: there is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Name of the export.
    pub const NAME: u16 = 1;
    /// Description, for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Kinds of requests, and their flags.
pub mod command {
    /// Read bytes.
    pub const READ: u16 = 0;
    /// Write the bytes that follow.
    pub const WRITE: u16 = 1;
    /// End the connection, without an answer.
    pub const DISC: u16 = 2;
    /// Make the acknowledged writes durable.
    pub const FLUSH: u16 = 3;
    /// Discard a range, which contains nothing of value.
    pub const TRIM: u16 = 4;
    /// Write zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Report which ranges are stored.
    pub const BLOCK_STATUS: u16 = 7;

    /// The request is durable before its answer.
    pub const FLAG_FUA: u16 = 1 << 0;
    /// Zeros must be stored, not punched.
    pub const FLAG_NO_HOLE: u16 = 1 << 1;
    /// The answer must be one chunk.
    pub const FLAG_DF: u16 = 1 << 2;
    /// The answer must have one extent.
    pub const FLAG_REQ_ONE: u16 = 1 << 3;
    /// Fail if it is not faster than a write.
    pub const FLAG_FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of chunks of structured replies, and their flag.
pub mod chunk {
    /// This chunk is the last of its reply.
    pub const FLAG_DONE: u16 = 1 << 0;
    /// A chunk without content, which ends a reply.
    pub const NONE: u16 = 0;
    /// Bytes that were read.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents with their states.
    pub const BLOCK_STATUS: u16 = 5;
    /// The reason of a failure.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// Name of the one metadata context.
pub const ALLOCATION: &str = "base:allocation";
/// Number of this context.
pub const ALLOCATION_ID: u32 = 1;
/// Flag of an extent: nothing is stored.
pub const STATE_HOLE: u32 = 1 << 0;
/// Flag of an extent: it reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;

/// Error numbers of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// EPERM: the export is read-only.
    NotPermitted = 1,
    /// EIO: the device failed.
    Io = 5,
    /// ENOMEM: memory is exhausted.
    Memory = 12,
    /// EINVAL: the request is invalid.
    Invalid = 22,
    /// ENOSPC: the range is beyond the end, or no space is free.
    Space = 28,
    /// EOVERFLOW: the answer is too long for one chunk.
    Overflow = 75,
    /// ENOTSUP: zeroing is not faster than writing.
    NotSupported = 95,
}

/// The greeting, which the server sends first.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Greeting {
    /// Always [`GREETING_MAGIC`].
    pub magic: U64,
    /// Always [`OPTION_MAGIC`].
    pub style: U64,
    /// Handshake flags: [`FIXED_NEWSTYLE`], [`NO_ZEROES`].
    pub flags: U16,
}
const _: () = assert!(size_of::<Greeting>() == 18);

/// The header of an option; its data follows.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OptionHeader {
    /// Always [`OPTION_MAGIC`].
    pub magic: U64,
    /// Number of the option, one of [`option`].
    pub option: U32,
    /// Number of bytes of data that follow.
    pub length: U32,
}
const _: () = assert!(size_of::<OptionHeader>() == 16);

/// The header of an answer to an option; its data follows.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OptionReply {
    /// Always [`OPTION_REPLY_MAGIC`].
    pub magic: U64,
    /// Number of the option.
    pub option: U32,
    /// Kind of the answer, one of [`answer`].
    pub kind: U32,
    /// Number of bytes of data that follow.
    pub length: U32,
}
const _: () = assert!(size_of::<OptionReply>() == 20);

/// The header of a request; the bytes of a WRITE follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RequestHeader {
    /// Always [`REQUEST_MAGIC`].
    pub magic: U32,
    /// Flags, from [`command`].
    pub flags: U16,
    /// Kind of the request, one of [`command`].
    pub kind: U16,
    /// The client's identifier of the request, of any value.
    pub cookie: U64,
    /// Byte address of the range.
    pub offset: U64,
    /// Length of the range, in bytes.
    pub length: U32,
}
const _: () = assert!(size_of::<RequestHeader>() == 28);

/// A simple reply; the bytes of a READ that succeeded follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SimpleReply {
    /// Always [`SIMPLE_REPLY_MAGIC`].
    pub magic: U32,
    /// 0 for success, or an [`Errno`].
    pub error: U32,
    /// The identifier of the request.
    pub cookie: U64,
}
const _: () = assert!(size_of::<SimpleReply>() == 16);

/// The header of a chunk; its payload follows.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Chunk {
    /// Always [`CHUNK_MAGIC`].
    pub magic: U32,
    /// Flags: [`chunk::FLAG_DONE`].
    pub flags: U16,
    /// Kind of the chunk, one of [`chunk`].
    pub kind: U16,
    /// The identifier of the request.
    pub cookie: U64,
    /// Number of bytes of payload.
    pub length: U32,
}
const _: () = assert!(size_of::<Chunk>() == 20);

/// An extent in a chunk of block status.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    /// Length, in bytes.
    pub length: U32,
    /// State: [`STATE_HOLE`], [`STATE_ZERO`].
    pub state: U32,
}
