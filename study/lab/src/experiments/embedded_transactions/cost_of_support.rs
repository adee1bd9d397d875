//! X2: what the support of transactions costs programs that use none (Seltzer 1992,
//! §5.3: TPC-B in user space, Andrew and Bigfile, within 1 to 2 %).
//!
//! The same program runs on the real file system on the real log, on a simulated
//! drive, three times:
//!
//! - *without*: no transaction has ever been begun. The tree of such a volume has no
//!   lock table and holds no snapshot, and its operations are those of a build without
//!   transactions but for a load and a branch. There is nothing to compile out: a
//!   transaction is another tree of the same code.
//! - *support*: transactions of each kind have been run before, so the lock table is
//!   there, and every call asks whether its file is protected. None is. What that takes
//!   was counted in instructions, and is charged ([`PROTECTION_NAME`], [`PROTECTION_DATA`]).
//! - *open*: the same, and one transaction of each kind stays open all the while, idle:
//!   a snapshot is held, and what becomes clean behind it is not opened.

use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::host::{Host, PROTECTION_DATA, PROTECTION_NAME};
use crate::platform::lfs::log_structured;
use crate::platform::{BLOCK, Disk, Layout, Platform, System};
use crate::program::NumberedFiles;
use crate::program::big_file::Set;
use crate::report::{Curve, Picture, Verdict, mean};
use std::sync::Arc;
use varve_disk::drives;
use varve_fs::{Caller, FileSystem, InodeNo, Isolation, Transaction, TransactionOptions};
use varve_lfs::Lfs;
use varve_prove::random::Random;

pub const X2: Experiment = Experiment::new("X2", points, verdicts, picture);

const WITHOUT: &str = "without";
const SUPPORT: &str = "support";
const OPEN: &str = "open transactions";
const PROGRAMS: [(&str, f64); 3] = [
    ("TPC-B in user space", 1.0),
    ("Andrew-like", 2.0),
    ("Bigfile", 3.0),
];
const PAGE: u32 = BLOCK as u32;
/// Cycles that a call takes more that asks: about a name, about data.
const CHECK: [u64; 2] = [PROTECTION_NAME, PROTECTION_DATA];
/// Of what it takes without.
const DIFFERENCE: f64 = 0.02;
const KINDS: [Isolation; 3] = [
    Isolation::Snapshot,
    Isolation::Serializable,
    Isolation::Locking,
];

fn points(_: &Context) -> Vec<Point> {
    let cases = [WITHOUT, SUPPORT, OPEN].map(|series| PROGRAMS.map(|program| (series, program)));
    let point = |(series, (name, program))| {
        Point::per_seed(format!("{name}, {series}"), move |context, seed| {
            let check = match series {
                WITHOUT => [0, 0],
                _ => CHECK,
            };
            measure(context, (series, check), program, seed)
        })
    };
    cases.into_iter().flatten().map(point).collect()
}

type Tree = Arc<FileSystem<Lfs>>;

/// Transactions of each kind, on a file of their own.
fn transactions(fs: &Tree) -> Result<Vec<Transaction<Lfs>>, LabError> {
    let root = Caller::root();
    let made = fs.mknod(&root, InodeNo::ROOT, b"theirs", 0o100_644, 0);
    let file = made.map_err(LabError::system)?.ino;
    let begin = |isolation| {
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        fs.begin_transaction(&options).map_err(LabError::system)
    };
    for isolation in KINDS {
        let transaction = begin(isolation)?;
        let written = transaction.write(&root, file, 0, b"something");
        written.map_err(LabError::system)?;
        transaction.commit().map_err(LabError::system)?;
    }
    KINDS.into_iter().map(begin).collect()
}

/// A system whose calls ask whether files are protected.
struct Asking<'a> {
    system: &'a mut dyn System,
    cycles: [u64; 2],
}

impl Asking<'_> {
    fn about_name(&mut self) -> &mut dyn System {
        self.system.store().cpu().work(self.cycles[0]);
        self.system
    }

    fn about_data(&mut self) -> &mut dyn System {
        self.system.store().cpu().work(self.cycles[1]);
        self.system
    }
}

impl NumberedFiles for Asking<'_> {
    type Error = LabError;

    fn enter(&mut self, directory: u32) -> Result<(), LabError> {
        self.about_name().enter(directory)
    }

    fn create(&mut self, file: u32) -> Result<(), LabError> {
        self.about_name().create(file)
    }

    fn write(&mut self, file: u32, offset: u64, bytes: u32, sync: bool) -> Result<(), LabError> {
        self.about_data().write(file, offset, bytes, sync)
    }

    fn read(&mut self, file: u32, offset: u64, bytes: u32) -> Result<(), LabError> {
        self.about_data().read(file, offset, bytes)
    }

    fn open(&mut self, file: u32) -> Result<(), LabError> {
        self.about_name().open(file)
    }

    fn delete(&mut self, file: u32) -> Result<(), LabError> {
        self.about_name().delete(file)
    }

    fn sync(&mut self) -> Result<(), LabError> {
        self.about_data().sync()
    }

    fn now_ns(&self) -> u64 {
        self.system.now_ns()
    }
}

/// A program, on a file system whose calls take so many cycles to ask.
fn measure(
    context: &Context,
    (series, check): (&str, [u64; 2]),
    program: f64,
    seed: u64,
) -> Result<Row, LabError> {
    let drive = drives::st19101().with_cylinders(44);
    let platform = Platform::new(Layout::Lfs, Disk::Regular).on(drive, Host::SPARCSTATION_10);
    let store = platform.store(seed)?;
    let mut system = log_structured(&platform, Arc::clone(&store), seed)?;
    let mut open = match series {
        WITHOUT => Vec::new(),
        _ => transactions(system.file_system())?,
    };
    if series == SUPPORT {
        open.clear();
    }
    // The drive stands and the log begins as it would without.
    system.sync()?;
    let before = store.spent();
    let mut asking = Asking {
        system: &mut system,
        cycles: check,
    };
    let mut random = Random::new(seed);
    match program {
        1.0 => tpcb(context, &mut asking, &mut random)?,
        2.0 => andrew(context, &mut asking, &mut random)?,
        _ => big_files(context, &mut asking)?,
    }
    let spent = store.spent() - before;
    drop(open);
    let ms = |ns: u64| ns as f64 / 1e6;
    Ok(Row::new(series, program, seed)
        .with("total_ms", ms(spent.total_ns))
        .with("host_ms", ms(spent.host_ns))
        .with("drive_ms", ms(spent.total_ns - spent.host_ns)))
}

/// A data manager in user space: it logs, and waits for that, and writes pages back
/// whenever the file system likes.
fn tpcb(context: &Context, system: &mut Asking<'_>, random: &mut Random) -> Result<(), LabError> {
    let (accounts, pages) = (0, context.size(4000, 200));
    let (tellers, log) = (1, 2);
    (0..3).try_for_each(|file| system.create(file))?;
    for page in 0..pages {
        system.write(accounts, page * BLOCK, PAGE, false)?;
    }
    (0..10).try_for_each(|page| system.write(tellers, page * BLOCK, PAGE, false))?;
    system.sync()?;
    for transaction in 0..context.size(3000, 60) {
        let account = random.below(pages) * BLOCK;
        let teller = random.below(10) * BLOCK;
        system.read(accounts, account, PAGE)?;
        system.read(tellers, teller, PAGE)?;
        system.write(log, transaction * BLOCK, PAGE, true)?;
        system.write(accounts, account, PAGE, false)?;
        system.write(tellers, teller, PAGE, false)?;
    }
    system.sync()
}

/// Sources are copied, looked at, read, and made into objects and a program, which
/// are removed again.
fn andrew(context: &Context, system: &mut Asking<'_>, random: &mut Random) -> Result<(), LabError> {
    let files = context.size(400, 30);
    let sizes = (0..files).map(|_| PAGE * (1 + random.below(6) as u32));
    let sizes: Vec<u32> = sizes.collect();
    for _ in 0..context.size(4, 1) {
        for (file, &bytes) in (0..).zip(&sizes) {
            system.create(file)?;
            system.write(file, 0, bytes, false)?;
        }
        system.sync()?;
        for _ in 0..2 {
            for (file, &bytes) in (0..).zip(&sizes) {
                system.read(file, 0, bytes)?;
            }
        }
        let object = |file: u32| 100_000 + file;
        for (file, &bytes) in (0..).zip(&sizes) {
            system.read(file, 0, bytes)?;
            system.create(object(file))?;
            system.write(object(file), 0, bytes, false)?;
        }
        system.sync()?;
        for file in 0..files as u32 {
            system.delete(object(file))?;
            system.delete(file)?;
        }
    }
    system.sync()
}

/// Files of 1, 5 and 10 MB are created, copied and removed.
fn big_files(context: &Context, system: &mut Asking<'_>) -> Result<(), LabError> {
    let set = Set {
        files: 3,
        mb: context.size(1 << 20, 1 << 17),
    };
    set.create(system)?;
    system.sync()?;
    system.system.forget();
    set.copy(system)?;
    system.sync()?;
    set.remove(system)?;
    system.sync()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, program) in PROGRAMS {
        for series in [SUPPORT, OPEN] {
            let of = |series, value| mean(rows, series, program, value);
            let (with, without) = (of(series, "total_ms"), of(WITHOUT, "total_ms"));
            let difference = with / without - 1.0;
            let host = of(series, "host_ms") - of(WITHOUT, "host_ms");
            let drive = of(series, "drive_ms") - of(WITHOUT, "drive_ms");
            verdicts.push(Verdict::of(
                format!("{name}, {series}, beside the same without"),
                "processor and drive within 2 %",
                format!(
                    "{:+.2} % of {without:.0} ms: processor {host:+.1}, drive {drive:+.1} ms",
                    100.0 * difference
                ),
                difference.abs() <= DIFFERENCE,
            ));
        }
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Programs without transactions: 1 TPC-B in user space, 2 Andrew, 3 Bigfile".into(),
        x: "program".into(),
        y: "ms of processor and drive".into(),
        y_max: None,
        curves: Curve::all(rows, "total_ms"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system that takes a thousand times as long to ask whether a file is
    /// protected.
    #[test]
    fn a_wrong_file_system_fails() {
        let (name, program) = PROGRAMS[2];
        let run = |series, check| measure(&Context::tiny(), (series, check), program, 1).unwrap();
        let without = run(WITHOUT, [0, 0]);
        let pass = |check: [u64; 2]| {
            let verdicts = verdicts(&[without.clone(), run(SUPPORT, check)]);
            let claim = format!("{name}, {SUPPORT}, beside the same without");
            verdicts.iter().find(|v| v.claim == claim).unwrap().pass
        };
        assert!(pass(CHECK) && !pass(CHECK.map(|cycles| 1000 * cycles)));
    }
}
