//! R6: bytes by type of block, live and written (Rosenblum & Ousterhout 1992,
//! table 4, /user6).
//!
//! The real log on a device in memory of 256 MiB, three quarters full of files
//! with that file system's sizes. Files are replaced at its rate, 3.2 MB an
//! hour, and a checkpoint is taken every 30 seconds, as Sprite took them: so
//! one follows on each 27 KB of new data.

use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use crate::workload::SizeLaw;
use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};
use varve_fsck::inspect::Inspector;
use varve_lfs::{FormatOptions, Lfs, MountOptions, Statistics};
use varve_prove::random::Random;

/// 3.2 MB an hour, for 30 seconds.
const CHECKPOINT_BYTES: u64 = 3_200_000 / 120;
const BLOCK: u64 = 4096;

/// Types, and the paper's shares of live data and log bandwidth in percent.
const TYPES: [(&str, f64, f64); 6] = [
    ("data", 98.0, 85.2),
    ("index nodes", 1.0, 1.6),
    ("inodes", 0.2, 2.7),
    ("inode map", 0.2, 7.8),
    ("usage table", 0.0, 2.1),
    ("summaries", 0.6, 0.5),
];

pub const R6: Experiment = Experiment::new("R6", points, verdicts, picture);

fn points(context: &Context) -> Vec<Point> {
    context
        .seeds()
        .map(|seed| {
            Point::new(format!("seed {seed}"), move |context| {
                run(context, seed, CHECKPOINT_BYTES).map_err(LabError::system)
            })
        })
        .collect()
}

/// A volume that is filled and then used.
struct Use {
    fs: FileSystem<Lfs>,
    random: Random,
    sizes: SizeLaw,
    files: Vec<(InodeNo, String)>,
    made: u64,
    directory: InodeNo,
}

impl Use {
    /// Makes a file; the bytes written.
    fn make(&mut self) -> varve_fs::Result<u64> {
        let caller = Caller::root();
        if self.made.is_multiple_of(100) {
            let name = format!("d{}", self.made / 100);
            let (root, name) = (InodeNo::ROOT, name.as_bytes());
            let made = self.fs.mkdir(&caller, root, name, 0o755)?;
            self.directory = made.ino;
        }
        let name = format!("f{}", self.made);
        self.made += 1;
        let (at, mode) = (self.directory, 0o100_644);
        let file = self.fs.mknod(&caller, at, name.as_bytes(), mode, 0)?;
        let bytes = u64::from(self.sizes.draw(&mut self.random)) * BLOCK;
        let data = vec![0x5a; bytes as usize];
        self.fs.write(&caller, file.ino, 0, &data)?;
        self.files.push((at, name));
        Ok(bytes)
    }

    fn remove(&mut self) -> varve_fs::Result<()> {
        let at = self.random.below(self.files.len() as u64) as usize;
        let (directory, name) = self.files.swap_remove(at);
        self.fs.unlink(&Caller::root(), directory, name.as_bytes())
    }
}

fn run(context: &Context, seed: u64, checkpoint_bytes: u64) -> varve_fs::Result<Vec<Row>> {
    let bytes = context.size(256 << 20, 32 << 20);
    let device = Arc::new(MemoryDevice::new(bytes));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    let format = FormatOptions {
        seed: Some(seed),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format)?;
    let mount = MountOptions {
        seed: Some(seed),
        // Checkpoints are taken by hand.
        checkpoint_seconds: u64::MAX,
        ..MountOptions::default()
    };
    let lfs = Lfs::mount(device.clone(), Arc::clone(&clock), mount)?;
    FileSystem::format(&lfs, &*clock, (0, 0))?;
    let options = Options {
        read_ahead_threads: 0,
        ..Options::default()
    };
    let mut used = Use {
        fs: FileSystem::mount(Arc::new(lfs), Arc::clone(&clock), options)?,
        random: Random::new(seed),
        sizes: SizeLaw::office(),
        files: Vec::new(),
        made: 0,
        directory: InodeNo::ROOT,
    };
    let mut filled = 0;
    let room = used.fs.statfs().blocks * BLOCK;
    while filled < room / 4 * 3 {
        filled += used.make()?;
        used.fs.maintain()?;
    }
    used.fs.sync()?;
    used.fs.layout().checkpoint()?;
    let before = used.fs.layout().statistics();
    let (mut written, mut taken) = (0, 0);
    while written < context.size(24_000_000, 1_000_000) {
        used.remove()?;
        written += used.make()?;
        while taken < written / checkpoint_bytes {
            used.fs.sync()?;
            used.fs.layout().checkpoint()?;
            taken += 1;
        }
    }
    let after = used.fs.layout().statistics();
    let usage = used.fs.layout().usage();
    drop(used);
    let inode_bytes = u64::from(format.inode_bytes);
    let live = live(
        &device,
        &clock,
        (usage.sectors * 512, usage.inodes * inode_bytes),
    )?;
    Ok(rows(seed, live, written_between(&before, &after)))
}

/// Live bytes by type, in the order of [`TYPES`]; of summaries none.
fn live(
    device: &Arc<MemoryDevice>,
    clock: &Arc<dyn Clock>,
    (data, inodes): (u64, u64),
) -> varve_fs::Result<[u64; 6]> {
    let volume = Inspector::open(device.clone(), Arc::clone(clock))?;
    let ifile = volume.ifile()?;
    let region = |table: bool| -> u64 {
        let regions = ifile.regions.iter();
        let wanted = regions.filter(|r| (r.name == "usage table") == table);
        wanted.map(|r| r.bytes).sum()
    };
    let slots = volume.checkpoints();
    let used = slots.iter().find(|slot| slot.used);
    let record = used.and_then(|slot| slot.record.as_ref());
    let metadata = record.map_or(0, |record| record.metadata_bytes);
    let (table, map) = (region(true), region(false));
    let nodes = metadata.saturating_sub(table + map);
    Ok([data, nodes, inodes, map, table, 0])
}

fn written_between(before: &Statistics, after: &Statistics) -> [u64; 6] {
    let of = |s: &Statistics| {
        [
            s.data_bytes,
            s.node_bytes,
            s.inode_bytes,
            s.inode_map_bytes,
            s.usage_table_bytes,
            s.summary_bytes,
        ]
    };
    let (before, after) = (of(before), of(after));
    std::array::from_fn(|at| after[at] - before[at])
}

fn rows(seed: u64, live: [u64; 6], written: [u64; 6]) -> Vec<Row> {
    let percent = |of: [u64; 6], at: usize| {
        let all: u64 = of.iter().sum();
        100.0 * of[at] as f64 / all.max(1) as f64
    };
    (0..TYPES.len())
        .map(|at| {
            Row::new("Varve", at as f64, seed)
                .with("live", percent(live, at))
                .with("log", percent(written, at))
        })
        .collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let share = |at: usize, name| mean(rows, "Varve", at as f64, name);
    let data = share(0, "live");
    let mut verdicts = vec![Verdict::of(
        "data blocks among what lives",
        "at least 95 %",
        format!("{data:.1} %"),
        data >= 95.0,
    )];
    for (at, (name, _, paper)) in TYPES.iter().enumerate().skip(1) {
        let found = share(at, "log");
        verdicts.push(Verdict::of(
            format!("{name} in the log's bandwidth"),
            format!("{paper} % within a factor of 2"),
            format!("{found:.1} %"),
            (paper / 2.0..=paper * 2.0).contains(&found),
        ));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let share = |name| {
        let at = 0..TYPES.len();
        at.map(|at| (at as f64, mean(rows, "Varve", at as f64, name)))
            .collect()
    };
    let paper = |of: fn(&(&str, f64, f64)) -> f64| {
        let shares = TYPES.iter().enumerate();
        shares
            .map(|(at, of_type)| (at as f64, of(of_type)))
            .collect()
    };
    let names: Vec<&str> = TYPES.iter().map(|of| of.0).collect();
    Picture {
        title: "Bytes by type of block".into(),
        x: format!("0 to 5: {}", names.join(", ")),
        y: "percent".into(),
        y_max: None,
        curves: vec![
            Curve::named("live", share("live")),
            Curve::named("log bandwidth", share("log")),
        ],
        references: vec![
            Curve::named("paper, live", paper(|of| of.1)),
            Curve::named("paper, log bandwidth", paper(|of| of.2)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many more checkpoints than the volume needs, which is an eighth of the usual one.
    #[test]
    fn a_wrong_log_fails() {
        let holding = |checkpoint_bytes: u64| {
            let rows = run(&Context::tiny(), 1, checkpoint_bytes).unwrap();
            let verdicts = verdicts(&rows);
            verdicts.into_iter().filter(|verdict| verdict.pass).count()
        };
        let (right, wrong) = (holding(16 * CHECKPOINT_BYTES), holding(CHECKPOINT_BYTES));
        assert!(right > wrong, "{right} {wrong}");
    }
}
