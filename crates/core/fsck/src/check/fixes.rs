//! Remedies that repair can apply to findings.
//!
//! The check only collects remedies. One finding may need several, and several findings
//! may share one.

use varve_lfs::format::Pointer;
use varve_lfs::format::node::NodeId;

/// A remedy and its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Rewrites the superblock copy at this byte address.
    Superblock { offset: u64 },
    /// Takes a checkpoint, so that this slot of the ring is rewritten.
    Slot {
        slot: u32,
        /// True if a crash explains the slot, and the checkpoint of the next mount
        /// rewrites it.
        routine: bool,
    },
    /// Accepts the part of the log that was replayed as the whole log.
    LogEnd,
    /// Reconstructs a block of the inode map.
    ImapBlock { block: u64, pointer: Pointer },
    /// Marks these numbers, which have no entry, as free.
    Unmapped { from: u64, to: u64 },
    /// Replaces the unusable map entry of this number.
    ImapEntry { ino: u64 },
    /// Drops a block that the ifile cannot have.
    IfileStray { block: u64 },
    /// Reconstructs an index node.
    Node { id: NodeId, pointer: Pointer },
    /// Replaces the inode by another copy of its image, or frees it.
    Image { ino: u64 },
    /// Frees the number of a file that appears in the log and cannot exist.
    Forget { ino: u64 },
    /// Rewrites the inode.
    Rewrite { ino: u64 },
    /// Drops a block whose content is lost.
    Block { ino: u64, block: u64 },
    /// Drops extended attributes.
    Attributes { ino: u64 },
    /// Makes the inode and its content agree on its kind.
    Shape { ino: u64 },
    /// Drops blocks behind the end of the file.
    BeyondSize { ino: u64 },
    /// Corrects the counts of blocks and sectors.
    Counts { ino: u64, blocks: u64, sectors: u64 },
    /// Moves the live blocks out of a segment.
    Evacuate { segment: u32 },
    /// Creates a root directory.
    Root,
    /// Sets the flag of the root directory that announces files with restrictive flags.
    Guard,
    /// Rebuilds the directory's tree from the readable names.
    Directory { ino: u64 },
    /// Removes a name.
    Entry { directory: u64, name: Vec<u8> },
    /// Removes a directory from a cycle.
    Cycle { ino: u64, named_by: u64 },
    /// Gives the file a name in lost+found.
    Orphan { ino: u64 },
    /// Sets `..`.
    Parent { ino: u64, parent: u64 },
    /// Sets the link count.
    Links { ino: u64, nlink: u32 },
    /// Rebuilds the list of free numbers.
    FreeList,
    /// Writes lists, tables and totals as they were counted.
    Accounts,
}

impl Fix {
    /// Returns true if the remedy changes names or links.
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

    /// Returns true if the remedy changes storage. These are applied, and the volume is
    /// checked again, before names are repaired.
    pub(crate) fn is_of_storage(&self) -> bool {
        let of_accounts = matches!(self, Fix::FreeList | Fix::Accounts | Fix::Evacuate { .. });
        !self.is_of_names() && !of_accounts
    }

    /// Returns true if the next mount for writing does the same.
    pub(crate) fn is_routine(&self) -> bool {
        matches!(self, Fix::Slot { routine: true, .. })
    }

    /// Returns true if no user data is lost, so that an automatic check may apply the
    /// remedy.
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
