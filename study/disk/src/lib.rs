//! Disks with a clock: devices whose time is virtual and exact.
//!
//! A model says when; a device keeps the bytes. The two are separate, so that
//! an event-driven simulator can use a model without bytes, a real image can
//! be served at the speed of an old drive, and eager writing can ask how long
//! the head needs to reach a sector before it chooses one.
//!
//! | module | what it offers |
//! |---|---|
//! | [`geometry`] | zones, tracks, skew: where a sector is |
//! | [`seek`] | seek curves, measured or fitted to a data sheet |
//! | [`rotation`] | the platter's phase as a function of time |
//! | [`drive`](mod@drive), [`drives`] | a drive's parameters; the drives of the literature, with sources |
//! | [`mechanism`] | arm, head and track buffer serving requests: the model |
//! | [`queue`] | FCFS, SSTF, C-LOOK and SPTF over a model |
//! | [`disk`], [`array`](mod@array) | mechanical disks and striped arrays of them as devices |
//! | [`flash`] | an NVMe-like model and device |
//! | [`translation`] | what a flash translation layer writes beneath |
//! | [`zoned`], [`zones`] | sequential-write zones over any device, and their rules |
//! | [`times`] | where time went: overhead, seek, head switch, rotation, transfer |
//!
//! Invariants:
//! - Time is whole nanoseconds and moves only on the virtual clock. The same
//!   seed and requests give the same instants on every machine: floating point
//!   is used in seek curves alone, and there only operations that IEEE 754
//!   rounds exactly, each result rounded once to a nanosecond.
//! - Rotation does not drift: the edge of the `k`th of `n` slots of a revolution
//!   of `R` ns is at `floor(k R / n)`, whatever was read before it.
//! - What a request took is exactly the sum of the parts in [`times::Times`].
//! - A model never sees a byte, a device never makes up a time.

pub mod array;
pub mod disk;
pub mod drive;
pub mod drives;
pub mod flash;
pub mod geometry;
pub mod mechanism;
pub mod queue;
pub mod rotation;
pub mod seek;
pub mod times;
pub mod translation;
pub mod zoned;
pub mod zones;

pub use array::*;
pub use disk::*;
pub use drive::*;
pub use flash::*;
pub use geometry::*;
pub use mechanism::*;
pub use queue::*;
pub use rotation::*;
pub use seek::*;
pub use times::*;
pub use translation::*;
pub use zoned::*;
pub use zones::*;
