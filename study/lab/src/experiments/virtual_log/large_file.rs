//! V5: a large file (Wang et al. 1999, §5.2): 10 MB are written in order, read
//! in order, written at random without and then with waiting for each block,
//! read in order again, and read at random; on an empty disk, without cleaner
//! or compactor.
//!
//! A phase ends with a sync, and begins with empty caches. The drive is 44
//! cylinders of the Seagate, not 11: the log would have to be cleaned on those.

use crate::experiments::virtual_log::small_files::SYSTEMS;
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::host::Host;
use crate::platform::{BLOCK, Disk, Layout, Platform, System};
use crate::report::{Curve, Picture, Verdict, mean};
use varve_disk::drives;
use varve_prove::random::Random;

pub const V5: Experiment = Experiment::new("V5", points, verdicts, picture);

pub(in crate::experiments) const SEQUENTIAL_WRITE: f64 = 1.0;
pub(in crate::experiments) const SEQUENTIAL_READ: f64 = 2.0;
pub(in crate::experiments) const RANDOM_WRITE: f64 = 3.0;
pub(in crate::experiments) const RANDOM_WRITE_SYNC: f64 = 4.0;
pub(in crate::experiments) const READ_AGAIN: f64 = 5.0;
pub(in crate::experiments) const RANDOM_READ: f64 = 6.0;

fn points(_: &Context) -> Vec<Point> {
    SYSTEMS
        .map(|(name, layout, disk)| {
            Point::new(name, move |context: &Context| {
                let rows = context.seeds().map(|seed| {
                    let mut system = platform(layout, disk).build(seed)?;
                    let blocks = context.size(10 << 20, 1 << 20) / BLOCK;
                    // The paper has no run of LFS that waits for each block.
                    large_file(name, &mut *system, blocks, layout == Layout::UFS, seed)
                });
                Ok(rows.collect::<Result<Vec<_>, LabError>>()?.concat())
            })
        })
        .into()
}

/// Room for the log without cleaning.
pub(in crate::experiments) fn platform(layout: Layout, disk: Disk) -> Platform {
    let drive = drives::st19101().with_cylinders(44);
    Platform::of_virtual_log_paper(layout, disk).on(drive, Host::SPARCSTATION_10)
}

/// The phases, of a file of so many blocks; that which waits for each block
/// only if `sync`.
pub(in crate::experiments) fn large_file(
    series: &str,
    system: &mut dyn System,
    blocks: u64,
    sync: bool,
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    let mut random = Random::new(seed);
    system.create(0)?;
    let mut rows = Vec::new();
    for phase in [
        SEQUENTIAL_WRITE,
        SEQUENTIAL_READ,
        RANDOM_WRITE,
        RANDOM_WRITE_SYNC,
        READ_AGAIN,
        RANDOM_READ,
    ] {
        if phase == RANDOM_WRITE_SYNC && !sync {
            continue;
        }
        let before = system.store().spent();
        for nth in 0..blocks {
            let anywhere = random.below(blocks) * BLOCK;
            let (next, bytes) = (nth * BLOCK, BLOCK as u32);
            match phase {
                SEQUENTIAL_WRITE => system.write(0, next, bytes, false)?,
                RANDOM_WRITE => system.write(0, anywhere, bytes, false)?,
                RANDOM_WRITE_SYNC => system.write(0, anywhere, bytes, true)?,
                RANDOM_READ => system.read(0, anywhere, bytes)?,
                _ => system.read(0, next, bytes)?,
            }
        }
        system.sync()?;
        system.forget();
        let spent = system.store().spent() - before;
        let mb = (blocks * BLOCK) as f64 / 1e6;
        rows.push(
            Row::new(series, phase, seed)
                .with("mb_per_s", mb / (spent.total_ns as f64 / 1e9))
                .with("host_share", spent.host_ns as f64 / spent.total_ns as f64),
        );
    }
    Ok(rows)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let rate = |series: &str, phase: f64| mean(rows, series, phase, "mb_per_s");
    let ratio = |one: (&str, f64), other: (&str, f64)| rate(one.0, one.1) / rate(other.0, other.1);
    let (plain, eager) = ("UFS, regular disk", "UFS, VLD");
    let mut verdicts = Vec::new();
    let mut claim = |claim: String, expected: &str, found: f64, pass: bool| {
        verdicts.push(Verdict::of(claim, expected, format!("{found:.2} x"), pass));
    };
    let sync = ratio((eager, RANDOM_WRITE_SYNC), (plain, RANDOM_WRITE_SYNC));
    claim(
        "synchronous random writes, UFS on the VLD against the disk".into(),
        "far better, at least 2",
        sync,
        sync >= 2.0,
    );
    for (series, _, _) in SYSTEMS {
        let again = ratio((series, READ_AGAIN), (series, SEQUENTIAL_READ));
        let in_place = series == plain;
        claim(
            format!("{series}: sequential read after random writes against before"),
            match in_place {
                true => "as before, within 5 %",
                false => "poorer than before, by more than 5 %",
            },
            again,
            match in_place {
                true => (0.95..=1.05).contains(&again),
                false => again < 0.95,
            },
        );
    }
    for series in ["LFS, regular disk", "LFS, VLD"] {
        let random = ratio((series, RANDOM_WRITE), (series, SEQUENTIAL_WRITE));
        claim(
            format!("{series}: random against sequential writes"),
            "higher, as some blocks are written over in memory",
            random,
            random > 1.0,
        );
    }
    let write = ratio((eager, SEQUENTIAL_WRITE), (plain, SEQUENTIAL_WRITE));
    claim(
        "sequential writes, UFS on the VLD against the disk".into(),
        "better: the disk misses rotations",
        write,
        write > 1.0,
    );
    let sorted = ratio((eager, RANDOM_WRITE), (plain, RANDOM_WRITE));
    claim(
        "random writes that wait, UFS on the VLD against the disk".into(),
        "better",
        sorted,
        sorted > 1.0,
    );
    let log = ratio(
        ("LFS, VLD", SEQUENTIAL_WRITE),
        ("LFS, regular disk", SEQUENTIAL_WRITE),
    );
    claim(
        "sequential writes, LFS on the VLD against the disk".into(),
        "slightly better: 1 to 1.3",
        log,
        (1.0..=1.3).contains(&log),
    );
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title:
            "10 MB: 1 write, 2 read, 3 random write, 4 the same sync, 5 read again, 6 random read"
                .into(),
        x: "phase".into(),
        y: "MB/s".into(),
        y_max: None,
        curves: Curve::all(rows, "mb_per_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_disk::{Drive, Rotation, SeekCurve};

    /// On a drive whose rotation takes no time nothing is gained by writing where the
    /// head is, and on one whose arm takes none either nothing is lost by reading what is
    /// in pieces. Where a file of this size
    /// does not show it on the right drive, it does on one with a slow arm. Update in place
    /// under the names of the log gathers no random writes, and a regular disk under the
    /// name of the virtual log disk writes like itself.
    #[test]
    fn a_wrong_drive_or_layout_fails() {
        #[derive(Clone, Copy, PartialEq)]
        enum Is {
            Right,
            AllInPlace,
            AllRegular,
        }
        let pass = |drive: &Drive, is: Is| {
            let run = |(name, layout, disk): (&str, Layout, Disk)| {
                let (layout, disk) = match layout {
                    Layout::Lfs if is == Is::AllInPlace => (Layout::UFS, Disk::Regular),
                    _ if is == Is::AllRegular => (layout, Disk::Regular),
                    _ => (layout, disk),
                };
                let platform = platform(layout, disk).on(drive.clone(), Host::SPARCSTATION_10);
                let mut system = platform.build(1).unwrap();
                large_file(name, &mut *system, 256, layout == Layout::UFS, 1).unwrap()
            };
            let verdicts = verdicts(&SYSTEMS.map(run).concat());
            verdicts.into_iter().map(|v| v.pass).collect::<Vec<_>>()
        };
        let right = platform(Layout::UFS, Disk::Regular).drive;
        let mut still = right.clone();
        still.rotation = Rotation::of_rpm(1_000_000);
        let mut instant = still.clone();
        instant.seek = SeekCurve::line(0.0, 0.0);
        instant.head_switch_ns = 0;
        let mut slow = right.clone();
        slow.seek.short_base_ms *= 16.0;
        slow.seek.short_root_ms *= 16.0;
        slow.head_switch_ns *= 16;
        let in_place = pass(&right, Is::AllInPlace);
        let still_in_place = pass(&still, Is::AllInPlace);
        let regular = pass(&right, Is::AllRegular);
        let drives = [right, still, instant, slow];
        let [right, still, instant, slow] = drives.map(|drive| pass(&drive, Is::Right));
        for (claim, held, failed) in [
            ("synchronous random writes", right[0], still[0]),
            ("in place, read again", still[1], right[1]),
            ("UFS on the VLD, read again", right[2], instant[2]),
            ("LFS, read again", right[3], still_in_place[3]),
            ("LFS, random and sequential writes", right[5], in_place[5]),
            ("LFS on the VLD, the same", right[6], in_place[6]),
            ("sequential writes", right[7], regular[7]),
            ("random writes that wait", right[8], regular[8]),
            ("sequential writes of LFS", slow[9], still[9]),
        ] {
            assert!(held && !failed, "{claim}");
        }
    }
}
