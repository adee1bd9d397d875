//! What repair would do about a finding.
//!
//! A check collects these beside its findings; it does none of them. One
//! finding may have several, several findings the same.

use varve_lfs::format::Pointer;
use varve_lfs::format::node::NodeId;

/// A remedy, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Write the copy of the superblock at this byte address again.
    Superblock { offset: u64 },
    /// Take a checkpoint, so that this slot of the ring is written again.
    Slot {
        slot: u32,
        /// A crash explains what the slot holds: the next mount's checkpoint does this.
        routine: bool,
    },
    /// Take what is left of the log for the whole of it.
    LogEnd,
    /// Find out again what the inode map's block says.
    ImapBlock { block: u64, pointer: Pointer },
    /// These numbers have no entry: they are free.
    Unmapped { from: u64, to: u64 },
    /// The map's entry of this number is unusable.
    ImapEntry { ino: u64 },
    /// Drop a block that the ifile cannot have.
    IfileStray { block: u64 },
    /// Find out again what the index node says.
    Node { id: NodeId, pointer: Pointer },
    /// Find another copy of the inode, or do without it.
    Image { ino: u64 },
    /// The log speaks of a file that cannot be: free the number.
    Forget { ino: u64 },
    /// Write the inode again.
    Rewrite { ino: u64 },
    /// Drop a block whose content is lost.
    Block { ino: u64, block: u64 },
    /// Drop extended attributes.
    Attributes { ino: u64 },
    /// Make the inode and its content agree about its kind.
    Shape { ino: u64 },
    /// Drop what lies behind the file's end.
    BeyondSize { ino: u64 },
    /// Correct the counts of blocks and sectors.
    Counts { ino: u64, blocks: u64, sectors: u64 },
    /// Move what lives in a segment elsewhere.
    Evacuate { segment: u32 },
    /// Make a root directory.
    Root,
    /// Have the root directory tell of flagged files.
    Guard,
    /// Make the directory's tree anew from the names that can be read.
    Directory { ino: u64 },
    /// Remove a name.
    Entry { directory: u64, name: Vec<u8> },
    /// Take a directory out of a circle.
    Cycle { ino: u64, named_by: u64 },
    /// Give it a name in lost+found.
    Orphan { ino: u64 },
    /// Set `..`.
    Parent { ino: u64, parent: u64 },
    /// Set the link count.
    Links { ino: u64, nlink: u32 },
    /// Link the free numbers again.
    FreeList,
    /// Write lists, tables and totals as counted.
    Accounts,
}

impl Fix {
    /// Concerns names, and what they lead to.
    pub(crate) fn is_of_names(&self) -> bool {
        matches!(
            self,
            Fix::Directory { .. }
                | Fix::Entry { .. }
                | Fix::Cycle { .. }
                | Fix::Orphan { .. }
                | Fix::Parent { .. }
                | Fix::Links { .. }
        )
    }

    /// Concerns what is stored: done, and checked again, before names are
    /// looked at.
    pub(crate) fn is_of_storage(&self) -> bool {
        let of_accounts = matches!(self, Fix::FreeList | Fix::Accounts | Fix::Evacuate { .. });
        !self.is_of_names() && !of_accounts
    }

    /// The next mount for writing does this by itself.
    pub(crate) fn is_routine(&self) -> bool {
        matches!(self, Fix::Slot { routine: true, .. })
    }

    /// Nothing that a user stored is lost by it: what an automatic check may
    /// do.
    pub(crate) fn is_safe(&self) -> bool {
        matches!(
            self,
            Fix::Superblock { .. }
                | Fix::Slot { .. }
                | Fix::Unmapped { .. }
                | Fix::Counts { .. }
                | Fix::Rewrite { .. }
                | Fix::Evacuate { .. }
                | Fix::Parent { .. }
                | Fix::Links { .. }
                | Fix::FreeList
                | Fix::Accounts
        )
    }
}
