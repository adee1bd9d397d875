//! Accounts, and that verdicts can fail.

use super::*;
use crate::experiments::tests::tiny::tiny;

const HOT: Case = Case {
    load: Load::Hot,
    percent: 80,
    policy: "greedy",
};

#[test]
fn the_total_is_the_product_and_the_log_is_n1_s() {
    let rows = on_flash(&Context::tiny(), HOT, &kinds(HOT)).unwrap();
    assert_eq!(rows.len(), 1 + 8 * 2 + 3 * 2, "one head has no streams");
    let log = &rows[0].values;
    // Records in place are a 64th of what a volume is written.
    assert!(log["log"] > log["data"] && log["log"] < 1.01 * log["data"]);
    assert_eq!(log["refused"], 0.0);
    for row in &rows[1..] {
        let of = |name: &str| row.values[name];
        assert!(
            (of("total") - of("log") * of("beneath")).abs() < 1e-9,
            "{row:?}"
        );
        assert!(of("beneath") >= 1.0, "{row:?}");
    }
}

#[test]
fn fewer_larger_zones_and_fewer_open_ones_are_legal_and_cost_more() {
    let case = Case {
        policy: "life-classes",
        ..HOT
    };
    let run = |segments, open| on_zones(&Context::tiny(), case, segments, open).unwrap();
    let of = |rows: &[Row], name: &str| rows[0].values[name];
    let (small, large) = (run(1, 0), run(4, 0));
    assert!(of(&large, "total") > of(&small, "total"));
    for rows in [&small, &large, &run(1, 2), &run(1, 1)] {
        assert_eq!(of(rows, "refused"), 0.0);
        assert!(of(rows, "resets") > 0.0);
        assert!(of(rows, "most_open") <= of(rows, "heads"));
    }
    assert_eq!(of(&run(1, 2), "heads"), 2.0);
    let full = Case {
        percent: 95,
        ..case
    };
    assert!(
        on_zones(&Context::tiny(), full, 64, 0).unwrap().is_empty(),
        "no room"
    );
}

#[test]
fn verdicts_fail_without_rows_and_when_zones_refuse() {
    let context = Context::tiny();
    let mut rows = on_flash(&context, HOT, &kinds(HOT)).unwrap();
    let plugging = Case {
        policy: "hole-plugging",
        ..HOT
    };
    rows.extend(on_flash(&context, plugging, &kinds(plugging)).unwrap());
    let claim = |rows: &[Row]| -> Vec<bool> {
        let verdicts = verdicts(rows).into_iter().filter(|verdict| !verdict.beside);
        verdicts.map(|verdict| verdict.pass).collect()
    };
    assert_eq!(claim(&rows), [true, true]);
    assert_eq!(claim(&[]), [false, false]);
    let mut missing = rows.clone();
    missing.retain(|row| !row.series.ends_with("28 % spare"));
    assert_eq!(claim(&missing), [false, true]);
    let mut refused = rows.clone();
    refused[0].values.insert("refused".into(), 1.0);
    assert_eq!(claim(&refused), [true, false]);
}

/// Flash, or a log, under the name of another.
#[test]
fn a_wrong_flash_or_log_fails() {
    let right = &tiny("N2").rows;
    let renamed = |wanted: (&str, f64), other: (&str, f64)| -> Vec<Row> {
        let measured = |row: &Row| {
            let before = row.series.strip_suffix(wanted.0)?;
            let like = format!("{before}{}", other.0);
            let found = |row: &&Row| row.series == like && row.x == other.1;
            right.iter().find(found).filter(|_| row.x == wanted.1)
        };
        let rows = right.iter().map(|row| Row {
            values: measured(row).unwrap_or(row).values.clone(),
            ..row.clone()
        });
        rows.collect()
    };
    let passes = |rows: &[Row], claim: &str| {
        let verdicts = verdicts(rows);
        let found = verdicts
            .iter()
            .find(|verdict| verdict.claim.contains(claim));
        found.unwrap_or_else(|| panic!("{claim}")).pass
    };
    let of = |eighths, told, apart| kind(eighths, SPARE[0], told, apart);
    let segments = |eighths| of(eighths, Told::Segments, false);
    for (claim, wanted, other) in [
        ("what flash adds at most", segments(8), segments(32)),
        ("what flash adds at least", segments(32), segments(8)),
        (
            "which segments are clean",
            segments(32),
            of(32, Told::Deaths, false),
        ),
        (
            "every death",
            of(32, Told::Deaths, false),
            of(32, Told::Nothing, false),
        ),
        (
            "a stream for each head",
            of(8, Told::Segments, true),
            segments(8),
        ),
    ] {
        let wrong = renamed(
            (&wanted.name(), wanted.ratio()),
            (&other.name(), other.ratio()),
        );
        assert!(!passes(&wrong, claim), "{claim}");
    }
    let plugging = renamed(("greedy", 1.0), ("hole-plugging", 1.0));
    assert!(passes(right, "writes that zones refuse"));
    assert!(!passes(&plugging, "writes that zones refuse"));
    // Flash with so little spare that it cannot be collected leaves no row.
    let whole = segments(8);
    let without: Vec<Row> = right
        .iter()
        .filter(|row| row.x != whole.ratio() || !row.series.ends_with(&whole.name()))
        .cloned()
        .collect();
    assert!(passes(right, "total amplification") && !passes(&without, "total amplification"));
    // A log that never writes into holes, under both names.
    let with = right.iter().filter(|row| row.series.starts_with("mounted"));
    let mut both: Vec<Row> = with.cloned().collect();
    both.extend(both.clone().into_iter().map(|row| Row {
        series: row.series.replace(", holes", ""),
        ..row
    }));
    for size in ["of 1 segments", "of 4 segments"] {
        assert!(!passes(&both, size), "{size}");
    }
}
