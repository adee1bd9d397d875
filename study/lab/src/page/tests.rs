//! The page of results that were run at the tiny size.

use super::*;
use crate::experiments::{Context, Shard, named, run};
use crate::report::{Curve, Picture, Verdict};

fn results(out: &Path, id: &str) {
    let context = Context::tiny();
    let quiet = |_, _| {};
    run(named(id).unwrap(), &context, Shard::WHOLE, 1, out, &quiet).unwrap();
}

#[test]
fn everything_is_on_the_page_and_nothing_is_loaded() {
    let out = tempfile::tempdir().unwrap();
    results(out.path(), "R3c");
    let page = page(out.path()).unwrap();
    for claim in claims::all() {
        assert!(
            page.contains(&format!("id=\"{}\"", claim.id)),
            "{}",
            claim.id
        );
        assert!(page.contains(&format!("href=\"#{}\"", claim.id)));
    }
    assert!(page.contains("quick run only") && page.contains("not built"));
    assert!(page.contains("download=\"R3c-data.csv\" href=\"data:text/csv;base64,"));
    for (start, name) in [("href=\"", "link"), ("src=\"", "source")] {
        for rest in page.split(start).skip(1) {
            assert!(
                rest.starts_with(['#']) || rest.starts_with("data:"),
                "a {name}: {rest:.60}"
            );
        }
    }
    for loads in ["<script", "<link", "@import", "url(", "http:", "https:"] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert_eq!(page, super::page(out.path()).unwrap(), "the same bytes");
}

#[test]
fn elements_are_closed_and_tables_have_headers() {
    let out = tempfile::tempdir().unwrap();
    results(out.path(), "R3c");
    let page = page(out.path()).unwrap();
    for name in [
        "table", "tr", "td", "figure", "svg", "article", "section", "details", "ul", "p",
    ] {
        let opened =
            page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
        assert_eq!(
            opened,
            page.matches(&format!("</{name}>")).count(),
            "{name}"
        );
    }
    for table in page.split("<table").skip(1) {
        let head = table.split("</thead>").next().unwrap();
        assert!(head.contains("<caption>") && head.contains("scope=\"col\""));
    }
    for drawing in page.split("<svg ").skip(1) {
        let attributes = drawing.split('>').next().unwrap();
        let hidden = attributes.contains("aria-hidden");
        assert!(
            hidden || attributes.contains("aria-labelledby"),
            "{attributes}"
        );
    }
}

#[test]
fn verdicts_decide_what_is_said() {
    let out = tempfile::tempdir().unwrap();
    let place = out.path().join("R3c");
    std::fs::create_dir(&place).unwrap();
    let picture = Picture {
        title: "t".into(),
        x: "x".into(),
        y: "y".into(),
        y_max: None,
        curves: vec![Curve::named("a", vec![(1.0, 2.0)])],
        references: Vec::new(),
    };
    crate::report::write_json(&place.join("picture.json"), &picture).unwrap();
    std::fs::write(place.join("data.csv"), "a,b\n").unwrap();
    std::fs::write(place.join("picture.svg"), "<svg/>").unwrap();
    let status = |passes: [bool; 2]| {
        let verdict = |pass| Verdict::of("<claim>", "e", "m".into(), pass);
        let report = crate::experiments::Report {
            experiment: "R3c".into(),
            seed: 7,
            small: false,
            seeds: None,
            segments: None,
            traces: false,
            version: "0".into(),
            verdicts: vec![
                verdict(passes[0]),
                verdict(passes[1]),
                verdict(false).beside_the_claim(true),
                verdict(true).on_todays_devices(),
            ],
        };
        crate::report::write_json(&place.join("verdict.json"), &report).unwrap();
        page(out.path()).unwrap()
    };
    let good = status([true, true]);
    assert!(
        good.contains("<strong>1</strong> reproduced"),
        "what stands beside does not count"
    );
    assert!(good.contains("And today?") && good.contains("Beside the claim (1)"));
    assert!(good.contains("&lt;claim&gt;") && !good.contains("<claim>"));
    assert!(good.contains("varve lab run R3c --seed 7"));
    let bad = status([true, false]);
    assert!(bad.contains("<strong>1</strong> not reproduced") && bad.contains("1 of 2 parts hold"));
    let changed = |change: fn(&mut crate::experiments::Report)| {
        let path = place.join("verdict.json");
        let bytes = std::fs::read(&path).unwrap();
        let mut report = serde_json::from_slice(&bytes).unwrap();
        change(&mut report);
        crate::report::write_json(&path, &report).unwrap();
        page(out.path()).unwrap()
    };
    status([true, true]);
    let one = changed(|report| report.seeds = Some(1));
    assert!(one.contains("<strong>1</strong> quick run only") && one.contains("fewer than five"));
    status([true, true]);
    let half = changed(|report| report.verdicts[1].needs = Some("T1: <x>".into()));
    assert!(half.contains("<strong>1</strong> reproduced") && half.contains("1 underdetermined"));
    assert!(half.contains("not given: T1: &lt;x&gt;"));
    let open = changed(|report| report.verdicts[0].needs = Some("T2: y".into()));
    // L5 and W7 say so without an experiment, and count.
    let said = crate::claims::all()
        .filter(|claim| claim.needs.is_some())
        .count();
    assert!(open.contains(&format!("<strong>{}</strong> underdetermined", said + 1)));
    status([true, true]);
    let none = changed(|report| report.verdicts.retain(|verdict| verdict.beside));
    assert!(none.contains("<strong>1</strong> no part measured"));
    // N4 once was L1, which is another claim.
    let old = out.path().join("L1");
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("verdict.json"), "[]").unwrap();
    assert_eq!(page(out.path()).unwrap(), none);
    std::fs::write(place.join("verdict.json"), "{").unwrap();
    let error = page(out.path()).unwrap_err().to_string();
    assert!(error.contains("verdict.json"), "{error}");
    assert!(page(&out.path().join("nowhere")).is_err());
}
