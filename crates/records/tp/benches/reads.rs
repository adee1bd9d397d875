//! Point reads of records in memory, for comparison with LMDB (`scripts/bench-reads.sh`):
//! the same workload, the same line of JSON. Random keys of four bytes, values of 100;
//! each transaction is a snapshot with `--gets` reads.
//!
//! `cargo bench -p varve-tp --bench reads -- DIRECTORY [--threads N] [--seconds S]
//! [--records N] [--gets N] [--locks]`

mod common;

use common::Arguments;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_tp::{Environment, Isolation, Options, TableDefinition};

const TABLE: TableDefinition<u32, [u8; 100]> = TableDefinition::new("records");

fn load(environment: &Environment, records: u32) {
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    let value = [7; 100];
    table
        .bulk_load((0..records).map(|key| (key, &value)))
        .unwrap();
    transaction.commit().unwrap();
    environment.checkpoint().unwrap();
}

/// The random number generator xorshift64*.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

struct Work {
    records: u32,
    gets: u64,
    isolation: Isolation,
}

impl Work {
    fn run(&self, environment: &Environment, thread: u64, stop: &AtomicBool) -> u64 {
        let (mut random, mut done) = (thread * 7919 + 1, 0);
        while !stop.load(Relaxed) {
            let transaction = environment.begin_read_at(self.isolation);
            let table = transaction.open_table(TABLE).unwrap();
            for _ in 0..self.gets {
                let key = (next(&mut random) % u64::from(self.records)) as u32;
                assert_eq!(table.get(key).unwrap().unwrap()[99], 7);
            }
            done += self.gets;
        }
        done
    }
}

fn main() {
    let arguments = Arguments::read();
    let threads = arguments.value("--threads", 1);
    let seconds = arguments.value("--seconds", 5);
    let work = Work {
        records: arguments.value("--records", 100_000) as u32,
        gets: arguments.value("--gets", 100),
        isolation: match arguments.has("--locks") {
            true => Isolation::Serializable,
            false => Isolation::Snapshot,
        },
    };
    let environment = Options::new()
        .memory(256 << 20)
        .open(arguments.directory())
        .unwrap();
    load(&environment, work.records);
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let (environment, work, stop) = (&environment, &work, &stop);
        let spawn = |thread| scope.spawn(move || work.run(environment, thread, stop));
        let readers: Vec<_> = (0..threads).map(spawn).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Relaxed);
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum()
    });
    println!(
        "{{\"system\":\"varve-tp\",\"threads\":{threads},\"gets\":{},\"locks\":{},\"reads_per_s\":{:.0}}}",
        work.gets,
        work.isolation == Isolation::Serializable,
        done as f64 / begun.elapsed().as_secs_f64(),
    );
    environment.close().unwrap();
}
