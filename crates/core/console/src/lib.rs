//! Code that the programs `varve`, `varve-lab`, `varve-prove` and `varve-bench` share.
//!
//! Exit codes: 0 is success, 1 failure, 2 wrong usage, unless a command follows another
//! convention, such as that of fsck(8). A failure is one line on stderr: what happened,
//! to which object, and what to do next. Logs are written to stderr, results to stdout.

pub mod output;
pub mod size;

pub use output::{Failure, Outcome};
