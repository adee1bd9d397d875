//! What a mounted volume lets those do who look at it from outside: `varve-fsck`.

use crate::base::Base;
use crate::committed::Lookup;
use crate::delta::Delta;
use crate::lfs::Lfs;
use crate::locks::Ranked;
use crate::reader::Reader;
use crate::statistics::Counters;
use std::sync::Arc;
use varve_device::sync::MutexGuard;
use varve_device::{Clock, Device};
use varve_fs::Usage;

/// Nobody else verifies while this lives.
pub struct Verifying<'a> {
    _one_at_a_time: Ranked<MutexGuard<'a, ()>>,
}

#[doc(hidden)]
impl Lfs {
    /// The newest image.
    pub fn base(&self) -> Arc<Base> {
        self.layers.base()
    }

    /// The lowest inode number that was never given out.
    pub fn next_ino(&self) -> u64 {
        self.layers.read().live.next_ino
    }

    /// True if the newest image has everything that is logged.
    pub fn is_folded(&self) -> bool {
        self.layers.read().live.is_empty()
    }

    /// Changes what the next checkpoint has to fold.
    pub fn change_live<T>(&self, change: impl FnOnce(&mut Delta) -> T) -> T {
        change(&mut self.layers.change().live)
    }

    /// What lives, as far as it is logged.
    pub fn logged_usage(&self) -> Usage {
        self.layers.read().usage
    }

    /// The mount's own clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The device, and what is counted on it.
    pub fn counted_device(&self) -> (&Arc<dyn Device>, &Arc<Counters>) {
        (&self.device, &self.counters)
    }

    /// The mount's own reader.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// A reader of the same volume that remembers, counts and reads by itself.
    pub fn reader_on(&self, device: Arc<dyn Device>, cache_bytes: u64) -> Reader {
        let (durability, counters) = (Arc::clone(&self.durability), Arc::default());
        Reader::new(device, **self.geometry, cache_bytes, durability, counters)
    }

    /// What is committed, found by such a reader.
    pub fn lookup_by<'a>(&'a self, reader: &'a Reader) -> Lookup<'a> {
        Lookup {
            reader,
            ..self.layers.lookup()
        }
    }

    /// Takes no writes from here on; the first reason stays.
    pub fn stop(&self, why: String) {
        self.durability.stop(why);
    }

    /// `None` if somebody else verifies.
    pub fn begin_verification(&self) -> Option<Verifying<'_>> {
        let _one_at_a_time = self.verifying.try_lock()?;
        Some(Verifying { _one_at_a_time })
    }
}
