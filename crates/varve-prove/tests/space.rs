//! A volume can always be emptied.

use std::time::{Duration, Instant};
use varve_prove::random::{announce_seed, scaled};
use varve_prove::space::{Case, Logs, VirtualLogs, Volumes, run};

/// Seconds after which no case is begun any more; with `VARVE_PROVE_SCALE` more.
const SECONDS: u64 = 60;
/// Failures after which there is no point in going on.
const FAILURES_MAX: usize = 6;

/// So many cases, drawn one after the other; or that of the seed in
/// `VARVE_SPACE_CASE` alone, as failures name it.
fn cases(test: &str, volumes: &dyn Volumes, count: u64, seed: u64) {
    let seed = announce_seed(test, seed);
    let one = std::env::var("VARVE_SPACE_CASE").ok();
    let one = one.map(|text| text.parse().expect("a seed"));
    let drawn: Box<dyn Iterator<Item = Case>> = match one {
        Some(seed) => Box::new(std::iter::once(Case::draw(seed))),
        None => Box::new((0..count).map(|nth| Case::nth(seed, nth))),
    };
    let start = Instant::now();
    let (mut removed, mut failures) = (0, 0);
    for (nth, case) in drawn.enumerate() {
        let begun = start.elapsed();
        if begun > Duration::from_secs(scaled(SECONDS)) {
            eprintln!("{nth} of {count} cases were done in time");
            break;
        }
        match run(&case, volumes) {
            Ok(report) => removed += report.removed,
            Err(failure) => {
                eprintln!("case {nth}: {failure}");
                failures += 1;
                if failures >= FAILURES_MAX {
                    break;
                }
            }
        }
        if start.elapsed() - begun > Duration::from_secs(10) {
            eprintln!("case {nth} took {:?}: {case}", start.elapsed() - begun);
        }
    }
    eprintln!("{removed} removals in {:?}", start.elapsed());
    assert_eq!(failures, 0, "of the cases above");
    assert!(removed > 0);
}

#[test]
fn a_volume_on_the_virtual_log_can_always_be_emptied() {
    let test = "a_volume_on_the_virtual_log_can_always_be_emptied";
    cases(test, &VirtualLogs, scaled(24), 1);
}

#[test]
fn a_volume_on_the_log_can_always_be_emptied() {
    let test = "a_volume_on_the_log_can_always_be_emptied";
    // Seed 1 begins with cases of minutes: blocks of 64 KiB on 64 MiB, and cleaning
    // after every fourth removal.
    cases(test, &Logs, scaled(12), 3);
}

/// Drawn by `varve prove --rows space`: files of a few blocks far apart, whose
/// index nodes were a tenth to a third of what lived. Each takes up to a minute.
fn below_tall_indexes(seed: u64) {
    let report = run(&Case::draw(seed), &Logs).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.removed > 0);
}

#[test]
fn removed_below_tall_indexes() {
    below_tall_indexes(10146870817692241442);
}

#[test]
fn removed_below_more_of_them() {
    below_tall_indexes(16982695226642370522);
}

#[test]
fn removed_below_the_tallest() {
    below_tall_indexes(14612459110836239430);
}
