//! The log of the model: the live slots of each segment, and the dirty state.

use super::geometry::{DIRECTORY, Geometry, Kind, MAPS, TABLE};

/// Segment number of a slot that is not logged yet, or was removed.
pub(super) const NOWHERE: u8 = u8::MAX;
/// Progress of a segment towards reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// It was written since the last checkpoint that found it empty, or was never found
    /// empty.
    Used,
    /// The newest checkpoint found it empty.
    Emptied,
    /// Two checkpoints in a row found it empty, or it was never written.
    Clean,
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Segment {
    pub(super) live: u16,
    pub(super) stage: Stage,
}

/// A file in the tree in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct File {
    /// Number of its slots; 0 if the file does not exist.
    pub size: u8,
    /// True if it has changed since it was logged.
    pub waits: bool,
}

/// The log and the memory above it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// The volume.
    pub geometry: Geometry,
    /// Segment of each slot that is live in the logged state.
    pub(super) places: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    pub(super) open: u8,
    /// Number of written slots of the open segment.
    pub(super) filled: usize,
    pub(super) named: u8,
    /// Blocks of the map that the next checkpoint writes.
    pub(super) changed: u128,
    /// Files in memory.
    pub files: Vec<File>,
    /// Blocks of the directory changed in memory.
    pub(super) dirty: u128,
    /// True if a logged file was removed in memory, so that records must be logged.
    pub(super) records: bool,
}

/// Error: there is no segment to name when the head enters one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Log {
    /// Returns an empty volume.
    pub fn format(geometry: Geometry) -> Self {
        let clean = Segment {
            live: 0,
            stage: Stage::Clean,
        };
        let mut log = Log {
            geometry,
            places: vec![NOWHERE; geometry.first_of(geometry.files)],
            segments: vec![clean; geometry.segments],
            open: 0,
            filled: 0,
            named: 1,
            changed: 1,
            files: vec![File::default(); geometry.files],
            dirty: 0,
            records: false,
        };
        log.segments[0].stage = Stage::Used;
        log.put(DIRECTORY).expect("a volume has three segments");
        log.checkpoint().expect("a volume has three segments");
        log
    }

    /// Returns the number of slots that can be written: the rest of the open segment, and
    /// all clean ones except for the one that must be named in the end.
    pub fn room(&self) -> usize {
        let rest = self.geometry.slots - self.filled;
        rest + self.count(Stage::Clean).saturating_sub(1) * self.geometry.slots
    }

    fn count(&self, stage: Stage) -> usize {
        self.segments.iter().filter(|s| s.stage == stage).count()
    }

    /// Returns the number of blocks of the map, including those of dirty files.
    pub fn maps(&self) -> usize {
        self.maps_with(None)
    }

    /// Does the same as if `file` were created.
    pub fn maps_with(&self, file: Option<usize>) -> usize {
        let logged = (0..self.geometry.maps())
            .rev()
            .find(|map| self.places[MAPS + map] != NOWHERE || self.changed & 1 << map != 0);
        let waiting = self.files.iter().rposition(|file| file.size > 0);
        let waiting = waiting.max(file).map(|file| self.geometry.map_of(file));
        logged.max(waiting).map_or(0, |last| last + 1)
    }

    /// Returns the number of blocks of the directory, including dirty ones.
    pub fn directories(&self) -> usize {
        let first = self.geometry.first_directory();
        let exists = |at: &usize| self.places[first + at] != NOWHERE || self.dirty & 1 << at != 0;
        (0..self.geometry.directories()).filter(exists).count()
    }

    /// Returns true if the file does not exist, and all blocks of map and directory
    /// before its own are in use.
    pub fn may_be_created(&self, file: usize) -> bool {
        self.files[file].size == 0
            && self.geometry.map_of(file) <= self.maps()
            && self.geometry.directory_of(file) <= self.directories()
    }

    /// Returns the number of live slots after the dirty state is logged and folded.
    pub fn live(&self) -> usize {
        let files: usize = self.files.iter().map(|file| usize::from(file.size)).sum();
        2 + self.maps() + self.directories() + files
    }

    /// Returns the properties that distinguish files that do not exist: their blocks of
    /// map and directory, and their slots if the log does not know of their removal.
    pub fn likeness(&self, file: usize) -> (usize, usize, [u8; 2]) {
        let geometry = &self.geometry;
        let first = geometry.first_of(file);
        let places = [self.places[first], self.places[first + 1]];
        (geometry.map_of(file), geometry.directory_of(file), places)
    }

    fn is_logged(&self, file: usize) -> bool {
        self.places[self.geometry.first_of(file)] != NOWHERE
    }

    /// Returns the number of slots that the dirty state will take.
    pub fn waiting_slots(&self) -> usize {
        let files = self.files.iter().filter(|file| file.waits);
        let files: usize = files.map(|file| usize::from(file.size)).sum();
        let directory = self.dirty.count_ones() as usize + usize::from(self.dirty != 0);
        files + directory + usize::from(self.records)
    }

    /// Returns the number of dirty inodes, each of which may change a block of the map.
    fn waiting_inodes(&self) -> usize {
        let waits = |file: &usize| {
            let state = self.files[*file];
            state.waits || state.size == 0 && self.is_logged(*file)
        };
        (0..self.files.len()).filter(waits).count() + usize::from(self.dirty != 0)
    }

    /// Returns the number of blocks of the map that folding the logged state writes.
    pub fn changed(&self) -> usize {
        self.changed.count_ones() as usize
    }

    /// Returns the number of slots for logging the dirty state and folding everything:
    /// one block of the map for each inode, up to the number that exists, and the table.
    pub fn to_write(&self) -> usize {
        let maps = self.changed() + self.waiting_inodes();
        self.waiting_slots() + maps.min(self.maps()) + 1
    }

    /// Returns true if there is dirty state in memory.
    pub fn waits(&self) -> bool {
        self.waiting_slots() > 0
    }

    fn leave(&mut self, slot: usize) {
        let place = std::mem::replace(&mut self.places[slot], NOWHERE);
        if place != NOWHERE {
            self.segments[usize::from(place)].live -= 1;
        }
    }

    /// Takes the next slot of the log.
    fn advance(&mut self) -> Result<(), NoRoom> {
        if self.filled == self.geometry.slots {
            let named = usize::from(self.named);
            let clean = |at: &usize| *at != named && self.segments[*at].stage == Stage::Clean;
            let next = (0..self.segments.len()).find(clean).ok_or(NoRoom)?;
            self.open = self.named;
            self.segments[named].stage = Stage::Used;
            self.named = next as u8;
            self.filled = 0;
        }
        self.filled += 1;
        Ok(())
    }

    /// Writes a slot at the head.
    fn put(&mut self, slot: usize) -> Result<(), NoRoom> {
        self.advance()?;
        self.leave(slot);
        self.places[slot] = self.open;
        self.segments[usize::from(self.open)].live += 1;
        Ok(())
    }

    /// Creates or overwrites a file, in memory.
    pub fn write(&mut self, file: usize, size: u8) {
        if self.files[file].size == 0 {
            self.dirty |= 1 << self.geometry.directory_of(file);
        }
        self.files[file] = File { size, waits: true };
    }

    /// Removes a file, in memory.
    pub fn remove(&mut self, file: usize) {
        self.dirty |= 1 << self.geometry.directory_of(file);
        self.records |= self.is_logged(file);
        self.files[file] = File::default();
    }

    /// Logs the dirty state.
    pub fn append(&mut self) -> Result<(), NoRoom> {
        if self.records {
            self.advance()?;
        }
        self.records = false;
        let first = self.geometry.first_directory();
        let maps = self.maps();
        let unwritten = |map: &usize| self.places[MAPS + map] == NOWHERE;
        self.changed |= (0..maps)
            .filter(unwritten)
            .fold(0, |all, map| all | 1 << map);
        if self.dirty != 0 {
            for at in bits(self.dirty) {
                self.put(first + at)?;
            }
            self.put(DIRECTORY)?;
            self.changed |= 1;
        }
        self.dirty = 0;
        for file in 0..self.files.len() {
            let File { size, waits } = self.files[file];
            let first = self.geometry.first_of(file);
            if waits || size == 0 && self.is_logged(file) {
                self.changed |= 1 << self.geometry.map_of(file);
                self.leave(first);
                self.leave(first + 1);
            }
            if waits {
                for slot in first..first + usize::from(size) {
                    self.put(slot)?;
                }
                self.files[file].waits = false;
            }
        }
        Ok(())
    }

    /// Folds the logged state: every changed block of the map, and the table.
    pub fn checkpoint(&mut self) -> Result<(), NoRoom> {
        for map in bits(self.changed) {
            self.put(MAPS + map)?;
        }
        self.put(TABLE)?;
        self.changed = 0;
        for (at, segment) in self.segments.iter_mut().enumerate() {
            if at == usize::from(self.open) || segment.stage == Stage::Clean {
                continue;
            }
            segment.stage = match (segment.live, segment.stage) {
                (0, Stage::Used) => Stage::Emptied,
                (0, _) => Stage::Clean,
                _ => Stage::Used,
            };
        }
        Ok(())
    }

    /// Cuts the power after this number of slots of a checkpoint was written; the dirty
    /// state is lost.
    pub fn crash(&mut self, torn: usize) -> Result<(), NoRoom> {
        for _ in 0..torn {
            self.advance()?;
        }
        (self.dirty, self.records) = (0, false);
        for file in 0..self.files.len() {
            let first = self.geometry.first_of(file);
            let logged = |slot: &usize| self.places[*slot] != NOWHERE;
            let size = (first..first + 2).filter(logged).count() as u8;
            self.files[file] = File { size, waits: false };
        }
        Ok(())
    }

    /// Returns the segments that may be cleaned, with their live slots: those with both
    /// live and dead slots that checkpoints alone do not empty.
    pub fn victims(&self) -> Vec<(u16, u8)> {
        let comes = self.coming();
        let numbered = (0u8..).zip(self.segments.iter().zip(comes));
        let used = numbered.filter(|(at, (segment, comes))| {
            let (live, full) = (usize::from(segment.live), self.geometry.slots);
            *at != self.open && live > 0 && live < full && !comes
        });
        used.map(|(at, (segment, _))| (segment.live, at)).collect()
    }

    /// Returns the price of cleaning a segment: slots copied, blocks of the map changed.
    pub fn price(&self, victim: u8) -> (usize, u128) {
        let kinds = self.within(victim).map(|slot| self.geometry.kind(slot));
        kinds.fold((0, 0), |(copies, maps), kind| match kind {
            Kind::Table => (copies, maps),
            Kind::Map(map) => (copies, maps | 1 << map),
            Kind::Moved(map) => (copies + 1, maps | 1 << map),
        })
    }

    /// Returns the number of blocks of the map that folding writes, including these.
    pub fn changed_with(&self, maps: u128) -> usize {
        (self.changed | maps).count_ones() as usize
    }

    pub(super) fn within(&self, segment: u8) -> impl Iterator<Item = usize> + '_ {
        let within = move |slot: &usize| self.places[*slot] == segment;
        (0..self.places.len()).filter(within)
    }

    /// Returns for each segment whether the next two checkpoints free it.
    pub fn coming(&self) -> Vec<bool> {
        let mut leaving = vec![0; self.segments.len()];
        let written = bits(self.changed).map(|map| MAPS + map);
        for slot in written.chain([TABLE]) {
            if self.places[slot] != NOWHERE {
                leaving[usize::from(self.places[slot])] += 1;
            }
        }
        let numbered = self.segments.iter().zip(&leaving).enumerate();
        let comes = numbered.map(|(at, (segment, leaving))| {
            let used = segment.stage != Stage::Clean && at != usize::from(self.open);
            used && segment.live == *leaving
        });
        comes.collect()
    }

    /// Returns the number of segments that the next checkpoint frees.
    pub fn emptied(&self) -> usize {
        self.count(Stage::Emptied)
    }

    /// Copies the live slots of a segment, and makes the next checkpoint write the blocks
    /// of the map in it.
    pub fn clean(&mut self, victim: u8) -> Result<(), NoRoom> {
        let slots: Vec<usize> = self.within(victim).collect();
        for slot in slots {
            match self.geometry.kind(slot) {
                Kind::Table => {}
                Kind::Map(map) => self.changed |= 1 << map,
                Kind::Moved(map) => {
                    self.put(slot)?;
                    self.changed |= 1 << map;
                }
            }
        }
        Ok(())
    }
}

/// Returns the numbers of the bits that are set.
fn bits(of: u128) -> impl Iterator<Item = usize> {
    (0..128).filter(move |bit| of & 1 << bit != 0)
}
