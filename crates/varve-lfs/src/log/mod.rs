//! The log: where the next partial segment goes, and writing it.

mod build;
mod image;
mod output;
mod plan;
mod relocate;
mod writer;

pub use build::inode_place;
pub use output::{Output, write_patiently};
pub use writer::{GroupKind, LogItem, LogState, Placed};
