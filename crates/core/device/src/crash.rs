//! The images that a power cut may leave on a medium.
//!
//! The input is the image before, and the trace of the requests to the device since.
//! The medium is the one that `docs/guide/semantics.md` assumes: writes covered by a
//! successful flush are present; of the later writes any subset is, in whole or in
//! part. One atomic unit is written whole or not at all, or reads as an error, which is
//! modelled by zeros or garbage in its place.
//!
//! Invariants:
//! - The same base, trace, limits, stop and seed give the same images in the same
//!   order.
//! - Every image is one that the medium may leave. Every image has all durable bytes.
//! - Of equal images with equal obligations (the same durable events, the same marks
//!   before the stop) only the first is visited.
//!
//! A discard leaves a range undefined; here it leaves zeros or the former bytes.
//!
//! Sources: CrashMonkey (Mohan et al. 2018) for exploring what was not flushed;
//! SQLite's and littlefs's power-loss tests for stopping everywhere.

mod epoch;
mod shapes;

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;

use crate::hash;
use crate::memory::MemoryImage;
use crate::random::Random;
use crate::recorder::Event;
use epoch::Epoch;

/// The number of states to try at each stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of unflushed writes of which all subsets are tried; default 8, at
    /// most 20. Of more writes the explorer tries every prefix, all but one, only one,
    /// and random subsets.
    pub exhaustive_writes: u32,
    /// Number of random subsets if there are more than `exhaustive_writes`; default
    /// 256.
    pub random_subsets: u32,
    /// Maximum number of each of the prefixes, all-but-ones and only-ones, spread
    /// evenly; default no limit.
    pub each_shape: u32,
    /// Number of unflushed writes to tear, the newest and then drawn ones; default 2.
    pub torn_writes: u32,
    /// Maximum number of variants of tearing one write; default 9.
    pub torn_variants: u32,
    /// Number of states in which a coin decides, for each unit of every unflushed
    /// write, whether it is on the medium; default 8.
    pub scattered: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            exhaustive_writes: 8,
            random_subsets: 256,
            each_shape: u32::MAX,
            torn_writes: 2,
            torn_variants: 9,
            scattered: 8,
        }
    }
}

impl Limits {
    /// Returns the default limits without tearing and scattering.
    pub fn whole_writes() -> Self {
        Limits {
            torn_writes: 0,
            scattered: 0,
            ..Limits::default()
        }
    }
}

/// The content of a unit that a torn write did not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The former bytes.
    Old,
    /// All zeros.
    Zero,
    /// Seeded garbage, for a unit that would read as an error.
    Garbage,
}

/// A description of how one write was torn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tear {
    /// Index of the write in the trace.
    pub write: usize,
    /// A flag for each atomic unit of the write: true if the unit is on the medium.
    pub landed: Vec<bool>,
    /// The content of the other units.
    pub missing: Missing,
}

/// The unflushed writes that a crash state contains, and the rule that chose them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CrashShape {
    /// One of all subsets; bit `i` stands for the `i`th unflushed write.
    Subset(u32),
    /// The first writes, of the given number.
    Prefix(usize),
    /// All writes but the one at this index of the trace.
    DropOne(usize),
    /// Only the write at this index of the trace.
    KeepOne(usize),
    /// The random subset with this number.
    Random(u32),
    /// One write torn, and each other write whole or absent.
    Torn(Tear),
    /// Units of all writes; the value is the number of the draw.
    Scattered(u32),
}

/// A description of a crash state, for people and for reproduction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashDescription {
    /// Number of events of the trace before the power cut.
    pub stop: usize,
    /// Number of writes and discards that no flush covered.
    pub unflushed: usize,
    /// The unflushed writes that the state contains.
    pub shape: CrashShape,
    /// Indices, in the trace, of the unflushed writes that the state contains whole.
    pub applied: Vec<usize>,
}

impl fmt::Display for CrashDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashDescription {
            stop, unflushed, ..
        } = self;
        write!(f, "crash after {stop} events, {unflushed} unflushed, ")?;
        match &self.shape {
            CrashShape::Subset(bits) => write!(f, "subset {bits:#b}")?,
            CrashShape::Prefix(count) => write!(f, "the first {count}")?,
            CrashShape::DropOne(index) => write!(f, "all but event {index}")?,
            CrashShape::KeepOne(index) => write!(f, "only event {index}")?,
            CrashShape::Random(number) => write!(f, "random subset {number}")?,
            CrashShape::Scattered(number) => write!(f, "scattered units, draw {number}")?,
            CrashShape::Torn(tear) => {
                let landed = tear.landed.iter().map(|&yes| if yes { '1' } else { '0' });
                let landed: String = landed.collect();
                let (write, missing) = (tear.write, tear.missing);
                write!(f, "event {write} torn, units {landed}, others {missing:?}")?;
            }
        }
        write!(f, ", whole: {:?}", self.applied)
    }
}

/// The numbers of states that an explorer has handled so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrashCounts {
    /// Number of images passed to the visitor.
    pub visited: u64,
    /// Number of images that equalled an earlier one and were not passed to the
    /// visitor.
    pub duplicates: u64,
}

/// The states already visited under the present obligations.
#[derive(Debug, Default)]
struct Seen {
    keys: HashSet<u64>,
    counts: CrashCounts,
}

impl Seen {
    fn is_new(&mut self, key: u64) -> bool {
        let new = self.keys.insert(key);
        self.counts.visited += u64::from(new);
        self.counts.duplicates += u64::from(!new);
        new
    }
}

/// Enumerates the crash states of one trace at one stop after the other.
#[derive(Debug)]
pub struct CrashExplorer<'a> {
    base: &'a MemoryImage,
    trace: &'a [Event],
    unit: u32,
    limits: Limits,
    stop: usize,
    /// The events before this index are durable.
    covers: usize,
    marks: usize,
    epoch: Epoch,
    seen: Seen,
    whole_units: bool,
}

impl<'a> CrashExplorer<'a> {
    /// Creates an explorer of `trace`, which began on `base`, on a medium whose atomic
    /// unit is `unit` bytes.
    ///
    /// # Panics
    /// If the unit is not a power of two from 512 to 4096, or if the limits ask for all
    /// subsets of more than 20 writes.
    pub fn new(base: &'a MemoryImage, trace: &'a [Event], unit: u32, limits: Limits) -> Self {
        assert!(
            unit.is_power_of_two() && (512..=4096).contains(&unit),
            "atomic unit of {unit} bytes"
        );
        assert!(limits.exhaustive_writes <= 20, "too many subsets to try");
        CrashExplorer {
            base,
            trace,
            unit,
            limits,
            stop: 0,
            covers: 0,
            marks: 0,
            epoch: Epoch::new(base.clone(), unit),
            seen: Seen::default(),
            whole_units: false,
        }
    }

    /// Assumes a medium on which a unit is written whole or not at all, and never reads
    /// as an error, as layouts without a journal require.
    pub fn keep_units_whole(&mut self) {
        self.whole_units = true;
    }

    /// Returns the stops worth exploring: before the first event and after each event,
    /// but not just before a mark, where the obligations are fewer and nothing else
    /// differs.
    pub fn stops(&self) -> impl Iterator<Item = usize> + use<'a> {
        let trace = self.trace;
        (0..=trace.len()).filter(move |&stop| !matches!(trace.get(stop), Some(Event::Mark(_))))
    }

    /// Returns the marks set before `stop`, which a state at that stop must honour.
    pub fn marks(&self, stop: usize) -> impl Iterator<Item = u64> + use<'a> {
        self.trace[..stop].iter().filter_map(|event| match event {
            Event::Mark(tag) => Some(*tag),
            _ => None,
        })
    }

    /// Moves to the moment after the first `stop` events. The cost is low if stops
    /// ascend; going back starts over from the base.
    ///
    /// # Panics
    /// If the trace has fewer events, or a write in it is not within the base.
    pub fn advance(&mut self, stop: usize) {
        if stop < self.stop {
            self.epoch = Epoch::new(self.base.clone(), self.unit);
            (self.stop, self.covers, self.marks) = (0, 0, 0);
            self.seen.keys.clear();
        }
        for (index, event) in self.trace[..stop].iter().enumerate().skip(self.stop) {
            match event {
                Event::Write { offset, data } => self.epoch.write(index, *offset, data),
                Event::Discard { offset, length } => self.epoch.discard(index, *offset, *length),
                Event::Mark(_) => {
                    self.marks += 1;
                    self.seen.keys.clear();
                }
                Event::Flush { covers } => {
                    if *covers > self.covers {
                        self.covers = *covers;
                        self.epoch.settle(*covers);
                        self.seen.keys.clear();
                    }
                }
            }
        }
        self.stop = stop;
    }

    /// Returns the image that contains exactly the durable bytes at the present stop.
    pub fn durable(&self) -> &MemoryImage {
        self.epoch.durable()
    }

    /// Returns the number of writes and discards that no flush covers at the present
    /// stop.
    pub fn unflushed(&self) -> usize {
        self.epoch.len()
    }

    /// Returns the numbers of states handled so far, over all stops.
    pub fn counts(&self) -> CrashCounts {
        self.seen.counts
    }

    /// Visits the crash states after the first `stop` events, until the visitor breaks.
    ///
    /// # Panics
    /// As [`CrashExplorer::advance`].
    pub fn for_each<B>(
        &mut self,
        stop: usize,
        seed: u64,
        mut visit: impl FnMut(MemoryImage, &CrashDescription) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.advance(stop);
        let mut random = Random::stream(seed, stop as u64);
        self.whole(&mut random, &mut visit)?;
        self.torn(&mut random, &mut visit)?;
        self.scattered(&mut random, &mut visit)
    }

    fn describe(&self, shape: CrashShape, chosen: &[bool]) -> CrashDescription {
        CrashDescription {
            stop: self.stop,
            unflushed: self.epoch.len(),
            shape,
            applied: self.epoch.indices(chosen),
        }
    }

    /// Visits subsets of whole writes.
    fn whole<B>(
        &mut self,
        random: &mut Random,
        visit: &mut impl FnMut(MemoryImage, &CrashDescription) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let (count, limits) = (self.epoch.len(), self.limits);
        shapes::subsets(count, &limits, random, &mut |shape, chosen| {
            // Where no two writes touch one sector, the key is known before the image
            // is built, so that most duplicates cost nothing.
            let early = self.epoch.subset_key(chosen);
            if early.is_some_and(|key| !self.seen.is_new(key)) {
                return ControlFlow::Continue(());
            }
            let image = self.epoch.subset(chosen);
            if early.is_none() && !self.seen.is_new(self.epoch.key(&image)) {
                return ControlFlow::Continue(());
            }
            let shape = match shape {
                CrashShape::DropOne(at) => CrashShape::DropOne(self.epoch.index(at)),
                CrashShape::KeepOne(at) => CrashShape::KeepOne(self.epoch.index(at)),
                other => other,
            };
            visit(image, &self.describe(shape, chosen))
        })
    }

    /// Visits states with one write torn.
    fn torn<B>(
        &mut self,
        random: &mut Random,
        visit: &mut impl FnMut(MemoryImage, &CrashDescription) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let writes = self.epoch.writes();
        for torn in shapes::pick(&writes, self.limits.torn_writes, random) {
            let units = self.epoch.units(torn);
            let mut tears = shapes::tears(units, self.limits.torn_variants, random);
            if self.whole_units {
                tears
                    .iter_mut()
                    .for_each(|(_, missing)| *missing = Missing::Old);
            }
            for (number, (landed, missing)) in tears.into_iter().enumerate() {
                // Every other state has the neighbours that a medium leaves which
                // writes in order; the rest have random ones.
                let mut chosen: Vec<bool> = match number % 2 {
                    0 => (0..self.epoch.len()).map(|at| at < torn).collect(),
                    _ => (0..self.epoch.len()).map(|_| random.coin()).collect(),
                };
                chosen[torn] = false;
                let garbage = random.next();
                let mut image = self.epoch.subset(&chosen);
                self.epoch.tear(&mut image, torn, &landed, missing, garbage);
                if !self.seen.is_new(self.epoch.key(&image)) {
                    continue;
                }
                let shape = CrashShape::Torn(Tear {
                    write: self.epoch.index(torn),
                    landed,
                    missing,
                });
                visit(image, &self.describe(shape, &chosen))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Visits states with any units of any writes.
    fn scattered<B>(
        &mut self,
        random: &mut Random,
        visit: &mut impl FnMut(MemoryImage, &CrashDescription) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if self.epoch.writes().is_empty() {
            return ControlFlow::Continue(());
        }
        for number in 0..self.limits.scattered {
            let mut image = self.epoch.durable().clone();
            let mut whole = vec![false; self.epoch.len()];
            for (at, whole) in whole.iter_mut().enumerate() {
                let landed: Vec<bool> = (0..self.epoch.units(at)).map(|_| random.coin()).collect();
                *whole = !landed.contains(&false);
                self.epoch.tear(&mut image, at, &landed, Missing::Old, 0);
            }
            if self.seen.is_new(self.epoch.key(&image)) {
                let shape = CrashShape::Scattered(number);
                visit(image, &self.describe(shape, &whole))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the state after the first `stop` events in which the unflushed writes
    /// before event `write` are whole, that write has only its first `bytes` bytes, and
    /// later writes are absent. No medium tears so finely: this is for records that
    /// must be safe even then. Returns `None` if event `write` is not an unflushed
    /// write at that stop.
    ///
    /// # Panics
    /// As [`CrashExplorer::advance`], and if the write has fewer bytes.
    pub fn byte_prefix(&mut self, stop: usize, write: usize, bytes: usize) -> Option<MemoryImage> {
        self.advance(stop);
        let at = (0..self.epoch.len()).find(|&at| self.epoch.index(at) == write)?;
        let Event::Write { offset, data } = &self.trace[write] else {
            return None;
        };
        let earlier: Vec<bool> = (0..self.epoch.len()).map(|other| other < at).collect();
        let mut image = self.epoch.subset(&earlier);
        image.write(*offset, &data[..bytes]);
        Some(image)
    }

    /// Returns a number that identifies this exploration: a hash of the trace, the unit
    /// and the limits.
    pub fn fingerprint(&self) -> u64 {
        let Limits {
            exhaustive_writes,
            random_subsets,
            each_shape,
            torn_writes,
            torn_variants,
            scattered,
        } = self.limits;
        let numbers = [
            self.unit,
            exhaustive_writes,
            random_subsets,
            each_shape,
            torn_writes,
            torn_variants,
            scattered,
        ];
        let trace = crate::recorder::trace_fingerprint(self.trace);
        let start = hash::step(self.base.fingerprint(), trace);
        let all = numbers.iter().fold(start, |hash, &number| {
            hash::mix(hash::step(hash, u64::from(number)))
        });
        hash::mix(all)
    }
}

#[cfg(test)]
mod tests;
