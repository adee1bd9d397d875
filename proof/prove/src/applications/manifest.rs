//! A store in the manner of LevelDB: records are appended to a log. When the log is long,
//! a table with all records is written, a manifest with the names of table and log, and a
//! `CURRENT` with the name of the manifest, which is replaced by renaming.
//!
//! The checker follows `CURRENT`, and reads the log's records up to the first that is
//! incomplete, which must be the log's end.

use super::{Application, Diary, State, at, filler};
use crate::random::Random;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The store.
pub struct LogAndManifest {
    /// True if every file is synced as LevelDB does.
    synced: bool,
}

impl LogAndManifest {
    /// The store with every record synced.
    pub const SYNCED: LogAndManifest = LogAndManifest { synced: true };
    /// The store without syncs, which relies on the order of writes.
    pub const UNSYNCED: LogAndManifest = LogAndManifest { synced: false };
}

/// Number of records in a log before the next one begins.
const LOG_RECORDS: u64 = 7;

/// Returns one record: its checksum, its length, its number and a filler.
fn record(number: u64) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.extend(filler(number, 10 + (number as usize * 613) % 2500));
    let mut bytes = xxh3_64(&body).to_le_bytes().to_vec();
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Splits a complete record off. Returns its number, and the rest.
fn split_record(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (sum, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let number = body.first_chunk()?;
    let whole = xxh3_64(body) == u64::from_le_bytes(*sum);
    whole.then(|| (u64::from_le_bytes(*number), rest))
}

struct Store<'a> {
    dir: &'a Path,
    synced: bool,
    log: Option<File>,
}

impl Store<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn write(&self, name: &str, content: &[u8]) -> std::io::Result<File> {
        let mut file = File::create(self.path(name))?;
        file.write_all(content)?;
        if self.synced {
            file.sync_all()?;
        }
        Ok(file)
    }

    /// Moves all `records` into a table, and begins a log. The steps are LevelDB's, in
    /// its order.
    fn turn(&mut self, generation: u64, records: u64) -> std::io::Result<()> {
        let table: Vec<u8> = (1..=records).flat_map(record).collect();
        self.write(&format!("table{generation}"), &table)?;
        self.log = Some(self.write(&format!("log{generation}"), b"")?);
        let manifest = format!("{generation} {records} {}", xxh3_64(&table));
        self.write(&format!("manifest{generation}"), manifest.as_bytes())?;
        self.write("temporary", format!("manifest{generation}\n").as_bytes())?;
        fs::rename(self.path("temporary"), self.path("CURRENT"))?;
        if self.synced {
            File::open(self.dir)?.sync_all()?;
        }
        if let Some(former) = generation.checked_sub(1) {
            for kind in ["table", "log", "manifest"] {
                fs::remove_file(self.path(&format!("{kind}{former}")))?;
            }
        }
        Ok(())
    }

    fn append(&mut self, number: u64) -> std::io::Result<()> {
        let log = self.log.as_mut().expect("a log was begun");
        // A program with a small buffer writes in pieces.
        for piece in record(number).chunks(900) {
            log.write_all(piece)?;
        }
        match self.synced {
            true => log.sync_data(),
            false => Ok(()),
        }
    }
}

/// Opens the store, and returns its number of records.
fn open(dir: &Path) -> Result<u64, String> {
    let read = |name: &str| fs::read(dir.join(name)).map_err(at("read", &dir.join(name)));
    let current = read("CURRENT")?;
    let name = String::from_utf8_lossy(&current);
    let name = name.strip_suffix('\n').ok_or("CURRENT is cut short")?;
    let manifest = read(name)?;
    let manifest = String::from_utf8_lossy(&manifest);
    let fields: Vec<u64> = manifest.split(' ').filter_map(|f| f.parse().ok()).collect();
    let &[generation, records, sum] = fields.as_slice() else {
        return Err(format!("{name} holds {manifest:?}"));
    };
    let table = read(&format!("table{generation}"))?;
    if xxh3_64(&table) != sum {
        return Err(format!(
            "table{generation}: wrong checksum, {} bytes",
            table.len()
        ));
    }
    let log = read(&format!("log{generation}"))?;
    let (mut held, mut rest) = (records, log.as_slice());
    while let Some((number, after)) = split_record(rest) {
        if number != held + 1 {
            return Err(format!("log{generation}: record {number} after {held}"));
        }
        (held, rest) = (number, after);
    }
    Ok(held)
}

impl Application for LogAndManifest {
    fn name(&self) -> &'static str {
        match self.synced {
            true => "log and manifest",
            false => "log and manifest, never synced, order=strict",
        }
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn strict_order(&self) -> bool {
        !self.synced
    }

    fn prepare(&self, dir: &Path) -> Result<State, String> {
        let mut store = Store {
            dir,
            synced: true,
            log: None,
        };
        store.turn(0, 0).map_err(at("begin", dir))?;
        Ok(open(dir)?.to_string())
    }

    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String> {
        let log = File::options().append(true).open(dir.join("log0"));
        let mut store = Store {
            dir,
            synced: self.synced,
            log: Some(log.map_err(at("open the log in", dir))?),
        };
        for step in 1..=steps {
            if step % LOG_RECORDS == 0 {
                let turned = store.turn(step / LOG_RECORDS, step - 1);
                turned.map_err(at("turn", dir))?;
            }
            store.append(step).map_err(at("append in", dir))?;
            diary.step(self.synced, dir, random, || Ok(step.to_string()))?;
        }
        Ok(())
    }

    fn check(&self, dir: &Path) -> Result<State, String> {
        open(dir).map(|records| records.to_string())
    }
}
