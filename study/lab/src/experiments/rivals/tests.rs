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
    assert_eq!(failing_if_equal("L1"), (9, 17));
    assert_eq!(failing_if_equal("L4"), (17, 23));
    assert_eq!(failing_if_equal("B2"), (13, 17));
    assert_eq!(failing_if_equal("B3"), (10, 12));
    assert_eq!(failing_if_equal("B8"), (16, 16));
    assert_eq!(failing_if_equal("N3"), (4, 12));
    assert_eq!(failing_if_equal("L2"), (9, 20));
    assert_eq!(failing_if_equal("B7"), (9, 12));
    assert_eq!(failing_if_equal("X1"), (2, 4));
    assert_eq!(failing_if_equal("X3"), (4, 5));
}

/// A log that updates in place: what the log is ahead in it is not.
#[test]
fn a_wrong_log_fails() {
    let files = |in_directory| Files {
        count: 100,
        bytes: 1024,
        in_directory,
    };
    let run = |machine: Machine, (series, _): Rival, layout: Layout| {
        let mut system = machine.with(layout).build(1).unwrap();
        rates(files(100), &Phase::SMALL, &mut *system, series, 1).unwrap()
    };
    let first = |id: &str, rows: &[Row]| (named(id).unwrap().verdicts)(rows)[0].pass;
    for (id, machine, log, ffs) in [
        ("R1", SUN_4, SPRITE_LFS, SUN_FFS),
        ("B2", HP_380, LFS, FFS),
        ("L4", SPARC_2, BSD_LFS, M1R2),
    ] {
        let in_place = run(machine, ffs, ffs.1);
        let pass = |layout| first(id, &[run(machine, log, layout), in_place.clone()].concat());
        assert!(pass(Layout::Lfs), "{id}");
        assert!(!pass(ffs.1), "{id}");
    }
}

/// A processor of a tenth of the cycles: shares of it are judged two-sided.
#[test]
fn a_wrong_processor_fails() {
    let files = Files {
        count: 100,
        bytes: 1024,
        in_directory: 100,
    };
    let pass = |effort: f64| {
        let machine = SPARC_2.of_processor(effort, 1.0);
        let mut system = machine.with(M1R2.1).build(1).unwrap();
        let rows = rates(files, &Phase::SMALL, &mut *system, M1R2.0, 1).unwrap();
        let verdicts = (named("L4").unwrap().verdicts)(&rows);
        let claim = "the processor is busy, create, FFS-m1r2";
        verdicts.iter().find(|v| v.claim == claim).unwrap().pass
    };
    assert!(pass(1.0) && !pass(0.5) && !pass(2.0));
}

#[test]
fn what_claims_that_systems_are_alike_fails_where_one_is_twice_as_fast() {
    // Five of B1's are of a difference, one of B4's, four are of the processor, one is
    // underdetermined.
    let b1 = failing_if_twice("B1", &["EFS", "LFS", "raw"]);
    assert_eq!(b1, [(5, 11), (7, 11), (7, 11), (11, 11)]);
    let b4 = failing_if_twice("B4", &["LFS", "EFS", "FFS"]);
    assert_eq!(b4, [(6, 10), (10, 10), (10, 10), (6, 10)]);
    assert_eq!(failing_if_twice("B5", &["LFS"]), [(0, 4), (4, 4)]);
    // Seven queries of B6 in which the log is ahead in table 7-8, three kinds with one in
    // which it is not even, and two in which read-ahead is ruinous.
    assert_eq!(failing_if_twice("B6", &["LFS"]), [(12, 16), (14, 16)]);
}
