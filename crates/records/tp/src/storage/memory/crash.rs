//! The files that a power cut may leave.

use super::{Event, put};
use std::collections::BTreeMap;

const SECTOR: usize = 512;

/// The sectors that survive among those that were not synced.
pub enum Survival<'a> {
    /// No sector survives.
    None,
    /// All sectors survive.
    All,
    /// The callback decides, first for each write and then, if it answers neither 0 nor
    /// 1, for each of its sectors.
    Draw(&'a mut dyn FnMut(Choice) -> u8),
}

/// A decision of [`Survival::Draw`].
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// A write: 0 loses it, 1 keeps it, any other value decides by sector.
    Write,
    /// A sector: 0 loses it.
    Sector,
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
enum Pending {
    Write(u64, std::sync::Arc<[u8]>),
    Truncate(u64),
}

/// Steps through the requests to a storage.
#[derive(Clone, Debug)]
pub struct CrashImages {
    names: BTreeMap<String, usize>,
    files: Vec<File>,
    trace: Vec<Event>,
    at: usize,
    mark: u64,
}

impl CrashImages {
    pub(super) fn new(before: BTreeMap<String, Vec<u8>>, trace: Vec<Event>) -> Self {
        let mut names = BTreeMap::new();
        let mut files = Vec::new();
        for (name, durable) in before {
            names.insert(name, files.len());
            files.push(File {
                durable,
                pending: Vec::new(),
            });
        }
        CrashImages {
            names,
            files,
            trace,
            at: 0,
            mark: 0,
        }
    }

    /// Returns the number of recorded requests.
    pub fn len(&self) -> usize {
        self.trace.len()
    }

    /// Returns true if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.trace.is_empty()
    }

    /// Returns the last mark that was passed.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Returns the number of writes that may be lost now.
    pub fn pending(&self) -> usize {
        self.files.iter().map(|file| file.pending.len()).sum()
    }

    /// Advances past the next request. Returns false at the end.
    pub fn step(&mut self) -> bool {
        let Some(event) = self.trace.get(self.at) else {
            return false;
        };
        self.at += 1;
        match event {
            Event::Create(name) => {
                self.names.insert(name.clone(), self.files.len());
                self.files.push(File::default());
            }
            Event::Rename(from, to) => {
                let file = self.names.remove(from).expect("was there");
                self.names.insert(to.clone(), file);
            }
            Event::Write(file, offset, bytes) => {
                let pending = &mut self.files[*file].pending;
                pending.push(Pending::Write(*offset, bytes.clone()));
            }
            Event::Truncate(file, bytes) => {
                self.files[*file].pending.push(Pending::Truncate(*bytes));
            }
            Event::Sync(file) => {
                let file = &mut self.files[*file];
                for pending in std::mem::take(&mut file.pending) {
                    apply(&mut file.durable, &pending, &mut Survival::All);
                }
            }
            Event::Mark(mark) => self.mark = *mark,
        }
        true
    }

    /// Returns the files after a power cut at this point.
    pub fn image(&self, mut survival: Survival<'_>) -> BTreeMap<String, Vec<u8>> {
        let mut image = BTreeMap::new();
        for (name, file) in &self.names {
            let file = &self.files[*file];
            let mut bytes = file.durable.clone();
            for pending in &file.pending {
                apply(&mut bytes, pending, &mut survival);
            }
            image.insert(name.clone(), bytes);
        }
        image
    }
}

fn apply(file: &mut Vec<u8>, pending: &Pending, survival: &mut Survival<'_>) {
    let verdict = match survival {
        Survival::None => 0,
        Survival::All => 1,
        Survival::Draw(draw) => draw(Choice::Write),
    };
    match (pending, verdict) {
        (_, 0) => {}
        (Pending::Truncate(bytes), _) => file.resize(*bytes as usize, 0),
        (Pending::Write(offset, bytes), 1) => put(file, *offset, bytes),
        (Pending::Write(offset, bytes), _) => {
            let Survival::Draw(draw) = survival else {
                return;
            };
            let mut from = 0;
            while from < bytes.len() {
                let within = (*offset as usize + from) % SECTOR;
                let to = bytes.len().min(from + SECTOR - within);
                if draw(Choice::Sector) != 0 {
                    put(file, offset + from as u64, &bytes[from..to]);
                }
                from = to;
            }
        }
    }
}
