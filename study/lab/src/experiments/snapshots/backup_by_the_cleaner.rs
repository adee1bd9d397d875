//! S3: backup by the cleaner (Seltzer 1992, ch. 8): how much of an image must be read in
//! addition to what the cleaner reads while it is archived.
//!
//! Uniform updates, greedy cleaning. When the archive begins, the segments in use are
//! its image. In one series a segment may be written again as soon as it was stored, and
//! users write a tenth of the volume; in the other one the image is withheld until the
//! archive is complete, and the archive ends when clean segments run out.

use super::cost_to_the_cleaner::shape;
use super::model::{Design, Log, cleaned_utilisation};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use varve_prove::random::Random;

pub const S3: Experiment = Experiment::new("S3", points, verdicts, picture);

const FREED: &str = "written again once stored";
const WITHHELD: &str = "withheld until the end";
const UTILISATIONS: [f64; 4] = [0.6, 0.7, 0.8, 0.9];
/// Share of the volume that users write while it is archived.
const WINDOW: f64 = 0.1;
/// Share of the segments that the cleaner provides in advance.
const CLEAN: u32 = 20;
/// Difference from the curve, as a share of the image.
const BAND: f64 = 0.1;

fn points(context: &Context) -> Vec<Point> {
    let segments = context.size(1000, 100);
    let mut points = Vec::new();
    for utilisation in UTILISATIONS {
        for (series, withholds) in [(FREED, false), (WITHHELD, true)] {
            points.push(Point::of_seeds(series, utilisation, move |seed| {
                measured(series, withholds, segments, utilisation, seed)
            }));
        }
    }
    points
}

fn measured(series: &str, withholds: bool, segments: u32, utilisation: f64, seed: u64) -> Row {
    let mut shape = shape(segments, utilisation, 0.0);
    shape.clean = segments / CLEAN;
    shape.live = (f64::from((segments - shape.clean) * shape.segment_blocks) * utilisation) as u32;
    let mut log = Log::new(Design::None, shape);
    let mut random = Random::new(seed);
    let volume = f64::from(segments * shape.segment_blocks);
    log.run(4 * volume as u64, &mut random);
    let image = log.used_segments();
    let in_use = image.len() as f64;
    log.image = Some(image);
    log.withholds = withholds;
    log.start();
    log.run((volume * WINDOW) as u64, &mut random);
    let left = log.image.as_ref().map_or(0, |image| image.len());
    Row::new(series, utilisation, seed)
        .with("fetched", left as f64 / in_use)
        .with("user", log.written.user as f64 / volume)
}

/// The share that is left if every segment that the cleaner reads is one of the image.
fn curve(utilisation: f64) -> f64 {
    let gained = 1.0 - cleaned_utilisation(utilisation);
    (1.0 - WINDOW / gained).max(0.0)
}

/// The share that is left if all clean segments are filled with the live blocks of
/// segments that the cleaner reads.
fn withheld_curve(utilisation: f64) -> f64 {
    let clean = 1.0 / f64::from(CLEAN);
    1.0 - clean / (1.0 - clean) / cleaned_utilisation(utilisation)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |series, utilisation| mean(rows, series, utilisation, "fetched");
    let mut verdicts = Vec::new();
    for utilisation in UTILISATIONS {
        let percent = utilisation * 100.0;
        let (freed, curve) = (of(FREED, utilisation), curve(utilisation));
        verdicts.push(Verdict::of(
            format!("{percent} % full, {FREED}: next to the share that the cleaner does not read"),
            "within a tenth of the image",
            format!("{freed:.2}, the curve {curve:.2}"),
            (freed - curve).abs() <= BAND,
        ));
        let (withheld, curve) = (of(WITHHELD, utilisation), withheld_curve(utilisation));
        verdicts.push(Verdict::of(
            format!("{percent} % full, {WITHHELD}: next to the share that no clean space is for"),
            "within a twentieth of the image",
            format!("{withheld:.2}, the curve {curve:.2}"),
            (withheld - curve).abs() <= BAND / 2.0,
        ));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "An archive while users write a tenth of the volume".into(),
        x: "utilisation".into(),
        y: "share of the image that is read for the archive alone".into(),
        y_max: Some(1.0),
        curves: Curve::all(rows, "fetched"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A withheld image under the name of one that is freed.
    #[test]
    fn a_wrong_pin_fails() {
        let passes = |withholds| {
            let row = measured(FREED, withholds, 400, 0.9, 1);
            verdicts(&[row])
                .iter()
                .any(|verdict| verdict.claim.starts_with("90") && verdict.pass)
        };
        assert!(passes(false));
        assert!(!passes(true));
    }
}
