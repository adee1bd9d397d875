//! By which names files were found, for a view whose changes become part of another
//! mount's tree.
//!
//! The kernel of that mount has to forget them by their names, see
//! [`crate::Kernel`]. Noted is what this view's kernel knows, and, for as long as the
//! view is served, what was changed, with all directories above it.

use super::{Adapter, Done};
use crate::errno::Errno;
use crate::nodes;
use crate::protocol::{CopyFileRangeIn, Opcode, WRITE_CACHE};
use crate::request::Request;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use varve_fs::{Caller, Error, InodeNo, Layout};

/// A name, and the directory that it is in.
struct Name {
    parent: InodeNo,
    name: Box<[u8]>,
    is_kept: bool,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Found {
    names: Mutex<HashMap<InodeNo, Name>>,
    /// The newest names of what was renamed.
    renamed: Mutex<HashMap<InodeNo, (InodeNo, Vec<u8>)>>,
    lost: Mutex<Lost>,
}

/// Writes that the kernel had accepted and that were refused.
#[derive(Default)]
struct Lost {
    first: Option<Errno>,
    /// Those that were answered to the kernel as done, by file: see [`Adapter::is_answered_as_done`].
    untold: HashMap<InodeNo, Errno>,
}

impl Found {
    pub fn note(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) {
        let mut names = self.names.lock();
        names.entry(ino).or_insert_with(|| Name {
            parent,
            name: name.into(),
            is_kept: false,
        });
    }

    /// The kernel does not know it any more.
    pub fn forget(&self, ino: InodeNo) {
        let mut names = self.names.lock();
        if names.get(&ino).is_some_and(|name| !name.is_kept) {
            names.remove(&ino);
        }
        drop(names);
        self.lost.lock().untold.remove(&ino);
    }

    /// It is going to be changed.
    fn keep(&self, mut ino: InodeNo) {
        let mut names = self.names.lock();
        while let Some(name) = names.get_mut(&ino).filter(|name| !name.is_kept) {
            name.is_kept = true;
            ino = name.parent;
        }
    }

    fn name_of(&self, ino: InodeNo) -> Option<(InodeNo, Vec<u8>)> {
        let names = self.names.lock();
        let name = names.get(&ino)?;
        Some((name.parent, name.name.to_vec()))
    }
}

impl<L: Layout> Adapter<L> {
    /// Notes what a request is going to change.
    pub(super) fn keep_name(&self, opcode: Option<Opcode>, request: &Request<'_>) {
        let Some(found) = &self.found else { return };
        match opcode {
            Some(Opcode::Write | Opcode::Setattr | Opcode::Fallocate) => {
                found.keep(request.inode());
            }
            Some(Opcode::CopyFileRange | Opcode::CopyFileRange64) => {
                if let Ok(copy) = request.arguments().take::<CopyFileRangeIn>() {
                    found.keep(nodes::inode(copy.nodeid_out));
                }
            }
            _ => {}
        }
    }

    /// Notes that a request failed, if it was a write that somebody was told is done.
    pub(super) fn note_lost(&self, request: &Request<'_>, errno: Errno) {
        let Some(found) = &self.found else { return };
        let held = request.write_flags() & WRITE_CACHE != 0;
        // Removed in the meantime: nobody misses it.
        if held && errno.0 != Error::Stale.errno() {
            found.lost.lock().first.get_or_insert(errno);
        }
    }

    /// Takes note of a write out of the kernel's cache that the transaction has no memory
    /// for, so that the WRITE is answered as done. If the kernel had the error of that, a
    /// close would get EIO: of such errors it keeps ENOSPC alone. So FLUSH and FSYNC have
    /// it. False for another error, and where nothing is noted.
    pub(super) fn is_answered_as_done(&self, ino: InodeNo, error: &Error) -> bool {
        let (Some(found), Error::TransactionTooLarge) = (&self.found, error) else {
            return false;
        };
        let errno = Errno(error.errno());
        let mut lost = found.lost.lock();
        lost.first.get_or_insert(errno);
        lost.untold.insert(ino, errno);
        true
    }

    /// The error for a close or a sync of a file of which writes were lost.
    pub(super) fn has_lost_nothing(&self, ino: InodeNo) -> Done {
        let found = self.found.as_ref();
        match found.and_then(|found| found.lost.lock().untold.get(&ino).copied()) {
            Some(errno) => Err(errno),
            None => Ok(()),
        }
    }

    /// Why a write that the kernel had accepted is lost, if one is. Noted with
    /// [`crate::MountOptions::note_names`].
    pub fn lost(&self) -> Option<Errno> {
        self.found.as_ref()?.lost.lock().first
    }

    /// By which name, in which directory, a file was found first. Noted with
    /// [`crate::MountOptions::note_names`].
    pub fn name_of(&self, ino: InodeNo) -> Option<(InodeNo, Vec<u8>)> {
        self.found.as_ref()?.name_of(ino)
    }

    /// Notes where a name leads that something was renamed to.
    pub(super) fn note_renamed(&self, caller: &Caller, parent: InodeNo, name: &[u8]) {
        if let Some(found) = &self.found
            && let Ok(attr) = self.fs.lookup(caller, parent, name)
        {
            let renamed = (parent, name.to_vec());
            found.renamed.lock().insert(attr.ino, renamed);
            found.keep(attr.ino);
            found.keep(parent);
        }
    }

    /// The files that were renamed.
    pub(crate) fn renamed(&self) -> Vec<InodeNo> {
        let found = self.found.as_ref();
        found.map_or_else(Vec::new, |found| {
            found.renamed.lock().keys().copied().collect()
        })
    }

    /// The newest name of a file: that by which it was found, or that which it was
    /// renamed to. Noted with [`crate::MountOptions::note_names`].
    pub(crate) fn new_name_of(&self, ino: InodeNo) -> Option<(InodeNo, Vec<u8>)> {
        let renamed = self.found.as_ref()?.renamed.lock().get(&ino).cloned();
        renamed.or_else(|| self.name_of(ino))
    }

    /// The path that leads to a file in the end, from the mount's root.
    pub(crate) fn new_path_of(&self, ino: InodeNo) -> Option<PathBuf> {
        path_by(ino, |ino| self.new_name_of(ino))
    }

    /// The path by which a file was found, from the mount's root.
    pub fn path_of(&self, ino: InodeNo) -> Option<PathBuf> {
        path_by(ino, |ino| self.name_of(ino))
    }
}

/// The path of a file, by the names of files.
fn path_by(
    ino: InodeNo,
    name_of: impl Fn(InodeNo) -> Option<(InodeNo, Vec<u8>)>,
) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let (mut names, mut at) = (Vec::new(), ino);
    while at != InodeNo::ROOT {
        let (parent, name) = name_of(at)?;
        names.push(name);
        at = parent;
        if names.len() > 4096 {
            return None;
        }
    }
    let names = names.iter().rev();
    Some(
        names
            .map(|name| std::ffi::OsStr::from_bytes(name))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_kept_with_all_above() {
        let found = Found::default();
        let [directory, file, other] = [InodeNo(5), InodeNo(6), InodeNo(7)];
        found.note(directory, InodeNo::ROOT, b"d");
        found.note(file, directory, b"f");
        found.note(file, directory, b"second name");
        found.note(other, directory, b"o");
        found.keep(file);
        for ino in [directory, file, other] {
            found.forget(ino);
        }
        assert_eq!(found.name_of(file), Some((directory, b"f".to_vec())));
        assert_eq!(
            found.name_of(directory),
            Some((InodeNo::ROOT, b"d".to_vec()))
        );
        assert_eq!(found.name_of(other), None);
    }
}
