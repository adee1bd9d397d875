//! Reading the inodes of a listing before they are asked for.
//!
//! A directory lists names in the order of their hashes, while their inodes are stored in
//! the order in which they were made. A caller that lists a large directory which is not
//! in memory, and asks for the attributes of each name, would read one inode after
//! another at random. So once the attributes of a first batch were asked for, the inodes
//! of the following names are read in order of their numbers: of 512 names at first,
//! eight times as many whenever the listing has reached the end of that. It is only done
//! if a listed inode is not in memory. Damage of an inode is reported by the call that
//! asks for it.
//!
//! They become vnodes at once. In the layout's cache they would be used twice, by this
//! read and by the caller, and therefore be kept longer than those not yet used.

use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::types::InodeNo;

/// Most names that are examined.
const MOST: usize = 32 << 10;

impl<L: Layout> FileSystem<L> {
    /// Notes that the attributes of all names after the cookie `after` are going to be
    /// asked for, beginning with `listed`. Reads inodes ahead if one of these is not in
    /// memory.
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
