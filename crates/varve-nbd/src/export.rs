//! A device as it is offered: its measures, and each request as a call.
//!
//! Invariants:
//! - What is promised to clients of several connections holds because they
//!   share one device: a write is acknowledged when the device has it, and one
//!   flush covers every write before it, whoever made it.
//! - Every request has been held against the export's measures before.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use varve_device::{Device, DeviceError};

use crate::counters::Counters;
use crate::flushes::Flushes;
use crate::protocol::{Descriptor, Errno, STATE_HOLE, STATE_ZERO, transmission};
use crate::request::{Measures, REQUEST_BYTES_MAX};

/// Zeros written by one request of the device.
const ZEROS: &[u8] = &[0; 64 << 10];
/// So many times those.
const ZEROS_EACH: usize = 16;
/// Extents told in one answer; a client asks again for the rest.
const EXTENTS_MAX: usize = 1024;
/// Bytes of a reason that is told to a client.
const WHY_BYTES_MAX: usize = 200;

/// How a device is offered.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// What clients call it; the empty name always leads here, too.
    pub name: String,
    /// What people are told it is.
    pub description: String,
    /// Refuse changes.
    pub read_only: bool,
    /// Tell clients that seeking is slow.
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

/// Why a request was not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub errno: Errno,
    /// For people; says nothing about the server's paths.
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
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Errno::NotPermitted,
            ErrorKind::InvalidInput => Errno::Invalid,
            ErrorKind::OutOfMemory => Errno::Memory,
            _ => Errno::Io,
        };
        let mut why = error.source.to_string();
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
    /// Offers `device`.
    pub fn new(device: Arc<dyn Device>, options: ExportOptions) -> Self {
        Export {
            options,
            device,
            flushes: Flushes::default(),
            counters: Counters::default(),
        }
    }

    /// What was asked of it.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What clients call it.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// What people are told it is.
    pub fn description(&self) -> &str {
        &self.options.description
    }

    /// Makes everything acknowledged durable.
    ///
    /// # Errors
    /// Why not: the device failed, now or before.
    pub fn flush(&self) -> Result<(), String> {
        let worked = self.flushes.flush(&*self.device)?;
        self.counters.flushed(worked);
        Ok(())
    }

    /// True if a client may mean this export.
    pub(crate) fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.options.name.as_bytes()
    }

    /// What requests are held against, with this much agreed.
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

    /// Smallest, best and largest request.
    pub(crate) fn block_sizes(&self) -> [u32; 3] {
        let geometry = self.device.geometry();
        let smallest = geometry.logical_block;
        let best = match geometry.physical_block.is_power_of_two() {
            true => geometry.physical_block.max(smallest).max(512),
            false => smallest.max(512),
        };
        [smallest, best, REQUEST_BYTES_MAX]
    }

    /// Transmission flags.
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

    /// As [`Export::flush`], for a client.
    pub(crate) fn make_durable(&self) -> Served {
        self.flush().map_err(|_| stopped())
    }

    pub(crate) fn trim(&self, offset: u64, length: u32) -> Served {
        self.changeable()?;
        Ok(self.device.discard(offset, length.into())?)
    }

    /// Zeros a range: what the device can forget is forgotten if it `may_punch`,
    /// the rest is written, unless that was to be `fast`. Gives up when nobody
    /// wants it any more.
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
        let punched = may_punch && last > first && self.device.zero(first, last - first)?;
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
                if !wanted() {
                    return Err(Failure::new(Errno::Io, "the client is gone"));
                }
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

    /// What is stored in a range that is not empty, as descriptors.
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

fn stopped() -> Failure {
    Failure::new(
        Errno::Io,
        "a flush failed; nothing is written until the server is started again",
    )
}
