//! What follows: the claim, and beside it what was expected before it was run.

use super::beneath::{FlashKind, Told};
use super::mounted::Mount;
use super::simulated::{Case, Load};
use super::{PERCENTS, PLUGGING, Row, SPARE, kind, mounts};
use crate::report::{Verdict, mean};

pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = vec![told(rows), zones_refuse(rows)];
    verdicts.extend(simulated_findings(rows));
    verdicts.extend(mounted_findings(rows));
    verdicts
}

/// A log's own rows, before what is beneath.
fn logs(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(|row| row.values.contains_key("refused") && !row.series.contains(", zones"))
}

fn total(rows: &[Row], series: &str, kind: FlashKind) -> f64 {
    let series = format!("{series}, {}", kind.name());
    mean(rows, &series, kind.ratio(), "total")
}

/// The claim: all of it is there.
fn told(rows: &[Row]) -> Verdict {
    let (mut told, mut all) = (Vec::new(), 0);
    for log in logs(rows) {
        for spare in SPARE {
            all += 1;
            let found = total(rows, &log.series, kind(8, spare, Told::Segments, false));
            told.extend(found.is_finite().then_some(found));
        }
    }
    let least = told.iter().copied().fold(f64::NAN, f64::min);
    let most = told.iter().copied().fold(f64::NAN, f64::max);
    Verdict::of(
        "total amplification of every policy on every load, erase blocks of a segment",
        "told, and none below 1",
        format!("{} of {all}, from {least:.2} to {most:.2}", told.len()),
        all > 0 && told.len() == all && least >= 0.995,
    )
}

/// The claim: what writes into no hole is legal on zones, and what does is not.
fn zones_refuse(rows: &[Row]) -> Verdict {
    let plugs = |row: &Row| {
        PLUGGING
            .iter()
            .any(|name| row.series.ends_with(&format!(", {name}")))
    };
    let of = |which: &dyn Fn(&Row) -> bool| {
        let rows = rows.iter().filter(|row| !row.series.starts_with("mounted"));
        let rows = rows.filter(|row| row.values.contains_key("refused") && which(row));
        let sum = |(refused, all), row: &Row| {
            (
                refused + row.values["refused"],
                all + row.values["zone_writes"],
            )
        };
        rows.fold((0.0, 0.0), sum)
    };
    let (refused, all) = of(&|row| !plugs(row));
    let (plugged, of_plugging) = of(&|row| row.series.ends_with(", hole-plugging"));
    Verdict::of(
        "writes that zones refuse",
        "none of a policy that writes into no hole; some of hole-plugging's",
        format!("{refused} of {all}; {plugged} of {of_plugging}"),
        refused == 0.0 && all > 0.0 && plugged > 0.0,
    )
}

/// Drawn loads there are rows of.
fn drawn(rows: &[Row]) -> Vec<(Load, u32)> {
    let all = [Load::Hot, Load::Uniform];
    let all = all
        .into_iter()
        .flat_map(|load| PERCENTS.map(|percent| (load, percent)));
    let known = |(load, percent): &(Load, u32)| {
        let case = Case {
            load: *load,
            percent: *percent,
            policy: "greedy",
        };
        rows.iter().any(|row| row.series == case.series())
    };
    all.filter(known).collect()
}

/// What was expected before it was run, of the simulated log.
fn simulated_findings(rows: &[Row]) -> Vec<Verdict> {
    let drawn = drawn(rows);
    let series = |load: Load, percent, policy| {
        Case {
            load,
            percent,
            policy,
        }
        .series()
    };
    let beneath = |series: &str, kind: FlashKind| {
        let series = format!("{series}, {}", kind.name());
        mean(rows, &series, kind.ratio(), "beneath")
    };
    let worst = |value: &dyn Fn(Load, u32) -> f64, most: bool| {
        let all = drawn.iter().map(|(load, percent)| value(*load, *percent));
        match most {
            true => all.fold(f64::NAN, f64::max),
            false => all.fold(f64::NAN, f64::min),
        }
    };
    let one = |eighths| kind(eighths, SPARE[0], Told::Segments, false);
    let greedy =
        |eighths| move |load, percent| beneath(&series(load, percent, "greedy"), one(eighths));
    let small = worst(&greedy(8), true);
    let large = worst(&greedy(32), false);
    let saved = |told| {
        move |load, percent| {
            let series = series(load, percent, "greedy");
            let nothing = total(rows, &series, kind(32, SPARE[0], Told::Nothing, false));
            1.0 - total(rows, &series, kind(32, SPARE[0], told, false)) / nothing
        }
    };
    let (segments, deaths) = (
        worst(&saved(Told::Segments), true),
        worst(&saved(Told::Deaths), false),
    );
    let streams = |apart| {
        move |load, percent| {
            let series = series(load, percent, "life-classes");
            beneath(&series, kind(8, SPARE[0], Told::Segments, apart))
        }
    };
    let (mixed, apart) = (worst(&streams(false), true), worst(&streams(true), true));
    let beside = |verdict: Verdict| verdict.beside_the_claim(true);
    vec![
        beside(Verdict::of(
            "one head, erase blocks of a segment: what flash adds at most",
            "at most 10 %",
            format!("{small:.2}"),
            small <= 1.1,
        )),
        beside(Verdict::of(
            "one head, erase blocks of four segments, 7 % spare: what flash adds at least",
            "at least 50 %",
            format!("{large:.2}"),
            large >= 1.5,
        )),
        beside(Verdict::of(
            "the same, telling flash which segments are clean: what that saves at most",
            "less than 5 %: hardly one is",
            format!("{:.1} %", 100.0 * segments),
            segments < 0.05,
        )),
        beside(Verdict::of(
            "the same, telling it every death, which no log can: what that saves at least",
            "at least 25 %",
            format!("{:.1} %", 100.0 * deaths),
            deaths >= 0.25,
        )),
        beside(Verdict::of(
            "life-classes, erase blocks of a segment: a stream for each head",
            "flash adds at most 10 %, and more without",
            format!("{apart:.2}, {mixed:.2} without"),
            apart <= 1.1 && mixed > 1.1,
        )),
    ]
}

/// The same of the real log.
fn mounted_findings(rows: &[Row]) -> Vec<Verdict> {
    let beside = |verdict: Verdict| verdict.beside_the_claim(true);
    let there = |mount: &Mount| rows.iter().any(|row| row.series == mount.series());
    let mounts: Vec<Mount> = mounts().into_iter().filter(there).collect();
    let mut verdicts = Vec::new();
    let in_order = mounts.iter().filter(|mount| !mount.holes && mount.discard);
    let in_order: Vec<String> = in_order.map(|mount| mount.series()).collect();
    let of = |name: &str| {
        let rows = rows.iter().filter(|row| in_order.contains(&row.series));
        rows.map(|row| row.values[name]).sum::<f64>()
    };
    if !in_order.is_empty() {
        let (refused, all) = (of("refused"), of("zone_writes"));
        verdicts.push(beside(Verdict::of(
            "the real log without holes, with discards: writes that zones refuse",
            "none",
            format!("{refused} of {all}"),
            refused == 0.0 && all > 0.0,
        )));
    }
    for eighths in [8, 32] {
        let flash = kind(eighths, SPARE[0], Told::Segments, false);
        let pairs = mounts.iter().filter(|mount| mount.holes && mount.discard);
        let told = pairs.map(|with| {
            let without = Mount {
                holes: false,
                ..*with
            };
            let [with, without] = [*with, without].map(|m| total(rows, &m.series(), flash));
            (with, without)
        });
        let told: Vec<(f64, f64)> = told.collect();
        if told.is_empty() {
            continue;
        }
        let text: Vec<String> = told
            .iter()
            .map(|(a, b)| format!("{a:.2} for {b:.2}"))
            .collect();
        verdicts.push(beside(Verdict::of(
            format!(
                "greedy on the real log, erase blocks of {} segments, 7 % spare: total with holes",
                flash.ratio()
            ),
            "less than without, on every load",
            text.join(", "),
            told.iter().all(|(with, without)| with < without),
        )));
    }
    verdicts
}
