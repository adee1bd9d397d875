//! Segments outside of the log: their archive, their form in transit, and the environment
//! to which they belong.

mod archiver;
pub(crate) mod identity;
mod piece;

pub(crate) use archiver::{Archiver, is_of, is_segment, name, read, segments};
pub(crate) use piece::{Piece, Position, look as look_at_piece, walk};
