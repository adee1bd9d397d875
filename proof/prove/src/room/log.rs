//! The log of the model: what lives in which segment, and what waits.

use super::geometry::{DIRECTORY, Geometry, Kind, MAPS, TABLE};

/// Lies nowhere: not logged yet, or gone.
pub(super) const NOWHERE: u8 = u8::MAX;
/// How far a segment has come on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Written since the last checkpoint that found it empty, or not found so.
    Used,
    /// The newest checkpoint found it empty.
    Emptied,
    /// Two in a row did, or it was never written.
    Clean,
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Segment {
    pub(super) live: u16,
    pub(super) stage: Stage,
}

/// A file, as the tree in memory has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct File {
    /// Slots it takes; none if there is no such file.
    pub size: u8,
    /// Changed since it was logged.
    pub waits: bool,
}

/// The log and the memory above it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// The volume.
    pub geometry: Geometry,
    /// Where each slot that lives by the logged state lies.
    pub(super) places: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    pub(super) open: u8,
    /// Slots of the open segment that are written.
    pub(super) filled: usize,
    pub(super) named: u8,
    /// Blocks of the map that the next checkpoint writes.
    pub(super) changed: u128,
    /// Files in memory.
    pub files: Vec<File>,
    /// Blocks of the directory changed in memory.
    pub(super) dirty: u128,
    /// A logged file was removed in memory: records wait.
    pub(super) records: bool,
}

/// There is no segment to name when the head enters one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Log {
    /// An empty volume.
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

    /// Slots that can be written: the rest of the open segment, and all clean ones
    /// but the one that must be named in the end.
    pub fn room(&self) -> usize {
        let rest = self.geometry.slots - self.filled;
        rest + self.count(Stage::Clean).saturating_sub(1) * self.geometry.slots
    }

    fn count(&self, stage: Stage) -> usize {
        self.segments.iter().filter(|s| s.stage == stage).count()
    }

    /// Blocks of the map, with those of files that wait.
    pub fn maps(&self) -> usize {
        self.maps_with(None)
    }

    /// The same, were `file` created.
    pub fn maps_with(&self, file: Option<usize>) -> usize {
        let logged = (0..self.geometry.maps())
            .rev()
            .find(|map| self.places[MAPS + map] != NOWHERE || self.changed & 1 << map != 0);
        let waiting = self.files.iter().rposition(|file| file.size > 0);
        let waiting = waiting.max(file).map(|file| self.geometry.map_of(file));
        logged.max(waiting).map_or(0, |last| last + 1)
    }

    /// Blocks of the directory, with those that wait.
    pub fn directories(&self) -> usize {
        let first = self.geometry.first_directory();
        let exists = |at: &usize| self.places[first + at] != NOWHERE || self.dirty & 1 << at != 0;
        (0..self.geometry.directories()).filter(exists).count()
    }

    /// True if there is no such file, and no number before its block of the map or the
    /// directory is unused.
    pub fn may_be_created(&self, file: usize) -> bool {
        self.files[file].size == 0
            && self.geometry.map_of(file) <= self.maps()
            && self.geometry.directory_of(file) <= self.directories()
    }

    /// Slots that live once what waits is logged and folded.
    pub fn live(&self) -> usize {
        let files: usize = self.files.iter().map(|file| usize::from(file.size)).sum();
        2 + self.maps() + self.directories() + files
    }

    /// What tells files that do not exist apart: their blocks of map and directory, and
    /// where they still live if the log does not know that they are gone.
    pub fn likeness(&self, file: usize) -> (usize, usize, [u8; 2]) {
        let geometry = &self.geometry;
        let first = geometry.first_of(file);
        let places = [self.places[first], self.places[first + 1]];
        (geometry.map_of(file), geometry.directory_of(file), places)
    }

    fn is_logged(&self, file: usize) -> bool {
        self.places[self.geometry.first_of(file)] != NOWHERE
    }

    /// Slots that what waits will take.
    pub fn waiting_slots(&self) -> usize {
        let files = self.files.iter().filter(|file| file.waits);
        let files: usize = files.map(|file| usize::from(file.size)).sum();
        let directory = self.dirty.count_ones() as usize + usize::from(self.dirty != 0);
        files + directory + usize::from(self.records)
    }

    /// Inodes that wait, each of which may change a block of the map.
    fn waiting_inodes(&self) -> usize {
        let waits = |file: &usize| {
            let state = self.files[*file];
            state.waits || state.size == 0 && self.is_logged(*file)
        };
        (0..self.files.len()).filter(waits).count() + usize::from(self.dirty != 0)
    }

    /// Blocks of the map that folding everything logged writes.
    pub fn changed(&self) -> usize {
        self.changed.count_ones() as usize
    }

    /// Slots that what waits takes and folding all of it with what is logged: one
    /// block of the map for each inode, up to all there are, and the table.
    pub fn to_write(&self) -> usize {
        let maps = self.changed() + self.waiting_inodes();
        self.waiting_slots() + maps.min(self.maps()) + 1
    }

    /// True if something waits in memory.
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

    /// Logs all that waits.
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

    /// Folds what is logged: every changed block of the map, and the table.
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

    /// The power is cut: after so many slots of a checkpoint were written, and what
    /// waits is lost.
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

    /// Segments that may be cleaned, with what lives in them: those in which
    /// something does, something does not, and checkpoints alone do not empty.
    pub fn victims(&self) -> Vec<(u16, u8)> {
        let comes = self.coming();
        let numbered = (0u8..).zip(self.segments.iter().zip(comes));
        let used = numbered.filter(|(at, (segment, comes))| {
            let (live, full) = (usize::from(segment.live), self.geometry.slots);
            *at != self.open && live > 0 && live < full && !comes
        });
        used.map(|(at, (segment, _))| (segment.live, at)).collect()
    }

    /// What cleaning a segment does: slots copied, blocks of the map changed.
    pub fn price(&self, victim: u8) -> (usize, u128) {
        let kinds = self.within(victim).map(|slot| self.geometry.kind(slot));
        kinds.fold((0, 0), |(copies, maps), kind| match kind {
            Kind::Table => (copies, maps),
            Kind::Map(map) => (copies, maps | 1 << map),
            Kind::Moved(map) => (copies + 1, maps | 1 << map),
        })
    }

    /// Blocks of the map that folding writes, with these.
    pub fn changed_with(&self, maps: u128) -> usize {
        (self.changed | maps).count_ones() as usize
    }

    pub(super) fn within(&self, segment: u8) -> impl Iterator<Item = usize> + '_ {
        let within = move |slot: &usize| self.places[*slot] == segment;
        (0..self.places.len()).filter(within)
    }

    /// For each segment, whether two checkpoints from now on give it back.
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

    /// Segments that the next checkpoint gives back.
    pub fn emptied(&self) -> usize {
        self.count(Stage::Emptied)
    }

    /// Copies what lives in a segment, and has the next checkpoint write the blocks of
    /// the map in it.
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

/// The numbers of the bits that are set.
fn bits(of: u128) -> impl Iterator<Item = usize> {
    (0..128).filter(move |bit| of & 1 << bit != 0)
}
