//! The rows of the proof's table: each a kind of attack, in rounds, without end.
//!
//! A row runs rounds for the time that it is given. A round follows from the seed and its
//! number, so naming both repeats a failure; only `applications` and `histories` also
//! depend on threads. The tests run the same code at a fixed size; a row that cannot be
//! run from here names the command that runs it.

mod report;
mod rounds;

pub use report::{Broken, FaultCount, Report, RowReport};

use crate::failure::Failure;
use std::time::{Duration, Instant};

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Name of the unit that is counted.
    pub unit: &'static str,
    /// The test that runs it at CI size, or the only command.
    pub command: &'static str,
    /// The function of one round; `None` if it is only a test.
    pub round: Option<Round>,
}

/// Runs round `index` of `seed`, and counts its work, also on failure.
pub type Round = fn(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure>;

/// Every row, in the order of the table.
pub const ROWS: [Row; 18] = [
    Row {
        name: "crash-states",
        about: "power cuts at every write and flush of random workloads; unflushed writes \
                survive in any subset, torn at 512 and 4096 bytes",
        unit: "states",
        command: "cargo test --release -p varve-prove --test crashes",
        round: Some(rounds::crash_states),
    },
    Row {
        name: "traces",
        about: "the shortest stories that catch a missing rule of the log protocol",
        unit: "states",
        command: "cargo test --release -p varve-prove --test protocol_traces",
        round: Some(rounds::traces),
    },
    Row {
        name: "bounded",
        about: "every single operation on a small tree, then pairs, the power cut at every write",
        unit: "states",
        command: "cargo test --release -p varve-prove --test bounded",
        round: Some(rounds::bounded),
    },
    Row {
        name: "nested",
        about: "crashes during recovery and during the short life after it, three in a row",
        unit: "states",
        command: "cargo test --release -p varve-prove --test leftover",
        round: Some(rounds::nested),
    },
    Row {
        name: "virtual-log",
        about: "power cuts on VLFS: at random, where room is reused, with units of a sector, \
                and during recovery",
        unit: "states",
        command: "cargo test --release -p varve-prove --test virtual_log",
        round: Some(rounds::virtual_log),
    },
    Row {
        name: "io-errors",
        about: "faults that the device reports, at every request of a workload, once and sticky",
        unit: "runs",
        command: "cargo test --release -p varve-prove --test faults reported",
        round: Some(rounds::io_errors),
    },
    Row {
        name: "silent-faults",
        about: "lost, stale, misdirected, torn and damaged requests, and flushes that lie",
        unit: "runs",
        command: "cargo test --release -p varve-prove --test faults silent",
        round: Some(rounds::silent_faults),
    },
    Row {
        name: "bit-rot",
        about: "single bits of an unmounted or a dead volume, padding included",
        unit: "bits",
        command: "cargo test --release -p varve-prove --test faults decay",
        round: Some(rounds::bit_rot),
    },
    Row {
        name: "images",
        about: "mutated images, half of them with checksums repaired, mounted and used",
        unit: "images",
        command: "cargo test --release -p varve-prove --test images",
        round: Some(rounds::images),
    },
    Row {
        name: "enospc",
        about: "a volume filled to the last byte and emptied again, with the cleaner",
        unit: "cycles",
        command: "cargo test --release -p varve-prove --test full",
        round: Some(rounds::enospc),
    },
    Row {
        name: "space",
        about: "volumes of both layouts and of any shape, filled with anything, by up to twelve \
                threads, and emptied in any order, with kills and remounts between",
        unit: "cycles",
        command: "cargo test --release -p varve-prove --test space",
        round: Some(rounds::space),
    },
    Row {
        name: "model",
        about: "random operations against the naive model, and remounts",
        unit: "operations",
        command: "cargo test --release -p varve-prove --test reference",
        round: Some(rounds::model),
    },
    Row {
        name: "transactions",
        about: "power cuts at every write of commits of every kind, several in a group",
        unit: "states",
        command: "cargo test --release -p varve-prove --test transactions whole_or_absent",
        round: Some(rounds::transactions),
    },
    Row {
        name: "histories",
        about: "transactions in threads; dependencies between what they read and wrote \
                are searched for circles",
        unit: "transactions",
        command: "cargo test --release -p varve-prove --test transactions in_threads",
        round: Some(rounds::histories),
    },
    Row {
        name: "transactions-full",
        about: "transactions on volumes without room: refused as a whole, or they only remove",
        unit: "transactions",
        command: "cargo test --release -p varve-prove --test transactions full",
        round: Some(rounds::transactions_full),
    },
    Row {
        name: "planted-bugs",
        about: "mistakes planted in the log, all of which the rows above must catch",
        unit: "bugs",
        command: "cargo test --release -p varve-prove --features planted --test planted_log",
        round: None,
    },
    Row {
        name: "kill",
        about: "a server killed under load; what was synced is there",
        unit: "kills",
        command: "cargo test --release -p varve-cli --test mount what_was_synced",
        round: None,
    },
    Row {
        name: "applications",
        about: "SQLite, git, renaming over files, and a log with a manifest on a recorded \
                mount; the power is cut, and their own checkers look; needs /dev/fuse",
        unit: "states",
        command: "cargo test --release -p varve-prove --test applications",
        round: Some(rounds::applications),
    },
];

/// Returns the row with this name.
pub fn named(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// The amount of work of a row.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// Rounds from the first on, until this time has passed.
    Time(Duration),
    /// This round alone.
    Round(u64),
}

/// Number of failures after which a row ends, because more would be of the same kind.
const FAILURES: usize = 3;

impl Row {
    /// Runs the row; `watch` is called after every round. `None` if it is only a test.
    pub fn run(
        &'static self,
        seed: u64,
        extent: Extent,
        watch: &mut dyn FnMut(&RowReport),
    ) -> Option<RowReport> {
        let round = self.round?;
        let start = Instant::now();
        let mut done = RowReport::new(self);
        let mut index = match extent {
            Extent::Time(_) => 0,
            Extent::Round(index) => index,
        };
        loop {
            if let Err(failure) = round(seed, index, &mut done) {
                done.broken
                    .push(Broken::new(self.name, seed, index, &failure));
            }
            if done.skipped.is_some() {
                return Some(done);
            }
            done.rounds += 1;
            index += 1;
            done.seconds = start.elapsed().as_secs_f64();
            watch(&done);
            let over = match extent {
                Extent::Time(time) => start.elapsed() >= time,
                Extent::Round(_) => true,
            };
            if over || done.broken.len() >= FAILURES {
                return Some(done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_repeated_by_its_number() {
        for row in ROWS.iter().filter(|row| row.round.is_some()) {
            if matches!(row.name, "nested" | "traces" | "images") {
                continue; // too long for a test that proves little more
            }
            if matches!(row.name, "applications" | "histories") {
                continue; // also depends on threads
            }
            let run = || row.run(7, Extent::Round(1), &mut |_| {}).unwrap();
            let (first, second) = (run(), run());
            assert!(first.broken.is_empty(), "{:?}", first.broken);
            assert!(first.done > 0, "{} did nothing", row.name);
            assert_eq!(first.done, second.done, "{}", row.name);
            assert_eq!(first.faults, second.faults, "{}", row.name);
        }
    }
}
