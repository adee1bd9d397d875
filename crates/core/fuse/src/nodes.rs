//! Node numbers of the protocol and inode numbers of the file system.
//!
//! The protocol reserves node 1 for the root, and the file system has its ifile there, so the
//! two numbers are exchanged. Every other node number is the inode number.

use crate::protocol::ROOT_NODE;
use varve_fs::InodeNo;

/// The inode of a node.
pub(crate) fn inode(nodeid: u64) -> InodeNo {
    match nodeid {
        ROOT_NODE => InodeNo::ROOT,
        n if n == InodeNo::ROOT.0 => InodeNo::IFILE,
        n => InodeNo(n),
    }
}

/// The node of an inode: the inverse of [`inode`].
pub(crate) fn node(ino: InodeNo) -> u64 {
    match ino {
        InodeNo::ROOT => ROOT_NODE,
        InodeNo::IFILE => InodeNo::ROOT.0,
        InodeNo(n) => n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_ifile_exchange_numbers() {
        assert_eq!(inode(1), InodeNo::ROOT);
        assert_eq!(inode(2), InodeNo::IFILE);
        for n in [1, 2, 3, u64::MAX] {
            assert_eq!(node(inode(n)), n);
        }
    }
}
