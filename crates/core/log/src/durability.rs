//! What has been written, what is on its way, what is durable.
//!
//! Partial segments are numbered by serial. A partial is *in flight* from the
//! moment its group is applied until the device has taken it; readers are
//! served from its buffer meanwhile. A flush covers every serial below the
//! oldest one in flight when it starts; callers that wait at the same time
//! share one (group commit). After a failed flush nothing more is claimed
//! durable.
//!
//! A partial whose write fails for good leaves a *hole* in the log: recovery
//! cannot pass it, so nothing behind it counts as durable. A checkpoint moves
//! what lives in the failed partial, gives it up, and lets recovery start
//! behind the hole ([`crate::checkpoint`]).
//!
//! Invariants:
//!
//! - `durable <= flushed <= appended`, and each only grows after a mount
//! - a serial is in flight once, from `announce` to `landed` or `give_up`
//! - `hole in holes` implies `durable < hole`

use crate::bytes::partial::PartialBytes;
use crate::error::{Error, Result};
use crate::failures::{FailureKind, FailureOutcome};
use crate::format::SECTOR;
use crate::statistics::Counters;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicUsize, Ordering};
use varve_device::sync::{Condvar, Mutex, RwLock};
use varve_device::{AlignedBuffer, Device, DeviceError};
use varve_fs::planted::{self, Planted};

/// A partial segment on its way to the device.
#[derive(Debug)]
pub struct InFlight {
    /// Its number.
    pub serial: u64,
    /// Its place.
    pub sector: u64,
    /// All of it.
    pub bytes: PartialBytes,
    /// Runs of blocks that stand in holes of other segments, by first sector.
    pub plugs: Vec<(u64, AlignedBuffer)>,
}

impl InFlight {
    /// Where something is written: first sector and bytes.
    fn places(&self) -> impl Iterator<Item = (u64, usize)> {
        let plugs = self.plugs.iter().map(|(sector, run)| (*sector, run.len()));
        std::iter::once((self.sector, self.bytes.bytes())).chain(plugs)
    }

    /// True if something is written to any of these sectors.
    pub fn overlaps(&self, sectors: &Range<u64>) -> bool {
        self.places().any(|(sector, bytes)| {
            sector < sectors.end && sectors.start < sector + bytes as u64 / SECTOR
        })
    }

    /// Bytes of all that is written.
    pub fn total_bytes(&self) -> usize {
        self.places().map(|(_, bytes)| bytes).sum()
    }

    /// The sector behind it.
    pub fn end_sector(&self) -> u64 {
        self.sector + self.bytes.bytes() as u64 / SECTOR
    }

    /// Copies what of it goes to the place of `into`, from `sector` on.
    pub fn overlay(&self, sector: u64, into: &mut [u8]) {
        let mut at = self.sector;
        for slice in self.bytes.slices() {
            overlay((sector, &mut *into), (at, slice));
            at += slice.len() as u64 / SECTOR;
        }
        for (at, run) in &self.plugs {
            overlay((sector, &mut *into), (*at, run));
        }
    }

    /// True if one of its places holds all of these bytes.
    fn covers(&self, sector: u64, length: usize) -> bool {
        self.places().any(|(first, bytes)| {
            let before = sector.checked_sub(first).map(|sectors| sectors * SECTOR);
            let end = before.and_then(|before| before.checked_add(length as u64));
            end.is_some_and(|end| end <= bytes as u64)
        })
    }
}

/// Copies what `from` has of the bytes that `into` holds; both begin at a sector.
fn overlay((start, into): (u64, &mut [u8]), (at, from): (u64, &[u8])) {
    let (start, at) = (start * SECTOR, at * SECTOR);
    let first = at.max(start);
    let end = (at + from.len() as u64).min(start + into.len() as u64);
    if first < end {
        let length = (end - first) as usize;
        let (to, by) = ((first - start) as usize, (first - at) as usize);
        into[to..to + length].copy_from_slice(&from[by..by + length]);
    }
}

#[derive(Debug, Default)]
struct Progress {
    /// Highest serial appended.
    appended: u64,
    /// Highest serial a completed flush covers: all before it have landed or
    /// have been given up.
    flushed: u64,
    /// Serials in flight whose write failed for good.
    failed: BTreeSet<u64>,
    /// What the device said.
    failure: String,
    /// Serials that were given up and that the newest checkpoint does not lie
    /// behind.
    holes: BTreeSet<u64>,
    /// Somebody is in `Device::flush`.
    flushing: bool,
    /// Why nothing more will become durable.
    stopped: Option<String>,
}

impl Progress {
    /// Highest serial that recovery is sure to reach.
    fn durable(&self) -> u64 {
        assert!(self.flushed <= self.appended, "flushed and not appended");
        let before = self.holes.first().map_or(u64::MAX, |hole| hole - 1);
        self.flushed.min(before)
    }
}

/// Tracks the three states. Lock order: below every other lock of the crate.
#[derive(Debug, Default)]
pub struct Durability {
    in_flight: RwLock<BTreeMap<u64, Arc<InFlight>>>,
    in_flight_count: AtomicUsize,
    progress: Mutex<Progress>,
    changed: Condvar,
    counters: Arc<Counters>,
}

impl Durability {
    /// Counts failed flushes in `counters`.
    pub fn new(counters: Arc<Counters>) -> Self {
        Durability {
            counters,
            ..Durability::default()
        }
    }

    fn flush(&self, device: &dyn Device) -> std::result::Result<(), DeviceError> {
        let flushed = self.counters.using(|| device.flush());
        flushed.inspect_err(|error| {
            self.counters.flushes_failed.fetch_add(1, Ordering::Relaxed);
            let (kind, lost) = (FailureKind::Flush, FailureOutcome::Failed);
            let log = &self.counters.failures;
            log.note(kind, lost, (0, 0), None, &error.source);
        })
    }

    /// Waits until more than `serial` is durable, writing has stopped, or for so long.
    pub fn wait_beyond(&self, serial: u64, most: std::time::Duration) {
        let mut progress = self.progress.lock();
        if progress.durable() <= serial && progress.stopped.is_none() {
            self.changed.wait_for(&mut progress, most);
        }
    }

    /// Declares everything up to `serial` durable: recovery has flushed.
    pub fn reset(&self, serial: u64) {
        assert!(!self.any_in_flight(), "reset while partials are in flight");
        let mut progress = self.progress.lock();
        progress.appended = serial;
        progress.flushed = serial;
    }

    /// Highest serial known to be flushed.
    pub fn durable(&self) -> u64 {
        self.progress.lock().durable()
    }

    /// Why writing stopped, if it did.
    pub fn stopped(&self) -> Option<String> {
        self.progress.lock().stopped.clone()
    }

    /// Fails if writing has stopped.
    pub fn check(&self) -> Result<()> {
        match self.stopped() {
            None => Ok(()),
            Some(reason) => Err(Error::Stopped(reason)),
        }
    }

    /// Nothing more becomes durable; the first reason stays.
    pub fn stop(&self, reason: String) {
        let mut progress = self.progress.lock();
        if progress.stopped.is_none() {
            tracing::error!(reason, "the volume takes no more writes");
            progress.stopped = Some(reason);
        }
        self.changed.notify_all();
    }

    /// As [`Durability::stop`], where stopping is what was asked for.
    pub fn stop_quietly(&self, reason: String) {
        self.progress.lock().stopped.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Announces a partial before anybody can see pointers into it.
    pub fn announce(&self, partial: Arc<InFlight>) {
        let serial = partial.serial;
        let mut in_flight = self.in_flight.write();
        let former = in_flight.insert(serial, partial);
        assert!(former.is_none(), "partial {serial} is announced twice");
        self.in_flight_count
            .store(in_flight.len(), Ordering::Release);
        drop(in_flight);
        let mut progress = self.progress.lock();
        progress.appended = progress.appended.max(serial);
    }

    /// The oldest serial in flight.
    pub fn oldest_in_flight(&self) -> Option<u64> {
        self.in_flight.read().keys().next().copied()
    }

    /// The partial with this serial, while it is in flight.
    pub fn partial(&self, serial: u64) -> Option<Arc<InFlight>> {
        self.in_flight.read().get(&serial).cloned()
    }

    /// The device has taken the partial.
    pub fn landed(&self, serial: u64) {
        let mut in_flight = self.in_flight.write();
        in_flight.remove(&serial);
        self.in_flight_count
            .store(in_flight.len(), Ordering::Release);
        drop(in_flight);
        // Whoever looked before this must be asleep by now, or he misses it.
        let _progress = (!planted::is(Planted::WakeUpLost)).then(|| self.progress.lock());
        self.changed.notify_all();
    }

    /// True while any partial is on its way.
    pub fn any_in_flight(&self) -> bool {
        self.in_flight_count.load(Ordering::Acquire) > 0
    }

    /// True if any of these sectors is on its way.
    pub fn overlaps(&self, sector: u64, sectors: u64) -> bool {
        self.any_in_flight()
            && self
                .in_flight
                .read()
                .values()
                .any(|partial| partial.overlaps(&(sector..sector + sectors)))
    }

    /// Fills `bytes` from a partial in flight, if one covers them.
    pub fn serve(&self, sector: u64, bytes: &mut [u8]) -> bool {
        if !self.any_in_flight() {
            return false;
        }
        let in_flight = self.in_flight.read();
        let mut partials = in_flight.values();
        let found = partials.find(|partial| partial.covers(sector, bytes.len()));
        let found = found.map(Arc::clone);
        drop(in_flight);
        if let Some(partial) = &found {
            partial.overlay(sector, bytes);
        }
        found.is_some()
    }

    /// Flushes the device now, in line with the flushes of commits: the kernel
    /// reports a lost write once, and whoever meets that report must stop the
    /// volume before another flush can succeed.
    ///
    /// # Errors
    /// If the flush fails, or writing has stopped.
    pub fn barrier(&self, device: &dyn Device) -> Result<()> {
        let mut progress = self.progress.lock();
        while progress.flushing {
            self.changed.wait(&mut progress);
        }
        if let Some(reason) = &progress.stopped {
            return Err(Error::Stopped(reason.clone()));
        }
        progress.flushing = true;
        drop(progress);
        let outcome = self.flush(device);
        progress = self.progress.lock();
        progress.flushing = false;
        if let Err(error) = &outcome {
            let reason = format!("a flush failed and is never retried: {error}");
            progress.stopped.get_or_insert(reason);
        }
        self.changed.notify_all();
        Ok(outcome?)
    }

    /// The device has refused a partial for good. It stays in flight, so that
    /// readers find it, until it is given up.
    pub fn failed(&self, serial: u64, error: &DeviceError) {
        let mut progress = self.progress.lock();
        progress.failed.insert(serial);
        progress.failure = error.to_string();
        self.changed.notify_all();
    }

    /// The partials in flight whose write has failed, oldest first.
    pub fn failed_partials(&self) -> Vec<Arc<InFlight>> {
        let failed = self.progress.lock().failed.clone();
        let in_flight = self.in_flight.read();
        failed
            .iter()
            .filter_map(|s| in_flight.get(s).cloned())
            .collect()
    }

    /// What the device said when it last refused a partial.
    pub fn failure(&self) -> String {
        self.progress.lock().failure.clone()
    }

    /// Waits until nothing in `sectors` is on its way but what has failed.
    pub fn settle(&self, sectors: std::ops::Range<u64>) {
        let mut progress = self.progress.lock();
        while progress.stopped.is_none()
            && self.in_flight.read().values().any(|partial| {
                partial.overlaps(&sectors) && !progress.failed.contains(&partial.serial)
            })
        {
            self.changed.wait(&mut progress);
        }
    }

    /// Nothing that lives is in a failed partial any more.
    pub fn give_up(&self, serial: u64) {
        let mut in_flight = self.in_flight.write();
        in_flight.remove(&serial);
        self.in_flight_count
            .store(in_flight.len(), Ordering::Release);
        drop(in_flight);
        let mut progress = self.progress.lock();
        assert!(serial <= progress.appended, "partial {serial} is given up");
        progress.failed.remove(&serial);
        progress.holes.insert(serial);
        self.changed.notify_all();
    }

    /// A checkpoint is complete from which recovery starts behind `serial`.
    pub fn recovers_behind(&self, serial: u64) {
        let mut progress = self.progress.lock();
        progress.holes = progress.holes.split_off(&(serial + 1));
        self.changed.notify_all();
    }

    /// Waits until everything up to `serial` is durable, flushing if nobody
    /// else is about to. Returns whether this call flushed.
    ///
    /// # Errors
    /// If a flush failed, or `Unwritten` if a write did; none of the waiting
    /// callers may believe their data is safe.
    pub fn commit(&self, serial: u64, device: &dyn Device) -> Result<bool> {
        self.flush_through(serial, device, Progress::durable)
    }

    /// As [`Durability::commit`], for what a checkpoint writes: it is on the
    /// device, and recovery will reach it through the checkpoint.
    ///
    /// # Errors
    /// As [`Durability::commit`].
    pub fn commit_past_holes(&self, serial: u64, device: &dyn Device) -> Result<bool> {
        self.flush_through(serial, device, |progress| progress.flushed)
    }

    fn flush_through(
        &self,
        serial: u64,
        device: &dyn Device,
        reached: impl Fn(&Progress) -> u64,
    ) -> Result<bool> {
        let mut progress = self.progress.lock();
        loop {
            if reached(&progress) >= serial {
                return Ok(false);
            }
            if let Some(reason) = &progress.stopped {
                return Err(Error::Stopped(reason.clone()));
            }
            let failed = progress
                .failed
                .first()
                .is_some_and(|first| *first <= serial);
            if failed || progress.flushed >= serial {
                return Err(Error::Unwritten(progress.failure.clone()));
            }
            let oldest = self.in_flight.read().keys().next().copied();
            let mut covered = oldest.map_or(progress.appended, |s| s - 1);
            if covered < serial && oldest.is_none() {
                // Never announced: nothing will make it durable.
                return Err(Error::Stopped(format!(
                    "partial {serial} was never appended"
                )));
            }
            if progress.flushing || covered < serial {
                self.changed.wait(&mut progress);
                continue;
            }
            progress.flushing = true;
            drop(progress);
            let outcome = self.flush(device);
            progress = self.progress.lock();
            progress.flushing = false;
            if planted::is(Planted::FlushCoversLater) {
                let oldest = self.in_flight.read().keys().next().copied();
                covered = oldest.map_or(progress.appended, |s| s - 1);
            }
            match outcome {
                Ok(()) => progress.flushed = progress.flushed.max(covered),
                Err(_) if planted::is(Planted::FlushFailureForgotten) && device.flush().is_ok() => {
                    progress.flushed = progress.flushed.max(covered);
                }
                Err(error) => {
                    let reason = format!("a flush failed and is never retried: {error}");
                    tracing::error!(reason, "the volume takes no more writes");
                    progress.stopped.get_or_insert(reason);
                }
            }
            self.changed.notify_all();
            if reached(&progress) >= serial {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests;
