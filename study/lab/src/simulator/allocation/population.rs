//! Files, what they hold and where.

use super::{Assumptions, FileType, Load, PolicyKind};
use crate::workload::normal;
use varve_ffs::allocate::{Allocator, Extent, FileView, Kind};
use varve_prove::random::Random;

/// Files of a directory, as in chapter 7 (T2105); chapter 3 does not say.
const IN_DIRECTORY: usize = 100;

/// A file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) kind: usize,
    /// 0: it was deleted.
    pub(super) bytes: u64,
    /// Where a sequential request goes on.
    pub(super) position: u64,
    view: FileView,
    /// Its extents by their first unit within the file.
    runs: Vec<(u64, Extent)>,
}

/// A request for room could not be satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRoom;

/// All files of a workload on a volume.
#[derive(Debug)]
pub struct Population {
    pub(super) types: Vec<FileType>,
    /// By type; `first[kind]` is a type's first.
    pub(super) files: Vec<File>,
    pub(super) first: Vec<usize>,
    /// Where the directories are that have a file.
    directories: Vec<Option<u64>>,
    map: Box<dyn Allocator>,
    unit_bytes: u64,
    block_units: u64,
    initial_deviation: f64,
    deviation: f64,
    /// Of all files.
    used_bytes: u64,
    held_units: u64,
    /// Requests for room.
    asked: u64,
    random: Random,
    taken: Vec<Extent>,
}

impl Population {
    /// All files at their initial sizes, or as many as there is room for.
    ///
    /// # Errors
    /// There is no room for one of them.
    pub fn new(
        load: Load,
        policy: PolicyKind,
        assumed: &Assumptions,
        seed: u64,
    ) -> (Self, Result<(), OutOfRoom>) {
        let map = policy.build(load, assumed.volume_bytes(), seed);
        let unit = policy.unit_bytes(load);
        let mut population = Population::with(load, map, unit, assumed, seed);
        population.block_units = policy.block_units(load);
        let mut nth = vec![0; population.types.len()];
        for (number, file) in population.files.iter_mut().enumerate() {
            file.view.number = number as u64;
            file.view.wish = policy.wish(load, file.kind, nth[file.kind]);
            nth[file.kind] += 1;
        }
        let files = 0..population.files.len();
        let made = files
            .into_iter()
            .try_for_each(|file| population.create(file));
        (population, made)
    }

    fn with(
        load: Load,
        map: Box<dyn Allocator>,
        unit_bytes: u64,
        assumed: &Assumptions,
        seed: u64,
    ) -> Self {
        let types = load.types(assumed);
        let mut files = Vec::new();
        let mut first = Vec::new();
        for (kind, of) in types.iter().enumerate() {
            first.push(files.len());
            files.extend((0..of.files).map(|_| File {
                kind,
                ..File::default()
            }));
        }
        Population {
            directories: vec![None; files.len().div_ceil(IN_DIRECTORY)],
            types,
            files,
            first,
            map,
            unit_bytes,
            block_units: 1,
            initial_deviation: assumed.initial_deviation,
            deviation: assumed.deviation,
            used_bytes: 0,
            held_units: 0,
            asked: 0,
            random: Random::new(seed ^ 0x0066_696c_6573),
            taken: Vec::new(),
        }
    }

    /// The size of a request around its mean.
    pub(super) fn draw(&mut self, mean: u64) -> u64 {
        self.around(mean, self.deviation)
    }

    /// A size around a mean, at least one byte.
    fn around(&mut self, mean: u64, deviation: f64) -> u64 {
        let drawn = mean as f64 * (1.0 + deviation * normal(&mut self.random));
        drawn.round().max(1.0) as u64
    }

    /// Makes a file, in requests of its type's size.
    pub(super) fn create(&mut self, file: usize) -> Result<(), OutOfRoom> {
        let kind = self.types[self.files[file].kind];
        let wanted = self.around(kind.bytes, self.initial_deviation);
        // An inode is in its directory's region, a directory where the policy likes (T738).
        let directory = &mut self.directories[file / IN_DIRECTORY];
        let near = *directory.get_or_insert_with(|| self.map.home(0, Kind::Directory));
        self.files[file].view.home = self.map.home(near, Kind::File);
        self.files[file].position = 0;
        while self.files[file].bytes < wanted {
            let step = (wanted - self.files[file].bytes).min(kind.request_bytes);
            self.extend(file, step)?;
        }
        Ok(())
    }

    /// A file grows.
    pub(super) fn extend(&mut self, file: usize, bytes: u64) -> Result<(), OutOfRoom> {
        self.asked += 1;
        let file = &mut self.files[file];
        let units = (file.bytes + bytes).div_ceil(self.unit_bytes);
        let units = units.next_multiple_of(self.block_units);
        if units > file.view.held {
            let more = units - file.view.held;
            let taken = &mut self.taken;
            taken.clear();
            let extended = self.map.extend(&file.view, more, taken);
            extended.map_err(|_| OutOfRoom)?;
            let before = file.view.held;
            for &extent in taken.iter() {
                match file.runs.last_mut() {
                    Some((_, last)) if last.end() == extent.start => last.units += extent.units,
                    _ => file.runs.push((file.view.held, extent)),
                }
                file.view.held += extent.units;
            }
            file.view.end = file.runs.last().map(|(_, last)| last.end());
            self.held_units += file.view.held - before;
        }
        file.bytes += bytes;
        self.used_bytes += bytes;
        Ok(())
    }

    /// A file loses its end, or all of it.
    pub(super) fn truncate(&mut self, file: usize, bytes: u64) {
        let file = &mut self.files[file];
        let bytes = bytes.min(file.bytes);
        file.bytes -= bytes;
        self.used_bytes -= bytes;
        let units = file.bytes.div_ceil(self.unit_bytes);
        let units = units.next_multiple_of(self.block_units);
        let keep = self.map.rounded(&file.view, units);
        while file.view.held > keep {
            let (first, mut last) = file.runs.pop().expect("it holds something");
            let excess = (file.view.held - keep).min(last.units);
            last.units -= excess;
            let tail = Extent {
                start: last.end(),
                units: excess,
            };
            self.map.release(tail).expect("the file holds it");
            if last.units > 0 {
                file.runs.push((first, last));
            }
            file.view.held -= excess;
            self.held_units -= excess;
        }
        file.view.end = file.runs.last().map(|(_, last)| last.end());
        file.position = file.position.min(file.bytes);
    }

    pub(super) fn delete(&mut self, file: usize) {
        self.truncate(file, u64::MAX);
    }

    /// The bytes of the volume that a range of a file is on, in whole units.
    pub(super) fn locate(&self, file: usize, offset: u64, bytes: u64, to: &mut Vec<(u64, u64)>) {
        let file = &self.files[file];
        let unit = self.unit_bytes;
        let (mut at, end) = (offset / unit, (offset + bytes).div_ceil(unit));
        let mut nth = file.runs.partition_point(|(first, _)| *first <= at);
        nth = nth.saturating_sub(1);
        while let Some((first, run)) = file.runs.get(nth).filter(|_| at < end) {
            let here = (first + run.units).min(end) - at;
            to.push(((run.start + at - first) * unit, here * unit));
            at += here;
            nth += 1;
        }
    }

    /// Moves every file to the better place that the policy knows, if it does:
    /// what a nightly reallocation does. How many were moved.
    pub fn reallocate(&mut self) -> usize {
        let mut moved = 0;
        for file in &mut self.files {
            let units = file.bytes.div_ceil(self.unit_bytes);
            let Some(taken) = self.map.reallocate(&file.view, units) else {
                continue;
            };
            for (_, run) in file.runs.drain(..) {
                self.map.release(run).expect("the file holds it");
            }
            self.held_units -= file.view.held;
            file.view.held = 0;
            for extent in taken {
                file.runs.push((file.view.held, extent));
                file.view.held += extent.units;
                file.view.end = Some(extent.end());
            }
            self.held_units += file.view.held;
            moved += 1;
        }
        moved
    }

    /// Requests for room so far.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Part of what files hold that is not used.
    pub fn internal(&self) -> f64 {
        1.0 - self.used_bytes as f64 / (self.held_units * self.unit_bytes).max(1) as f64
    }

    /// Part of the volume that is free.
    pub fn external(&self) -> f64 {
        self.map.free_units() as f64 / self.map.capacity().max(1) as f64
    }

    /// Contiguous runs of a file, on average over those that are there.
    pub fn runs_per_file(&self) -> f64 {
        let there = self.files.iter().filter(|file| file.bytes > 0);
        let runs: usize = self.files.iter().map(|file| file.runs.len()).sum();
        runs as f64 / there.count().max(1) as f64
    }

    /// Extents of the files' own sizes, on average over the files, and over the
    /// requests. For extents only.
    pub fn extents_per_file(&self) -> (f64, f64) {
        let mut sums = vec![(0.0, 0.0); self.types.len()];
        for file in self.files.iter().filter(|file| file.bytes > 0) {
            let each = self.map.rounded(&file.view, 1);
            sums[file.kind].0 += (file.view.held / each) as f64;
            sums[file.kind].1 += 1.0;
        }
        let (extents, files) = sums.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let users: u32 = self.types.iter().map(|kind| kind.users).sum();
        let weigh = |(sum, kind): (&(f64, f64), &FileType)| {
            sum.0 / sum.1.max(1.0) * f64::from(kind.users) / f64::from(users)
        };
        let by_request = sums.iter().zip(&self.types).map(weigh).sum();
        (extents / f64::max(files, 1.0), by_request)
    }
}
