//! Checks the flag of the root directory that announces files whose flags restrict
//! opening. If the flag is missing, a mount skips the test and lets such files be
//! written.

use super::Checker;
use super::fixes::Fix;
use super::report::{FindingKind, Subject};
use varve_fs::{FileKind, Inode, InodeNo, flags};

/// The announcement of the root directory, and the first file with such flags.
#[derive(Debug, Default)]
pub struct Guard {
    told: bool,
    first: Option<u64>,
}

impl Guard {
    /// Records an inode of the newest state.
    pub fn note(&mut self, inode: &Inode) {
        let guards = flags::IMMUTABLE | flags::APPEND_ONLY | flags::SYNC;
        if inode.ino == InodeNo::ROOT {
            self.told = inode.flags & flags::GUARDED != 0;
        } else if inode.kind() == FileKind::Regular && inode.flags & guards != 0 {
            self.first.get_or_insert(inode.ino.0);
        }
    }
}

impl Checker<'_> {
    pub(super) fn check_guard(&mut self) {
        let Some(ino) = self.guard.first.filter(|_| !self.guard.told) else {
            return;
        };
        let text = "it has flags that matter when it is opened, of which the root directory \
                    does not tell";
        self.found
            .error(FindingKind::Inode, Subject::Inode(ino), text);
        self.found.fix(Fix::Guard);
    }
}
