//! The four calls as bytes, for cleaners of other processes.
//!
//! A request and its answer are at most [`MESSAGE_BYTES`] long; they travel in
//! an ioctl on the mount's root. All numbers are little-endian. Every field of
//! a request comes from a stranger: parsing refuses what is malformed, and
//! [`crate::cleaner::Cleaner::serve_cleaner`] checks what it means.
//!
//! | call | asks | answer |
//! |---|---|---|
//! | [`Request::Wait`] | how cleaning stands; joins if the cleaner is 0 | [`Standing`] |
//! | [`Request::Usage`] | segments that may be cleaned, from a number on | [`Usage`] each |
//! | [`Request::Bmapv`] | claims a segment and asks what lives in it | [`Block`] each |
//! | [`Request::Markv`] | to move these blocks | [`Marked`] |
//! | [`Request::Segclean`] | to declare a segment done | nothing |
//! | [`Request::Release`] | to let go of a segment | nothing |
//! | [`Request::Leave`] | to let go of everything | nothing |
//!
//! Blocks are named, never sent: the server finds their bytes itself, by what
//! the segment's own summaries say, and checks them.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most bytes of a request and of an answer: what an ioctl's number can say,
/// in multiples of 8.
pub const MESSAGE_BYTES: usize = 16_376;
/// "VCLN".
const MAGIC: u32 = u32::from_le_bytes(*b"VCLN");
/// Of this protocol. Another one is refused.
const VERSION: u16 = 1;
/// Most bytes of a policy's name.
pub const NAME_BYTES: usize = 32;
/// Most blocks in one message.
pub const BLOCKS: usize = (MESSAGE_BYTES - size_of::<Header>()) / size_of::<Block>();
/// Most segments in one message.
pub const USAGES: usize = (MESSAGE_BYTES - size_of::<Header>()) / size_of::<Usage>();

/// What every message begins with.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: U32,
    version: U16,
    /// 1 `Wait` to 7 `Leave`.
    call: U16,
    cleaner: U64,
    /// A segment, or where to go on; in answers where the next page begins.
    at: U64,
    /// Records that follow.
    count: U32,
    /// Requests: 1 to move the oldest first.
    flags: U32,
}

/// The name of a live block. It stays valid until the block is written anew or
/// moved.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Block {
    /// Whose.
    pub ino: U64,
    /// Logical block, or number of the index node.
    pub block: U64,
    /// Where it lies, in bytes of the device.
    pub byte: U64,
    /// Commit that first wrote this version.
    pub birth: U64,
    /// Nanoseconds since 1970 of the last user write; for people and policies.
    pub written_ns: I64,
    /// Version of the inode.
    pub version: U32,
    /// Stored bytes.
    pub length: U32,
}

/// A segment that may be cleaned.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Usage {
    /// Live bytes, never less than there are.
    pub live_bytes: U64,
    /// Youngest user write, nanoseconds since 1970.
    pub newest_ns: I64,
    /// Its number.
    pub segment: U32,
    /// Zero.
    pub spare: U32,
}

/// How cleaning stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Standing {
    /// Clean segments.
    pub clean: U64,
    /// Below this many, writers wait.
    pub floor: U64,
    /// Below this many, the mount's own cleaner begins.
    pub low: U64,
    /// It stops at this many.
    pub high: U64,
    /// Bytes of the log that users have taken since the mount.
    pub used_bytes: U64,
    /// Nanoseconds since the last request of a user.
    pub idle_ns: U64,
    /// The volume's clock, nanoseconds since 1970.
    pub now_ns: I64,
    /// Bytes of a segment that can be counted on.
    pub segment_bytes: U64,
    /// Segments of the volume.
    pub segments: U64,
    /// Somebody waits for room.
    pub waiting: U64,
}

/// What became of blocks that were to be moved.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct Marked {
    /// So many of the request have been dealt with; the others are to be sent
    /// again.
    pub done: U32,
    /// Of these, moved or put down for the next checkpoint.
    pub moved: U32,
    /// Of these, no block of a segment that the cleaner has claimed.
    pub unknown: U32,
    /// Live blocks whose checksum is wrong: nothing was moved, and their
    /// segment is left alone from now on.
    pub damaged: U32,
}

/// What a cleaner asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How cleaning stands; the cleaner is alive, or new if its number is 0.
    Wait {
        /// What it calls its policy: letters, digits and `-`.
        policy: String,
    },
    /// Segments that may be cleaned, from this number on.
    Usage {
        /// The first.
        from: u32,
    },
    /// Claims a segment and asks what lives in it.
    Bmapv {
        /// Which.
        segment: u32,
        /// Where to go on; 0 at first.
        from: u32,
    },
    /// Moves these blocks.
    Markv {
        /// The oldest first, instead of as they are listed.
        sorted: bool,
        /// Which.
        blocks: Vec<Block>,
    },
    /// Declares a claimed segment done.
    Segclean {
        /// Which.
        segment: u32,
    },
    /// Lets go of a claimed segment.
    Release {
        /// Which.
        segment: u32,
    },
    /// The cleaner ends.
    Leave,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `Wait`.
    Standing(Standing),
    /// To `Usage`.
    Usage {
        /// They.
        segments: Vec<Usage>,
        /// Where the next page begins, if there is one.
        next: Option<u32>,
    },
    /// To `Bmapv`.
    Blocks {
        /// They.
        blocks: Vec<Block>,
        /// Where to go on, if there is more.
        next: Option<u32>,
    },
    /// To `Markv`.
    Marked(Marked),
    /// To the others.
    Done,
}

/// A message that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(&'static str);

/// A cursor's number for "no more".
const END: u64 = u64::MAX;

fn number(at: U64) -> Result<u32, Malformed> {
    u32::try_from(at.get()).map_err(|_| Malformed("a number out of range"))
}

fn cursor(at: U64) -> Result<Option<u32>, Malformed> {
    match at.get() {
        END => Ok(None),
        _ => number(at).map(Some),
    }
}

/// `count` records from the start of `bytes`.
fn records<T: FromBytes + Immutable + KnownLayout + Copy>(
    bytes: &[u8],
    count: u32,
    most: usize,
) -> Result<Vec<T>, Malformed> {
    let count = count as usize;
    if count > most {
        return Err(Malformed("too many records"));
    }
    let Ok((found, _)) = <[T]>::ref_from_prefix_with_elems(bytes, count) else {
        return Err(Malformed("records beyond the end"));
    };
    Ok(found.to_vec())
}

fn header(bytes: &[u8]) -> Result<(Header, &[u8]), Malformed> {
    let (header, rest) =
        Header::read_from_prefix(bytes).map_err(|_| Malformed("shorter than its header"))?;
    if header.magic.get() != MAGIC {
        return Err(Malformed("not of a cleaner"));
    }
    if header.version.get() != VERSION {
        return Err(Malformed("of another version"));
    }
    Ok((header, rest))
}

fn message(call: u16, cleaner: u64, at: u64, count: usize, flags: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        magic: MAGIC.into(),
        version: VERSION.into(),
        call: call.into(),
        cleaner: cleaner.into(),
        at: at.into(),
        count: (count as u32).into(),
        flags: flags.into(),
    };
    [header.as_bytes(), body].concat()
}

impl Request {
    /// Reads a request, and the number of the cleaner it is from.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<(u64, Request), Malformed> {
        let (header, rest) = header(bytes)?;
        let count = header.count.get();
        let request = match header.call.get() {
            1 => {
                let name: Vec<u8> = records(rest, count, NAME_BYTES)?;
                let fits = |&b: &u8| b.is_ascii_alphanumeric() || b == b'-';
                if name.is_empty() || !name.iter().all(fits) {
                    return Err(Malformed("a policy's name has letters, digits and `-`"));
                }
                let policy = name.into_iter().map(char::from).collect();
                Request::Wait { policy }
            }
            2 => Request::Usage {
                from: number(header.at)?,
            },
            3 => Request::Bmapv {
                segment: number(header.at)?,
                from: count,
            },
            4 => Request::Markv {
                sorted: match header.flags.get() {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed("unknown flags")),
                },
                blocks: records(rest, count, BLOCKS)?,
            },
            5 => Request::Segclean {
                segment: number(header.at)?,
            },
            6 => Request::Release {
                segment: number(header.at)?,
            },
            7 => Request::Leave,
            _ => return Err(Malformed("an unknown call")),
        };
        Ok((header.cleaner.get(), request))
    }

    /// As bytes, from this cleaner.
    pub fn encode(&self, cleaner: u64) -> Vec<u8> {
        let plain = |call, at: u32, count| message(call, cleaner, at.into(), count, 0, &[]);
        match self {
            Request::Wait { policy } => message(1, cleaner, 0, policy.len(), 0, policy.as_bytes()),
            Request::Usage { from } => plain(2, *from, 0),
            Request::Bmapv { segment, from } => plain(3, *segment, *from as usize),
            Request::Markv { sorted, blocks } => {
                let flags = u32::from(*sorted);
                message(4, cleaner, 0, blocks.len(), flags, blocks.as_bytes())
            }
            Request::Segclean { segment } => plain(5, *segment, 0),
            Request::Release { segment } => plain(6, *segment, 0),
            Request::Leave => plain(7, 0, 0),
        }
    }
}

impl Answer {
    /// Reads an answer, and the number of the cleaner it is for.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<(u64, Answer), Malformed> {
        let (header, rest) = header(bytes)?;
        let count = header.count.get();
        let short = Malformed("shorter than it should be");
        let answer = match header.call.get() {
            1 => {
                let (standing, _) = Standing::read_from_prefix(rest).map_err(|_| short)?;
                Answer::Standing(standing)
            }
            2 => Answer::Usage {
                segments: records(rest, count, USAGES)?,
                next: cursor(header.at)?,
            },
            3 => Answer::Blocks {
                blocks: records(rest, count, BLOCKS)?,
                next: cursor(header.at)?,
            },
            4 => Answer::Marked(Marked::read_from_prefix(rest).map_err(|_| short)?.0),
            5 => Answer::Done,
            _ => return Err(Malformed("an unknown answer")),
        };
        Ok((header.cleaner.get(), answer))
    }

    /// As bytes, for this cleaner.
    pub fn encode(&self, cleaner: u64) -> Vec<u8> {
        let next = |next: &Option<u32>| next.map_or(END, u64::from);
        match self {
            Answer::Standing(standing) => message(1, cleaner, 0, 1, 0, standing.as_bytes()),
            Answer::Usage { segments, next: at } => {
                message(2, cleaner, next(at), segments.len(), 0, segments.as_bytes())
            }
            Answer::Blocks { blocks, next: at } => {
                message(3, cleaner, next(at), blocks.len(), 0, blocks.as_bytes())
            }
            Answer::Marked(marked) => message(4, cleaner, 0, 1, 0, marked.as_bytes()),
            Answer::Done => message(5, cleaner, 0, 0, 0, &[]),
        }
    }
}

#[cfg(test)]
mod tests;
