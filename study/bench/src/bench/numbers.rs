//! Files with numbers below a directory, for the programs of the laboratory.
//!
//! A program keeps the files open that it used last, two of them, so that it can copy.
//! Content is a function of the file, of how often its number was made, and of the place;
//! everything that is read is compared.

use super::pattern::Pattern;
use super::record::Record;
use super::target::{Fault, How, Outcome, Target, TargetFile};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use varve_device::AlignedBuffer;
use varve_lab::program::NumberedFiles;

/// Files that are open at a time.
const OPEN: usize = 2;

/// What calls took.
#[derive(Default)]
pub struct Calls {
    /// Making directories and files.
    pub makes: Record,
    /// Reading, with opening what is not open.
    pub reads: Record,
    /// Writing, with the same.
    pub writes: Record,
    /// Attributes.
    pub looks: Record,
    /// Removing.
    pub removes: Record,
    /// Syncs.
    pub syncs: Record,
}

impl Calls {
    /// Adds all of them but syncs to a phase.
    pub fn add_to(&self, record: &mut Record) {
        for part in [
            &self.makes,
            &self.reads,
            &self.writes,
            &self.looks,
            &self.removes,
        ] {
            record.merge(part);
        }
    }
}

/// Where a file is.
#[derive(Clone, Copy)]
struct Place {
    directory: u32,
    /// How often its number had been made.
    generation: u64,
}

/// See the module's head.
pub struct Numbers<'a, T: Target> {
    target: &'a T,
    pattern: Pattern,
    home: String,
    /// Tells the content of users apart.
    user: u64,
    files: HashMap<u32, Place>,
    made: HashMap<u32, u64>,
    directories: HashSet<u32>,
    here: u32,
    open: Vec<(u32, T::File)>,
    buffer: AlignedBuffer,
    calls: Calls,
    busy: Duration,
}

impl<'a, T: Target> Numbers<'a, T> {
    /// None yet. `home`, which exists, is the root; `user` is the number of who uses it.
    pub fn new(target: &'a T, pattern: Pattern, home: String, user: usize) -> Self {
        Numbers {
            target,
            pattern,
            home,
            user: (user as u64) << 32,
            files: HashMap::new(),
            made: HashMap::new(),
            directories: HashSet::from([0]),
            here: 0,
            open: Vec::new(),
            buffer: AlignedBuffer::zeroed(1 << 20),
            calls: Calls::default(),
            busy: Duration::ZERO,
        }
    }

    /// What was called since this was last asked.
    pub fn take(&mut self) -> Calls {
        std::mem::take(&mut self.calls)
    }

    /// Closes what is open, so that caches can be dropped, or all be mounted anew.
    pub fn close(&mut self) -> Outcome<()> {
        self.open.drain(..).try_for_each(|(_, file)| file.close())
    }

    /// Uses the processor for so many seconds, which count.
    pub fn compute(&mut self, seconds: f64) {
        let now = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
        };
        if seconds <= 0.0 {
            return;
        }
        let (begun, until) = (Instant::now(), now() + seconds);
        let mut sum = 0u64;
        while now() < until {
            for i in 0..1000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
            }
        }
        self.busy += begun.elapsed();
    }

    fn directory(&self, directory: u32) -> String {
        match directory {
            0 => self.home.clone(),
            _ => format!("{}/d{directory}", self.home),
        }
    }

    fn place(&self, file: u32) -> Outcome<(Place, String)> {
        let place = self.files.get(&file).copied();
        let place = place.ok_or_else(|| Fault::System(format!("there is no file {file}")))?;
        Ok((place, self.path(file, place.directory)))
    }

    fn path(&self, file: u32, directory: u32) -> String {
        format!("{}/f{file:05}", self.directory(directory))
    }

    /// Has it open; the one that was used longest ago is closed.
    fn opened(&mut self, file: u32, path: &str) -> Outcome<()> {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == file) {
            self.open[..=at].rotate_right(1);
            return Ok(());
        }
        let opened = self.target.open(path, How::ReadWrite)?;
        self.insert(file, opened)
    }

    fn insert(&mut self, file: u32, opened: T::File) -> Outcome<()> {
        self.open.insert(0, (file, opened));
        match self.open.len() > OPEN {
            true => self.open.pop().map_or(Ok(()), |(_, last)| last.close()),
            false => Ok(()),
        }
    }

    /// Counts a call that began then.
    fn count(&mut self, of: fn(&mut Calls) -> &mut Record, begun: Instant, bytes: u64) {
        let took = begun.elapsed();
        of(&mut self.calls).add_time(took, bytes);
        self.busy += took;
    }

    fn room_for(&mut self, bytes: u32) {
        if self.buffer.len() < bytes as usize {
            self.buffer = AlignedBuffer::zeroed(bytes as usize);
        }
    }
}

impl<T: Target> NumberedFiles for Numbers<'_, T> {
    type Error = Fault;

    fn enter(&mut self, directory: u32) -> Outcome<()> {
        if self.directories.insert(directory) {
            let path = self.directory(directory);
            let begun = Instant::now();
            self.target.make_dir(&path)?;
            self.count(|calls| &mut calls.makes, begun, 0);
        }
        self.here = directory;
        Ok(())
    }

    fn create(&mut self, file: u32) -> Outcome<()> {
        let path = self.path(file, self.here);
        let generation = self.made.entry(file).or_insert(0);
        let place = Place {
            directory: self.here,
            generation: *generation,
        };
        *generation += 1;
        let begun = Instant::now();
        let opened = self.target.open(&path, How::New)?;
        self.insert(file, opened)?;
        self.count(|calls| &mut calls.makes, begun, 0);
        self.files.insert(file, place);
        Ok(())
    }

    fn write(&mut self, file: u32, offset: u64, bytes: u32, sync: bool) -> Outcome<()> {
        let (place, path) = self.place(file)?;
        self.room_for(bytes);
        let content = &mut self.buffer[..bytes as usize];
        let id = self.user | u64::from(file);
        self.pattern.fill(content, id, place.generation, offset);
        let begun = Instant::now();
        self.opened(file, &path)?;
        let opened = &self.open[0].1;
        opened.write_at(offset, &self.buffer[..bytes as usize])?;
        if sync {
            opened.sync_data()?;
        }
        self.count(|calls| &mut calls.writes, begun, bytes.into());
        Ok(())
    }

    fn read(&mut self, file: u32, offset: u64, bytes: u32) -> Outcome<()> {
        let (place, path) = self.place(file)?;
        self.room_for(bytes);
        let begun = Instant::now();
        self.opened(file, &path)?;
        let into = &mut self.buffer[..bytes as usize];
        self.open[0].1.read_at(offset, into)?;
        self.count(|calls| &mut calls.reads, begun, bytes.into());
        let (found, id) = (&self.buffer[..bytes as usize], self.user | u64::from(file));
        self.pattern
            .check(found, id, place.generation, offset, &path)
    }

    fn open(&mut self, file: u32) -> Outcome<()> {
        let (_, path) = self.place(file)?;
        let begun = Instant::now();
        self.target.stat(&path)?;
        self.count(|calls| &mut calls.looks, begun, 0);
        Ok(())
    }

    fn look_again(&mut self, file: u32) -> Outcome<()> {
        self.open(file)
    }

    fn delete(&mut self, file: u32) -> Outcome<()> {
        let (_, path) = self.place(file)?;
        let begun = Instant::now();
        if let Some(at) = self.open.iter().position(|(open, _)| *open == file) {
            self.open.remove(at).1.close()?;
        }
        self.target.remove(&path)?;
        self.count(|calls| &mut calls.removes, begun, 0);
        self.files.remove(&file);
        Ok(())
    }

    fn sync(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        self.target.sync()?;
        self.count(|calls| &mut calls.syncs, begun, 0);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.busy.as_nanos() as u64
    }
}
