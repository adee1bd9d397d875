//! B8: four supercomputer applications (Seltzer 1992, §7.9, tables 7-10 and 7-11): a
//! file is written in pieces in random order; then 1000 reads and writes of the
//! application's mean sizes go to random places in it.
//!
//! The table's mean sizes are those of whole requests; places are multiples of a block.

use super::rivals::{EFS, FFS, HP_380, LFS, Rival};
use super::{Context, Experiment, LabError, Point, Row};
use crate::platform::{BLOCK, System};
use crate::report::{Curve, Picture, Verdict, mean};
use varve_prove::random::Random;

/// See the module's head.
pub const B8: Experiment = Experiment {
    id: "B8",
    about: "supercomputers: bvi, ccm, les, venus",
    needs_traces: false,
    points,
    verdicts,
    picture,
};

const RIVALS: &[Rival] = &[FFS, EFS, LFS];
const REQUESTS: u32 = 1000;

/// An application: table 7-10, and KB/s of FFS, EFS and LFS in table 7-11.
struct Application {
    name: &'static str,
    file_mb: f64,
    mean_kb: f64,
    reads: u32,
    writes: u32,
    /// Bytes read for each written.
    read_write: f64,
    paper_reads: [f64; 3],
    paper_writes: [f64; 3],
}

const APPLICATIONS: [Application; 4] = [
    Application {
        name: "bvi",
        file_mb: 171.0,
        mean_kb: 16.1,
        reads: 913,
        writes: 185,
        read_write: 2.31,
        paper_reads: [206.02, 227.60, 214.13],
        paper_writes: [215.56, 242.40, 474.40],
    },
    Application {
        name: "ccm",
        file_mb: 11.6,
        mean_kb: 31.9,
        reads: 135,
        writes: 128,
        read_write: 1.07,
        paper_reads: [332.59, 392.55, 425.98],
        paper_writes: [289.49, 299.68, 601.89],
    },
    Application {
        name: "les",
        file_mb: 224.0,
        mean_kb: 324.0,
        reads: 74,
        writes: 81,
        read_write: 0.95,
        paper_reads: [440.72, 900.54, 691.11],
        paper_writes: [276.48, 811.33, 792.19],
    },
    Application {
        name: "venus",
        file_mb: 55.2,
        mean_kb: 456.0,
        reads: 60,
        writes: 32,
        read_write: 1.80,
        paper_reads: [458.39, 1046.57, 1152.99],
        paper_writes: [316.69, 593.56, 798.61],
    },
];

impl Application {
    /// Bytes of a read and of a write: equations (1) and (2) solved, in whole sectors.
    fn sizes(&self) -> (u32, u32) {
        let (reads, writes) = (f64::from(self.reads), f64::from(self.writes));
        let write_kb = self.mean_kb * (reads + writes) / (writes * (1.0 + self.read_write));
        let read_kb = self.read_write * write_kb * writes / reads;
        let bytes = |kb: f64| (kb * 2.0).round() as u32 * 512;
        (bytes(read_kb), bytes(write_kb))
    }

    /// KB/s of reads and of writes, what waits at the end among the latter.
    fn run(
        &self,
        context: &Context,
        system: &mut dyn System,
        seed: u64,
    ) -> Result<(f64, f64), LabError> {
        let (read_bytes, write_bytes) = self.sizes();
        let file_bytes = context.size(self.file_mb, 4.0) * f64::from(1 << 20);
        let mut random = Random::new(seed);
        system.create(0)?;
        let pieces = (file_bytes / f64::from(write_bytes)) as u64;
        let mut order: Vec<u64> = (0..pieces).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        for piece in order {
            system.write(0, piece * u64::from(write_bytes), write_bytes, false)?;
        }
        system.sync()?;
        system.forget();
        let end = pieces * u64::from(write_bytes);
        let (mut reading_ns, mut writing_ns, mut reads, mut writes) = (0, 0, 0u32, 0u32);
        let requests = u64::from(self.reads + self.writes);
        for _ in 0..context.size(REQUESTS, 40) {
            let is_read = random.below(requests) < u64::from(self.reads);
            let bytes = if is_read { read_bytes } else { write_bytes };
            let at = random.below((end - u64::from(bytes)) / BLOCK + 1) * BLOCK;
            let before = system.now_ns();
            match is_read {
                true => system.read(0, at, bytes)?,
                false => system.write(0, at, bytes, false)?,
            }
            let spent = system.now_ns() - before;
            match is_read {
                true => (reading_ns, reads) = (reading_ns + spent, reads + 1),
                false => (writing_ns, writes) = (writing_ns + spent, writes + 1),
            }
        }
        let before = system.now_ns();
        system.sync()?;
        writing_ns += system.now_ns() - before;
        let rate = |count: u32, bytes: u32, ns: u64| {
            f64::from(count) * f64::from(bytes) / 1024.0 / (ns as f64 / 1e9)
        };
        Ok((
            rate(reads, read_bytes, reading_ns),
            rate(writes, write_bytes, writing_ns),
        ))
    }
}

fn points(_: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (nth, application) in (1..).zip(&APPLICATIONS) {
        points.extend(HP_380.points(
            RIVALS,
            application.name,
            move |context, series, system, seed| {
                let (reads, writes) = application.run(context, system, seed)?;
                let row = Row::new(series, f64::from(nth), seed);
                Ok(vec![
                    row.with("read_kb_s", reads).with("write_kb_s", writes),
                ])
            },
        ));
    }
    points
}

/// Where the paper has one system clearly ahead of another, so it must be here.
const CLEARLY: f64 = 1.1;
const WITHIN: f64 = 0.3;

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (nth, application) in (1..).zip(&APPLICATIONS) {
        for (what, value, paper) in [
            ("read", "read_kb_s", application.paper_reads),
            ("write", "write_kb_s", application.paper_writes),
        ] {
            let found = [FFS, EFS, LFS].map(|(name, _)| mean(rows, name, f64::from(nth), value));
            let ahead =
                |rates: [f64; 3], one: usize, other: usize| rates[one] > CLEARLY * rates[other];
            let pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];
            let agrees = |&(one, other): &(usize, usize)| {
                !ahead(paper, one, other) || found[one] > found[other]
            };
            let told = |rates: [f64; 3]| rates.map(|rate| format!("{rate:.0}")).join(", ");
            let name = application.name;
            verdicts.push(Verdict::of(
                format!("{name}, {what}: who is ahead of whom by a tenth and more"),
                format!("FFS, EFS, LFS: {} KB/s", told(paper)),
                format!("{} KB/s", told(found)),
                pairs.iter().all(agrees),
            ));
            let off = |at: usize| (found[at] / paper[at] - 1.0).abs();
            let worst = [0, 1, 2].map(off).into_iter().fold(0.0, f64::max);
            verdicts.push(Verdict::of(
                format!("{name}, {what}: KB/s of each"),
                "within 30 % of the paper's",
                format!("at most {:.0} % off", 100.0 * worst),
                // What was not measured is no number, and not the worst either.
                (0..3).all(|at| off(at) <= WITHIN),
            ));
        }
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Writes of supercomputers: 1 bvi, 2 ccm, 3 les, 4 venus".into(),
        x: "application".into(),
        y: "KB/s".into(),
        y_max: None,
        curves: Curve::all(rows, "write_kb_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Rows as table 7-11 has them.
    pub(in crate::experiment) fn paper() -> Vec<Row> {
        let mut rows = Vec::new();
        for (nth, application) in (1..).zip(&APPLICATIONS) {
            for (at, (name, _)) in RIVALS.iter().enumerate() {
                let row = Row::new(*name, f64::from(nth), 1);
                let row = row.with("read_kb_s", application.paper_reads[at]);
                rows.push(row.with("write_kb_s", application.paper_writes[at]));
            }
        }
        rows
    }

    #[test]
    fn sizes_are_those_of_the_papers_table() {
        let paper = [(13.8, 29.6), (32.9, 32.4), (338.6, 325.6), (460.2, 479.4)];
        for (application, (read_kb, write_kb)) in APPLICATIONS.iter().zip(paper) {
            let (read, write) = application.sizes();
            let near = |bytes: u32, kb: f64| (f64::from(bytes) / 1024.0 / kb - 1.0).abs() < 0.15;
            let name = application.name;
            assert!(
                near(read, read_kb) && near(write, write_kb),
                "{name}: {read}, {write}"
            );
        }
    }
}
