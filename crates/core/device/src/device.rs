//! The device seam: bytes at addresses, and nothing about files.
//!
//! Every layer above works through [`Device`]; image files, block devices,
//! memory, simulated disks, recorders and fault injectors differ only here.
//! The contract about durability is the one `docs/guide/semantics.md` states:
//!
//! - a write is durable once a later [`Device::flush`] has returned `Ok`;
//! - until then its sectors may reach the medium in any order and any subset;
//! - one atomic unit (512 or 4096 bytes) is written whole or not at all;
//! - after a failed flush, nothing written since the last good one is known.

use crate::aligned::AlignedBuffer;
use crate::size::Bytes;
use std::fmt;
use std::io;

/// Bytes in the smallest addressable unit.
pub const SECTOR: u64 = 512;

/// What a device is made of. All sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Usable size, a multiple of `logical_block`.
    pub size: u64,
    /// Smallest unit of transfer; offsets and lengths must be multiples of it.
    pub logical_block: u32,
    /// Smallest unit the medium writes without reading first.
    pub physical_block: u32,
}

/// A failed device operation: what, where, why.
#[derive(Debug, thiserror::Error)]
#[error("{device}: {} failed: {source}", asked(*.operation, *.offset, *.length))]
pub struct DeviceError {
    /// The device's name for people: a path, or `memory`.
    pub device: String,
    /// What was attempted.
    pub operation: Operation,
    /// Byte address.
    pub offset: u64,
    /// Bytes asked for; 0 for a flush. With [`Operation::Resize`] those to have.
    pub length: u64,
    /// The operating system's, or the simulator's, reason.
    #[source]
    pub source: io::Error,
}

fn asked(operation: Operation, offset: u64, length: u64) -> String {
    match operation {
        Operation::Resize => format!("giving it {}", Bytes(length)),
        _ => format!("{operation} of {length} bytes at byte {offset}"),
    }
}

/// The kinds of request a device serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Bytes from the medium.
    Read,
    /// Bytes to the medium, not yet durable.
    Write,
    /// A durability barrier.
    Flush,
    /// A hint that a range holds nothing of value.
    Discard,
    /// Another size.
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

/// Sequential-write zones, for devices that have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zones {
    /// Bytes in a zone.
    pub zone_bytes: u64,
    /// How many zones may be open for writing at once; 0 means no limit.
    pub max_open: u32,
}

/// What a device knows of the beginning of a range without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the beginning of the range for which this holds.
    pub length: u64,
    /// Nothing is stored there, and it reads as zeros. False where the device
    /// cannot tell.
    pub hole: bool,
}

/// Bytes at addresses.
///
/// Offsets and lengths are multiples of `geometry().logical_block`; buffers
/// need no alignment (an implementation that needs some copies). All methods
/// may be called from several threads at once.
pub trait Device: Send + Sync + fmt::Debug {
    /// The device's measures, which are fixed but for [`Device::set_size`].
    fn geometry(&self) -> Geometry;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// When the range lies outside the device or the medium cannot deliver it.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills the buffers one after the other from `offset`, in one request. The
    /// default reads into one and copies.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_vectored(&self, offset: u64, buffers: &mut [io::IoSliceMut<'_>]) -> Result<()> {
        read_and_part(self, offset, buffers)
    }

    /// Writes the buffers one after the other from `offset`. Not durable.
    ///
    /// # Errors
    /// When the range lies outside the device, the device is read-only, or the
    /// medium refuses.
    fn write(&self, offset: u64, buffers: &[io::IoSlice<'_>]) -> Result<()>;

    /// Fills several buffers, each from an offset of its own, in any order: side
    /// by side on a device that gains from it. The default goes one by one.
    ///
    /// # Errors
    /// As [`Device::read`], for one of them; the others may have been filled.
    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        reads
            .iter_mut()
            .try_for_each(|(offset, buffer)| self.read(*offset, buffer))
    }

    /// Writes several buffers, each to an offset of its own, in any order, as
    /// [`Device::read_many`] reads. No two may overlap. Not durable.
    ///
    /// # Errors
    /// As [`Device::write`], for one of them; the others may have been written.
    fn write_many(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes
            .iter()
            .try_for_each(|(offset, buffer)| self.write(*offset, &[io::IoSlice::new(buffer)]))
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// After a failure the state of all writes since the last good flush is
    /// unknown; a caller must not retry and believe the retry.
    fn flush(&self) -> Result<()>;

    /// Tells the device that a range holds nothing of value. Its content is
    /// undefined afterwards. The default does nothing.
    ///
    /// # Errors
    /// When the range lies outside the device.
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let _ = (offset, length);
        Ok(())
    }

    /// Makes a range read as zeros if that costs less than writing them, and
    /// says whether it did; if not, nothing has changed. As durable as a write.
    /// The default never does. Ask for whole physical blocks: a device may
    /// store nothing smaller.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        let _ = (offset, length);
        Ok(false)
    }

    /// What is known of the first bytes of a range that is not empty: an extent
    /// of at least one logical block and at most `length` bytes. The default
    /// knows nothing.
    ///
    /// # Errors
    /// When the range lies outside the device.
    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        let _ = offset;
        Ok(Extent {
            length,
            hole: false,
        })
    }

    /// True if the first write to a hole makes later flushes slow, because the host then
    /// allocates or converts blocks of a file, and if [`Device::extent`] tells holes. The
    /// default is false.
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

    /// Sequential-write zones, if the device has them.
    fn zones(&self) -> Option<Zones> {
        None
    }

    /// A name for error messages.
    fn name(&self) -> String;
}

/// Reads all that `buffers` take into one buffer, and copies it to them.
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
