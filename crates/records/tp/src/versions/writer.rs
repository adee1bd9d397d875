//! The versions that a writing transaction has kept.

use super::{Before, Stamp, TableVersions, Unversioned, Version, Versions};
use smallvec::smallvec;
use std::sync::Arc;
use varve_device::sync::atomic::Ordering::*;

/// A transaction's versions.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) stamp: Arc<Stamp>,
    /// The LSN below which it has logged nothing.
    began: u64,
    tables: Vec<(u32, Arc<TableVersions>)>,
    keys: Vec<(Arc<TableVersions>, Arc<[u8]>)>,
    bytes: usize,
    /// True if it has exceeded the limit, and only marks its tables.
    gave_up: bool,
}

impl Writer {
    pub(crate) fn new(began: u64) -> Self {
        Writer {
            stamp: Arc::default(),
            began,
            tables: Vec::new(),
            keys: Vec::new(),
            bytes: 0,
            gave_up: false,
        }
    }

    /// Returns the stamp, by which a view recognises the transaction's own changes.
    pub(crate) fn stamp(&self) -> &Arc<Stamp> {
        &self.stamp
    }

    /// Returns the number of keys with versions.
    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    fn mark(&self, table: &TableVersions) {
        table.0.write().unversioned.push(Unversioned {
            until: self.stamp.clone(),
            began: self.began,
        });
    }
}

impl Versions {
    /// Keeps the value of a record before this writer changes it for the first time. The
    /// record's leaf must be latched.
    pub(crate) fn note(
        &self,
        writer: &mut Writer,
        table: u32,
        key: &[u8],
        before: impl FnOnce() -> Before,
    ) {
        let at = writer.tables.iter().position(|(other, _)| *other == table);
        let at = at.unwrap_or_else(|| {
            let versions = self.table(table);
            if writer.gave_up {
                writer.mark(&versions);
            }
            writer.tables.push((table, versions));
            writer.tables.len() - 1
        });
        if writer.gave_up {
            return;
        }
        let table = writer.tables[at].1.clone();
        let bytes;
        {
            let mut keys = table.0.write();
            let known = keys.versions.get(key).and_then(|list| list.last());
            if known.is_some_and(|last| Arc::ptr_eq(&last.until, &writer.stamp)) {
                return;
            }
            let version = Version {
                until: writer.stamp.clone(),
                before: before(),
            };
            bytes = version.bytes(key);
            let key: Arc<[u8]> = key.into();
            match keys.versions.get_mut(&key) {
                Some(list) => list.push(version),
                None => _ = keys.versions.insert(key.clone(), smallvec![version]),
            }
            drop(keys);
            writer.keys.push((table, key));
        }
        writer.bytes += bytes;
        let all = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        if all > self.limit {
            self.shrink(writer);
        }
    }

    /// Reduces the memory: the oldest versions are dropped first, unless this writer has
    /// most of them.
    fn shrink(&self, writer: &mut Writer) {
        if writer.bytes <= self.limit / 2 {
            let mut kept = self.kept.lock();
            while self.bytes.load(Relaxed) > self.limit
                && let Some(first) = kept.front()
            {
                self.floor.fetch_max(first.commit.0, SeqCst);
                self.drop_first(&mut kept);
            }
        }
        if self.bytes.load(Relaxed) > self.limit {
            writer
                .tables
                .iter()
                .for_each(|(_, table)| writer.mark(table));
            writer.gave_up = true;
            self.forget_behind(writer, 0);
        }
    }

    /// Drops the versions of all keys but the first `count`, whose changes are undone and
    /// still locked.
    pub(crate) fn forget_behind(&self, writer: &mut Writer, count: usize) {
        let mut bytes = 0;
        for (table, key) in writer.keys.drain(count.min(writer.keys.len())..) {
            let mut keys = table.0.write();
            let Some(list) = keys.versions.get_mut(&key) else {
                continue;
            };
            list.retain(|version| {
                let own = Arc::ptr_eq(&version.until, &writer.stamp);
                bytes += if own { version.bytes(&key) } else { 0 };
                !own
            });
            if list.is_empty() {
                keys.versions.remove(&key);
            }
        }
        writer.bytes -= bytes;
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// Drops all versions, which are no longer needed, or whose changes are undone.
    pub(crate) fn forget(&self, mut writer: Writer) {
        self.forget_behind(&mut writer, 0);
        if writer.gave_up {
            for (_, table) in &writer.tables {
                let marks = &mut table.0.write().unversioned;
                marks.retain(|mark| !Arc::ptr_eq(&mark.until, &writer.stamp));
            }
        }
    }
}
