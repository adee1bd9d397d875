//! What the small abstract models of the log have in common: `crate::heads`
//! and `crate::holes`.
//!
//! A model says what its device keeps, what its writer and recovery do, and
//! what they promise; the device that loses what was not flushed is in
//! [`medium`], the search through every short story and every crash in
//! [`mod@explore`].

pub mod explore;
pub mod medium;

pub use explore::{Explored, Model, explore};
pub use medium::{Medium, Place, Storage, Testimony, is_contradicted};
