//! The FUSE kernel protocol, version 7.45: structs, opcodes, flags.
//!
//! Everything is in host byte order and host alignment, as the kernel lays it
//! out. Sizes are checked at compile time.
//!
//! Source: `include/uapi/linux/fuse.h`.

mod flags;
mod incoming;
mod opcode;
mod outgoing;

pub(crate) use flags::*;
pub(crate) use incoming::*;
pub(crate) use opcode::Opcode;
pub(crate) use outgoing::*;

/// The protocol's major version.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version whose structs are declared here.
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version that is served: Linux 5.4. Every struct has had
/// its present size since.
pub(crate) const MINOR_MIN: u32 = 31;
/// The kernel's number for the root of a mount.
pub(crate) const ROOT_NODE: u64 = 1;
/// Largest payload of a read or a write: 64 pages. Every thread that serves
/// keeps buffers of this size; larger ones were no faster, and leave the
/// processor's cache between one copy and the next.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 256 << 10;
/// Bytes a request may have: headers and the largest payload. The kernel
/// refuses to fill a smaller buffer.
pub(crate) const REQUEST_BYTES: usize = MAX_PAYLOAD_BYTES + 4096;
