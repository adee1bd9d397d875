//! L3's verdicts on rows as the paper's figure has them, and on others.

use super::*;
use crate::experiments::tests::tiny::tiny;

/// Rows as the paper's figure 8 has them.
fn rows(change: impl Fn(&str, &str, f64) -> f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for profile in Profile::ALL {
        for tenths in TENTHS {
            let mut row = Row::new(profile.name(), years(tenths), 1);
            for name in names() {
                let usual = match (profile, name.ends_with("_64")) {
                    (Profile::News, true) => 0.71,
                    (Profile::News, false) => 0.8,
                    (_, true) => 0.86,
                    (_, false) => 0.93,
                };
                row = row.with(&name, change(profile.name(), &name, usual));
            }
            for (name, usual) in [("pairs_joined", 0.37), ("large_joined", 0.8)] {
                row = row.with(name, change(profile.name(), name, usual));
            }
            rows.push(row);
        }
    }
    rows
}

/// The figure itself.
pub(in crate::experiments) fn paper() -> Vec<Row> {
    rows(|_, _, usual| usual)
}

fn passes(change: impl Fn(&str, &str, f64) -> f64) -> Vec<bool> {
    verdicts(&rows(change)).iter().map(|v| v.pass).collect()
}

#[test]
fn the_papers_figures_pass() {
    assert_eq!(passes(|_, _, usual| usual), [true; 5]);
}

#[test]
fn each_verdict_can_fail() {
    let others_too_slow = |series: &str, _: &str, usual: f64| match series == "news" {
        true => usual,
        false => usual - 0.2,
    };
    assert!(!passes(others_too_slow)[0]);
    let unaged = |series: &str, name: &str, usual: f64| match series == "news" {
        true if !name.ends_with("joined") => 1.0,
        _ => usual,
    };
    assert!(!passes(unaged)[1]);
    let small_suffer = |_: &str, name: &str, usual: f64| match name.ends_with("_8") {
        true => 0.5,
        false => usual,
    };
    assert!(!passes(small_suffer)[2]);
    let scattered = |_: &str, name: &str, usual: f64| match name.ends_with("joined") {
        true => usual - 0.2,
        false => usual,
    };
    assert_eq!(passes(scattered)[3..], [false, false]);
}

/// Ten days of use, as the tiny size has them, in the place of years.
#[test]
fn a_file_system_that_is_hardly_used_fails() {
    let verdicts = &tiny("L3").verdicts;
    assert!(!verdicts[3].pass && !verdicts[4].pass, "{verdicts:?}");
}

/// What the verdicts rest on: a volume that has been used is slower than a new one,
/// and an allocator that is handed nothing but holes cannot hide it.
#[test]
fn holes_cost_time() {
    let group = 512 * 8 * KB;
    let holes = (0..512u64)
        .step_by(3)
        .map(|at| at * 8 * KB..(at + 1) * 8 * KB);
    let holed = FreeMap::new(8192, group, vec![holes.collect(); 12]).unwrap();
    let old = rates(&Context::tiny(), &holed, (64 * KB, 4 * KB * KB), 1).unwrap();
    let new = rates(
        &Context::tiny(),
        &emptied(&holed),
        (64 * KB, 4 * KB * KB),
        1,
    )
    .unwrap();
    assert!(old.read < 0.9 * new.read, "{} {}", old.read, new.read);
    assert!(
        old.create < 0.95 * new.create,
        "{} {}",
        old.create,
        new.create
    );
    let same = rates(
        &Context::tiny(),
        &emptied(&holed),
        (64 * KB, 4 * KB * KB),
        1,
    )
    .unwrap();
    assert!(
        (same.read, same.create) == (new.read, new.create),
        "seeds decide"
    );
}
