//! What the loads of V9 are made of, by counts: for each operation its virtual
//! time by cause, and the requests and bytes inside the drive; for VLFS what
//! its log did besides. Deterministic.
//!
//! ```text
//! cargo run --release -p varve-lab --example vlfs_parts [LOAD [SYSTEM]]
//! ```
//!
//! Loads: `updates`, `files`, `large`; systems: `ufs`, `lfs`, `vlfs`. All of
//! them without arguments; `sync` or `buffered` as a third argument picks one.

use varve_disk::{DiskStatistics, Drive, drives};
use varve_lab::experiments::LabError;
use varve_lab::platform::ffs::Ffs;
use varve_lab::platform::files::{Files, Phase};
use varve_lab::platform::host::Host;
use varve_lab::platform::mounted::Mounted;
use varve_lab::platform::store::Spent;
use varve_lab::platform::{BLOCK, Built, Disk, Layout, Platform, System, seagate, vlfs};
use varve_prove::random::Random;
use varve_vlfs::{Vlfs, VlfsStatistics};

const SEED: u64 = 1;
const FILES: u32 = 1500;

/// A system, and what can be asked of it.
enum Subject {
    Ufs(Built),
    Lfs(Built),
    Vlfs(Box<Mounted<Vlfs>>),
}

/// A reading of all counters.
struct Reading {
    spent: Spent,
    disk: DiskStatistics,
    log: VlfsStatistics,
}

impl Subject {
    fn new(which: &str, drive: Drive) -> Result<Self, LabError> {
        let (layout, disk) = match which {
            "ufs" => (Layout::Ffs(Ffs::UFS), Disk::VirtualLog),
            "lfs" => (Layout::Lfs, Disk::Regular),
            _ => (Layout::Vlfs, Disk::Regular),
        };
        let platform = Platform::new(layout, disk).on(drive, Host::SPARCSTATION_10);
        Ok(match which {
            "ufs" => Subject::Ufs(platform.build(SEED)?),
            "lfs" => Subject::Lfs(platform.build(SEED)?),
            _ => {
                let system = vlfs::on_virtual_log(&platform, platform.store(SEED)?, SEED)?;
                Subject::Vlfs(Box::new(system))
            }
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Subject::Ufs(_) => "UFS, VLD",
            Subject::Lfs(_) => "LFS, disk",
            Subject::Vlfs(_) => "VLFS",
        }
    }

    fn system(&mut self) -> &mut dyn System {
        match self {
            Subject::Ufs(system) | Subject::Lfs(system) => &mut **system,
            Subject::Vlfs(system) => &mut **system,
        }
    }

    fn reading(&mut self) -> Reading {
        let log = match self {
            Subject::Vlfs(system) => system.file_system().layout().statistics(),
            _ => VlfsStatistics::default(),
        };
        let store = self.system().store();
        Reading {
            spent: store.spent(),
            disk: store.drive().expect("it has one").statistics(),
            log,
        }
    }

    /// Runs a phase of so many operations and says what each took.
    fn phase(
        &mut self,
        what: &str,
        each: u64,
        work: impl FnOnce(&mut dyn System) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let before = self.reading();
        work(self.system())?;
        let after = self.reading();
        let spent = after.spent - before.spent;
        let ms = |ns: u64| ns as f64 / 1e6 / each as f64;
        let times = spent.drive;
        print!(
            "{:<10} {what:<28} {:>7.3} ms: host {:.3} command {:.3} seek {:.3} switch {:.3} \
             rotation {:.3} transfer {:.3}",
            self.name(),
            ms(spent.total_ns),
            ms(spent.host_ns),
            ms(times.overhead_ns),
            ms(times.seek_ns),
            ms(times.head_switch_ns),
            ms(times.rotation_ns),
            ms(times.transfer_ns),
        );
        let (was, is) = (before.disk.requests, after.disk.requests);
        let per = |count: u64| count as f64 / each as f64;
        print!(
            "; writes {:.3} ({:.2} KB) reads {:.3} ({:.2} KB, {:.3} from buffer)",
            per(is.writes - was.writes),
            per(is.bytes_written - was.bytes_written) / 1e3,
            per(is.reads - was.reads),
            per(is.bytes_read - was.bytes_read) / 1e3,
            per(after.disk.from_buffer - before.disk.from_buffer),
        );
        if matches!(self, Subject::Vlfs(_)) {
            let (was, is) = (before.log, after.log);
            print!(
                "; transactions {:.3} brief {:.3} records {:.3} checkpoints {} reliefs {}; free \
                 blocks {}, dead records {}",
                per(is.transactions - was.transactions),
                per(is.brief - was.brief),
                per(is.records - was.records),
                is.checkpoints - was.checkpoints,
                is.reliefs - was.reliefs,
                is.blocks_free,
                is.records_waiting,
            );
        }
        if let Some(vld) = self.system().store().vld() {
            let is = vld.statistics();
            print!(
                "; free blocks {}, dead records {}",
                is.blocks_free, is.records_waiting
            );
        }
        println!();
        Ok(())
    }
}

/// V6's updates: as many as the drive has blocks, after as many (twice for LFS).
fn updates(which: &str, sync: bool) -> Result<(), LabError> {
    for percent in [20, 40, 60, 80] {
        if which == "lfs" && percent == 80 {
            continue;
        }
        let mut subject = Subject::new(which, seagate())?;
        let all = subject.system().store().drive_bytes() / BLOCK;
        let blocks = all * percent / 100;
        let system = subject.system();
        system.create(0)?;
        for block in 0..blocks {
            system.write(0, block * BLOCK, BLOCK as u32, false)?;
        }
        system.sync()?;
        let mut random = Random::new(SEED);
        let mut run = |system: &mut dyn System, updates| {
            for _ in 0..updates {
                let at = random.below(blocks) * BLOCK;
                system.write(0, at, BLOCK as u32, sync)?;
            }
            Ok(())
        };
        run(subject.system(), if which == "lfs" { 2 * all } else { all })?;
        let what = format!("updates at {percent} %");
        subject.phase(&what, all, |system| run(system, all))?;
    }
    Ok(())
}

/// V4's files of 1 KB.
fn files(which: &str, sync: bool) -> Result<(), LabError> {
    let mut subject = Subject::new(which, seagate())?;
    let names = ["files made", "files read", "files removed"];
    let files = Files {
        count: FILES,
        bytes: 1024,
        in_directory: 0,
    };
    for (name, phase) in names.into_iter().zip(Phase::SMALL) {
        subject.phase(name, FILES.into(), |system| files.run(phase, system, sync))?;
    }
    Ok(())
}

/// V5's large file.
fn large(which: &str) -> Result<(), LabError> {
    let mut random = Random::new(SEED);
    let mut subject = Subject::new(which, drives::st19101().with_cylinders(44))?;
    let blocks = (10 << 20) / BLOCK;
    subject.system().create(0)?;
    for phase in [
        "written in order",
        "read in order",
        "written at random",
        "written at random, sync",
        "read again",
        "read at random",
    ] {
        subject.phase(phase, blocks, |system| {
            for nth in 0..blocks {
                let anywhere = random.below(blocks) * BLOCK;
                let (next, bytes) = (nth * BLOCK, BLOCK as u32);
                match phase {
                    "written in order" => system.write(0, next, bytes, false)?,
                    "written at random" => system.write(0, anywhere, bytes, false)?,
                    "written at random, sync" => system.write(0, anywhere, bytes, true)?,
                    "read at random" => system.read(0, anywhere, bytes)?,
                    _ => system.read(0, next, bytes)?,
                }
            }
            system.sync()?;
            system.forget();
            Ok(())
        })?;
    }
    Ok(())
}

fn main() -> Result<(), LabError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |nth: usize, word: &str| words.get(nth).is_none_or(|asked| asked == word);
    for which in ["ufs", "lfs", "vlfs"] {
        if !wanted(1, which) {
            continue;
        }
        for (load, sync) in [("sync", true), ("buffered", false)] {
            if !wanted(2, load) || (which == "ufs" && !sync) {
                continue;
            }
            println!("{load}");
            if wanted(0, "updates") {
                updates(which, sync)?;
            }
            if wanted(0, "files") {
                files(which, sync)?;
            }
        }
        if wanted(0, "large") {
            large(which)?;
        }
    }
    Ok(())
}
