//! Requests and writers on a full volume.

mod patience;
mod write_errors;

pub(crate) use patience::Patience;
pub(crate) use write_errors::{ATTRIBUTES_VALID_S, MINOR_MIN, WriteErrors};
