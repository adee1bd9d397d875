//! B2: 10,000 files of 1 KB in 100 directories are made, read and removed (Seltzer
//! 1992, §7.4), on FFS, EFS and the log.
//!
//! The paper's log has no fragments: it was made with blocks of 1 KB, read eight inodes
//! where the others read 32, and so was about 30 % slower to read. The log here stores
//! of a block the sectors that it needs. What whole blocks cost is measured with files
//! of 4 KB, of which the others store a whole block as well.
//!
//! Beside them stand the file system on the virtual log, and devices of today.

use crate::experiments::rivals::{
    CREATE, DELETE, EFS, FFS, HP_380, LFS, READ, Rival, VLFS, and_todays, curves_of_the_paper,
    many_files, rates, ratio,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::platform::files::Phase;
use crate::report::{Picture, Verdict, mean};

pub const B2: Experiment = Experiment::new("B2", points, verdicts, picture)
    .on_machine()
    .taking(21.0);

const RIVALS: &[Rival] = &[FFS, EFS, LFS, VLFS];
const LOG: &[Rival] = &[LFS];
const WHOLE_BLOCKS: &str = "LFS, whole blocks";

fn points(_: &Context) -> Vec<Point> {
    let small = HP_380.and_todays().into_iter().flat_map(|(on, machine)| {
        machine.points(RIVALS, on, move |context, series, system, seed| {
            let (files, series) = (many_files(context, 1024), format!("{on}{series}"));
            rates(files, &Phase::SMALL, system, &series, seed)
        })
    });
    let whole = HP_380.points(LOG, "whole blocks, ", |context, _, system, seed| {
        let files = many_files(context, 4096);
        rates(files, &Phase::SMALL, system, WHOLE_BLOCKS, seed)
    });
    small.chain(whole).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = and_todays(|on| ahead(rows, on));
    let rate = |series: &str| mean(rows, series, READ, "files_per_s");
    let (best, tails) = (rate(FFS.0).max(rate(EFS.0)), rate(LFS.0));
    let (with, without) = (tails / best, rate(WHOLE_BLOCKS) / tails);
    verdicts.push(Verdict::of(
        "read, with tails: LFS against the better of FFS and EFS",
        "the penalty is gone, at least 0.95 x",
        format!("{with:.2} x"),
        with >= 0.95,
    ));
    verdicts.push(Verdict::of(
        "read, without tails: LFS against LFS with them",
        "a penalty, at most 0.8 x",
        format!("{without:.2} x"),
        without <= 0.8,
    ));
    verdicts.extend(beside(rows));
    verdicts
}

/// How far the log is ahead where files are made and removed.
fn ahead(rows: &[Row], on: &str) -> Vec<Verdict> {
    let log = format!("{on}{}", LFS.0);
    let mut verdicts = Vec::new();
    for (ffs, _) in [FFS, EFS] {
        for (what, phase) in [("create", CREATE), ("delete", DELETE)] {
            let times = ratio(rows, &log, &format!("{on}{ffs}"), phase, "files_per_s");
            verdicts.push(Verdict::of(
                format!("{on}{what}: LFS against {ffs}"),
                "the clear winner, at least 4 x",
                format!("{times:.2} x"),
                times >= 4.0,
            ));
        }
    }
    verdicts
}

/// The virtual log, which the paper does not have.
fn beside(rows: &[Row]) -> [Verdict; 3] {
    let phases = [("create", CREATE), ("read", READ), ("delete", DELETE)];
    phases.map(|(what, phase)| {
        let times = ratio(rows, VLFS.0, LFS.0, phase, "files_per_s");
        Verdict::of(
            format!("{what}: VLFS against LFS"),
            "at least as fast, as V9 has it where nobody waits",
            format!("{times:.2} x"),
            times >= 1.0,
        )
        .beside_the_claim(true)
    })
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "10,000 files of 1 KB in 100 directories: 1 create, 2 read, 4 delete".into(),
        x: "phase".into(),
        y: "files a second".into(),
        y_max: None,
        curves: curves_of_the_paper(rows, "files_per_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}
