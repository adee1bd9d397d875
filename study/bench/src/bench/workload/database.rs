//! A record store in the benchmark's directory, for the workloads that are programs on
//! one.

use crate::bench::Bench;
use crate::bench::target::{Fault, Outcome, Target};
use varve_tp::{Environment, Error, Options};

/// What the store keeps in memory itself: little, as the file system is measured.
const CACHE_BYTES: usize = 256 << 10;

/// Makes the directory that holds it. Answers its path.
pub fn folder<T: Target>(bench: &Bench<'_, T>) -> Outcome<String> {
    let path = bench.path(format_args!("store"));
    bench.target.make_dir(&path)?;
    Ok(path)
}

/// The store in this directory, with pages of so many bytes; `told` tells it more. While
/// none is open nothing of the directory is, so that it can be mounted anew.
pub fn environment<T: Target>(
    bench: &Bench<'_, T>,
    path: &str,
    page_bytes: u32,
    told: impl FnOnce(&mut Options) -> &mut Options,
) -> Outcome<Environment> {
    let mut options = Options::new();
    options
        .background(false)
        .page(page_bytes)
        .memory(CACHE_BYTES)
        .segment(1 << 20);
    told(&mut options)
        .open_storage(bench.target.storage(path)?)
        .map_err(failed)
}

pub fn failed(error: Error) -> Fault {
    match error {
        Error::Damaged { .. } => Fault::Data(error.to_string()),
        error => Fault::System(error.to_string()),
    }
}
