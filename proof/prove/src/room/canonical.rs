//! The canonical form of states of the log for the explorer, and their text form.

use super::log::{File, Log, NOWHERE, Stage};

impl Log {
    /// Returns the same state for all that differ only in the numbers of segments, or of
    /// files with the same blocks in map and directory.
    pub fn canonical(mut self) -> Self {
        self.sort_files();
        let mut names = vec![NOWHERE; self.segments.len()];
        let mut order = Vec::with_capacity(names.len());
        let mut name = |at: u8| {
            if names[usize::from(at)] == NOWHERE {
                names[usize::from(at)] = order.len() as u8;
                order.push(at);
            }
        };
        name(self.open);
        name(self.named);
        self.places
            .iter()
            .filter(|place| **place != NOWHERE)
            .for_each(|place| name(*place));
        for stage in [Stage::Used, Stage::Emptied, Stage::Clean] {
            let numbered = (0u8..).zip(&self.segments);
            numbered
                .filter(|(_, segment)| segment.stage == stage)
                .for_each(|(at, _)| name(at));
        }
        let segments = order.iter().map(|at| self.segments[usize::from(*at)]);
        self.segments = segments.collect();
        (self.open, self.named) = (0, 1);
        for place in &mut self.places {
            if *place != NOWHERE {
                *place = names[usize::from(*place)];
            }
        }
        self
    }

    fn sort_files(&mut self) {
        let geometry = self.geometry;
        let class = |file: usize| (geometry.map_of(file), geometry.directory_of(file));
        let mut from = 0;
        while from < self.files.len() {
            let same = (from..self.files.len()).take_while(|file| class(*file) == class(from));
            let to = from + same.count();
            if to - from > 1 {
                self.sort_class(from, to);
            }
            from = to;
        }
    }

    fn sort_class(&mut self, from: usize, to: usize) {
        let open = self.open;
        let whereabouts = |place: u8| match place {
            NOWHERE => (false, false, Stage::Used, 0, NOWHERE),
            at => {
                let segment = self.segments[usize::from(at)];
                (true, at == open, segment.stage, segment.live, at)
            }
        };
        let mut files: Vec<_> = (from..to)
            .map(|file| {
                let first = self.geometry.first_of(file);
                let places = [self.places[first], self.places[first + 1]];
                let File { size, waits } = self.files[file];
                let key = (size, waits, places.map(whereabouts));
                (key, places)
            })
            .collect();
        files.sort_unstable();
        for (file, ((size, waits, _), places)) in (from..to).zip(files) {
            let first = self.geometry.first_of(file);
            self.files[file] = File { size, waits };
            self.places[first..first + 2].copy_from_slice(&places);
        }
    }

    /// Formats the live slots of each segment, including `open` and `next`.
    pub fn picture(&self) -> String {
        let tell = |at: usize| {
            let within: Vec<String> = self
                .within(at as u8)
                .map(|slot| self.geometry.name(slot))
                .collect();
            let segment = self.segments[at];
            let role = match (at == usize::from(self.open), at == usize::from(self.named)) {
                (true, _) => format!("open/{}", self.filled),
                (_, true) => "next".to_owned(),
                _ => format!("{:?}", segment.stage),
            };
            format!("{role}[{}]", within.join(" "))
        };
        let all: Vec<String> = (0..self.segments.len()).map(tell).collect();
        format!(
            "{} room {} to write {} changed {:b} dirty {:b}",
            all.join(" "),
            self.room(),
            self.to_write(),
            self.changed,
            self.dirty
        )
    }

    /// Returns the state as bytes; for canonical states equal bytes mean equal states.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.places.clone();
        let stages = self.segments.iter().map(|segment| segment.stage as u8);
        bytes.extend(stages);
        bytes.extend([self.filled as u8, u8::from(self.records)]);
        bytes.extend(self.files.iter().map(|f| f.size << 1 | u8::from(f.waits)));
        bytes.extend(self.changed.to_le_bytes());
        bytes.extend(self.dirty.to_le_bytes());
        bytes
    }
}
