//! Segments of the log outside of it: how they are kept, how they travel, and of which
//! environment they are.

mod archiver;
pub(crate) mod identity;
mod piece;

pub(crate) use archiver::{Archiver, is_of, is_segment, name, read, segments};
pub(crate) use piece::{Piece, Position, look as look_at_piece, walk};
