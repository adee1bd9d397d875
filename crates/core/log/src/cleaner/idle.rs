//! Idle work: files in pieces are put in order.

use super::Coalesced;
use crate::error::{Error, Result};
use crate::lfs::Lfs;
use crate::policy::{Coalescing, File};
use varve_fs::InodeNo;

impl Lfs {
    /// A step of idle work: puts up to `limit_bytes` of a file in order that
    /// folding has found in pieces and that `policy` chooses. Nothing if there
    /// is none.
    ///
    /// # Errors
    /// As [`Lfs::coalesce`].
    pub fn coalesce_found(
        &self,
        policy: &Coalescing,
        limit_bytes: u64,
    ) -> Result<Option<Coalesced>> {
        let worst = self.fragments.lock().worst();
        let mut files = Vec::new();
        for &(number, _) in &worst {
            match self.lookup().inode(InodeNo(number)) {
                Ok((image, _)) => files.push(File {
                    number,
                    bytes: image.inode.size,
                    written_ns: image.inode.mtime.as_ns(),
                }),
                Err(Error::NoInode(_)) => self.fragments.lock().done(number, None),
                Err(error) => return Err(error),
            }
        }
        let chosen = policy.choose(&files, self.clock.now_ns());
        let Some(file) = chosen.first() else {
            return Ok(None);
        };
        let from = worst.iter().find(|(ino, _)| *ino == file.number);
        let from = from.map_or(0, |(_, next)| *next);
        match self.coalesce(policy, InodeNo(file.number), from, limit_bytes) {
            Ok(done) => {
                self.fragments.lock().done(file.number, done.next);
                Ok(Some(done))
            }
            Err(Error::NoInode(_)) => {
                self.fragments.lock().done(file.number, None);
                Ok(Some(Coalesced::default()))
            }
            Err(error) => Err(error),
        }
    }
}
