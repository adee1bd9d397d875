//! TPC-B on the record store, for comparison with Berkeley DB (`scripts/bench-tpcb.sh`):
//! the same workload, the same line of JSON. The sums must agree at the end.
//!
//! `cargo bench -p varve-tp --bench tpcb -- DIRECTORY [--threads N] [--seconds S]
//! [--no-sync] [--accounts N] [--memory MIB] [--in-place] [--never-torn]`

mod common;

use common::Arguments;
use std::time::Duration;
use varve_tp::tpcb::{self, Store};
use varve_tp::{Durability, Options, Placement, TornPages};

fn main() {
    let arguments = Arguments::read();
    let threads = arguments.value("--threads", 1);
    let seconds = arguments.value("--seconds", 10);
    let sync = !arguments.has("--no-sync");
    let mut options = Options::new();
    options.memory((arguments.value("--memory", 256) as usize) << 20);
    if !sync {
        options.durability(Durability::Buffered);
    }
    options.placement(
        match (arguments.has("--in-place"), arguments.has("--never-torn")) {
            (true, true) => Placement::InPlace(TornPages::Never),
            (true, false) => Placement::InPlace(TornPages::LogImages),
            (false, _) => Placement::Shadow,
        },
    );
    let environment = options.open(arguments.directory()).unwrap();
    let accounts = arguments.value("--accounts", 100_000) as u32;
    environment.load(accounts).unwrap();
    let before = environment.statistics();
    let run = tpcb::run(
        &environment,
        accounts,
        threads,
        Duration::from_secs(seconds),
    )
    .unwrap();
    // The checkpoint counts the pages that are still dirty.
    environment.checkpoint().unwrap();
    let after = environment.statistics();
    let pages = (after.page_writes - before.page_writes) * after.page_bytes;
    let log = after.log_bytes - before.log_bytes;
    let sums = environment.sums().unwrap();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    let count = run.times_ns.len().max(1) as u64;
    println!(
        "{{\"system\":\"varve-tp\",\"threads\":{threads},\"sync\":{sync},\"tps\":{:.0},\"again\":{},\
         \"p50_us\":{},\"p99_us\":{},\"longest_us\":{},\"log_bytes\":{},\"page_bytes\":{}}}",
        run.per_second(),
        run.again,
        run.quantile_us(0.5),
        run.quantile_us(0.99),
        run.quantile_us(1.0),
        log / count,
        pages / count,
    );
    environment.close().unwrap();
}
