//! Checks of a rename that do not depend on the directories' contents.

use crate::attr::Rename;
use crate::error::{Error, Result};
use crate::memory::name_changes::Found;
use crate::types::InodeNo;

/// The two names of a rename and the files to which they refer.
pub(super) struct Names<'a> {
    pub old: &'a [u8],
    pub new: &'a [u8],
    pub source: Found,
    pub target: Option<Found>,
    /// There is space for one more name.
    pub has_space: bool,
    /// The whiteout that replaces the old name.
    pub whiteout: Option<InodeNo>,
}

/// Refuses invalid combinations of names and flags.
pub(super) fn check_request(name: &[u8], new_name: &[u8], flags: Rename) -> Result<()> {
    let dots = |name: &[u8]| matches!(name, b"." | b"..");
    if dots(name) || dots(new_name) {
        return Err(Error::Busy);
    }
    if flags.exchange && flags.no_replace {
        return Err(Error::Invalid("exchange without replacing"));
    }
    if flags.exchange && flags.whiteout {
        return Err(Error::Invalid("exchange leaves no name for a whiteout"));
    }
    Ok(())
}

impl Names<'_> {
    /// Refuses a rename that would put a directory below itself. `above` contains the
    /// ancestors of the source's directory, and those of the target's.
    pub fn check_loop(&self, above: &(Vec<InodeNo>, Vec<InodeNo>), flags: Rename) -> Result<()> {
        let (above_from, above_to) = above;
        let below = Error::Invalid("a directory cannot move below itself");
        if above_to.contains(&self.source.0) {
            return Err(below);
        }
        match self.target {
            Some((target, _)) if above_from.contains(&target) => Err(match flags.exchange {
                true => below,
                false => Error::NotEmpty,
            }),
            _ => Ok(()),
        }
    }
}
