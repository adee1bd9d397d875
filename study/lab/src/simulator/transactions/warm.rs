//! The pool before a run: pages as the workload leaves them there.
//!
//! Pages drawn evenly fill it; then operations go on until they have replaced as
//! many, or asked for four times as many.

use super::Parameters;
use super::operations::{Left, Operations, Plan};
use super::pool::{Fetch, Pool};

/// See the module's head.
pub(super) fn warm(operations: &mut Operations, pool: &mut Pool, parameters: &Parameters) {
    let database = operations.database();
    let (pages, frames) = (database.pages, u64::from(database.frames(parameters)));
    for _ in 0..frames {
        let page = operations.random().below(u64::from(pages)) as u32;
        touch(pool, page);
    }
    let mut plan = Plan::default();
    let mut left = Left::default();
    let (mut fetches, mut misses) = (0, 0);
    while misses < frames && fetches < 4 * frames {
        if !operations.plan(&mut left, &mut plan) {
            left = operations.begin();
            continue;
        }
        for visit in &plan.visits {
            fetches += 1;
            misses += u64::from(touch(pool, visit.page));
        }
    }
}

/// Whether a page had to be read.
fn touch(pool: &mut Pool, page: u32) -> bool {
    let missed = pool.fetch(page) != Fetch::Hit;
    if missed {
        pool.arrived(page);
    }
    missed
}
