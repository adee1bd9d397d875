//! Reads and writes, at the file's position or at an offset.
//!
//! The position is locked while it moves, as in Linux: two threads that read one file
//! never get the same bytes.

use super::{File, Handle, Position};
use crate::error::{Cause, Result};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use varve_fs::Appended;

impl Handle {
    /// Fills `buffer` from byte `offset`. Returns the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.run_if(self.access.read, "read", |mounted, ino| {
            mounted.read(ino, offset, buffer)
        })
    }

    /// Writes at `offset`, or at the end in append mode. Returns the number of bytes
    /// written.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        match self.access.append {
            true => self.append(data).map(|_| data.len()),
            false => self.run_if(self.access.write, "write", |mounted, ino| match data {
                [] => Ok(0),
                data => mounted.write(ino, offset, data),
            }),
        }
    }

    /// Appends at the end. Returns the position behind the data, or `None` if `data` is
    /// empty.
    fn append(&self, data: &[u8]) -> Result<Option<Position>> {
        self.run_if(self.access.write, "write", |mounted, ino| {
            if data.is_empty() {
                return Ok(None);
            }
            Ok(Some(match mounted.append(ino, data)? {
                Appended::At(from) => Position::At(from + data.len() as u64),
                Appended::AtCommit(waiting) => Position::Behind(waiting),
            }))
        })
    }

    /// Returns the offset of a position.
    fn offset(&self, position: &mut Position) -> Result<u64> {
        let offset = match *position {
            Position::At(offset) => offset,
            Position::Behind(waiting) => self.run("find the end of", |mounted, ino| {
                mounted.end_of_appended(ino, waiting)
            })?,
        };
        *position = Position::At(offset);
        Ok(offset)
    }

    fn seek(&self, to: SeekFrom) -> Result<u64> {
        let mut position = self.position.lock();
        let (base, by) = match to {
            SeekFrom::Start(offset) => (0, i128::from(offset)),
            SeekFrom::Current(by) => (self.offset(&mut position)?, i128::from(by)),
            SeekFrom::End(by) => {
                let attr = self.run("seek in", |mounted, ino| mounted.getattr(ino))?;
                (attr.size, i128::from(by))
            }
        };
        match i64::try_from(i128::from(base) + by) {
            Ok(new) if new >= 0 => {
                *position = Position::At(new as u64);
                Ok(new as u64)
            }
            _ => {
                let why = Cause::Argument("a position before the first byte or beyond 2^63");
                Err(self.refuse("seek in", why))
            }
        }
    }
}

impl File {
    /// Reads at `offset` like [`FileExt::read_at`], in order to write there later in the
    /// same transaction. Fewer bytes than requested are read only at the end of the file.
    ///
    /// A locking transaction ([`crate::Isolation::Locking`]) excludes other readers for
    /// update and writers, and admits plain readers. If plain reads are used instead, two
    /// transactions may both read a record that both want to write, and one is aborted.
    /// In other transactions, and outside of transactions, this is a plain read.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// use varve::{Isolation, OpenOptions, TransactionOptions};
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/count", 7u64.to_le_bytes())?;
    /// let file = OpenOptions::new().read(true).write(true).open(&volume, "/count")?;
    /// let options = TransactionOptions::new().isolation(Isolation::Locking);
    /// let transaction = volume.begin_with(&options)?;
    /// let mine = transaction.file(&file)?;
    /// let mut count = [0; 8];
    /// mine.read_at_for_update(&mut count, 0)?;
    /// let next = u64::from_le_bytes(count) + 1;
    /// mine.write_all_at(&next.to_le_bytes(), 0)?;
    /// transaction.commit()?;
    /// assert_eq!(volume.read("/count")?, 8u64.to_le_bytes());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the file was not opened for reading; a conflict ([`crate::Error::is_conflict`])
    /// if the lock was not granted.
    pub fn read_at_for_update(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let handle = &self.handle;
        handle.run_if(handle.access.read, "read", |mounted, ino| {
            mounted.read_for_update(ino, offset, buffer)
        })
    }

    /// Reads all bytes behind those in `content` and appends them to it.
    pub(crate) fn read_rest(&self, content: &mut Vec<u8>) -> Result<()> {
        loop {
            let have = content.len();
            let size = usize::try_from(self.metadata()?.len()).unwrap_or(usize::MAX);
            // One byte more than the size shows that the end was reached.
            content.resize(size.max(have).saturating_add(1), 0);
            let read = self.handle.read_at(&mut content[have..], have as u64)?;
            content.truncate(have + read);
            if have + read <= size {
                return Ok(());
            }
        }
    }

    /// Writes all of `data` from offset 0.
    pub(crate) fn write_whole(&self, mut data: &[u8]) -> Result<()> {
        let mut offset = 0;
        while !data.is_empty() {
            let written = self.handle.write_at(data, offset)?;
            data = &data[written..];
            offset += written as u64;
        }
        Ok(())
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut position = self.handle.position.lock();
        let offset = self.handle.offset(&mut position)?;
        let read = self.handle.read_at(buffer, offset)?;
        *position = Position::At(offset + read as u64);
        Ok(read)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut position = self.handle.position.lock();
        if self.handle.access.append {
            if let Some(end) = self.handle.append(data)? {
                *position = end;
            }
            return Ok(data.len());
        }
        let offset = self.handle.offset(&mut position)?;
        let written = self.handle.write_at(data, offset)?;
        *position = Position::At(offset + written as u64);
        Ok(written)
    }

    /// Does nothing, because no byte is buffered in the handle. [`File::sync_data`] makes
    /// written data durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        Ok(self.handle.seek(to)?)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// Reads and writes at an offset; the position of the file does not move.
impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.handle.read_at(buffer, offset)?)
    }

    /// In append mode the data is appended whatever the offset is, as on Linux.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        Ok(self.handle.write_at(data, offset)?)
    }
}
