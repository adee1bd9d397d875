//! Mounts on which changes are durable when they are answered (`-o sync`, `dirsync`).
//!
//! The kernel's own flags do not serve: of `MS_SYNCHRONOUS` only write(2) takes notice
//! on a FUSE mount, of `MS_DIRSYNC` nothing does, and a remount that does not repeat
//! them takes them away. So the server makes the changes durable, and with `sync` the
//! kernel holds no writes back.

use super::{Adapter, Done};
use crate::options::Synchronous;
use crate::protocol::Opcode;
use varve_fs::Layout;

impl<L: Layout> Adapter<L> {
    /// Makes durable what a request has changed, where the mount promises that.
    ///
    /// # Errors
    /// Those of a sync. The change is there nevertheless.
    pub(super) fn make_change_durable(&self, opcode: Option<Opcode>) -> Done {
        match opcode.is_some_and(|opcode| covers(self.synchronous, opcode)) {
            true => Ok(self.fs.sync()?),
            false => Ok(()),
        }
    }
}

/// True if what such a request changes is durable when it is answered.
fn covers(synchronous: Synchronous, opcode: Opcode) -> bool {
    let is_name = matches!(
        opcode,
        Opcode::Create
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Symlink
            | Opcode::Link
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
    );
    let is_content = matches!(
        opcode,
        Opcode::Write
            | Opcode::Setattr
            | Opcode::Setxattr
            | Opcode::Removexattr
            | Opcode::Fallocate
            | Opcode::CopyFileRange
            | Opcode::CopyFileRange64
    );
    match synchronous {
        Synchronous::Nothing => false,
        Synchronous::Names => is_name,
        Synchronous::Everything => is_name || is_content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_part_of_everything() {
        let covered = |opcode| {
            let by = [
                Synchronous::Nothing,
                Synchronous::Names,
                Synchronous::Everything,
            ];
            by.map(|synchronous| covers(synchronous, opcode))
        };
        assert_eq!(covered(Opcode::Rename2), [false, true, true]);
        assert_eq!(covered(Opcode::Write), [false, false, true]);
        assert_eq!(covered(Opcode::Lookup), [false; 3]);
    }
}
