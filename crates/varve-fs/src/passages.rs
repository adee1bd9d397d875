//! Ways from the root to directories, remembered.
//!
//! A walk asks each directory on its way: it locks it, counts holders of it and
//! searches it. Threads at work in different directories of one tree meet at
//! the root and just below it, on the same few lines of memory. A remembered
//! way asks nobody anything: it compares numbers that others only read.
//!
//! Each directory has a number of *turns*. It grows when the directory leaves
//! its name, or when who may search it changes; before anybody can see that,
//! and while the locks are held that a walk would need. A trail holds the turns
//! that a walk saw under those locks. As long as they are the same, the walk
//! would end where it did.
//!
//! Invariants:
//! - Whoever takes a trail holds its end first and compares the turns then. A
//!   removal counts a turn first and asks who holds the directory then. So
//!   either the one sees the turn, or the other the holder.
//! - A trail keeps its vnodes in the table, so that turns are counted on these
//!   very vnodes for as long as it lives.
//! - Only plain names are remembered: no links, no `.` and `..`.

use crate::attr::Caller;
use crate::file_system::FileSystem;
use crate::hash::MixBuilder;
use crate::layout::Layout;
use crate::permission::EXECUTE;
use crate::planted::{self, Planted};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, View};
use crate::vnode::Vnode;
use crate::{Error, Result};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use varve_device::sync::RwLock;

const SHARDS: usize = 64;
/// Longer paths are walked every time.
const PATH_BYTES_MAX: usize = 256;
/// Deeper ones, too.
const STEPS_MAX: usize = 16;
/// One way for so many idle vnodes.
const VNODES_PER_TRAIL: usize = 16;

/// A directory on the way, and its turns when the walk came by.
struct Step {
    vnode: Arc<Vnode>,
    turns: u64,
}

impl Step {
    fn new(vnode: Arc<Vnode>) -> Self {
        let turns = vnode.turns.load(SeqCst);
        Step { vnode, turns }
    }
}

/// A way from the root to a directory, as one caller may go it.
struct Trail {
    caller: Caller,
    /// From the root to the end, which is another one.
    steps: Vec<Step>,
}

impl Trail {
    fn is_open(&self) -> bool {
        let unchanged = |step: &Step| step.vnode.turns.load(SeqCst) == step.turns;
        self.steps.iter().all(unchanged)
    }

    fn end(&self) -> &Arc<Vnode> {
        &self.steps.last().expect("the root at least").vnode
    }
}

type Trails = HashMap<Box<[u8]>, Arc<Trail>, MixBuilder>;

/// Aligned, so that shards share no line of memory.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Trails);

/// See the module's head.
pub(crate) struct Passages {
    shards: Box<[RwLock<Shard>]>,
    shard_bound: usize,
}

impl Passages {
    /// Remembers as many ways as fit beside `idle_vnodes`.
    pub fn new(idle_vnodes: usize) -> Self {
        Passages {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            shard_bound: (idle_vnodes / VNODES_PER_TRAIL / SHARDS).max(1),
        }
    }

    fn shard(&self, path: &[u8]) -> &RwLock<Shard> {
        // The table below takes the low bits and the highest.
        let hash = MixBuilder.hash_one(path) >> 32;
        &self.shards[hash as usize % SHARDS]
    }

    fn get(&self, path: &[u8]) -> Option<Arc<Trail>> {
        self.shard(path).read().0.get(path).map(Arc::clone)
    }

    fn remember(&self, path: &[u8], trail: Trail) {
        let fits = path.len() <= PATH_BYTES_MAX && trail.steps.len() <= STEPS_MAX;
        if !fits {
            return;
        }
        let mut shard = self.shard(path).write();
        let forgotten = if shard.0.len() >= self.shard_bound {
            std::mem::take(&mut shard.0)
        } else {
            Trails::default()
        };
        shard.0.insert(path.into(), Arc::new(trail));
        drop(shard); // and what was forgotten only after it
        drop(forgotten);
    }

    fn forget(&self, path: &[u8]) {
        self.shard(path).write().0.remove(path);
    }

    /// Forgets every way, and lets their vnodes go.
    pub fn clear(&self) {
        for shard in &self.shards {
            let forgotten = std::mem::take(&mut shard.write().0);
            drop(forgotten);
        }
    }
}

impl<L: Layout> FileSystem<L> {
    /// The directory that `path` leads to from the root, held once on the
    /// caller's behalf unless it is the root: [`Self::release`] it. Nothing if
    /// the way is not one of plain names and directories, but has `.`, `..` or
    /// a symbolic link in it. Slashes may be many, and surround it.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `AccessDenied`, `NameTooLong`, `Damaged`,
    /// device errors.
    pub fn directory_at(
        &self,
        view: View,
        caller: &Caller,
        path: &[u8],
    ) -> Result<Option<InodeNo>> {
        let View::Live = view;
        if path.iter().all(|byte| *byte == b'/') {
            return Ok(Some(InodeNo::ROOT));
        }
        match self.pass(caller, path) {
            Some(ino) => Ok(Some(ino)),
            None => self.break_trail(caller, path),
        }
    }

    /// Goes a remembered way.
    fn pass(&self, caller: &Caller, path: &[u8]) -> Option<InodeNo> {
        let trail = self.passages.get(path)?;
        if trail.caller != *caller {
            return None;
        }
        let end = trail.end();
        end.refs.fetch_add(1, SeqCst);
        if trail.is_open() || planted::is(Planted::TrailUnchecked) {
            count(&self.store.counters.passages, 1);
            return Some(end.ino);
        }
        self.passages.forget(path);
        self.let_go(end, 1);
        None
    }

    /// Walks, and remembers the way.
    fn break_trail(&self, caller: &Caller, path: &[u8]) -> Result<Option<InodeNo>> {
        let mut steps = vec![Step::new(self.vnode(InodeNo::ROOT)?)];
        let mut names = path.split(|byte| *byte == b'/').filter(|n| !n.is_empty());
        let mut name = names.next();
        while let Some(this) = name {
            if matches!(this, b"." | b"..") {
                return Ok(None);
            }
            name = names.next();
            count(&self.store.counters.lookups, 1);
            let directory = &steps.last().expect("the root at least").vnode;
            let step = {
                let state = directory.read_directory();
                // Removed and freed since it was found.
                state.live().map_err(|_| Error::NotFound)?;
                self.permit(caller, directory, &state, EXECUTE)?;
                let found = self.find(directory, &state, this)?;
                let vnode = self.named(directory.ino, found.ok_or(Error::NotFound)?)?;
                match vnode.kind {
                    FileKind::Directory => {}
                    FileKind::Symlink => return Ok(None),
                    _ => return Err(Error::NotDirectory),
                }
                // While the directory is locked the name stays, and with it
                // what it leads to.
                if name.is_none() {
                    vnode.refs.fetch_add(1, SeqCst);
                }
                Step::new(vnode)
            };
            steps.push(step);
        }
        let end = steps.last().expect("the root at least").vnode.ino;
        let caller = caller.clone();
        self.passages.remember(path, Trail { caller, steps });
        Ok(Some(end))
    }
}
