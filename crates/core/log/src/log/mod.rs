//! The parts of the log: items, cutting a group into partial segments, distribution among
//! heads, and the threads that write. `writer` appends with these.

pub(crate) mod build;
pub(crate) mod holes;
pub(crate) mod image;
pub(crate) mod item;
pub(crate) mod lives;
pub(crate) mod output;
pub(crate) mod placement;
pub(crate) mod plan;
mod state;

pub use crate::bytes::content::Content;
pub use holes::goes_into_holes;
pub use item::{GroupKind, LogItem, Placed, Source, Stamp};
pub use output::{Output, write_patiently};
pub use placement::Placement;
pub use plan::Room;
pub use state::LogState;
