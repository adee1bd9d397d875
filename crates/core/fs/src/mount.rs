//! Mounting and unmounting.

use crate::error::{Error, Result};
use crate::file_system::{FileSystem, Parts, Settings};
use crate::inode::Inode;
use crate::isolation::Budget;
use crate::layout::{Cause, Group, Item, Layout};
use crate::locks::Level;
use crate::memory::passages::{self, Passages};
use crate::memory::queues::STEP_BLOCKS;
use crate::memory::read_ahead::ReadAhead;
use crate::memory::store::Store;
use crate::memory::vnode_table::{self, VnodeTable};
use crate::options::Options;
use crate::types::{FileKind, InodeNo, Timestamp, View};
use std::sync::Arc;
use varve_device::Clock;

/// Bytes of the smallest logical block, which must contain a directory's node.
const BLOCK_BYTES_MIN: u32 = 4096;

impl<L: Layout> FileSystem<L> {
    /// Makes the root directory, or, if the layout has one, gives it to `root_owner`
    /// (user, group), and makes that durable.
    ///
    /// # Errors
    /// Errors of the layout.
    pub fn format(layout: &L, clock: &dyn Clock, root_owner: (u32, u32)) -> Result<()> {
        let now = Timestamp::from_ns(clock.now_ns());
        let mut usage = layout.usage();
        let mut root = match layout.read_inode(View::Live, InodeNo::ROOT) {
            Ok(root) => root,
            Err(Error::NotFound) => {
                usage.inodes += 1;
                let mode = FileKind::Directory.mode_bits() | 0o755;
                Inode {
                    nlink: 2,
                    parent: InodeNo::ROOT,
                    ..Inode::new(InodeNo::ROOT, 1, mode, now)
                }
            }
            Err(error) => return Err(error),
        };
        (root.uid, root.gid) = root_owner;
        let items = vec![Item::Inode(Box::new(root))];
        let position = layout.append(Group {
            items,
            usage,
            cause: Cause::SyncAll,
        })?;
        layout.commit(position)?;
        layout.checkpoint()
    }

    /// Opens the tree, and finishes work that a crash interrupted: files without names
    /// are freed, truncates completed; very large ones in steps by [`Self::maintain`].
    ///
    /// # Errors
    /// `Damaged` if there is no root directory, `Invalid` if logical blocks are smaller
    /// than 4096 bytes, errors of the layout.
    pub fn mount(layout: Arc<L>, clock: Arc<dyn Clock>, options: Options) -> Result<Self> {
        let geometry = layout.geometry();
        if geometry.block_bytes < BLOCK_BYTES_MIN || !geometry.block_bytes.is_power_of_two() {
            return Err(Error::Invalid("logical blocks smaller than 4096 bytes"));
        }
        let usage = layout.usage();
        let store = Arc::new(Store::new(layout, &options));
        let vnodes = options.idle_vnodes();
        let fs = Self::new(Parts {
            read_ahead: Arc::new(ReadAhead::new(&store, options.read_ahead_threads)),
            budget: Arc::new(Budget::new(options.stop_access_bytes())),
            store,
            clock,
            level: Level::MOUNTED,
            table: VnodeTable::new(vnodes, vnode_table::SHARDS, Level::MOUNTED),
            passages: Passages::new(vnodes, passages::SHARDS),
            below: None,
            usage,
            settings: Settings {
                keep_written: options.keep_written,
                start_write_bytes: options.start_write_bytes(),
                stop_access_bytes: options.stop_access_bytes(),
                strict_order: options.strict_order,
                atime: options.relatime,
                step_blocks: STEP_BLOCKS,
                read_times_max: vnodes / 4,
                deadlocks: options.deadlocks,
            },
        });
        let root = fs.vnode(InodeNo::ROOT)?;
        if root.kind != FileKind::Directory {
            return Err(Error::Damaged {
                ino: Some(InodeNo::ROOT),
                detail: "the root is not a directory".to_owned(),
            });
        }
        fs.recover()?;
        Ok(fs)
    }

    /// Makes everything durable, frees files that wait to be freed, and lets the layout
    /// write its checkpoint. Open transactions are aborted. The file system remains
    /// usable, except for new transactions.
    ///
    /// # Errors
    /// Error of a failed write, earlier or now.
    pub fn unmount(&self) -> Result<()> {
        self.check_failed()?;
        self.end_open();
        self.sync()?;
        self.reap_all()?;
        self.checkpoint()
    }
}
