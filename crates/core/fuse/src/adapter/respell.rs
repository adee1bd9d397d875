//! Spelling a name anew where case is folded, such as `foo` as `FOO`.
//!
//! The kernel answers rename(2) itself when both names lead to one inode, so that the
//! request never arrives. A program asks with setxattr(2) on the directory instead: the
//! attribute [`RESPELL`] has the old and the new name as its value. It is never stored.
//! Unlike an ioctl, setxattr(2) is refused by the kernel on a mount that is read-only,
//! read-only bind mounts included, and it locks the directory as rename(2) does. The
//! kernel asks only for the permission to write to the directory; searching it and its
//! sticky bit are checked here.
//!
//! The kernel keeps a listing of the directory until it sees another time of
//! modification. As after every SETXATTR it forgets the directory's attributes
//! (`told.rs`), and the program asks for them before it is done.

use super::Adapter;
use crate::calls::RESPELL;
use crate::errno::Errno;
use crate::protocol::{Opcode, SetxattrExtIn, SetxattrIn, capability};
use crate::request::{Arguments, Request};
use varve_fs::{Caller, Layout, Rename};

impl<L: Layout> Adapter<L> {
    /// SETXATTR that spells a name anew. False for other attributes.
    pub(super) fn respell(&self, request: &Request<'_>) -> Result<bool, Errno> {
        let mut arguments = request.arguments();
        let set: SetxattrIn = arguments.take()?;
        if self.has(capability::SETXATTR_EXT) {
            arguments.take::<SetxattrExtIn>()?;
        }
        if arguments.string()? != RESPELL {
            return Ok(false);
        }
        if !self.fs.layout().geometry().case_fold {
            return Err(Errno::NOT_SUPPORTED);
        }
        let mut names = Arguments::of(arguments.bytes(set.size as usize)?);
        let (old, new) = (names.name()?, names.name()?);
        let directory = request.inode();
        let caller = self.unchecked(request)?;
        // Anything else is for rename(2), which tells the kernel what has changed.
        let leads_to = |name| self.fs.lookup(&caller, directory, name);
        if leads_to(old)?.ino != leads_to(new)?.ino {
            return Err(Errno(libc::EEXIST));
        }
        let how = Rename::default();
        self.fs
            .rename(&caller, directory, old, directory, new, how)?;
        self.note_renamed(&caller, directory, new);
        self.make_change_durable(Some(Opcode::Rename2))?;
        Ok(true)
    }

    /// The caller of a request that the kernel has not checked.
    ///
    /// # Errors
    /// EACCES if its groups cannot be found, as those of another PID namespace.
    fn unchecked(&self, request: &Request<'_>) -> Result<Caller, Errno> {
        let mut caller = self.asker(request);
        caller.checked = false;
        if caller.uid != 0 {
            let groups = super::asker::groups(request.header.pid);
            caller.groups = groups.ok_or(Errno(libc::EACCES))?;
        }
        Ok(caller)
    }
}
