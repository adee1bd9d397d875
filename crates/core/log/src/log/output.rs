//! Writing partial segments to the device.
//!
//! Small groups are written by their caller, who most likely waits for them. Large ones
//! are written by threads, if there are any, so that the next group is copied and summed
//! while the device takes this one. Order does not matter: a flush covers a partial only
//! once all before it have been written.
//!
//! Invariant: the requests that wait for a thread are bounded, and a caller that would
//! exceed the bound waits.

use crate::durability::{Durability, InFlight};
use crate::failures::{FailureKind, FailureOutcome};
use crate::format::SECTOR;
use crate::locks::assert_may_wait;
use crate::statistics::Counters;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::{Device, DeviceError, Workers};

/// Attempts at a failing write before it is given up.
const ATTEMPTS: u32 = 3;
/// Most bytes passed to the device in one request.
const REQUEST_BYTES: usize = 4 << 20;
/// Groups of fewer bytes are written by their caller.
const LARGE_BYTES: usize = 1 << 20;
/// Most requests that wait for a thread.
const WAITING: usize = 2;

/// Adjacent partials on the device.
type Request = Vec<Arc<InFlight>>;

struct Submitter {
    device: Arc<dyn Device>,
    durability: Arc<Durability>,
    counters: Arc<Counters>,
}

/// The submitter to the device, and its threads.
pub struct Output {
    submitter: Arc<Submitter>,
    workers: Workers<Request>,
}

impl Output {
    /// Writes to `device` by up to `threads` threads, as many as the host grants; without
    /// any, callers write.
    pub fn new(
        device: Arc<dyn Device>,
        durability: Arc<Durability>,
        counters: Arc<Counters>,
        threads: usize,
    ) -> Self {
        let submitter = Arc::new(Submitter {
            device,
            durability,
            counters,
        });
        let serves = Arc::clone(&submitter);
        let serve = move |request: Request| serves.write(&request);
        Output {
            submitter,
            workers: Workers::new("varve-log", threads, WAITING, serve),
        }
    }

    /// Writes announced partials, or gives them to a thread. [`Durability::commit`]
    /// reports whether they reached the device.
    pub fn write(&self, partials: Vec<Arc<InFlight>>) {
        assert_may_wait();
        let bytes: usize = partials.iter().map(|p| p.total_bytes()).sum();
        let requests = contiguous(partials);
        for request in requests {
            let left = match bytes >= LARGE_BYTES {
                true => self.workers.give(request).err(),
                false => Some(request),
            };
            if let Some(request) = left {
                self.submitter.write(&request);
            }
        }
    }
}

/// Cuts `partials` where they are not adjacent, or become too many for one request.
fn contiguous(partials: Vec<Arc<InFlight>>) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut bytes = 0;
    for partial in partials {
        bytes += partial.bytes.bytes();
        match requests.last_mut() {
            Some(request)
                if bytes <= REQUEST_BYTES
                    && request.last().map(|p| p.end_sector()) == Some(partial.sector) =>
            {
                request.push(partial);
            }
            _ => {
                bytes = partial.bytes.bytes();
                requests.push(vec![partial]);
            }
        }
    }
    requests
}

impl Submitter {
    fn write(&self, partials: &[Arc<InFlight>]) {
        if self.durability.stopped().is_some() {
            return;
        }
        match self.try_write(partials) {
            Ok(()) => partials
                .iter()
                .for_each(|partial| self.durability.landed(partial.serial)),
            Err(error) if partials.len() == 1 => {
                tracing::error!(%error, "a write to the log failed for good");
                self.durability.failed(partials[0].serial, &error);
            }
            // A bad sector under one must not lose the others.
            Err(_) => partials
                .iter()
                .for_each(|partial| self.write(std::slice::from_ref(partial))),
        }
    }

    fn try_write(&self, partials: &[Arc<InFlight>]) -> Result<(), DeviceError> {
        let (device, counters) = (&*self.device, &*self.counters);
        let offset = partials[0].sector * SECTOR;
        let slices = partials.iter().flat_map(|partial| partial.bytes.slices());
        let buffers: Vec<IoSlice<'_>> = slices.map(IoSlice::new).collect();
        write_patiently(device, counters, offset, &buffers)?;
        let plugs = partials.iter().flat_map(|partial| &partial.plugs);
        let plugs: Vec<(u64, &[u8])> = plugs
            .map(|(sector, bytes)| (sector * SECTOR, &bytes[..]))
            .collect();
        if plugs.is_empty() {
            return Ok(());
        }
        let count = plugs.len() as u64;
        counters.device_writes.fetch_add(count, Relaxed);
        let Err(error) = counters.using(|| device.write_many(&plugs)) else {
            let bytes: usize = plugs.iter().map(|(_, bytes)| bytes.len()).sum();
            counters.bytes_written.fetch_add(bytes as u64, Relaxed);
            return Ok(());
        };
        counters.write_retries.fetch_add(1, Relaxed);
        tracing::warn!(%error, "one of several writes failed, trying each again");
        for (offset, bytes) in &plugs {
            write_patiently(device, counters, *offset, &[IoSlice::new(bytes)])?;
        }
        counters.writes_cured.fetch_add(1, Relaxed);
        let (place, cured) = ((error.offset, error.length), FailureOutcome::Cured);
        let log = &counters.failures;
        log.note(FailureKind::Write, cured, place, None, &error.source);
        Ok(())
    }
}

/// Writes, again at the same place if the device fails: a repeated write stores the same
/// bytes.
///
/// # Errors
/// The device's last error.
pub fn write_patiently(
    device: &dyn Device,
    counters: &Counters,
    offset: u64,
    buffers: &[IoSlice<'_>],
) -> Result<(), DeviceError> {
    let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let note = |outcome, error: &std::io::Error| {
        let place = (offset, length);
        let log = &counters.failures;
        log.note(FailureKind::Write, outcome, place, None, error);
    };
    let mut failed = None;
    for attempt in 1.. {
        counters.device_writes.fetch_add(1, Relaxed);
        match counters.moving(length, || device.write(offset, buffers)) {
            Ok(()) => {
                counters.bytes_written.fetch_add(length, Relaxed);
                break;
            }
            Err(error) if attempt == ATTEMPTS => {
                counters.writes_failed.fetch_add(1, Relaxed);
                note(FailureOutcome::Failed, &error.source);
                return Err(error);
            }
            Err(error) => {
                counters.write_retries.fetch_add(1, Relaxed);
                tracing::warn!(%error, attempt, "write failed, trying again");
                failed = Some(error.source);
            }
        }
    }
    if let Some(error) = failed {
        counters.writes_cured.fetch_add(1, Relaxed);
        note(FailureOutcome::Cured, &error);
    }
    Ok(())
}
