//! Tests of the catalogue against the statistics, and of the format against its rules.

use super::catalogue::LEFT_OUT;
use super::*;
use crate::cli::stats;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use varve::admin::{self, Statistics, Tree};
use varve::{Layout, Volume, VolumeOptions};

/// The statistics of a mount, and of volumes of the other layouts.
fn everything() -> [Value; 3] {
    let directory = tempfile::tempdir().unwrap();
    let of = |layout: Layout| {
        let path = directory.path().join(format!("{layout:?}"));
        let options = VolumeOptions::new().layout(layout).size(16 << 20).clone();
        let volume: Volume = options.create(&path).unwrap();
        volume.write("/f", "text").unwrap();
        volume.sync().unwrap();
        let value = match admin::tree(&volume) {
            Tree::Log(fs) => {
                let mut all = stats::describe(&Statistics::of(fs));
                let verifier = admin::verifier(&volume);
                stats::add_health(&mut all, fs.layout(), verifier);
                all
            }
            Tree::VirtualLog(fs) => stats::describe_virtual_log(fs),
            Tree::InPlace(fs) => stats::describe_in_place(fs),
        };
        volume.close().unwrap();
        value
    };
    let mut log = of(Layout::Log);
    let job = json!(varve_fsck::verify::Progress::default());
    for name in ["verification", "scrub"] {
        log[name] = job.clone();
    }
    // Counters of the front end: crates/core/cli/tests/metrics.rs tests them live.
    for name in [
        "requests_failed",
        "requests_malformed",
        "read_bytes",
        "written_bytes",
    ] {
        log[name] = 0.into();
    }
    log["transactions"]["aborted_by"] = json!({"timeout": 1});
    log["requests"] = json!({"create": 2, "write": 5});
    log["latency"] = json!({"read": {"sum_us": 7, "steps": [1, 0, 0, 2]}});
    [log, of(Layout::VirtualLog), of(Layout::InPlace)]
}

/// Collects the paths of all numbers.
fn numbers(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                numbers(member, &format!("{path}{dot}{name}"), into);
            }
        }
        Value::Number(_) => drop(into.insert(path.to_owned())),
        _ => {}
    }
}

#[test]
fn the_catalogue_knows_every_number_and_nothing_else() {
    let all = everything();
    let mut left = BTreeSet::new();
    for value in &all {
        numbers(value, "", &mut left);
    }
    for known in metrics().map(|m| m.path).chain(LEFT_OUT) {
        let found: usize = all.iter().map(|v| find(known, vec![v]).len()).sum();
        let is_front_end = known == "requests_total";
        assert!(found > 0 || is_front_end, "nothing has `{known}`");
        // A label's value may have dots of its own.
        let (begin, end) = known.split_once('*').unwrap_or((known, ""));
        left.retain(|path| match known.contains('*') {
            true => !(path.starts_with(begin) && (end.is_empty() || path.ends_with(end))),
            false => path != known,
        });
    }
    assert_eq!(left, BTreeSet::new(), "what are these called?");
}

#[test]
fn names_follow_the_conventions() {
    let mut names = BTreeSet::from(["up", "build_info"]);
    for metric in metrics() {
        let Metric {
            name,
            path,
            kind,
            help,
            label,
        } = *metric;
        assert!(names.insert(name), "{name} twice");
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(fine) && label.chars().all(fine), "{name}");
        assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
        assert_eq!(path.contains('*'), !label.is_empty(), "{path}");
        assert!(
            help.ends_with('.') && !help.contains(['\\', '\n']),
            "{name}"
        );
        let units = ["ns", "us", "ms", "kib", "percent"];
        assert!(!name.split('_').any(|word| units.contains(&word)), "{name}");
        assert_eq!(
            metric.is_nanoseconds(),
            name.contains("_seconds") && kind != Kind::Histogram
        );
    }
}

/// Parses a line of samples: the metric, its labels as written, the number.
fn parse(line: &str) -> (&str, &str, f64) {
    let (name, rest) = line.split_once('{').unwrap();
    let (labels, number) = rest.rsplit_once("} ").unwrap();
    (name, labels, number.parse().unwrap())
}

/// The rules of the format: each metric in one piece with its help and type before it,
/// and no line of samples twice.
#[test]
fn the_text_is_that_of_the_format() {
    let [log, virtual_log, in_place] = everything();
    let answers = [
        (PathBuf::from("/a \"b\"\\\n"), Some(log)),
        (PathBuf::from("/v"), Some(virtual_log)),
        (PathBuf::from("/i"), Some(in_place)),
        (PathBuf::from("/gone"), None),
    ];
    let text = text(&answers);
    assert!(text.ends_with('\n'));
    let (mut types, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let (mut helped, mut current) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split(' ').next().unwrap().to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped);
            name.clone_into(&mut current);
            assert_eq!(
                types.insert(name.to_owned(), kind.to_owned()),
                None,
                "{name} twice"
            );
        } else {
            let (name, labels, number) = parse(line);
            let suffix = name.strip_prefix(current.as_str()).unwrap_or("?");
            let allowed = match types[&current].as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                _ => suffix.is_empty(),
            };
            assert!(allowed && number >= 0.0, "{line}");
            assert!(seen.insert(format!("{name}{{{labels}")), "twice: {line}");
        }
    }
    assert_eq!(types.len(), metrics().count() + 2);
    let has = |line: &str| assert!(text.contains(&format!("\n{line}\n")), "{line}\n{text}");
    has(r#"varve_up{target="/a \"b\"\\\n"} 1"#);
    has(r#"varve_up{target="/gone"} 0"#);
    has(r#"varve_requests_total{target="/a \"b\"\\\n",kind="write"} 5"#);
}
