//! Whole files.

use super::{File, OpenFlags, Volume, at};
use crate::error::Result;
use std::path::Path;
use varve_fs::{SetAttr, View};

/// Bytes copied at once; between two steps others get their turn.
const COPY_STEP: u64 = 8 << 20;

impl Volume {
    /// All bytes of a file.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let file = self.open_file(path, OpenFlags::READ)?;
        let mut content = Vec::new();
        loop {
            let have = content.len();
            let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
            // One byte more shows that the end was reached.
            content.resize(size.max(have).saturating_add(1), 0);
            let read = file.read_at(have as u64, &mut content[have..])?;
            content.truncate(have + read);
            if have + read <= size {
                return Ok(content);
            }
        }
    }

    /// Makes `data` the content of a file, which is made if it is missing. To
    /// replace a file so that a crash leaves the old or the new, write another
    /// and [`Volume::rename`] it.
    ///
    /// # Errors
    /// If the parent is missing, or `NoSpace`.
    pub fn write(&self, path: impl AsRef<Path>, data: impl AsRef<[u8]>) -> Result<()> {
        let flags = OpenFlags {
            truncate: true,
            ..OpenFlags::CREATE
        };
        self.open_file(path, flags)?.write_at(0, data.as_ref())
    }

    /// Copies content and permission bits to a file, which is made if it is
    /// missing; holes stay holes. Answers the bytes copied.
    ///
    /// # Errors
    /// If the source is missing, or `NoSpace`.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let source = self.open_file(from, OpenFlags::READ)?;
        let target = self.open_file(to, OpenFlags::CREATE)?;
        if source.ino() == target.ino() {
            return source.metadata().map(|metadata| metadata.len());
        }
        target.set_len(0)?;
        let copied = self
            .copy_content(&source, &target)
            .map_err(at("copy", from))?;
        let set = SetAttr {
            mode: Some(source.metadata()?.permissions()),
            ..SetAttr::default()
        };
        self.fs()
            .setattr(View::Live, self.caller(), target.ino(), &set)
            .map_err(at("change permissions of", to))?;
        Ok(copied)
    }

    fn copy_content(&self, source: &File, target: &File) -> varve_fs::Result<u64> {
        let (fs, caller) = (self.fs(), self.caller());
        let mut at = 0;
        loop {
            let step = fs.copy_range(
                View::Live,
                caller,
                source.ino(),
                at,
                target.ino(),
                at,
                COPY_STEP,
            )?;
            if step == 0 {
                return Ok(at);
            }
            at += step;
        }
    }
}
