//! `copy_file_range`, inside the file system.

use crate::attr::Caller;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::types::InodeNo;

const BUFFER_BYTES: u64 = 1 << 20;

impl<L: Layout> FileSystem<L> {
    /// Copies up to `length` bytes between files, or within one if the ranges do not
    /// overlap, and returns the number of bytes: fewer only at the present end of the
    /// source, or when the volume becomes full.
    ///
    /// # Errors
    /// `Invalid` for ranges that overlap before the source's end; otherwise as
    /// [`Self::read`] and [`Self::write`].
    pub fn copy_range(
        &self,
        caller: &Caller,
        from: InodeNo,
        from_offset: u64,
        to: InodeNo,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let source = self.vnode(from)?;
        source.regular()?;
        self.vnode(to)?.regular()?;
        // As in Linux, the size is read once and first: the copy may itself extend the
        // source, and whether ranges overlap depends on it.
        let size = source.read().inode.size;
        let length = length.min(size.saturating_sub(from_offset));
        let overlap = from_offset < to_offset.saturating_add(length)
            && to_offset < from_offset.saturating_add(length);
        if from == to && overlap {
            return Err(Error::Invalid("the ranges overlap"));
        }
        let mut buffer = vec![0; length.min(BUFFER_BYTES) as usize];
        let mut done = 0;
        while done < length {
            let want = (length - done).min(BUFFER_BYTES) as usize;
            let at = to_offset.checked_add(done).ok_or(Error::TooLarge)?;
            let read = self.read(from, from_offset + done, &mut buffer[..want]);
            match read.and_then(|read| self.write(caller, to, at, &buffer[..read])) {
                Ok(0) => break,
                Ok(copied) => done += copied as u64,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}
