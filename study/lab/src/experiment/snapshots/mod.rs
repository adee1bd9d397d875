//! What snapshots cost, and what they make possible: S1 to S3.

mod model;
mod s1;
mod s2;
mod s3;

pub use s1::S1;
pub use s2::S2;
pub use s3::S3;
