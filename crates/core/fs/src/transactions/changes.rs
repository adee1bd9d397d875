//! The changes of a private tree, and their cost in its target.

use super::commit::Changed;
use crate::account::{difference, sum};
use crate::directory;
use crate::file_system::FileSystem;
use crate::layout::{Layout, Unwritten, Usage};
use crate::memory::vnode::{Ground, Life, State, Vnode, WriteState, usage_of};
use crate::types::{FileKind, InodeNo};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The changed files of a closed private tree.
pub(crate) struct Changes {
    /// Files that exist in the target.
    pub known: Vec<Arc<Vnode>>,
    /// New files with names.
    pub new: Vec<Arc<Vnode>>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.new.is_empty()
    }

    /// Lists the changed files that exist in the target, and the names changed.
    pub fn told(&self) -> Changed {
        let mut told = Changed::default();
        for vnode in &self.known {
            told.files.push(vnode.ino);
            let state = vnode.read();
            let writes = || state.has_new_content() || !state.appending().is_empty();
            if vnode.kind == FileKind::Regular && state.life == Life::Live && writes() {
                told.content.push(vnode.ino);
            }
            let names = state.private.as_ref().map(|private| &private.names);
            let names = names.into_iter().flat_map(|names| names.iter());
            for (_, change) in names.filter(|(_, change)| !change.is_undone()) {
                told.names.push((vnode.ino, change.name.to_vec()));
            }
        }
        told
    }
}

/// A changed file, locked in the private tree.
pub(crate) struct Mine<'a> {
    pub vnode: &'a Arc<Vnode>,
    pub state: WriteState<'a>,
}

/// The cost of a commit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Price {
    /// Growth of the target's tree.
    pub growth: Usage,
    /// Changes that wait to be logged because of it.
    pub unwritten: Unwritten,
    /// The highest block of a file.
    pub highest_block: u64,
}

impl<L: Layout> FileSystem<L> {
    /// Numbers of all files that a transaction's tree has changed so far, new ones
    /// included.
    pub fn changed_inodes(&self) -> Vec<InodeNo> {
        let changes = self.changed_files();
        let all = changes.known.iter().chain(&changes.new);
        all.map(|vnode| vnode.ino).collect()
    }

    /// The changed files.
    pub(crate) fn changed_files(&self) -> Changes {
        let all: BTreeMap<_, _> = {
            let queues = self.queues();
            let data = queues.data.values().map(|(vnode, _)| vnode);
            let members = queues.epoch.iter().chain(data);
            members
                .map(|vnode| (vnode.birth, Arc::clone(vnode)))
                .collect()
        };
        let mut changes = Changes {
            known: Vec::new(),
            new: Vec::new(),
        };
        for vnode in all.into_values() {
            let state = vnode.read();
            let lives = state.life == Life::Live && state.inode.nlink > 0;
            match (state.private.is_some(), lives) {
                (true, _) => {
                    drop(state);
                    changes.known.push(vnode);
                }
                (false, true) => {
                    drop(state);
                    changes.new.push(vnode);
                }
                (false, false) => {}
            }
        }
        changes
    }

    /// Upper bound of the cost of all changes in the target.
    pub(crate) fn price_of(&self, known: &[Mine<'_>], new: &[Mine<'_>]) -> Price {
        let mut price = Price {
            unwritten: self.waits.now(),
            ..Price::default()
        };
        for Mine { vnode, state } in known {
            let before = usage_of(&state.origin().origin);
            let grown = difference(state.usage(), before);
            price.growth = sum(price.growth, grown);
            self.price_appending(vnode, state, &mut price);
            let NameBlocks { dirty, new } = name_blocks(state);
            price.growth.blocks += new;
            price.growth.sectors += new * self.store.sectors_per_block();
            price.unwritten.blocks += dirty;
            price.unwritten.bytes += dirty * (self.store.block_bytes as u64 + 128);
        }
        for Mine { state, .. } in new {
            price.growth = sum(price.growth, state.usage());
        }
        for Mine { state, .. } in known.iter().chain(new) {
            let end = self.store.blocks_of(state.inode.size);
            price.highest_block = price.highest_block.max(end);
        }
        price
    }

    /// Adds the cost of the bytes that wait for the end of a file of the target: they may
    /// be in two blocks, one of which counts as waiting already.
    fn price_appending(&self, vnode: &Vnode, state: &State, price: &mut Price) {
        let waiting = state.appending().len() as u64;
        let Ground::Vnode(ground) = &vnode.ground else {
            return;
        };
        if waiting == 0 {
            return;
        }
        price.growth.blocks += 2;
        price.growth.sectors += 2 * self.store.sectors_per_block();
        price.unwritten.blocks += 1;
        price.unwritten.bytes += self.store.block_bytes as u64 + 128;
        let end = ground.read().inode.size.saturating_add(waiting);
        let end = self.store.blocks_of(end).saturating_add(APPENDED_BLOCKS);
        price.highest_block = price.highest_block.max(end);
    }
}

/// Blocks by which a file may grow in the target until a merge appends to it; beyond
/// that, the merge is priced again.
const APPENDED_BLOCKS: u64 = 1024;

/// Upper bounds of directory blocks.
struct NameBlocks {
    /// Blocks that changes of names may make dirty.
    dirty: u64,
    /// Blocks among them that they may add.
    new: u64,
}

/// Upper bound of the blocks that changes of names affect in the target's directory: for
/// each change blocks of its own, but no more than exist or are added by splits. Removing
/// a name and making it refer to another file add none.
fn name_blocks(state: &State) -> NameBlocks {
    let changes = state
        .private
        .iter()
        .flat_map(|private| private.names.iter())
        .filter(|(_, change)| !change.is_undone());
    let (mut names, mut added, mut bytes) = (0, 0, 0);
    for (_, change) in changes {
        names += 1;
        if change.after.is_some() && (change.before.is_none() || change.spelled_below.is_some()) {
            added += 1;
            bytes += change.name.len() as u64 + 32;
        }
    }
    let splits = 2 * bytes.div_ceil(directory::NODE_BYTES as u64) + 1;
    let most = |names: u64| 2 * names.min(state.inode.blocks + splits);
    let deep = match added {
        0 => 0,
        _ => directory::INSERT_BLOCKS_MAX,
    };
    NameBlocks {
        dirty: most(names) + deep,
        new: most(added) + deep,
    }
}
