//! Accounts, and that verdicts can fail.

use super::*;

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
