//! Shipping the log to a copy, and replaying it there (`docs/spec/stream.md`).
//!
//! Invariants:
//! - The stream has every partial segment after a mark, in order and without a gap; those
//!   of ordinary groups with their content.
//! - The mark of a copy's position is in the group that brought it there.

mod content;
mod error;
mod items;
mod replay;
mod ship;
mod stream;

mod trail;

pub use error::ShipError;
pub use items::Measures;
pub use replay::{Replay, Replayed};
pub use ship::Shipper;
pub use stream::{
    MAX_PAYLOAD_BYTES, Record, StreamHeader, StreamItem, StreamReader, StreamRecord, record_flags,
    record_kind,
};
