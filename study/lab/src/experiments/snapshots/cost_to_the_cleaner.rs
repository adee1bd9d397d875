//! S1: what snapshots cost the cleaner. Uniform updates on a volume that is 60 to 90 %
//! full, kept copies counted; ten snapshots are kept, and one is taken whenever users have
//! written a hundredth of the volume.

use super::model::{Design, Log, Shape, cleaned_utilisation};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use varve_prove::random::Random;

pub const S1: Experiment = Experiment::new("S1", points, verdicts, picture);

const NONE: &str = "no snapshots";
const PINNED: &str = "segments pinned";
const TABLE: &str = "address table";
const HISTORY: &str = "history";
const DESIGNS: [(&str, Design); 4] = [
    (NONE, Design::None),
    (PINNED, Design::Pinned),
    (TABLE, Design::Table),
    (HISTORY, Design::History),
];
const UTILISATIONS: [f64; 4] = [0.6, 0.7, 0.8, 0.9];
const SEGMENT_BLOCKS: u32 = 64;
/// Snapshots kept, and the share of the volume that is written between two.
const KEPT: u32 = 10;
const INTERVAL: f64 = 0.01;
/// Share of the volume that kept copies fill: few blocks are written twice in an interval.
const SHARE_KEPT: f64 = 0.1;
/// The greedy cleaner next to the curve for uniform updates, of volumes of this size.
const BAND: f64 = 0.15;
/// What ten snapshots may add. They may cost less than as many live blocks would: kept
/// copies are cold, and those of a snapshot die together.
const ADDED: std::ops::RangeInclusive<f64> = 0.85..=1.15;

pub(super) fn shape(segments: u32, utilisation: f64, kept: f64) -> Shape {
    let clean = 3;
    let capacity = f64::from((segments - clean) * SEGMENT_BLOCKS);
    Shape {
        segments,
        segment_blocks: SEGMENT_BLOCKS,
        live: (capacity * (utilisation - kept)) as u32,
        clean,
        kept: KEPT,
        interval: (capacity * INTERVAL) as u32,
    }
}

fn points(context: &Context) -> Vec<Point> {
    let segments = context.size(1000, 100);
    let mut points = Vec::new();
    for utilisation in UTILISATIONS {
        for (series, design) in DESIGNS {
            points.push(Point::of_seeds(series, utilisation, move |seed| {
                measured(series, design, segments, utilisation, seed)
            }));
        }
    }
    points
}

fn measured(series: &str, design: Design, segments: u32, utilisation: f64, seed: u64) -> Row {
    let kept = if design == Design::None {
        0.0
    } else {
        SHARE_KEPT
    };
    let shape = shape(segments, utilisation, kept);
    let mut log = Log::new(design, shape);
    let mut random = Random::new(seed);
    let volume = u64::from(segments * SEGMENT_BLOCKS);
    log.run(4 * volume, &mut random);
    log.start();
    log.run(2 * volume, &mut random);
    let written = log.written;
    Row::new(series, utilisation, seed)
        .with("amplification", written.amplification())
        .with(
            "forced",
            written.forced as f64 / written.taken.max(1) as f64,
        )
        .with("utilisation", log.utilisation())
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |series, utilisation| mean(rows, series, utilisation, "amplification");
    let mut verdicts = Vec::new();
    for utilisation in UTILISATIONS {
        let (none, history) = (of(NONE, utilisation), of(HISTORY, utilisation));
        let curve = 1.0 / (1.0 - cleaned_utilisation(utilisation));
        let percent = utilisation * 100.0;
        verdicts.push(Verdict::of(
            format!("{percent} % full without snapshots: next to the curve of uniform updates"),
            "within 15 %",
            format!("{none:.2}, the curve {curve:.2}"),
            (none / curve - 1.0).abs() <= BAND,
        ));
        let added = history / none;
        verdicts.push(Verdict::of(
            format!("{percent} % full: the history next to no snapshots"),
            "0.85 to 1.15 times as much written",
            format!("{added:.3} times: {history:.2} and {none:.2}"),
            ADDED.contains(&added),
        ));
        let table = of(TABLE, utilisation);
        verdicts.push(Verdict::of(
            format!("{percent} % full: an address table next to the history"),
            "more is written",
            format!("{table:.2} and {history:.2}"),
            table > history,
        ));
        let pinned = of(PINNED, utilisation);
        let forced = mean(rows, PINNED, utilisation, "forced");
        verdicts.push(Verdict::of(
            format!("{percent} % full: pinned segments next to the history"),
            "more is written, or snapshots must be deleted to clean at all",
            format!(
                "{pinned:.2}, {:.0} % of the snapshots deleted",
                100.0 * forced
            ),
            pinned > history || forced > 0.01,
        ));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Ten snapshots of a volume of uniform updates".into(),
        x: "utilisation, kept copies counted".into(),
        y: "blocks written for each of users".into(),
        y_max: None,
        curves: Curve::all(rows, "amplification"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of an address table under the name of the history.
    #[test]
    fn a_wrong_design_fails() {
        let run = |series, design| measured(series, design, 200, 0.8, 1);
        let passes = |design| {
            let rows = [run(NONE, Design::None), run(HISTORY, design)];
            let verdicts = verdicts(&rows);
            let claim = "80 % full: the history next to no snapshots";
            verdicts
                .iter()
                .find(|verdict| verdict.claim == claim)
                .unwrap()
                .pass
        };
        assert!(passes(Design::History));
        assert!(!passes(Design::Table));
    }
}
