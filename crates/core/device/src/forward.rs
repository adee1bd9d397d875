//! [`Device`] for shared and boxed devices, so that a wrapper can wrap a device that
//! its test also keeps.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::device::{Device, Extent, Geometry, Result, Zones};

macro_rules! forward {
    ($pointer:ident) => {
        impl<D: Device + ?Sized> Device for $pointer<D> {
            fn geometry(&self) -> Geometry {
                (**self).geometry()
            }

            fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
                (**self).read(offset, buffer)
            }

            fn read_vectored(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
                (**self).read_vectored(offset, buffers)
            }

            fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
                (**self).write(offset, buffers)
            }

            fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
                (**self).read_many(reads)
            }

            fn write_many(&self, writes: &[(u64, &[u8])]) -> Result<()> {
                (**self).write_many(writes)
            }

            fn flush(&self) -> Result<()> {
                (**self).flush()
            }

            fn discard(&self, offset: u64, length: u64) -> Result<()> {
                (**self).discard(offset, length)
            }

            fn zero(&self, offset: u64, length: u64) -> Result<bool> {
                (**self).zero(offset, length)
            }

            fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
                (**self).extent(offset, length)
            }

            fn fills_holes_slowly(&self) -> bool {
                (**self).fills_holes_slowly()
            }

            fn set_size(&self, size: Option<u64>) -> Result<u64> {
                (**self).set_size(size)
            }

            fn zones(&self) -> Option<Zones> {
                (**self).zones()
            }

            fn name(&self) -> String {
                (**self).name()
            }
        }
    };
}

forward!(Arc);
forward!(Box);
