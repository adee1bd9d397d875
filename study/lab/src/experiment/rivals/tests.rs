//! What claims a difference fails where there is none, and the other way round.

use super::super::named;
use super::super::tests::tiny::tiny;
use super::*;

/// The curves of an experiment.
fn series_of(id: &str) -> Vec<String> {
    let rows = tiny(id).rows.iter();
    rows.map(|row| row.series.clone()).collect()
}

/// How many verdicts fail if each curve is so many times as fast as others, and how
/// many there are.
fn failing(id: &str, series: &[String], faster: impl Fn(&str) -> f64) -> (usize, usize) {
    // Every place of a curve that verdicts ask for.
    let steps = (0..33).map(f64::from);
    let places: Vec<f64> = steps
        .chain((5..16).map(|step| f64::from(1 << step)))
        .chain([48.0, 60.0, 70.0, 80.0, 90.0, 100_000.0])
        .collect();
    const RATES: [&str; 6] = [
        "files_per_s",
        "kb_per_s",
        "read_kb_s",
        "write_kb_s",
        "tps",
        "fresh_tps",
    ];
    const TIMES: [&str; 3] = ["s", "scan_s", "comparing_s"];
    const OTHERS: [&str; 6] = [
        "seen",
        "log_bytes",
        "bytes",
        "cleaned",
        "moved_bytes",
        "cleaner_share",
    ];
    let mut rows = Vec::new();
    for series in series {
        let times = faster(series);
        let rates = RATES.map(|what| (what, 100.0 * times));
        let seconds = TIMES.map(|what| (what, 100.0 / times));
        let others = OTHERS.map(|what| (what, 100.0));
        for &x in &places {
            let row = Row::new(series.as_str(), x, 1);
            let all = rates.iter().chain(&seconds).chain(&others);
            rows.push(all.fold(row, |row, (what, value)| row.with(what, *value)));
        }
    }
    let verdicts = (named(id).unwrap().verdicts)(&rows);
    let failing = verdicts.iter().filter(|verdict| !verdict.pass).count();
    (failing, verdicts.len())
}

fn failing_if_equal(id: &str) -> (usize, usize) {
    failing(id, &series_of(id), |_| 1.0)
}

/// The same if all are equally fast, and then if each of `fast` in turn is
/// twice as fast as all others.
fn failing_if_twice(id: &str, fast: &[&str]) -> Vec<(usize, usize)> {
    let series = series_of(id);
    let twice = |one: &str| failing(id, &series, |series| if series == one { 2.0 } else { 1.0 });
    std::iter::once("nobody")
        .chain(fast.iter().copied())
        .map(twice)
        .collect()
}

#[test]
fn ten_million_instructions_are_a_second_of_the_hp() {
    assert_eq!(HP_380.cycles_of(10_000_000), HP_380.hz());
}

#[test]
fn what_claims_a_difference_fails_where_there_is_none() {
    assert_eq!(failing_if_equal("R1"), (6, 9));
    assert_eq!(failing_if_equal("R2"), (6, 6));
    assert_eq!(failing_if_equal("L1"), (6, 14));
    assert_eq!(failing_if_equal("L4"), (17, 23));
    assert_eq!(failing_if_equal("B2"), (13, 17));
    assert_eq!(failing_if_equal("B3"), (10, 12));
    assert_eq!(failing_if_equal("B8"), (16, 16));
    assert_eq!(failing_if_equal("N3"), (12, 12));
    assert_eq!(failing_if_equal("L2"), (9, 20));
    assert_eq!(failing_if_equal("B7"), (9, 12));
    assert_eq!(failing_if_equal("X1"), (2, 4));
    assert_eq!(failing_if_equal("X3"), (3, 4));
}

#[test]
fn what_claims_that_systems_are_alike_fails_where_one_is_twice_as_fast() {
    // Four of B1's are of a difference, one of B4's, four are of the processor, one is
    // underdetermined.
    let b1 = failing_if_twice("B1", &["EFS", "LFS", "raw"]);
    assert_eq!(b1, [(4, 10), (6, 10), (6, 10), (10, 10)]);
    let b4 = failing_if_twice("B4", &["LFS", "EFS", "FFS"]);
    assert_eq!(b4, [(6, 10), (10, 10), (10, 10), (6, 10)]);
    assert_eq!(failing_if_twice("B5", &["LFS"]), [(0, 4), (4, 4)]);
    // Seven queries of B6 in which the log is ahead, and two in which read-ahead is
    // ruinous; then it is ahead in all the others, too, and in joins whatever
    // comparing costs.
    assert_eq!(failing_if_twice("B6", &["LFS"]), [(9, 16), (9, 16)]);
}
