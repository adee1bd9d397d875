//! A restart behind a long log: TPC-B runs without checkpoints until the log has `--mib`
//! MiB, the process exits, and the next opening is measured, in time and memory.
//!
//! `cargo bench -p varve-tp --bench recovery -- DIRECTORY [--mib N] [--accounts N]
//! [--memory MIB] [--cold]`: one line of JSON. The sums must agree. `--cold` drops the
//! host's caches first, as after a power cut, and needs root.

mod common;

use common::Arguments;
use std::process::Command;
use std::time::{Duration, Instant};
use varve_tp::tpcb::{self, Store};
use varve_tp::{Durability, Options};

fn options(arguments: &Arguments) -> Options {
    let mut options = Options::new();
    options
        .memory((arguments.value("--memory", 64) as usize) << 20)
        .log(8 << 30);
    options
}

/// Fills the log, and exits without closing.
fn fill(arguments: &Arguments) -> ! {
    let log = arguments.value("--mib", 1024) << 20;
    let accounts = arguments.value("--accounts", 100_000) as u32;
    let mut options = options(arguments);
    options
        .open(arguments.directory())
        .unwrap()
        .load(accounts)
        .unwrap();
    options
        .checkpoint_after(u64::MAX)
        .durability(Durability::Buffered);
    let environment = options.open(arguments.directory()).unwrap();
    let before = environment.statistics().log_bytes;
    while environment.statistics().log_bytes - before < log {
        tpcb::run(&environment, accounts, 2, Duration::from_millis(100)).unwrap();
    }
    let last = environment.begin_write();
    last.commit_with(Durability::Durable).unwrap();
    std::process::abort();
}

/// Returns the peak memory of this process in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib >> 10)
}

fn main() {
    let arguments = Arguments::read();
    if arguments.has("--fill") {
        fill(&arguments);
    }
    let mut filler = Command::new(std::env::current_exe().unwrap());
    let died = filler.args(std::env::args_os().skip(1)).arg("--fill");
    assert!(!died.status().unwrap().success(), "it dies");
    if arguments.has("--cold") {
        assert!(Command::new("sync").status().unwrap().success());
        std::fs::write("/proc/sys/vm/drop_caches", "3").expect("root");
    }
    let begun = Instant::now();
    let environment = options(&arguments).open(arguments.directory()).unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    let peak = peak();
    let report = environment.recovery();
    let sums = environment.sums().unwrap();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    println!(
        "{{\"system\":\"varve-tp\",\"seconds\":{seconds:.2},\"log_mib\":{},\"records\":{},\
         \"redone\":{},\"page_reads\":{},\"peak_mib\":{peak}}}",
        report.log_bytes >> 20,
        report.records,
        report.redone,
        environment.statistics().page_reads,
    );
    environment.close().unwrap();
}
