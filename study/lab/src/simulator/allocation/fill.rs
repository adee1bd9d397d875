//! The allocation test: extends, truncates, deletes and creates in the shares
//! of the workload, until a request for room cannot be satisfied (§3.2).
//!
//! A file that was deleted is made anew by the next request of another kind.

use super::requests::{Ask, Requests};
use super::{Assumptions, Load, OutOfRoom, PolicyKind, Population};

/// What the allocation test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filled {
    /// Requests of users until the end, those that need no room among them.
    pub requests: u64,
    /// Requests for room, those that make the files at first among them.
    pub asked: u64,
    /// True if a request was refused; false if there were too many requests.
    pub refused: bool,
    /// Part of what files hold that is not used.
    pub internal: f64,
    /// Part of the volume that is free.
    pub external: f64,
    /// Contiguous runs of a file, on average.
    pub runs_per_file: f64,
    /// Files that a reallocation at the end moves, and what is unused then, and
    /// runs of a file.
    pub reallocated: (usize, f64, f64),
}

/// Requests after which a volume is taken never to become full.
const TOO_MANY: u64 = 100_000_000;

/// Fills a volume until it refuses.
pub fn fill(load: Load, policy: PolicyKind, assumed: &Assumptions, seed: u64) -> Filled {
    let (mut population, made) = Population::new(load, policy, assumed, seed);
    let mut requests = Requests::new(&population, seed);
    let mut count = 0;
    let mut refused = made.is_err();
    while !refused && count < TOO_MANY {
        count += 1;
        let (file, ask) = requests.next();
        refused = step(&mut population, file, ask).is_err();
    }
    let mut filled = Filled {
        requests: count,
        asked: population.asked(),
        refused,
        internal: population.internal(),
        external: population.external(),
        runs_per_file: population.runs_per_file(),
        reallocated: (0, 0.0, 0.0),
    };
    let moved = population.reallocate();
    filled.reallocated = (moved, population.internal(), population.runs_per_file());
    filled
}

/// One request, without its data.
#[inline]
fn step(population: &mut Population, file: usize, ask: Ask) -> Result<(), OutOfRoom> {
    let there = population.files[file].bytes > 0;
    let request = || population.types[population.files[file].kind].request_bytes;
    match ask {
        Ask::Delete => population.delete(file),
        _ if !there => population.create(file)?,
        Ask::Read | Ask::Write => {}
        Ask::Extend => {
            let bytes = request();
            let bytes = population.draw(bytes);
            population.extend(file, bytes)?;
        }
        Ask::Truncate => {
            let bytes = request();
            let bytes = population.draw(bytes);
            population.truncate(file, bytes);
        }
    }
    Ok(())
}
