//! L3: an aged FFS against an empty one (Seltzer et al. 1995, §5): files are made
//! and read on the real layout, on a simulated drive, where only what years of use
//! have left is free, and where all is.
//!
//! As in the paper: blocks of 8 KB, `maxcontig` 7, no gaps, 32 MB in files of 8 KB,
//! 64 KB or 1 MB, 25 to a directory, on the drive and the processor of table 5;
//! metadata is written in order and at once. Not as there: directories are copied,
//! not overwritten (`docs/spec/in-place.md`, I2); and the use is that of profiles, not of people
//! (`study/file-systems.md`).

use crate::ageing::{self, Aged, Make, Profile};
use crate::error::LabError;
use crate::experiments::{Context, Experiment, Point, Row};
use crate::platform::host::{CALL, Host};
use crate::platform::store::{Places, Store};
use crate::platform::{Disk, Layout, Platform};
use crate::report::{Curve, Picture, Verdict, mean};
use std::sync::Arc;
use varve_device::{Clock, Device};
use varve_disk::drives;
use varve_ffs::{Ffs, FfsFormatOptions, FfsMountOptions, FreeMap};
use varve_fs::{Caller, FileSystem, InodeNo, Options};

pub const L3: Experiment = Experiment::new("L3", points, verdicts, picture)
    .on_machine()
    .taking(205.0);

const KB: u64 = 1 << 10;
/// Sizes of the files that are made and read.
const SIZES: [u64; 3] = [8 * KB, 64 * KB, 1024 * KB];
/// Years after which it is measured, in tenths.
const TENTHS: [u64; 3] = [5, 10, 25];
const FILES_IN_A_DIRECTORY: u64 = 25;
/// Table 5: a SparcStation I.
const SPARCSTATION_1: Host = Host {
    name: "SPARCstation-1",
    hz: 20_000_000,
    effort: 1.0,
};

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for profile in Profile::ALL {
        for tenths in context.size(&TENTHS[..], &TENTHS[..1]) {
            let tenths = *tenths;
            for seed in context.seeds() {
                let label = format!(
                    "{} after {} years, seed {seed}",
                    profile.name(),
                    years(tenths)
                );
                points.push(Point::new(label, move |context: &Context| {
                    measure(context, profile, tenths, seed)
                }));
            }
        }
    }
    points
}

fn years(tenths: u64) -> f64 {
    tenths as f64 / 10.0
}

/// Throughput of making and of reading, bytes a second of simulated time.
struct Rates {
    create: f64,
    read: f64,
}

fn measure(
    context: &Context,
    profile: Profile,
    tenths: u64,
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    let days = context.size(tenths * 365 / 10, 10);
    let scale = context.size(1, 12);
    let aged = ageing::age(profile, days, scale, seed)?;
    let empty = emptied(&aged.map);
    let mut row = Row::new(profile.name(), years(tenths), seed);
    for bytes in SIZES {
        // Not more than fits, however it is laid out.
        let room = aged.map.free_bytes() as f64 * aged.told.free_in_blocks;
        let all = context
            .size(32 * KB * KB, 2 * KB * KB)
            .min((room * 0.6) as u64);
        let old = rates(context, &aged.map, (bytes, all), seed)?;
        let new = rates(context, &empty, (bytes, all), seed)?;
        let kb = bytes / KB;
        row = row
            .with(&format!("create_{kb}"), old.create / new.create)
            .with(&format!("read_{kb}"), old.read / new.read)
            .with(&format!("create_{kb}_empty_kb_s"), new.create / 1e3)
            .with(&format!("read_{kb}_empty_kb_s"), new.read / 1e3);
    }
    Ok(vec![told(row, &aged)])
}

fn told(row: Row, aged: &Aged) -> Row {
    let told = &aged.told;
    // What is no number is left out.
    let joined = |share: Option<f64>| share.unwrap_or(f64::NAN);
    row.with("utilisation", told.utilisation)
        .with("free_in_blocks", told.free_in_blocks)
        .with("pairs_joined", joined(told.pairs_joined))
        .with("large_joined", joined(told.large_joined))
        .with("operations", told.operations as f64)
        .with("refused", told.refused as f64)
}

/// The same file system when all is free.
fn emptied(map: &FreeMap) -> FreeMap {
    let all = || std::iter::once(0..map.group_bytes()).collect();
    let groups = (0..map.groups()).map(|_| all()).collect();
    let empty = FreeMap::new(map.block_bytes(), map.group_bytes(), groups);
    empty.expect("the map has such groups")
}

/// Files on a fresh volume on which only what the map says is free.
fn rates(
    context: &Context,
    map: &FreeMap,
    (bytes, all): (u64, u64),
    seed: u64,
) -> Result<Rates, LabError> {
    let machine = Platform::new(Layout::UFS, Disk::Regular).on(drives::m2694(), SPARCSTATION_1);
    let machine = context.platform(machine);
    let (drive, disk, host) = (machine.drive, machine.disk, machine.host);
    let store = Store::new(drive, disk, Places::default(), host, seed)?;
    let store = Arc::new(store);
    let clock: Arc<dyn Clock> = Arc::clone(store.clock()) as Arc<dyn Clock>;
    let volume = volume(&store, &clock, map, seed)?;
    let options = Options {
        // As much of 32 MB as a kernel of the time left for files.
        cache_bytes: 8 << 20,
        ..Options::default()
    };
    let fs = FileSystem::mount(volume, clock, options).map_err(LabError::system)?;
    let begin = store.now_ns();
    let files = create(&fs, &store, bytes, all)?;
    fs.sync().map_err(LabError::system)?;
    let created = store.now_ns();
    fs.drop_caches();
    fs.layout().drop_caches();
    let before = store.now_ns();
    read(&fs, &store, &files, bytes)?;
    let written = files.len() as u64 * bytes;
    let rate = |ns: u64| written as f64 / (ns.max(1) as f64 / 1e9);
    Ok(Rates {
        create: rate(created - begin),
        read: rate(store.now_ns() - before),
    })
}

fn volume(
    store: &Arc<Store>,
    clock: &Arc<dyn Clock>,
    map: &FreeMap,
    seed: u64,
) -> Result<Arc<Ffs>, LabError> {
    let Make { maxcontig, .. } = Profile::News.make();
    let mut format = FfsFormatOptions {
        block_bytes: map.block_bytes(),
        group_data_blocks: map.group_bytes() / u64::from(map.block_bytes()),
        // The map has what there is.
        minfree_percent: 0,
        seed: Some(seed),
        ..FfsFormatOptions::named("ffs-m8r0").expect("a name of the papers")
    };
    if let varve_ffs::allocate::Policy::Ffs {
        maxcontig: most, ..
    } = &mut format.policy
    {
        *most = maxcontig as u32;
    }
    varve_ffs::format(&**store, &**clock, &format).map_err(LabError::system)?;
    let mount = || {
        let options = FfsMountOptions {
            seed: Some(seed),
            ..FfsMountOptions::default()
        };
        let device: Arc<dyn Device> = Arc::clone(store) as Arc<dyn Device>;
        let volume = Ffs::mount(device, Arc::clone(clock), options);
        Ok(Arc::new(volume.map_err(LabError::system)?))
    };
    let volume: Arc<Ffs> = mount()?;
    FileSystem::format(&*volume, &**clock, (0, 0)).map_err(LabError::system)?;
    let ino = {
        let fs = FileSystem::mount(Arc::clone(&volume), Arc::clone(clock), Options::default());
        let fs = fs.map_err(LabError::system)?;
        let made = fs.mknod(&Caller::root(), InodeNo::ROOT, b"aged", 0o100_400, 0);
        let ino = made.map_err(LabError::system)?.ino;
        fs.unmount().map_err(LabError::system)?;
        ino
    };
    volume.age(ino, map).map_err(LabError::system)?;
    volume.unmount().map_err(LabError::system)?;
    drop(volume);
    mount()
}

fn create(
    fs: &FileSystem<Ffs>,
    store: &Store,
    bytes: u64,
    all: u64,
) -> Result<Vec<InodeNo>, LabError> {
    let root = Caller::root();
    let data = vec![0x5a; (64 * KB) as usize];
    let mut files = Vec::new();
    let mut directory = InodeNo::ROOT;
    for nth in 0..all / bytes {
        if nth % FILES_IN_A_DIRECTORY == 0 {
            store.cpu().name();
            let name = format!("d{}", nth / FILES_IN_A_DIRECTORY);
            let made = fs.mkdir(&root, InodeNo::ROOT, name.as_bytes(), 0o755);
            directory = made.map_err(LabError::system)?.ino;
        }
        store.cpu().name();
        let name = format!("f{nth}");
        let made = fs.mknod(&root, directory, name.as_bytes(), 0o100_644, 0);
        let ino = made.map_err(LabError::system)?.ino;
        let mut at = 0;
        while at < bytes {
            let here = (bytes - at).min(data.len() as u64);
            store.cpu().transfer(CALL, here);
            let written = fs.write(&root, ino, at, &data[..here as usize]);
            written.map_err(LabError::system)?;
            at += here;
        }
        files.push(ino);
    }
    Ok(files)
}

/// Sequentially, in units of 8 KB.
fn read(
    fs: &FileSystem<Ffs>,
    store: &Store,
    files: &[InodeNo],
    bytes: u64,
) -> Result<(), LabError> {
    let mut into = vec![0; (8 * KB) as usize];
    for &ino in files {
        store.cpu().name();
        for at in (0..bytes).step_by(into.len()) {
            store.cpu().transfer(CALL, into.len() as u64);
            let got = fs.read(ino, at, &mut into).map_err(LabError::system)?;
            if got != into.len() || into.iter().any(|&byte| byte != 0x5a) {
                return Err(LabError::System(format!("inode {ino} reads otherwise")));
            }
        }
    }
    Ok(())
}

fn names() -> impl Iterator<Item = String> {
    let of = |size: u64| {
        [
            format!("create_{}", size / KB),
            format!("read_{}", size / KB),
        ]
    };
    SIZES.into_iter().flat_map(of)
}

/// Means over the seeds: profile, years, test, share of the empty one's throughput.
fn cells(rows: &[Row]) -> Vec<(String, f64, String, f64)> {
    let mut keys: Vec<(String, f64)> = rows.iter().map(|r| (r.series.clone(), r.x)).collect();
    keys.dedup();
    let each = |(series, x): (String, f64)| names().map(move |name| (series.clone(), x, name));
    let keys = keys.into_iter().flat_map(each);
    keys.map(|(series, x, name)| {
        let found = mean(rows, &series, x, &name);
        (series, x, name, found)
    })
    .collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let cells = cells(rows);
    let news = Profile::News.name();
    let of = |is: bool| {
        cells
            .iter()
            .filter(move |(series, ..)| (series == news) == is)
    };
    let others: Vec<f64> = of(false).map(|cell| cell.3).collect();
    let inside = others
        .iter()
        .filter(|share| (0.85..=1.0).contains(*share))
        .count();
    let least = others.iter().copied().fold(f64::MAX, f64::min);
    let average = others.iter().sum::<f64>() / others.len().max(1) as f64;
    let worst = of(true).map(|cell| cell.3).fold(f64::MAX, f64::min);
    let of_size = |kb: u64| {
        let ends = format!("_{kb}");
        let found: Vec<f64> = cells
            .iter()
            .filter(|(_, _, name, _)| name.ends_with(&ends))
            .map(|cell| cell.3)
            .collect();
        found.iter().sum::<f64>() / found.len().max(1) as f64
    };
    let sizes = SIZES.map(|bytes| of_size(bytes / KB));
    let joined = |name: &str| {
        let found: Vec<f64> = rows
            .iter()
            .filter_map(|r| r.values.get(name).copied())
            .collect();
        found.iter().sum::<f64>() / found.len().max(1) as f64
    };
    let (pairs, large) = (joined("pairs_joined"), joined("large_joined"));
    vec![
        Verdict::of(
            "all but the news spool, on average",
            "85 to 95 % of the empty file system",
            format!(
                "{} ({inside} of {} from 85 to 100 %, the least {})",
                percent(average),
                others.len(),
                percent(least)
            ),
            (0.85..=0.95).contains(&average),
        ),
        Verdict::of(
            "the news spool at its worst",
            "71 % (5 points either way)",
            percent(worst),
            (0.66..=0.76).contains(&worst),
        ),
        Verdict::of(
            "files of 64 KB suffer most",
            "lower than of 8 KB and of 1 MB",
            format!(
                "8 KB {}, 64 KB {}, 1 MB {}",
                percent(sizes[0]),
                percent(sizes[1]),
                percent(sizes[2])
            ),
            sizes[1] < sizes[0] && sizes[1] < sizes[2],
        ),
        Verdict::of(
            "files of two blocks that lie together",
            "37 % (10 points either way)",
            percent(pairs),
            (0.27..=0.47).contains(&pairs),
        ),
        Verdict::of(
            "blocks of files of 256 KB that follow the one before",
            "80 % (10 points either way)",
            percent(large),
            (0.7..=0.9).contains(&large),
        ),
    ]
}

/// Throughput of files of 64 KB by years of use.
fn picture(rows: &[Row]) -> Picture {
    let mut curves = Vec::new();
    for (name, shown) in [("create_64", "create"), ("read_64", "read")] {
        for mut curve in Curve::all(rows, name) {
            curve.name = format!("{}, {shown}", curve.name);
            curves.push(curve);
        }
    }
    Picture {
        title: "Files of 64 KB on an aged FFS".into(),
        x: "years of use".into(),
        y: "throughput, share of an empty FFS".into(),
        y_max: Some(1.2),
        curves,
        references: Vec::new(),
    }
}

#[cfg(test)]
pub(in crate::experiments) mod tests;
