//! Bytes at addresses: the lowest layer of Varve.
//!
//! All other crates read and write through [`Device`] and read the time through
//! [`Clock`]. This crate does not know about files of the file system.
//!
//! | module | contents |
//! |---|---|
//! | [`device`] | the [`Device`] trait and the contract about durability |
//! | [`clock`] | the host's clocks, and a virtual one |
//! | [`mod@file`] | image files and block devices, direct or buffered, locked whole |
//! | [`memory`] | sparse memory whose images fork in well under a microsecond |
//! | [`recorder`] | a device that records the trace of its requests |
//! | [`crash`] | the images a power cut may leave behind, from such a trace |
//! | [`fault`] | a device that misbehaves according to a plan |
//! | [`striped`] | several devices as one, with requests in parallel |
//! | [`sync`] | locks and threads for all crates, replaceable by a model checker's |
//! | [`workers`] | threads that serve a queue until it is dropped |
//! | [`lanes`] | a set of values, one of which each thread uses |
//! | [`host`] | identity of the host and of its processes |
//! | [`checksum`] | CRC-32C |
//! | [`aligned`], [`pool`], [`block`] | aligned buffers, a pool of them, and blocks |
//! | [`counters`] | counts of requests and bytes |
//!
//! Invariants:
//! - The same seed gives the same bytes, the same faults and the same crash states.
//!   Only [`HostClock`] reads the host's time.
//! - Addresses and lengths are supplied by callers that may have read them from a
//!   damaged medium: every request is checked against the geometry without overflow,
//!   and refused with an error.
//! - Only `file/ring.rs`, which lends memory to the kernel, and `slabs.rs`, which
//!   divides memory among blocks, contain `unsafe` code.

pub mod aligned;
pub mod block;
pub mod checksum;
pub mod clock;
pub mod counters;
pub mod crash;
pub mod device;
pub mod fault;
pub mod file;
mod forward;
mod hash;
pub mod host;
pub mod lanes;
pub mod memory;
pub mod pool;
mod random;
pub mod recorder;
pub mod request;
pub mod size;
mod slabs;
pub mod striped;
pub mod sync;
pub mod workers;

pub use aligned::*;
pub use block::*;
pub use checksum::*;
pub use clock::*;
pub use counters::*;
pub use crash::*;
pub use device::*;
pub use fault::*;
pub use file::*;
pub use lanes::*;
pub use memory::*;
pub use pool::*;
pub use recorder::*;
pub use request::*;
pub use striped::*;
pub use workers::*;
