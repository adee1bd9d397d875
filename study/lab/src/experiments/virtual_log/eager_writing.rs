//! V1, V2: the analytic models of eager writing against the chooser that
//! the virtual log disk uses (Wang et al. 1999, §2), on the two drives
//! of their table 1.
//!
//! Writes come at random moments, when a sector begins; what is measured is the
//! time until the head is over the place chosen. Space is one sector to a block.

use crate::experiments::{Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean, summaries};
use varve_disk::{Drive, TrackId, drives};
use varve_prove::random::Random;
use varve_vlog::free_space::FreeSpace;
use varve_vlog::medium::tracks;
use varve_vlog::{Avoid, Eager, HeadPosition, LeaveEarly, Policy, Want, model};

use std::sync::Arc;

const SECTOR: u32 = 512;

/// The single-cylinder model.
pub const V1: Experiment = Experiment::new("V1", points_1, verdicts_1, |rows| {
    picture(rows, "Time to the first free sector", "utilisation")
});

/// The model with a compactor.
pub const V2: Experiment = Experiment::new("V2", points_2, verdicts_2, |rows| {
    picture(
        rows,
        "Time to a free sector, by threshold",
        "share kept free",
    )
});

/// The drives of table 1, in the parts that the paper simulated.
pub(in crate::experiments) fn both() -> [(&'static str, Drive); 2] {
    [
        ("HP97560", drives::hp97560_vlog().with_cylinders(36)),
        ("ST19101", drives::st19101().with_cylinders(11)),
    ]
}

/// A drive, its space in blocks of `sectors`, and a head.
pub(in crate::experiments) struct Bench {
    drive: Arc<Drive>,
    pub(in crate::experiments) free: FreeSpace,
    pub(in crate::experiments) head: HeadPosition,
    random: Random,
    sectors: u32,
}

impl Bench {
    pub(in crate::experiments) fn new(drive: &Drive, sectors: u32, seed: u64) -> Self {
        let drive = Arc::new(drive.clone());
        let blocks = (drive.geometry.total_sectors() / u64::from(sectors)) as u32;
        let regions = tracks(&drive, blocks, sectors * SECTOR);
        let home = TrackId {
            cylinder: 0,
            head: 0,
        };
        Bench {
            free: FreeSpace::new(regions, 1, u64::from(sectors)),
            head: HeadPosition {
                drive: Arc::clone(&drive),
                track: home,
                platter_ns: 0,
            },
            random: Random::new(seed),
            drive,
            sectors,
        }
    }

    pub(in crate::experiments) fn blocks(&self) -> u32 {
        let regions = self.free.regions();
        regions.blocks(regions.len() - 1).end
    }

    pub(in crate::experiments) fn below(&mut self, end: u32) -> u32 {
        self.random.below(u64::from(end)) as u32
    }

    /// Uses a share of the blocks, drawn one by one.
    pub(in crate::experiments) fn fill(&mut self, utilisation: f64) {
        let mut left = (f64::from(self.blocks()) * utilisation) as u32;
        while left > 0 {
            let block = self.below(self.blocks());
            if self.free.mask(block) == 0 {
                self.free.take_block(block);
                left -= 1;
            }
        }
    }

    /// The head goes to a track that is drawn.
    pub(in crate::experiments) fn go_anywhere(&mut self) {
        let geometry = &self.drive.geometry;
        let (cylinders, heads) = (geometry.cylinders(), geometry.heads());
        self.head.track = TrackId {
            cylinder: self.below(cylinders),
            head: self.below(heads),
        };
    }

    /// Time passes: the head is where a sector begins, anywhere on its track.
    fn wait(&mut self) {
        self.wait_for(1);
    }

    /// The same, where a block of so many sectors begins.
    pub(in crate::experiments) fn wait_for(&mut self, block: u32) {
        let rotation = self.drive.rotation;
        let track = self.drive.geometry.track(self.head.track);
        let sectors = track.sectors;
        let slot = track.slot(self.below(sectors / block) * block);
        let now = self.head.platter_ns + rotation.revolution_ns();
        self.head.platter_ns = now + rotation.wait_ns(now, slot, sectors);
    }

    /// The place to write next, taken; and the time until it is reached. The
    /// head is behind it afterwards.
    pub(in crate::experiments) fn write(&mut self, eager: &mut Eager) -> Option<(u32, u64)> {
        let head = Some(&self.head);
        let unit = eager.choose(&self.free, head, Want::Block, Avoid::default())?;
        self.free.take_block(unit as u32);
        let (track, nth) = self.drive.geometry.locate(unit * u64::from(self.sectors));
        let from = (self.head.platter_ns, self.head.track);
        let access = varve_disk::Access::Write;
        let arrival = self.drive.arrival_ns(from.0, from.1, track.id, access);
        let begin = arrival + self.drive.rotation_to(arrival, &track, nth);
        let passing = self
            .drive
            .rotation
            .pass_ns(track.slot(nth), self.sectors, track.sectors);
        self.head.track = track.id;
        self.head.platter_ns = begin + passing;
        Some((unit as u32, begin - from.0))
    }

    /// A used block, drawn, becomes free.
    pub(in crate::experiments) fn give_any(&mut self) {
        let used = loop {
            let block = self.below(self.blocks());
            if self.free.mask(block) != 0 {
                break block;
            }
        };
        self.free.give_block(used);
    }

    fn sector_ms(&self) -> f64 {
        let track = self.drive.geometry.track(self.head.track);
        self.drive.rotation.revolution_ns() as f64 / f64::from(track.sectors) / 1e6
    }
}

pub(in crate::experiments) const GREEDY: Policy = filling(0.0);

const fn filling(fill: f64) -> Policy {
    Policy {
        fill,
        leave_early: LeaveEarly::Never,
    }
}

fn points_1(context: &crate::experiments::Context) -> Vec<Point> {
    let all = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95];
    let utilisations = context.size(&all[..], &all[8..9]);
    let mut points = Vec::new();
    for (name, drive) in both() {
        for &utilisation in utilisations {
            let drive = drive.clone();
            points.push(Point::new(
                format!("{name} at {utilisation}"),
                move |context| {
                    Ok(context
                        .seeds()
                        .map(|seed| nearest(context, name, &drive, utilisation, seed))
                        .collect())
                },
            ));
        }
    }
    points
}

/// The mean time to the nearest free sector, from anywhere. What was taken is
/// given back, so that space stays free at random.
fn nearest(
    context: &crate::experiments::Context,
    name: &str,
    drive: &Drive,
    utilisation: f64,
    seed: u64,
) -> Row {
    let mut bench = Bench::new(drive, 1, seed);
    bench.fill(utilisation);
    let (mut sum, writes) = (0, context.size(20_000, 500));
    for _ in 0..writes {
        bench.go_anywhere();
        bench.wait();
        let mut eager = Eager::new(GREEDY);
        let (block, took) = bench.write(&mut eager).expect("some is free");
        bench.free.give_block(block);
        sum += took;
    }
    let track = drive.geometry.track(bench.head.track);
    let switch = drive.head_switch_ns as f64 / 1e6 / bench.sector_ms();
    let p = 1.0 - utilisation;
    let skipped = model::skipped_in_cylinder(p, switch.ceil() as u32, drive.geometry.heads());
    Row::new(name, utilisation, seed)
        .with("ms", sum as f64 / f64::from(writes) / 1e6)
        .with("model_ms", skipped * bench.sector_ms())
        .with(
            "skipped",
            sum as f64 / f64::from(writes) / 1e6 / bench.sector_ms(),
        )
        .with(
            "one_track",
            model::skipped_on_track(f64::from(track.sectors), p),
        )
}

/// The mean of |simulated - model| over the mean of the model.
fn error(rows: &[Row], series: &str) -> f64 {
    let value = |name: &str| {
        let found = summaries(rows).into_iter();
        let found = found.filter(|s| s.series == series && s.name == name);
        found.map(|s| (s.x.to_bits(), s.mean)).collect::<Vec<_>>()
    };
    let (measured, model) = (value("ms"), value("model_ms"));
    let differences: f64 = measured
        .iter()
        .zip(&model)
        .map(|((_, measured), (_, model))| (measured - model).abs())
        .sum();
    differences / model.iter().map(|(_, model)| model).sum::<f64>()
}

fn verdicts_1(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, _) in both() {
        let error = 100.0 * error(rows, name);
        verdicts.push(Verdict::of(
            format!("{name}: the single-cylinder model follows the simulation"),
            "mean error at most 10 %",
            format!("{error:.1} %"),
            error <= 10.0,
        ));
        let four = mean(rows, name, 0.8, "one_track");
        verdicts.push(Verdict::of(
            format!("{name}: equation (1) at 80 %"),
            "about four sectors",
            format!("{four:.2}"),
            (3.5..=4.5).contains(&four),
        ));
    }
    verdicts
}

fn points_2(context: &crate::experiments::Context) -> Vec<Point> {
    let all = [
        0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
    ];
    let kept = context.size(&all[..], &all[3..9]);
    let mut points = Vec::new();
    for (name, drive) in both() {
        for &share in kept {
            let drive = drive.clone().with_cylinders(context.size(36, 1));
            points.push(Point::new(
                format!("{name}, {share} kept free"),
                move |context| {
                    Ok(context
                        .seeds()
                        .map(|seed| filled(name, &drive, share, seed))
                        .collect())
                },
            ));
        }
    }
    points
}

/// The mean time to a free sector while empty tracks last, each filled until a
/// share of it is free.
fn filled(name: &str, drive: &Drive, share: f64, seed: u64) -> Row {
    let mut bench = Bench::new(drive, 1, seed);
    let n = drive.geometry.track(bench.head.track).sectors;
    let kept = (f64::from(n) * share).round();
    let fill = 1.0 - kept / f64::from(n);
    let mut eager = Eager::new(filling(fill));
    let (mut sum, mut writes) = (0, 0u32);
    while !bench.free.empty_regions().is_empty() {
        bench.wait();
        let Some((_, took)) = bench.write(&mut eager) else {
            break;
        };
        sum += took;
        writes += 1;
    }
    let switch = drive.head_switch_ns as f64 / 1e6;
    let latency = model::latency_with_compactor(f64::from(n), kept, switch, bench.sector_ms());
    Row::new(name, share, seed)
        .with("ms", sum as f64 / f64::from(writes) / 1e6)
        .with("model_ms", latency)
}

fn verdicts_2(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, _) in both() {
        let error = 100.0 * error(rows, name);
        verdicts.push(Verdict::of(
            format!("{name}: the model with a compactor follows the simulation"),
            "mean error at most 15 %",
            format!("{error:.1} %"),
            error <= 15.0,
        ));
        let curves = Curve::all(rows, "ms");
        let curve = curves.iter().find(|curve| curve.name == name);
        let points = curve.map(|curve| &curve.points[..]).unwrap_or_default();
        let best = points.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let ends = [points.first(), points.last()];
        let inside = best.is_some() && !ends.contains(&best);
        verdicts.push(Verdict::of(
            format!("{name}: the best threshold is neither end"),
            "an interior optimum",
            best.map_or("none".into(), |best| {
                format!("{:.3} ms with {} kept free", best.1, best.0)
            }),
            inside,
        ));
    }
    verdicts
}

pub(in crate::experiments) fn picture(rows: &[Row], title: &str, x: &str) -> Picture {
    let mut references = Curve::all(rows, "model_ms");
    for curve in &mut references {
        curve.name = format!("{}, model", curve.name);
    }
    Picture {
        title: title.into(),
        x: x.into(),
        y: "ms".into(),
        y_max: None,
        curves: Curve::all(rows, "ms"),
        references,
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_disk::Rotation;

    /// Disks of half the speed, beside the model of the right ones.
    #[test]
    fn a_wrong_drive_fails() {
        let context = crate::experiments::Context::tiny();
        let [(name, drive), _] = both();
        let right = nearest(&context, name, &drive, 0.8, 1);
        let pass = |rpm: u32| {
            let mut drive = drive.clone();
            drive.rotation = Rotation::of_rpm(rpm);
            let ms = nearest(&context, name, &drive, 0.8, 1).values["ms"];
            verdicts_1(&[right.clone().with("ms", ms)])[0].pass
        };
        assert!(pass(4002) && !pass(2001));
    }

    /// Disks of half the speed beside the model of the right ones; and heads that
    /// are switched in no time, so that no track need be filled.
    #[test]
    fn a_wrong_drive_fails_beside_the_model_with_a_compactor() {
        let [(name, drive), _] = both();
        let drive = drive.with_cylinders(1);
        let pass = |wrong: &Drive| {
            let rows = [0.05, 0.2, 0.4, 0.6, 0.9].map(|share| {
                let ms = filled(name, wrong, share, 1).values["ms"];
                filled(name, &drive, share, 1).with("ms", ms)
            });
            let verdicts = verdicts_2(&rows);
            [verdicts[0].pass, verdicts[1].pass]
        };
        let mut slow = drive.clone();
        slow.rotation = Rotation::of_rpm(2001);
        let mut switched = drive.clone();
        switched.head_switch_ns = 0;
        assert_eq!(pass(&drive), [true, true]);
        assert!(!pass(&slow)[0] && !pass(&switched)[1]);
    }
}
