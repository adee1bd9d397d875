//! An ioctl that spells a name anew where names ignore case: see [`crate::respell`].

use super::asker::groups;
use super::{Adapter, Done, inode_of};
use crate::errno::Errno;
use crate::protocol::IoctlOut;
use crate::reply::Reply;
use crate::request::Request;
use varve_fs::{Caller, Error, Layout, Rename};

impl<L: Layout> Adapter<L> {
    /// Renames from one spelling of a name to another. Everything else is refused with
    /// EINVAL: rename(2) does it, and keeps the kernel's names right.
    ///
    /// The kernel has not checked permissions here: the file system does.
    pub(super) fn respell(&self, request: &Request<'_>, input: &[u8], reply: &mut Reply) -> Done {
        let (old, new) = names(input).ok_or(Errno::INVALID)?;
        let caller = Caller {
            checked: false,
            groups: groups(request.header.pid),
            ..self.asker(request)
        };
        let parent = inode_of(request);
        let source = self.fs.lookup(&caller, parent, old)?;
        match self.fs.lookup(&caller, parent, new) {
            Ok(target) if target.ino == source.ino && self.folds_case() => {}
            Ok(_) | Err(Error::NotFound) => return Err(Errno::INVALID),
            Err(error) => return Err(error.into()),
        }
        let how = Rename {
            no_replace: true,
            ..Rename::default()
        };
        self.fs.rename(&caller, parent, old, parent, new, how)?;
        self.note_renamed(&caller, parent, new);
        // The kernel has listed the directory with the former name.
        reply.amend(request.header.nodeid);
        reply.put(&IoctlOut::default());
        Ok(())
    }

    fn folds_case(&self) -> bool {
        self.fs.layout().geometry().case_fold
    }
}

/// Two names, each in its half of the argument and ended by a NUL or the half's end.
fn names(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, second) = input.split_at(input.len() / 2);
    let name = |half: &'_ [u8]| {
        half.iter()
            .position(|&byte| byte == 0)
            .unwrap_or(half.len())
    };
    let (old, new) = (&first[..name(first)], &second[..name(second)]);
    (!old.is_empty() && !new.is_empty()).then_some((old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_are_taken_from_their_halves() {
        let mut input = [0; 16];
        assert_eq!(names(&input), None);
        input[..3].copy_from_slice(b"foo");
        assert_eq!(names(&input), None);
        input[8..].copy_from_slice(b"FOOFOOFO");
        assert_eq!(names(&input), Some((&b"foo"[..], &b"FOOFOOFO"[..])));
        assert_eq!(names(&[]), None);
    }
}
