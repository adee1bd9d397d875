//! Every experiment runs at its tiny size, in shards, twice the same.

mod distorted;
pub(super) mod tiny;
mod wrong;

use super::*;
use std::path::Path;
use tiny::{Tiny, recorded, tiny};

fn context(traces: Option<&Path>) -> Context {
    Context {
        traces: traces.map(Path::to_owned),
        ..Context::tiny()
    }
}

fn quiet(_: usize, _: usize) {}

#[test]
fn shards_share_the_work_and_the_last_reports() {
    let out = tempfile::tempdir().unwrap();
    let go = |shard: &str| {
        let shard = shard.parse().unwrap();
        let first = named("R3a").unwrap();
        run(first, &context(None), shard, 1, out.path(), &quiet).unwrap()
    };
    assert_eq!(go("1/2").missing, 1);
    let whole = go("2/2");
    assert_eq!(whole.missing, 0);
    assert!(!whole.verdicts.is_empty());
    assert!(
        whole.directory.ends_with("R3a-small"),
        "apart from real results"
    );
    for file in ["data.csv", "verdict.json", "picture.svg"] {
        assert!(whole.directory.join(file).exists(), "{file}");
    }
    let verdict = std::fs::read_to_string(whole.directory.join("verdict.json")).unwrap();
    let verdict: serde_json::Value = serde_json::from_str(&verdict).unwrap();
    assert_eq!(
        (&verdict["seed"], &verdict["small"]),
        (&1.into(), &true.into())
    );
    assert_eq!(verdict["version"], env!("CARGO_PKG_VERSION"));
    assert!(verdict["verdicts"][0]["claim"].is_string());
    // Nothing is run again, and nothing differs when it is.
    let point = whole.directory.join("point-0000.json");
    let first = std::fs::read(&point).unwrap();
    std::fs::remove_file(&point).unwrap();
    go("1/1");
    assert_eq!(std::fs::read(&point).unwrap(), first);
    for wrong in ["0/2", "3/2", "1", "a/b", "1/0"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
}

#[test]
fn scale_and_seeds_can_be_chosen_and_spoil_nothing() {
    let out = tempfile::tempdir().unwrap();
    let go = |id: &str, segments| {
        let context = Context {
            seeds: Some(2),
            segments: Some(segments),
            ..context(None)
        };
        let experiment = named(id).unwrap();
        run(experiment, &context, Shard::WHOLE, 1, out.path(), &quiet)
    };
    let seen = |segments| {
        let outcome = go("R3a", segments).unwrap();
        let expected = format!("R3a-{segments}-small");
        assert!(outcome.directory.ends_with(&expected), "{outcome:?}");
        let data = std::fs::read_to_string(outcome.directory.join("data.csv")).unwrap();
        let cost = data.lines().find(|line| line.contains("write_cost"));
        let cost = cost.unwrap().to_owned();
        assert!(cost.ends_with(",2"), "two seeds: {cost}");
        cost
    };
    assert_ne!(seen(150), seen(300));
    for (id, segments) in [("R3a", 149), ("R3a", 100_001), ("V1", 1000)] {
        let refused = go(id, segments);
        assert!(
            matches!(refused, Err(LabError::Segments(..))),
            "{refused:?}"
        );
    }
}

/// Little's law at work: nothing is removed before its time, and the volume
/// stays as full as it was.
#[test]
fn home_directories_stay_in_balance() {
    for row in &tiny("R4").rows {
        let Some(utilisation) = row.values.get("utilisation") else {
            continue;
        };
        assert!((0.71..0.79).contains(utilisation), "{row:?}");
        // Of some two hundred thousand; this volume is an eighth of theirs.
        assert!(row.values["removed_early"] < 100.0, "{row:?}");
    }
}

#[test]
fn every_experiment_reaches_verdicts_and_leaves_the_same_bytes_in_any_shards() {
    for experiment in ALL {
        let first = tiny(experiment.id);
        assert!(!first.verdicts.is_empty(), "{}", experiment.id);
        let data = first.files[0].lines();
        assert!(data.count() > 1, "{}", experiment.id);
        let again = Tiny::run(experiment, &["2/3", "3/3", "1/3"]);
        let differs = first.lines().zip(again.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "{}", experiment.id);
        assert_eq!(first.lines().count(), again.lines().count());
    }
}

#[test]
fn traces_are_replayed_under_every_policy() {
    let traces = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let n1 = named("n1").unwrap();
    let go = || {
        run(
            n1,
            &context(Some(traces.path())),
            Shard::WHOLE,
            1,
            out.path(),
            &quiet,
        )
    };
    assert!(matches!(
        go(),
        Err(LabError::Trace(crate::trace::TraceError::Io { .. }))
    ));
    let text = recorded(3000);
    std::fs::write(traces.path().join("tpcc-small.ascii"), &text).unwrap();
    let outcome = go().unwrap();
    let beaten = outcome
        .verdicts
        .iter()
        .find(|v| v.claim.starts_with("the oracle"));
    assert!(beaten.unwrap().pass, "{beaten:?}");
    // A point of other traces is not taken for one of these.
    let data = || std::fs::read_to_string(outcome.directory.join("data.csv")).unwrap();
    let before = data();
    std::fs::write(
        traces.path().join("tpcc-small.ascii"),
        format!("{text}{text}"),
    )
    .unwrap();
    go().unwrap();
    assert_ne!(data(), before);
    let missing = Context {
        traces: None,
        ..context(None)
    };
    let refused = run(n1, &missing, Shard::WHOLE, 1, &out.path().join("x"), &quiet);
    assert!(matches!(refused, Err(LabError::NoTraces)));
}

#[test]
fn a_trace_is_replayed_on_the_mounted_log() {
    let Tiny {
        verdicts, files, ..
    } = tiny("N5");
    let [verdict] = &verdicts[..] else {
        panic!("{verdicts:?}")
    };
    assert!(verdict.pass, "{verdict:?}");
    let data = &files[0];
    for series in [
        "greedy, holes",
        "life-classes, holes",
        "greedy, tpcc",
        "oracle",
    ] {
        assert!(data.contains(series), "{series} in {data}");
    }
}

#[test]
fn the_whole_is_divided_resumed_and_survives_what_fails() {
    fn points(_: &Context) -> Vec<Point> {
        let good = Point::new("good", |context: &Context| {
            Ok(vec![Row::new("a", 1.0, context.seed).with("y", 2.0)])
        });
        let bad = Point::new("bad", |_: &Context| panic!("as it is meant to"));
        vec![good, bad]
    }
    static BROKEN: Experiment = Experiment {
        points,
        id: "Z1",
        ..sprite_lfs::greedy_cleaning::R3C
    };
    let out = tempfile::tempdir().unwrap();
    let list = [&BROKEN, named("R3c").unwrap(), named("W6").unwrap()];
    let seen = std::sync::Mutex::new(Vec::new());
    let go = |shard: &str| {
        let tell = |progress: &Progress| seen.lock().unwrap().push(progress.clone());
        let shard = shard.parse().unwrap();
        run_all(&list, &context(None), shard, 2, out.path(), &tell)
    };
    let missing = |ended: &[Ended]| -> Vec<Option<usize>> {
        let of = |e: &Ended| e.outcome.as_ref().ok().map(|outcome| outcome.missing);
        ended.iter().map(of).collect()
    };
    let first = go("1/2");
    let last = go("2/2");
    assert!(missing(&first)[1].unwrap() > 0, "the other shard's");
    assert_eq!(missing(&last)[0], None, "its panic is an error");
    assert_eq!(missing(&last)[1..], [Some(0), Some(0)]);
    let run = |ended: &[Ended]| ended.iter().map(|e| e.run).sum::<usize>();
    let all = list.iter().map(|e| (e.points)(&context(None)).len());
    assert_eq!(run(&first) + run(&last) + 1, all.sum::<usize>());
    let seen = |from: usize| seen.lock().unwrap()[from..].to_vec();
    assert!(seen(0).iter().any(|p| p.ended == Some("R3c")));
    // What is there is not run again; what is half written is.
    let before = seen(0).len();
    let point = out.path().join("W6-small/point-0000.json");
    let text = std::fs::read(&point).unwrap();
    std::fs::write(&point, &text[..text.len() / 2]).unwrap();
    assert_eq!(run(&go("1/1")), 1);
    assert_eq!(
        seen(before)[0].points,
        2,
        "the half-written and the broken one"
    );
    assert_eq!(std::fs::read(&point).unwrap(), text);
}

#[test]
fn a_panic_after_the_last_point_stops_nobody_else() {
    static DOUBTFUL: Experiment = Experiment {
        id: "Z2",
        verdicts: |_| panic!("as it is meant to"),
        ..sprite_lfs::greedy_cleaning::R3C
    };
    static UGLY: Experiment = Experiment {
        id: "Z3",
        picture: |_| panic!("as it is meant to"),
        ..sprite_lfs::greedy_cleaning::R3C
    };
    let out = tempfile::tempdir().unwrap();
    let list = [&DOUBTFUL, &UGLY, named("R3c").unwrap()];
    for _ in 0..2 {
        let ended = run_all(&list, &context(None), Shard::WHOLE, 2, out.path(), &|_| ());
        let panicked = |e: &Ended| matches!(e.outcome, Err(LabError::Panic(..)));
        let panicked: Vec<bool> = ended.iter().map(panicked).collect();
        assert_eq!(panicked, [true, true, false]);
    }
}
