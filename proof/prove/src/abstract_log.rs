//! The common parts of the small abstract models of the log, `crate::heads` and
//! `crate::holes`.
//!
//! A model states what its device stores, what its writer and recovery do, and what they
//! promise. The device that loses unflushed writes is in [`medium`], the search through
//! all short stories and crashes in [`mod@explore`].

pub mod explore;
pub mod medium;

pub use explore::{Explored, Model, explore};
pub use medium::{Medium, Place, Storage, Testimony, is_contradicted};
