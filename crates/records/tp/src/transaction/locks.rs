//! Locks of a transaction: database, table, record, with intention modes.

use super::Transaction;
use crate::engine::LockKey;
use crate::error::{Error, Result};
use varve_locks::Mode;
use xxhash_rust::xxh3::xxh3_64;

/// Number of locked records of a table after which the whole table is locked.
const ESCALATION: u32 = 4096;

/// The locks owned on a table.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    table: u32,
    mode: Mode,
    records: u32,
}

fn intention(mode: Mode) -> Mode {
    match mode {
        Mode::Read | Mode::IntentionRead => Mode::IntentionRead,
        _ => Mode::IntentionWrite,
    }
}

impl Transaction<'_> {
    fn lock(&mut self, key: LockKey, mode: Mode) -> Result<()> {
        let owner = self.owner();
        Ok(self.engine.locks.lock(owner, &key, mode, self.timeout)?)
    }

    /// Locks a key of a table, whether it exists or not.
    pub(super) fn lock_record(&mut self, table: u32, key: &[u8], mode: Mode) -> Result<()> {
        let at = self.intend(table, intention(mode))?;
        let granted = &mut self.granted[at];
        if granted.mode.covers(mode) {
            return Ok(());
        }
        if granted.records >= ESCALATION {
            return self.lock_table(table, mode);
        }
        granted.records += 1;
        self.lock(LockKey::Record(table, xxh3_64(key)), mode)
    }

    /// Locks a whole table.
    pub(crate) fn lock_table(&mut self, table: u32, mode: Mode) -> Result<()> {
        let at = self.intend(table, intention(mode))?;
        let joined = self.granted[at].mode.join(mode);
        if joined != self.granted[at].mode {
            self.lock(LockKey::Table(table), joined)?;
            self.granted[at].mode = joined;
        }
        Ok(())
    }

    /// Takes the intention locks on the database and the table.
    fn intend(&mut self, table: u32, mode: Mode) -> Result<usize> {
        if !self.database.is_some_and(|held| held.covers(mode)) {
            self.lock(LockKey::Database, mode)?;
            self.database = Some(self.database.map_or(mode, |held| held.join(mode)));
        }
        match self
            .granted
            .iter()
            .position(|granted| granted.table == table)
        {
            Some(at) => {
                if !self.granted[at].mode.covers(mode) {
                    let joined = self.granted[at].mode.join(mode);
                    self.lock(LockKey::Table(table), joined)?;
                    self.granted[at].mode = joined;
                }
                Ok(at)
            }
            None => {
                self.lock(LockKey::Table(table), mode)?;
                if self.engine.is_dropped(table) {
                    return Err(Error::TableDropped);
                }
                self.granted.push(Granted {
                    table,
                    mode,
                    records: 0,
                });
                Ok(self.granted.len() - 1)
            }
        }
    }
}
