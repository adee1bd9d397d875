//! A number for each thread: the one of several places that it tries first, so that
//! threads seldom share a place.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use varve_device::sync::MODEL;

varve_device::sync::thread_local! {
    static HOME: Cell<Option<usize>> = const { Cell::new(None) };
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Returns this thread's place of `places`. Under a model checker all threads share one.
#[inline]
pub(crate) fn home(places: usize) -> usize {
    if MODEL {
        return 0;
    }
    let at = HOME.with(|home| {
        let at = home.get().unwrap_or_else(|| NEXT.fetch_add(1, Relaxed));
        home.set(Some(at));
        at
    });
    at % places
}
