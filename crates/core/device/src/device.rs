//! The device seam: bytes at addresses, and nothing about files.
//!
//! Every layer above works through [`Device`]; image files, block devices, memory,
//! simulated disks, recorders and fault injectors differ only here. The contract about
//! durability is the one of `docs/guide/semantics.md`:
//!
//! - a write is durable once a later [`Device::flush`] has returned `Ok`;
//! - until then its sectors may reach the medium in any order and any subset;
//! - one atomic unit (512 or 4096 bytes) is written whole or not at all;
//! - after a failed flush, the state of every write since the last good flush is
//!   unknown.

use crate::aligned::AlignedBuffer;
use crate::size::Bytes;
use std::fmt;
use std::io;

/// Size of the smallest addressable unit, in bytes.
pub const SECTOR: u64 = 512;

/// The size and the block sizes of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Usable size, a multiple of `logical_block`.
    pub size: u64,
    /// Smallest unit of transfer; offsets and lengths must be multiples of it.
    pub logical_block: u32,
    /// Smallest unit that the medium writes without reading it first.
    pub physical_block: u32,
}

/// A failed device operation: the device, the operation, its range and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{device}: {} failed: {source}", asked(*.operation, *.offset, *.length))]
pub struct DeviceError {
    /// The device's name for people: a path, or `memory`.
    pub device: String,
    /// The operation that failed.
    pub operation: Operation,
    /// Byte address of the request.
    pub offset: u64,
    /// Length of the request in bytes, or 0 for a flush. For [`Operation::Resize`], the
    /// requested size.
    pub length: u64,
    /// The reason given by the operating system or the simulator.
    #[source]
    pub source: io::Error,
}

impl DeviceError {
    /// Returns true if the failure says nothing about the medium's content: a service
    /// did not answer or refused ([`Service`]). Such a failure must never be taken for a
    /// torn unit or for the end of a log.
    pub fn is_of_service(&self) -> bool {
        let inner = self.source.get_ref();
        inner.is_some_and(|inner| inner.is::<Service>())
    }
}

/// The reason of a [`DeviceError`] of a device behind a service. The data may be intact.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Service(pub Box<dyn std::error::Error + Send + Sync>);

fn asked(operation: Operation, offset: u64, length: u64) -> String {
    match operation {
        Operation::Resize => format!("giving it {}", Bytes(length)),
        _ => format!("{operation} of {length} bytes at byte {offset}"),
    }
}

/// The kinds of request a device serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Transfers bytes from the medium.
    Read,
    /// Transfers bytes to the medium; they are not yet durable.
    Write,
    /// Makes earlier writes durable.
    Flush,
    /// Hints that a range contains nothing of value.
    Discard,
    /// Changes the size of the device.
    Resize,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
            Operation::Resize => "resize",
        })
    }
}

/// The result of every device call.
pub type Result<T> = std::result::Result<T, DeviceError>;

/// The zones of a device whose zones must be written sequentially.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zones {
    /// Size of a zone, in bytes.
    pub zone_bytes: u64,
    /// Number of zones that may be open for writing at once; 0 means no limit.
    pub max_open: u32,
}

/// The state of the beginning of a range, as far as the device knows it without a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of bytes, from the beginning of the range, that the answer covers.
    pub length: u64,
    /// True if nothing is stored there and the bytes read as zeros. False also if the
    /// device does not know.
    pub hole: bool,
}

/// Bytes at addresses.
///
/// Offsets and lengths are multiples of `geometry().logical_block`. Buffers need no
/// alignment: an implementation that needs aligned memory copies. All methods may be
/// called from several threads at once.
pub trait Device: Send + Sync + fmt::Debug {
    /// Returns the device's geometry, which only [`Device::set_size`] changes.
    fn geometry(&self) -> Geometry;

    /// Fills `buffer` from byte `offset`.
    ///
    /// # Errors
    /// If the range is not within the device, or the medium cannot deliver it.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills the buffers one after the other from byte `offset`, in one request. The
    /// default implementation reads into one buffer and copies.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_vectored(&self, offset: u64, buffers: &mut [io::IoSliceMut<'_>]) -> Result<()> {
        read_and_part(self, offset, buffers)
    }

    /// Writes the buffers one after the other from byte `offset`. The bytes are durable
    /// after a later flush.
    ///
    /// # Errors
    /// If the range is not within the device, the device is read-only, or the medium
    /// refuses.
    fn write(&self, offset: u64, buffers: &[io::IoSlice<'_>]) -> Result<()>;

    /// Fills several buffers, each from its own offset, in any order. A device that
    /// gains from parallel requests serves them in parallel; the default implementation
    /// serves one after the other.
    ///
    /// # Errors
    /// As [`Device::read`], for one of them; the other buffers may have been filled.
    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        reads
            .iter_mut()
            .try_for_each(|(offset, buffer)| self.read(*offset, buffer))
    }

    /// Writes several buffers, each to its own offset, in any order, as
    /// [`Device::read_many`] reads them. No two ranges may overlap. The bytes are
    /// durable after a later flush.
    ///
    /// # Errors
    /// As [`Device::write`], for one of them; the other buffers may have been written.
    fn write_many(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes
            .iter()
            .try_for_each(|(offset, buffer)| self.write(*offset, &[io::IoSlice::new(buffer)]))
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// After a failure the state of all writes since the last good flush is unknown. A
    /// flush that succeeds later does not show that these writes are durable.
    fn flush(&self) -> Result<()>;

    /// Hints that a range contains nothing of value. Its content is undefined
    /// afterwards. The default implementation does nothing.
    ///
    /// # Errors
    /// If the range is not within the device.
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let _ = (offset, length);
        Ok(())
    }

    /// Makes a range read as zeros if that costs less than writing zeros. Returns true
    /// if it did; if false, nothing has changed. The zeros are as durable as a write.
    /// The default implementation returns false. The range should consist of whole
    /// physical blocks, because a device may be unable to zero less.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        let _ = (offset, length);
        Ok(false)
    }

    /// Returns what the device knows about the first bytes of a range that is not
    /// empty: an extent of at least one logical block and at most `length` bytes. The
    /// default implementation knows nothing and returns the whole range as data.
    ///
    /// # Errors
    /// If the range is not within the device.
    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        let _ = offset;
        Ok(Extent {
            length,
            hole: false,
        })
    }

    /// Returns true if the first write to a hole makes later flushes slow, because the
    /// host then allocates or converts blocks of a file, and if [`Device::extent`]
    /// reports holes. The default is false.
    fn fills_holes_slowly(&self) -> bool {
        false
    }

    /// Sets the device's size in bytes, or with `None` adopts the medium's current
    /// size. Added bytes read as zeros; bytes cut off are lost. If the medium cannot be
    /// cut, its bytes beyond the new size are left unchanged. Returns the device's size,
    /// which is durable. The caller must not use the bytes cut off during the call. The
    /// default implementation is for devices whose size never changes.
    ///
    /// # Errors
    /// If the medium cannot have `size` bytes, or the device is read-only.
    fn set_size(&self, size: Option<u64>) -> Result<u64> {
        let present = self.geometry().size;
        match size.is_none_or(|size| size == present) {
            true => Ok(present),
            false => Err(DeviceError {
                device: self.name(),
                operation: Operation::Resize,
                offset: 0,
                length: size.unwrap_or(present),
                source: io::ErrorKind::Unsupported.into(),
            }),
        }
    }

    /// Returns the device's zones, or `None` if it has none.
    fn zones(&self) -> Option<Zones> {
        None
    }

    /// Returns the device's name for error messages.
    fn name(&self) -> String;
}

/// Reads the total length of `buffers` into one buffer, and copies it to them.
pub(crate) fn read_and_part(
    device: &(impl Device + ?Sized),
    offset: u64,
    buffers: &mut [io::IoSliceMut<'_>],
) -> Result<()> {
    let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
    let mut read = AlignedBuffer::zeroed(bytes);
    device.read(offset, &mut read)?;
    let mut rest = &read[..];
    for buffer in buffers {
        let (these, behind) = rest.split_at(buffer.len());
        buffer.copy_from_slice(these);
        rest = behind;
    }
    Ok(())
}
