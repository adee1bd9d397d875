//! Runs requests in a transaction of the environment.

use super::wire::{Answer, Request};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::storage::{HostStorage, failed};
use crate::table::{ReadTable, ReadTransaction, Savepoint, WriteTransaction};
use std::ops::Bound;
use varve_locks::OwnerId;

/// Bytes of records after which an answer is complete.
const ROWS_BYTES: usize = 64 << 10;
/// Number of records after which an answer is complete.
const ROWS: usize = 1024;

#[derive(Debug)]
enum Open<'e> {
    Reading(ReadTransaction<'e>),
    Writing(WriteTransaction<'e>),
}

#[derive(Debug)]
struct Known {
    name: String,
    types: String,
}

/// A session, which runs one transaction after another.
#[derive(Debug)]
pub(super) struct Session<'e> {
    environment: &'e Environment,
    tables: Vec<Known>,
    open: Option<Open<'e>>,
    savepoints: Vec<Savepoint>,
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;
type Bytes = &'static [u8];

impl<'e> Session<'e> {
    pub(super) fn new(environment: &'e Environment) -> Self {
        Session {
            environment,
            tables: Vec::new(),
            open: None,
            savepoints: Vec::new(),
        }
    }

    /// Returns the owner of this session's lock waits. A read-only transaction is a
    /// snapshot and never waits.
    pub(super) fn owner(&self) -> Option<OwnerId> {
        match self.open.as_ref()? {
            Open::Reading(_) => None,
            Open::Writing(transaction) => Some(transaction.owner()),
        }
    }

    fn writing(&self) -> Result<&WriteTransaction<'e>> {
        match &self.open {
            Some(Open::Writing(transaction)) => Ok(transaction),
            Some(Open::Reading(_)) => Err(Error::ReadOnly),
            None => Err(Error::Ended),
        }
    }

    fn known(&self, table: u32) -> Result<&Known> {
        let known = self.tables.get(table as usize);
        known.ok_or_else(|| Error::Holder(format!("there is no table of number {table}")))
    }

    /// Runs an operation on a table for reading.
    fn read<T>(
        &self,
        table: u32,
        what: impl FnOnce(&ReadTable<'_, 'e, Bytes, Bytes>) -> Result<T>,
    ) -> Result<T> {
        let known = self.known(table)?;
        match self.open.as_ref().ok_or(Error::Ended)? {
            Open::Reading(transaction) => {
                what(&transaction.open_raw_as(&known.name, &known.types)?)
            }
            Open::Writing(transaction) => what(&*transaction.open_raw(&known.name, &known.types)?),
        }
    }

    /// Runs a request.
    pub(super) fn run(&mut self, request: &Request<'_>) -> Result<Answer> {
        match *request {
            Request::Begin { writes } => {
                // An open transaction is aborted.
                self.open = None;
                self.savepoints.clear();
                self.open = Some(match writes {
                    true => Open::Writing(self.environment.begin_write()),
                    false => Open::Reading(self.environment.begin_read()),
                });
                Ok(Answer::Done)
            }
            Request::Open { name, types } => self.open_table(name, types),
            Request::Get { table, key, update } => match update {
                false => self.read(table, |open| open.get(key)).map(Answer::Value),
                true => {
                    let known = self.known(table)?;
                    let open = self.writing()?.open_raw(&known.name, &known.types)?;
                    open.get_for_update(key).map(Answer::Value)
                }
            },
            Request::Put { table, key, value } => {
                let known = self.known(table)?;
                let open = self.writing()?.open_raw(&known.name, &known.types)?;
                open.insert(key, value).map(Answer::Flag)
            }
            Request::Delete { table, key } => {
                let known = self.known(table)?;
                let open = self.writing()?.open_raw(&known.name, &known.types)?;
                open.remove(key).map(Answer::Flag)
            }
            Request::Append { table, value } => {
                let known = self.known(table)?;
                let open = self
                    .writing()?
                    .open_raw_records(&known.name, &known.types)?;
                open.append(value).map(Answer::Number)
            }
            Request::Range {
                table,
                from,
                to,
                backward,
            } => self.range(table, (from, to), backward),
            Request::Savepoint => {
                let savepoint = self.writing()?.savepoint();
                self.savepoints.push(savepoint);
                Ok(Answer::Number(self.savepoints.len() as u64 - 1))
            }
            Request::RollbackTo { savepoint } => {
                let found = self.savepoints.get(savepoint as usize).copied();
                let found = found.ok_or(Error::Ended)?;
                self.savepoints.truncate(savepoint as usize + 1);
                self.writing()?.rollback_to(found)?;
                Ok(Answer::Done)
            }
            Request::Commit { durable } => {
                match self.open.take().ok_or(Error::Ended)? {
                    Open::Reading(_) => {}
                    Open::Writing(transaction) => match durable {
                        None => transaction.commit()?,
                        Some(true) => transaction.commit_with(Durability::Durable)?,
                        Some(false) => transaction.commit_with(Durability::Buffered)?,
                    },
                }
                Ok(Answer::Done)
            }
            Request::Abort => {
                if let Some(Open::Writing(transaction)) = self.open.take() {
                    transaction.abort()?;
                }
                Ok(Answer::Done)
            }
            Request::Backup { directory } => {
                let storage = HostStorage::new(directory);
                let storage = storage.map_err(|source| failed(directory, "open", 0, source))?;
                let report = self.environment.backup(&storage)?;
                Ok(Answer::Number(report.until))
            }
        }
    }

    fn open_table(&mut self, name: &str, types: &str) -> Result<Answer> {
        match self.open.as_ref().ok_or(Error::Ended)? {
            Open::Writing(transaction) => _ = transaction.open_raw(name, types)?,
            Open::Reading(transaction) => _ = transaction.open_raw_as(name, types)?,
        }
        let same = |known: &Known| known.name == name && known.types == types;
        let number = self.tables.iter().position(same).unwrap_or_else(|| {
            self.tables.push(Known {
                name: name.to_owned(),
                types: types.to_owned(),
            });
            self.tables.len() - 1
        });
        Ok(Answer::Number(number as u64))
    }

    fn range(
        &self,
        table: u32,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        backward: bool,
    ) -> Result<Answer> {
        self.read(table, |open| {
            let mut range = open.range(bounds)?;
            let (mut rows, mut bytes) = (Rows::new(), 0);
            while bytes < ROWS_BYTES && rows.len() < ROWS {
                let row = match backward {
                    true => range.next_back(),
                    false => range.next(),
                };
                let Some(row) = row.transpose()? else {
                    return Ok(Answer::Rows(rows, false));
                };
                bytes += row.0.len() + row.1.len();
                rows.push(row);
            }
            Ok(Answer::Rows(rows, true))
        })
    }
}
