//! What comes out: statistics, verdicts, data files, pictures.

#[cfg(test)]
pub(crate) mod asked;
mod files;
mod picture;
mod statistics;
mod verdict;

pub use files::{write_csv, write_json};
pub use picture::{Curve, Picture};
pub use statistics::{Summary, bimodality, deviation_of_batches, mean, modes, summaries};
pub use verdict::Verdict;
