//! Inodes of a listing, read before they are asked for.
//!
//! A directory lists names in the order of their hashes; what they lead to lies in the
//! order in which it was made. Whoever lists a large directory that is not in memory and
//! asks for the attributes of each name would read one inode after the other at random.
//! So once somebody has asked for those of a first batch, the inodes of the names that
//! follow are read by number: of 512 names at first, eight times as many whenever a
//! listing has come to the end of that. It is only done where something that is listed
//! is not in memory, and what is wrong with an inode is left to be found by whoever asks
//! for it.
//!
//! They become vnodes at once. In the layout's cache they would be used twice, by this
//! and by who asks, and so be kept longer than those still to come.

use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::types::InodeNo;

/// Names looked at most.
const MOST: usize = 32 << 10;

impl<L: Layout> FileSystem<L> {
    /// Attributes of all names behind the cookie `after` are going to be asked for, of
    /// which `listed` come first: reads inodes ahead if one of these is not in memory.
    pub fn read_inodes_ahead(
        &self,
        directory: InodeNo,
        after: u64,
        mut listed: impl Iterator<Item = InodeNo>,
    ) {
        let is_absent = |ino: &InodeNo| self.table.get(*ino).is_none();
        if !listed.any(|ino| is_absent(&ino)) {
            return;
        }
        let most = MOST.min(self.table.bound() / 2);
        let Some(names) = self.listings.due(directory, after, most) else {
            return;
        };
        let (mut absent, mut until, mut seen) = (Vec::new(), u64::MAX, 0);
        let read = self.readdir(directory, after, &mut |entry| {
            if seen == names {
                return false;
            }
            (seen, until) = (seen + 1, entry.cookie);
            if is_absent(&entry.ino) {
                absent.push(entry.ino);
            }
            true
        });
        if read.is_err() || seen < names {
            until = u64::MAX;
        }
        absent.sort_unstable();
        for ino in absent {
            _ = self.vnode(ino);
        }
        self.listings.ended(directory, until);
    }
}
