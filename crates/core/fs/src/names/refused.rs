//! The error of a change of names for which there is no space, or which is refused for
//! another reason.
//!
//! Space is asked for before a directory is locked. But a name that exists, or is
//! missing, and a directory that may not be changed are reported first, as other file
//! systems check those first: a program that makes directories unless they exist works on
//! a full volume.

use crate::attr::{Caller, Rename};
use crate::attributes::permission::EXECUTE;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::memory::name_changes::Found;
use crate::types::InodeNo;

impl<L: Layout> FileSystem<L> {
    /// The error of making `name` in a directory, if the request for its space failed
    /// with `error`. A file without a name needs no name.
    pub(crate) fn refused_in(
        &self,
        error: Error,
        caller: &Caller,
        parent: InodeNo,
        name: Option<&[u8]>,
    ) -> Error {
        if !matches!(error, Error::NoSpace) {
            return error;
        }
        let may_make = || {
            if let Some(name) = name
                && self.found_in(caller, parent, name)?.is_some()
            {
                return Err(Error::Exists);
            }
            let directory = self.vnode(parent)?;
            self.may_enter(caller, &directory, &directory.read_directory())
        };
        may_make().err().unwrap_or(error)
    }

    /// The error of a rename, if the request for its space failed with `error`.
    pub(crate) fn refused_rename(
        &self,
        error: Error,
        caller: &Caller,
        (parent, name): (InodeNo, &[u8]),
        (new_parent, new_name): (InodeNo, &[u8]),
        flags: Rename,
    ) -> Error {
        if !matches!(error, Error::NoSpace) {
            return error;
        }
        let may_rename = || {
            if self.found_in(caller, parent, name)?.is_none() {
                return Err(Error::NotFound);
            }
            match self.found_in(caller, new_parent, new_name)? {
                Some(_) if flags.no_replace => Err(Error::Exists),
                _ => Ok(()),
            }
        };
        may_rename().err().unwrap_or(error)
    }

    /// Refuses a second name of a directory; but like Linux it reports an existing name
    /// first.
    pub(crate) fn refuse_link(
        &self,
        caller: &Caller,
        parent: InodeNo,
        name: &[u8],
    ) -> Result<Error> {
        Ok(match self.found_in(caller, parent, name)? {
            Some(_) => Error::Exists,
            None => Error::NotPermitted,
        })
    }

    /// The inode to which a name in a directory refers, for a caller that is going to be
    /// refused.
    fn found_in(&self, caller: &Caller, parent: InodeNo, name: &[u8]) -> Result<Option<Found>> {
        let directory = self.vnode(parent)?;
        directory.directory()?;
        let state = directory.read_directory();
        state.live()?;
        self.permit(caller, &directory, &state, EXECUTE)?;
        self.find(&directory, &state, name)
    }
}
