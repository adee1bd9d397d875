//! The view of a leaf in a snapshot.

use super::{Before, Keys, Snapshot, Stamp, TableVersions, Version, Versions};
use crate::error::{Error, Result};
use crate::log::Lsn;
use crate::page::Cell;
use crate::planted::{self, Planted};
use smallvec::SmallVec;
use std::ops::Bound;
use std::sync::Arc;
use varve_device::sync::atomic::Ordering::*;

/// A record of a leaf: its key, true if its value is large, and the value or its
/// descriptor.
pub(crate) type Record = (Vec<u8>, bool, Vec<u8>);

/// Result of a search: true if the value is large, and its bytes or its descriptor.
pub(crate) type Found = Option<(bool, SmallVec<[u8; 128]>)>;

/// A table in the view of a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    versions: &'a Versions,
    at: Lsn,
    clean: u64,
    /// Stamp of the reader's own changes, which it sees.
    own: Option<&'a Arc<Stamp>>,
    table: u32,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        versions: &'a Versions,
        snapshot: &Snapshot<'_>,
        own: Option<&'a Arc<Stamp>>,
        table: u32,
    ) -> Self {
        View {
            versions,
            at: snapshot.at,
            clean: snapshot.clean,
            own,
            table,
        }
    }

    /// Returns the last commit in the view.
    pub(crate) fn at(&self) -> Lsn {
        self.at
    }

    fn sees(&self, until: &Arc<Stamp>) -> bool {
        if self.own.is_some_and(|own| Arc::ptr_eq(own, until)) {
            return true;
        }
        match until.get() {
            Some(commit) => commit <= self.at || planted::is(Planted::LaterCommitSeen),
            None => false,
        }
    }

    fn before<'l>(&self, list: &'l [Version]) -> Option<&'l Before> {
        let first = list.iter().find(|version| !self.sees(&version.until));
        first.map(|version| &version.before)
    }

    /// Fails if versions that the view needs were dropped.
    pub(crate) fn check(&self) -> Result<()> {
        match self.versions.floor.load(SeqCst) > self.at.0 {
            true => Err(self.too_old()),
            false => Ok(()),
        }
    }

    fn too_old(&self) -> Error {
        Error::SnapshotTooOld {
            limit: self.versions.limit,
        }
    }

    /// Fails if a writer without versions may have changed a page last changed at `lsn`.
    fn check_page(&self, keys: &Keys, lsn: u64) -> Result<()> {
        let hidden = keys
            .unversioned
            .iter()
            .any(|mark| lsn >= mark.began && !self.sees(&mark.until));
        match hidden {
            true => Err(self.too_old()),
            false => self.check(),
        }
    }

    /// Returns true if a page last changed at `lsn` has its state of the snapshot.
    pub(crate) fn is_settled(&self, lsn: u64) -> bool {
        lsn < self.clean
    }

    fn needed(&self, lsn: u64) -> Option<Arc<TableVersions>> {
        match self.is_settled(lsn) {
            true => None,
            false => self.versions.existing(self.table),
        }
    }

    /// Returns the value of a key whose leaf was last changed at `lsn` and contains
    /// `cell`. The leaf must be latched.
    pub(crate) fn value(&self, key: &[u8], cell: Option<Cell<'_>>, lsn: u64) -> Result<Found> {
        let leafs = |cell: Cell<'_>| (cell.overflow, SmallVec::from_slice(cell.bytes));
        if let Some(table) = self.needed(lsn) {
            let keys = table.0.read();
            self.check_page(&keys, lsn)?;
            let list = keys.versions.get(key);
            if let Some(before) = list.and_then(|list| self.before(list)) {
                let copy =
                    |(large, bytes): &(bool, Arc<[u8]>)| (*large, SmallVec::from_slice(bytes));
                return Ok(before.as_ref().map(copy));
            }
        }
        self.check()?;
        Ok(cell.map(leafs))
    }

    /// Corrects the records of a range in a leaf last changed at `lsn`: all of its keys
    /// within the bounds. The leaf must be latched.
    pub(crate) fn correct(
        &self,
        records: &mut Vec<Record>,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        lsn: u64,
    ) -> Result<()> {
        if let Some(table) = self.needed(lsn)
            && !is_empty(from, to)
        {
            let keys = table.0.read();
            self.check_page(&keys, lsn)?;
            for (key, list) in keys.versions.range::<[u8], _>((from, to)) {
                let Some(before) = self.before(list) else {
                    continue;
                };
                let at = records.binary_search_by(|(other, ..)| other[..].cmp(key));
                let record = before
                    .as_ref()
                    .map(|(large, value)| (key.to_vec(), *large, value.to_vec()));
                match (at, record) {
                    (Ok(at), Some(record)) => records[at] = record,
                    (Err(at), Some(record)) => records.insert(at, record),
                    (Ok(at), None) => _ = records.remove(at),
                    (Err(_), None) => {}
                }
            }
        }
        self.check()
    }

    /// Returns true if another transaction has changed this key and committed after the
    /// snapshot, so that a further change would lose that one. The key must be locked for
    /// writing.
    pub(crate) fn changed_since(&self, key: &[u8]) -> Result<bool> {
        let Some(table) = self.versions.existing(self.table) else {
            return self.check().map(|()| false);
        };
        let keys = table.0.read();
        let list = keys.versions.get(key);
        let newest = list.and_then(|list| list.last());
        let changed = newest.is_some_and(|newest| !self.sees(&newest.until));
        // Uncommitted transactions have not changed the key.
        let hidden = |until: &Arc<Stamp>| until.get().is_some() && !self.sees(until);
        let hidden = keys.unversioned.iter().any(|mark| hidden(&mark.until));
        drop(keys);
        self.check()?;
        Ok(changed || hidden)
    }
}

/// Returns true if no key is within the bounds.
pub(crate) fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}
