//! A record store in the benchmark's directory, for the workloads that are programs on
//! one.

use crate::bench::Bench;
use crate::bench::target::{Fault, Outcome, Target};
use std::sync::Arc;
use varve_tp::storage::Storage;
use varve_tp::{Environment, Error, Options};

/// What the store keeps in memory itself: little, as the file system is measured.
const CACHE_BYTES: usize = 256 << 10;

/// The directory that holds it.
pub fn folder<T: Target>(bench: &Bench<'_, T>) -> Outcome<Arc<dyn Storage>> {
    let path = bench.path(format_args!("store"));
    bench.target.make_dir(&path)?;
    bench.target.storage(&path)
}

/// The store, with pages of so many bytes; `told` tells it more.
pub fn environment(
    files: &Arc<dyn Storage>,
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
        .open_storage(Arc::clone(files))
        .map_err(failed)
}

pub fn failed(error: Error) -> Fault {
    match error {
        Error::Damaged { .. } => Fault::Data(error.to_string()),
        error => Fault::System(error.to_string()),
    }
}
