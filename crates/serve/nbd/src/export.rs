//! A device as it is offered: its sizes, and a function for each kind of request.
//!
//! Invariants:
//! - The promises to clients with several connections hold because the connections
//!   share one device: a write is acknowledged when the device has it, and a flush
//!   covers all earlier writes of all connections.
//! - Every request was checked against the export's sizes before.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use varve_device::{Device, DeviceError};

use crate::counters::Counters;
use crate::flushes::Flushes;
use crate::protocol::{Descriptor, Errno, STATE_HOLE, STATE_ZERO, transmission};
use crate::request::{Measures, REQUEST_BYTES_MAX};

/// Zeros that one buffer of a device request refers to.
const ZEROS: &[u8] = &[0; 64 << 10];
/// Number of these buffers in one device request.
const ZEROS_EACH: usize = 16;
/// Number of bytes discarded at once: other requests get the device between two steps.
const STEP_BYTES: u64 = 64 << 20;
/// Maximum number of extents in one answer; a client asks again for the rest.
const EXTENTS_MAX: usize = 1024;
/// Maximum number of bytes of a reason that is sent to a client.
const WHY_BYTES_MAX: usize = 200;
/// The reason that clients get from a device that has stopped.
const CHANGES_NOTHING: &str = "nothing is written any more; the server's log says why";

/// The options of an export.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// Name of the export; the empty name always selects it, too.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// True to refuse changes.
    pub read_only: bool,
    /// True to announce that seeking is slow.
    pub rotational: bool,
}

/// A device that is offered to clients.
#[derive(Debug)]
pub struct Export {
    options: ExportOptions,
    device: Arc<dyn Device>,
    flushes: Flushes,
    counters: Counters,
}

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub errno: Errno,
    /// Text for people, without the server's paths.
    pub why: String,
}

impl Failure {
    pub(crate) fn new(errno: Errno, why: impl Into<String>) -> Self {
        Failure {
            errno,
            why: why.into(),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        tracing::error!(%error, "a request failed");
        let errno = match error.source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Errno::Space
            }
            ErrorKind::PermissionDenied => Errno::NotPermitted,
            ErrorKind::InvalidInput => Errno::Invalid,
            ErrorKind::OutOfMemory => Errno::Memory,
            _ => Errno::Io,
        };
        let mut why = match error.source.kind() {
            // The original reason names the device, and may be old.
            ErrorKind::ReadOnlyFilesystem => CHANGES_NOTHING.to_owned(),
            _ => error.source.to_string(),
        };
        let mut end = why.len().min(WHY_BYTES_MAX);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        why.truncate(end);
        Failure { errno, why }
    }
}

type Served<T = ()> = Result<T, Failure>;

impl Export {
    /// Creates an export of `device`.
    pub fn new(device: Arc<dyn Device>, options: ExportOptions) -> Self {
        Export {
            options,
            device,
            flushes: Flushes::default(),
            counters: Counters::default(),
        }
    }

    /// Returns the counters of requests.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the name of the export.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Returns the description of the export.
    pub fn description(&self) -> &str {
        &self.options.description
    }

    /// Makes all acknowledged writes durable.
    ///
    /// # Errors
    /// The reason, if the device has failed now or earlier.
    pub fn flush(&self) -> Result<(), String> {
        let worked = self.flushes.flush(&*self.device)?;
        self.counters.flushed(worked);
        Ok(())
    }

    /// Returns true if this name selects the export.
    pub(crate) fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.options.name.as_bytes()
    }

    /// Returns the sizes and agreements against which requests are checked.
    pub(crate) fn measures(&self, structured: bool, allocation: bool) -> Measures {
        let geometry = self.device.geometry();
        Measures {
            size: geometry.size,
            block: geometry.logical_block,
            read_only: self.options.read_only,
            structured,
            allocation: structured && allocation,
        }
    }

    /// Returns the smallest, the preferred and the largest request, in bytes.
    pub(crate) fn block_sizes(&self) -> [u32; 3] {
        let geometry = self.device.geometry();
        let smallest = geometry.logical_block;
        let best = match geometry.physical_block.is_power_of_two() {
            true => geometry.physical_block.max(smallest).max(512),
            false => smallest.max(512),
        };
        [smallest, best, REQUEST_BYTES_MAX]
    }

    /// Returns the transmission flags.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        use transmission::*;
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
        flags |= match self.options.read_only {
            true => READ_ONLY,
            false => SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO,
        };
        if self.options.rotational {
            flags |= ROTATIONAL;
        }
        if structured {
            flags |= SEND_DF;
        }
        flags
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Served {
        self.device.read(offset, into)?;
        self.counters.read(into.len());
        Ok(())
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Served {
        self.changeable()?;
        self.device.write(offset, &[IoSlice::new(bytes)])?;
        self.counters.written(bytes.len());
        Ok(())
    }

    /// Flushes as [`Export::flush`] does, for a client.
    pub(crate) fn make_durable(&self) -> Served {
        self.flush().map_err(|_| stopped())
    }

    /// Discards a range in steps. Stops when `wanted` returns false.
    pub(crate) fn trim(&self, offset: u64, length: u32, wanted: impl Fn() -> bool) -> Served {
        self.changeable()?;
        for (at, step) in steps(offset, offset + u64::from(length)) {
            still(&wanted)?;
            self.device.discard(at, step)?;
        }
        Ok(())
    }

    /// Zeroes a range. If `may_punch`, parts that the device can discard are discarded;
    /// the rest is written, unless `fast` forbids that. Stops when `wanted` returns
    /// false.
    pub(crate) fn zero(
        &self,
        offset: u64,
        length: u32,
        (may_punch, fast): (bool, bool),
        wanted: impl Fn() -> bool,
    ) -> Served {
        self.changeable()?;
        let end = offset + u64::from(length);
        let whole = u64::from(self.device.geometry().physical_block).max(1);
        let first = offset.next_multiple_of(whole).min(end);
        let last = (end / whole * whole).max(first);
        let mut punched = may_punch && last > first;
        for (at, step) in steps(first, last) {
            still(&wanted)?;
            // A device either can punch or cannot. If it could only for the first steps,
            // the whole range is written.
            punched = punched && self.device.zero(at, step)?;
        }
        let written = match (punched, fast) {
            (true, _) => [offset..first, last..end],
            (false, false) => [offset..end, end..end],
            (false, true) => {
                let why = "writing these zeros is no faster than a write";
                return Err(Failure::new(Errno::NotSupported, why));
            }
        };
        for range in written {
            let mut at = range.start;
            while at < range.end {
                still(&wanted)?;
                let step = (range.end - at).min((ZEROS.len() * ZEROS_EACH) as u64) as usize;
                let mut slices = [IoSlice::new(&[]); ZEROS_EACH];
                let count = step.div_ceil(ZEROS.len());
                for (nth, slice) in slices[..count].iter_mut().enumerate() {
                    *slice = IoSlice::new(&ZEROS[..ZEROS.len().min(step - nth * ZEROS.len())]);
                }
                self.device.write(at, &slices[..count])?;
                at += step as u64;
            }
        }
        self.counters.written(length as usize);
        Ok(())
    }

    /// Returns descriptors of a range that is not empty.
    pub(crate) fn status(&self, offset: u64, length: u32, one: bool) -> Served<Vec<Descriptor>> {
        let mut found: Vec<(u32, bool)> = Vec::new();
        let (mut at, end) = (offset, offset + u64::from(length));
        while at < end {
            let extent = self.device.extent(at, end - at)?;
            let step = extent.length.clamp(1, end - at) as u32;
            let enough = found.len() == if one { 1 } else { EXTENTS_MAX };
            match found.last_mut() {
                Some((length, hole)) if *hole == extent.hole => *length += step,
                _ if enough => break,
                _ => found.push((step, extent.hole)),
            }
            at += u64::from(step);
        }
        let descriptor = |(length, hole): (u32, bool)| Descriptor {
            length: length.into(),
            state: if hole { STATE_HOLE | STATE_ZERO } else { 0 }.into(),
        };
        Ok(found.into_iter().map(descriptor).collect())
    }

    fn changeable(&self) -> Served {
        match self.flushes.have_failed() {
            true => Err(stopped()),
            false => Ok(()),
        }
    }
}

/// Divides a range into steps that begin at multiples of a step, and so at whole
/// blocks.
fn steps(offset: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = offset;
    std::iter::from_fn(move || {
        let step = (STEP_BYTES - at % STEP_BYTES).min(end - at);
        let here = (step > 0).then_some((at, step));
        at += step;
        here
    })
}

fn still(wanted: impl Fn() -> bool) -> Served {
    match wanted() {
        true => Ok(()),
        false => Err(Failure::new(Errno::Io, "the client is gone")),
    }
}

fn stopped() -> Failure {
    Failure::new(Errno::Io, CHANGES_NOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_device::{MemoryDevice, Operation};

    #[test]
    fn clients_are_told_why_but_not_where() {
        let failure = |source: std::io::Error| {
            let device = MemoryDevice::new(4096);
            Failure::from(DeviceError::new(&device, Operation::Write, 0, 512, source))
        };
        let reason = "a map record could not be written: /srv/secret: write: gone";
        let source = std::io::Error::new(ErrorKind::ReadOnlyFilesystem, reason);
        assert_eq!(failure(source), stopped());
        let damaged = failure(std::io::Error::new(
            ErrorKind::InvalidData,
            "\u{e4}".repeat(200),
        ));
        assert_eq!((damaged.errno, damaged.why.len()), (Errno::Io, 200));
        let full = failure(ErrorKind::StorageFull.into());
        assert_eq!((full.errno, full.why.is_empty()), (Errno::Space, false));
    }

    #[test]
    fn steps_cover_a_range_and_break_it_on_whole_blocks() {
        let far = 5 * STEP_BYTES;
        for (offset, end) in [(0, 0), (512, 1024), (4096, far), (far - 512, far + 512)] {
            let mut next = offset;
            for (at, step) in steps(offset, end) {
                assert_eq!(at, next);
                assert!(at == offset || at.is_multiple_of(STEP_BYTES));
                assert!(step > 0 && step <= STEP_BYTES);
                next = at + step;
            }
            assert_eq!(next, end);
        }
    }
}
