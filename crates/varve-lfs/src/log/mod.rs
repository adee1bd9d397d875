//! The log: where the next partial segment goes, and writing it.

mod account;
mod append;
mod build;
mod content;
mod holes;
mod image;
mod item;
mod lives;
mod output;
mod placement;
mod plan;
mod relocate;
mod resize;
mod writer;

pub use build::inode_place;
pub use content::Content;
pub use holes::{Holes, goes_into_holes};
pub use item::{GroupKind, LogItem, Placed};
pub use output::{Output, write_patiently};
pub use placement::Placement;
pub use plan::Room;
pub use writer::LogState;
