//! Transactions, nested ones, and operations outside, at random, against trees of plain
//! maps.
//!
//! Single-threaded, so that each group captures one moment. The model decides by itself,
//! by value, whether a commit must be refused. Where it may be refused, because the
//! comparison is coarser than a byte, the outcome is accepted.

use super::harness::*;
use super::tree_model::{Id, Node, TOP, Tree, judge};
use crate::{
    Caller, Contended, Error, FileKind, InodeNo, Isolation, Layout, MemoryOptions, Options,
    Position, Rename, SetAttr, Transaction, TransactionOptions,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// Greatest depth of nested transactions.
const DEPTH: usize = 3;
/// Most open transactions on snapshots.
const OPEN: usize = 3;

/// An open transaction.
struct Open {
    txn: Transaction<Recorder>,
    /// Its view in the list of all views.
    view: View,
    origin: Tree,
    /// Files of which others have changed bytes since, even if only for a while.
    others: BTreeSet<Id>,
    salt: u64,
    isolation: Isolation,
}

/// The model of one view.
#[derive(Clone)]
struct View {
    tree: Tree,
    /// Files changed in it, even if only for a while.
    touched: BTreeSet<Id>,
    names: BTreeSet<(Id, String)>,
}

impl View {
    fn of(tree: Tree) -> View {
        View {
            tree,
            touched: BTreeSet::new(),
            names: BTreeSet::new(),
        }
    }
}

/// The mounted tree at a moment, and the files of which all bytes were logged with their
/// last commit.
#[derive(Clone)]
struct Moment {
    tree: Tree,
    whole: BTreeSet<Id>,
}

struct Run {
    fs: Arc<Fs>,
    rng: Xoshiro256PlusPlus,
    now: View,
    whole: BTreeSet<Id>,
    /// Open transactions, each with those nested in it, the innermost last.
    open: Vec<Vec<Open>>,
    /// The possible states after a crash, for each group.
    at: BTreeMap<u64, [Arc<Moment>; 2]>,
    options: Options,
    commits: [u64; 2],
}

/// The tree in which an operation is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Outside,
    Open(usize),
}

impl Run {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())].clone()
    }

    fn name(&mut self) -> String {
        self.pick(&NAMES).to_owned()
    }

    fn view(&mut self, who: Who) -> &mut View {
        match who {
            Who::Outside => &mut self.now,
            Who::Open(chain) => &mut self.open[chain].last_mut().unwrap().view,
        }
    }

    fn tree(&self, who: Who) -> Arc<Fs> {
        match who {
            Who::Outside => Arc::clone(&self.fs),
            Who::Open(chain) => Arc::clone(self.open[chain].last().unwrap().txn.tree()),
        }
    }

    fn directory(&mut self, who: Who) -> Id {
        let all = self.view(who).tree.all(|kind| kind == FileKind::Directory);
        self.near(who, &all)
    }

    /// Chooses a file. Each transaction prefers some files, because otherwise all of them
    /// would conflict.
    fn near(&mut self, who: Who, all: &[Id]) -> Id {
        let salt = match who {
            Who::Outside => 0,
            Who::Open(chain) => self.open[chain][0].salt,
        };
        let mut near = all.to_vec();
        near.retain(|id| id.0 % 4 == salt);
        match near.is_empty() || self.rng.random_bool(0.2) {
            true => self.pick(all),
            false => self.pick(&near),
        }
    }

    fn file(&mut self, who: Who) -> Option<(InodeNo, Id)> {
        let all = self.view(who).tree.all(|kind| kind == FileKind::Regular);
        if all.is_empty() {
            return None;
        }
        let id = self.near(who, &all);
        Some((InodeNo(id.0), id))
    }

    fn touch(&mut self, who: Who, ids: &[Id], names: &[(Id, &str)]) {
        let view = self.view(who);
        view.touched.extend(ids);
        let names = names.iter().map(|(id, name)| (*id, (*name).to_owned()));
        view.names.extend(names);
        if who == Who::Outside {
            view.touched.clear();
            view.names.clear();
        }
    }

    fn act(&mut self, who: Who) {
        match self.rng.random_range(0..22) {
            0..=2 => self.make(who),
            3 => self.unlink(who),
            4 => self.rmdir(who),
            5 => self.link(who),
            6..=8 => self.rename(who),
            9..=13 => self.write(who),
            14 | 15 => self.truncate(who),
            16 | 17 => self.fallocate(who),
            18 => self.chmod(who),
            19 => self.xattr(who),
            20 => {
                let fs = self.tree(who);
                fs.sync().unwrap();
                if who == Who::Outside {
                    self.whole = self.now.tree.nodes.keys().copied().collect();
                }
            }
            _ => {
                let fs = self.tree(who);
                fs.drop_caches();
                if let Some((ino, _)) = self.file(who) {
                    fs.fsync(ino, self.rng.random_bool(0.5)).unwrap();
                }
            }
        }
    }

    fn make(&mut self, who: Who) {
        let (fs, directory, name) = (self.tree(who), self.directory(who), self.name());
        let (root, parent) = (Caller::root(), InodeNo(directory.0));
        let (made, node) = match self.rng.random_range(0..6) {
            0 | 1 => {
                let node = Node::new(FileKind::Directory, 0o750);
                (fs.mkdir(&root, parent, name.as_bytes(), 0o750), node)
            }
            2 => {
                let mut node = Node::new(FileKind::Symlink, 0o777);
                let length = self.pick(&[10, 300]);
                node.data = pattern(length, 5);
                let made = fs.symlink(&root, parent, name.as_bytes(), &node.data);
                (made, node)
            }
            _ => {
                let node = Node::new(FileKind::Regular, 0o644);
                (fs.mknod(&root, parent, name.as_bytes(), 0o644, 0), node)
            }
        };
        let view = self.view(who);
        assert_eq!(made.is_ok(), view.tree.get(directory, &name).is_none());
        if let Ok(attr) = made {
            let id = (attr.ino.0, attr.version);
            view.tree.node(directory).names.insert(name.clone(), id);
            assert!(view.tree.nodes.insert(id, node).is_none(), "{id:?} twice");
            self.touch(who, &[directory, id], &[(directory, &name)]);
        }
    }

    fn unlink(&mut self, who: Who) {
        let (fs, directory, name) = (self.tree(who), self.directory(who), self.name());
        let gone = fs.unlink(&Caller::root(), InodeNo(directory.0), name.as_bytes());
        let view = self.view(who);
        let found = view.tree.get(directory, &name);
        let found = found.filter(|id| !view.tree.nodes[id].is_directory());
        assert_eq!(gone.is_ok(), found.is_some());
        self.forget(who, directory, &name, found);
    }

    fn rmdir(&mut self, who: Who) {
        let (fs, directory, name) = (self.tree(who), self.directory(who), self.name());
        let gone = fs.rmdir(&Caller::root(), InodeNo(directory.0), name.as_bytes());
        let view = self.view(who);
        let found = view.tree.get(directory, &name).filter(|id| {
            let node = &view.tree.nodes[id];
            node.is_directory() && node.names.is_empty()
        });
        assert_eq!(gone.is_ok(), found.is_some());
        self.forget(who, directory, &name, found);
    }

    fn forget(&mut self, who: Who, directory: Id, name: &str, found: Option<Id>) {
        let Some(id) = found else { return };
        let view = self.view(who);
        view.tree.node(directory).names.remove(name);
        view.tree.sweep();
        self.touch(who, &[directory, id], &[(directory, name)]);
    }

    fn link(&mut self, who: Who) {
        let (fs, directory, name) = (self.tree(who), self.directory(who), self.name());
        let Some((ino, id)) = self.file(who) else {
            return;
        };
        let made = fs.link(&Caller::root(), ino, InodeNo(directory.0), name.as_bytes());
        let view = self.view(who);
        assert_eq!(made.is_ok(), view.tree.get(directory, &name).is_none());
        if made.is_ok() {
            view.tree.node(directory).names.insert(name.clone(), id);
            self.touch(who, &[directory, id], &[(directory, &name)]);
        }
    }

    fn rename(&mut self, who: Who) {
        let (fs, from, old) = (self.tree(who), self.directory(who), self.name());
        let (to, new) = (self.directory(who), self.name());
        let mut flags = Rename::default();
        match self.rng.random_range(0..8) {
            0 => flags.no_replace = true,
            1 | 2 => flags.exchange = true,
            3 => flags.whiteout = true,
            _ => {}
        }
        let (parent, new_parent) = (InodeNo(from.0), InodeNo(to.0));
        let root = Caller::root();
        let (old_name, new_name) = (old.as_bytes(), new.as_bytes());
        let moved = fs.rename(&root, parent, old_name, new_parent, new_name, flags);
        let tree = &mut self.view(who).tree;
        let (source, target) = (tree.get(from, &old), tree.get(to, &new));
        let may = may_rename(tree, source, target, (from, to), flags);
        assert_eq!(moved.is_ok(), may, "{flags:?}: {moved:?}");
        let Some(source) = source.filter(|_| may) else {
            return;
        };
        if target == Some(source) {
            return;
        }
        tree.node(from).names.remove(&old);
        tree.node(to).names.insert(new.clone(), source);
        if let Some(target) = target.filter(|_| flags.exchange) {
            tree.node(from).names.insert(old.clone(), target);
        }
        let mut ids = vec![from, to, source];
        ids.extend(target);
        if flags.whiteout {
            let attr = fs.lookup(&root, parent, old_name).unwrap();
            let id = (attr.ino.0, attr.version);
            let node = Node::new(FileKind::CharDevice, 0);
            let tree = &mut self.view(who).tree;
            tree.nodes.insert(id, node);
            tree.node(from).names.insert(old.clone(), id);
            ids.push(id);
        }
        self.view(who).tree.sweep();
        self.touch(who, &ids, &[(from, &old), (to, &new)]);
    }

    /// The bytes of a file that is about to change.
    fn content(&mut self, who: Who, id: Id) -> &mut Vec<u8> {
        if who == Who::Outside {
            self.whole.remove(&id);
            self.tell([id].into());
        }
        self.touch(who, &[id], &[]);
        &mut self.view(who).tree.node(id).data
    }

    /// Notes that bytes of these files have changed, or moved.
    fn tell(&mut self, ids: BTreeSet<Id>) {
        for chain in &mut self.open {
            chain[0].others.extend(&ids);
        }
    }

    fn write(&mut self, who: Who) {
        let Some((ino, id)) = self.file(who) else {
            return;
        };
        let fs = self.tree(who);
        let length = self.pick(&[5, 100, 512, 4096, 10_000]);
        let length = self.rng.random_range(1..=length);
        let data = match self.rng.random_range(0..6) {
            0 => vec![0; length],
            _ => pattern(length, self.rng.random()),
        };
        let (append, place) = (
            self.rng.random_range(0..3),
            self.rng.random_range(0..25_000),
        );
        let content = self.content(who, id);
        let offset = match append {
            0 => content.len(),
            1 => 0,
            _ => place,
        };
        match append {
            0 => {
                let at = fs.append(&Caller::root(), ino, &data).unwrap();
                assert_eq!(at, offset as u64);
            }
            _ => fs.t_write(ino, offset as u64, &data),
        }
        let end = content.len().max(offset + length);
        content.resize(end, 0);
        content[offset..offset + length].copy_from_slice(&data);
    }

    fn truncate(&mut self, who: Who) {
        let Some((ino, id)) = self.file(who) else {
            return;
        };
        let size = self.pick(&[0, 50, 4096, 25_000]);
        let size = self.rng.random_range(0..=size);
        self.tree(who).t_truncate(ino, size as u64);
        self.content(who, id).resize(size, 0);
    }

    fn fallocate(&mut self, who: Who) {
        let Some((ino, id)) = self.file(who) else {
            return;
        };
        let mode = self.pick(&[0, 1, 3, 16, 17]);
        let offset = self.rng.random_range(0..25_000usize);
        let length = self.rng.random_range(1..15_000usize);
        let fs = self.tree(who);
        fs.fallocate(&Caller::root(), ino, mode, offset as u64, length as u64)
            .unwrap();
        let content = self.content(who, id);
        let end = offset + length;
        if mode & 1 == 0 && content.len() < end {
            content.resize(end, 0);
        }
        if mode & 18 != 0 {
            let end = end.min(content.len());
            content[offset.min(end)..end].fill(0);
        }
    }

    fn any(&mut self, who: Who) -> Id {
        let all = self.view(who).tree.all(|kind| kind != FileKind::Symlink);
        self.near(who, &all)
    }

    fn chmod(&mut self, who: Who) {
        let id = self.any(who);
        let mode = self.pick(&[0o600, 0o640, 0o711]);
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        let fs = self.tree(who);
        fs.setattr(&Caller::root(), InodeNo(id.0), &set).unwrap();
        self.view(who).tree.node(id).mode = mode;
        self.touch(who, &[id], &[]);
    }

    fn xattr(&mut self, who: Who) {
        let id = self.any(who);
        let name = self.pick(&[&b"user.a"[..], b"user.b"]).to_vec();
        let (fs, ino, root) = (self.tree(who), InodeNo(id.0), Caller::root());
        if self.view(who).tree.nodes[&id].kind == FileKind::CharDevice {
            return;
        }
        if self.rng.random_bool(0.3) {
            let gone = fs.removexattr(&root, ino, &name);
            let known = self.view(who).tree.node(id).xattrs.remove(&name);
            assert_eq!(gone.is_ok(), known.is_some());
        } else {
            let length = self.pick(&[1, 200, 3000]);
            let value = pattern(length, self.rng.random());
            fs.setxattr(&root, ino, &name, &value, false, false)
                .unwrap();
            self.view(who).tree.node(id).xattrs.insert(name, value);
        }
        self.touch(who, &[id], &[]);
    }

    fn begin(&mut self) {
        let isolation = match self.rng.random_range(0..4) {
            0 => Isolation::Serializable,
            _ => Isolation::Snapshot,
        };
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let txn = self.fs.begin_transaction(&options).unwrap();
        let tree = self.now.tree.clone();
        let view = View::of(tree.clone());
        self.open.push(vec![Open {
            txn,
            view,
            origin: tree,
            others: BTreeSet::new(),
            salt: self.rng.random_range(0..4),
            isolation,
        }]);
    }

    fn nest(&mut self, chain: usize) {
        let above = self.open[chain].last().unwrap();
        let txn = nested(&above.txn);
        let view = above.view.clone();
        let origin = view.tree.clone();
        let others = BTreeSet::new();
        self.open[chain].push(Open {
            txn,
            view,
            origin,
            others,
            salt: 0,
            isolation: Isolation::Snapshot,
        });
    }

    /// Ends the innermost transaction.
    fn end(&mut self, chain: usize) {
        let inner = self.open[chain].pop().unwrap();
        let commits = self.rng.random_bool(0.75);
        if let Some(above) = self.open[chain].last_mut() {
            if commits {
                inner.txn.commit().unwrap();
                above.view = inner.view;
            } else {
                inner.txn.abort();
            }
            return;
        }
        self.open.remove(chain);
        if commits {
            self.commit(inner);
        }
    }

    fn commit(&mut self, open: Open) {
        let Open {
            txn,
            view,
            origin,
            others,
            isolation,
            ..
        } = open;
        let verdict = judge(
            &origin,
            &view.tree,
            &self.now.tree,
            &view.touched,
            &view.names,
        );
        // It has compared all its reads, including those of this test.
        let read =
            isolation == Isolation::Serializable && (origin != self.now.tree || !others.is_empty());
        let before = self.moment();
        let group = self.group();
        let outcome = txn.commit_async();
        self.note_groups(group, &before, &before);
        match outcome {
            Ok(ticket) => {
                self.commits[0] += 1;
                assert!(!verdict.must, "a conflict was not noticed");
                let new = |id: &Id| origin.nodes.get(id) != view.tree.nodes.get(id);
                self.whole.extend(view.touched.iter().filter(|id| new(id)));
                self.now = View::of(verdict.merged);
                self.tell(view.touched);
                let group = self.group();
                if self.rng.random_bool(0.5) {
                    ticket.wait().unwrap();
                }
                let after = self.moment();
                self.note_groups(group, &after, &after);
            }
            Err(Error::Conflict(conflict)) => {
                self.commits[1] += 1;
                // Content that others changed and changed back may be stored at another
                // place now.
                let stored = matches!(conflict.of, Contended::Content(_))
                    && others.iter().any(|id| id.0 == conflict.ino.0);
                let may = verdict.may || stored || read;
                assert!(may, "nothing was in its way: {conflict:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
        self.compare(Who::Outside);
    }

    fn group(&self) -> u64 {
        self.fs.layout().memory().appended().0
    }

    fn moment(&mut self) -> Arc<Moment> {
        let tree = self.now.tree.clone();
        self.whole.retain(|id| tree.nodes.contains_key(id));
        let whole = self.whole.clone();
        Arc::new(Moment { tree, whole })
    }

    fn note_groups(&mut self, since: u64, before: &Arc<Moment>, after: &Arc<Moment>) {
        for position in since + 1..=self.group() {
            let moments = [Arc::clone(before), Arc::clone(after)];
            self.at.insert(position, moments);
        }
    }

    fn compare(&mut self, who: Who) {
        let piece = self.pick(&[1, 3, 1000]);
        let fs = self.tree(who);
        Tree::of(&fs, piece).must_be(&self.view(who).tree, &format!("{who:?}"));
    }

    /// Crashes at every group not committed, checks the result, and continues.
    fn look_at_crashes(&mut self) {
        let memory = self.fs.layout().memory();
        for position in memory.committed().0 + 1..=memory.appended().0 {
            let after = crash(&self.fs, Some(Position(position)));
            let found = Tree::of(&after, 100);
            let is = |moment: &Arc<Moment>| match self.options.strict_order {
                true => found == moment.tree,
                false => {
                    let want = moment.tree.without_data(&moment.whole);
                    found.without_data(&moment.whole) == want
                }
            };
            let [one, other] = &self.at[&position];
            if !is(one) && !is(other) {
                for moment in [one, other] {
                    eprintln!("whole: {:?}", moment.whole);
                    let want = moment.tree.without_data(&moment.whole);
                    let found = found.without_data(&moment.whole);
                    let differ = |id: &&Id| found.nodes.get(id) != want.nodes.get(id);
                    let ids = want.nodes.keys().chain(found.nodes.keys());
                    eprintln!("differ: {:?}", ids.filter(differ).collect::<Vec<_>>());
                }
                found.must_be(&other.tree, &format!("a crash behind group {position}"));
            }
            let usage = after.usage();
            after.unmount().unwrap();
            assert_eq!(after.layout().usage(), usage);
        }
    }

    fn step(&mut self) {
        let before = self.moment();
        let group = self.group();
        let who = match self.rng.random_range(0..6) {
            0 => Who::Outside,
            _ if self.open.is_empty() => Who::Outside,
            _ => Who::Open(self.rng.random_range(0..self.open.len())),
        };
        match (self.rng.random_range(0..60), who) {
            (0..=2, _) if self.open.len() < OPEN => self.begin(),
            (3, Who::Open(chain)) if self.open[chain].len() < DEPTH => self.nest(chain),
            (4..=6, Who::Open(chain)) => return self.end(chain),
            (7, _) => self.fs.layout().memory().move_blocks(),
            (8, _) => self.fs.maintain().unwrap(),
            (9, _) => {
                self.fs.write_back().unwrap();
                self.fs.drop_caches();
            }
            _ => self.act(who),
        }
        let after = self.moment();
        self.note_groups(group, &before, &after);
        self.compare(match who {
            Who::Open(chain) if chain >= self.open.len() => Who::Outside,
            who => who,
        });
    }

    fn finish(mut self) {
        while !self.open.is_empty() {
            let chain = self.rng.random_range(0..self.open.len());
            self.end(chain);
        }
        self.compare(Who::Outside);
        self.fs.sync().unwrap();
        self.fs.unmount().unwrap();
        assert_eq!(self.fs.layout().usage(), self.fs.usage());
        assert_eq!(self.fs.statistics().dirty_bytes, 0);
        assert_eq!(self.fs.layout().memory().snapshots(), 0);
        let numbers: BTreeSet<u64> = self.now.tree.nodes.keys().map(|id| id.0).collect();
        no_number_is_lost(&self.fs, numbers);
        let again = crash(&self.fs, None);
        Tree::of(&again, 1000).must_be(&self.now.tree, "mounted again");
        assert_eq!(again.usage(), self.fs.usage());
        let group = self.group();
        let now = self.moment();
        self.note_groups(group, &now, &now);
    }
}

/// True if POSIX allows this rename.
fn may_rename(
    tree: &Tree,
    source: Option<Id>,
    target: Option<Id>,
    (from, to): (Id, Id),
    flags: Rename,
) -> bool {
    let Some(source) = source else { return false };
    if flags.no_replace && target.is_some() || flags.exchange && target.is_none() {
        return false;
    }
    let is_directory = |id: Id| tree.nodes[&id].is_directory();
    if from != to && is_directory(source) && tree.is_below(to, source) {
        return false;
    }
    let Some(target) = target else { return true };
    if from != to && is_directory(target) && tree.is_below(from, target) {
        return false;
    }
    if source == target || flags.exchange {
        return true;
    }
    is_directory(source) == is_directory(target) && tree.nodes[&target].names.is_empty()
}

/// Asserts that each number up to the greatest belongs to a file, or can be allocated.
pub fn no_number_is_lost(fs: &Fs, used: BTreeSet<u64>) {
    let greatest = used.iter().max().copied().unwrap_or(0) + 50;
    let mut had = used;
    let mut taken = Vec::new();
    while taken.last().is_none_or(|last: &InodeNo| last.0 < greatest) {
        let (ino, _) = fs
            .layout()
            .allocate_inode(InodeNo::ROOT, FileKind::Regular)
            .unwrap();
        assert!(had.insert(ino.0), "{ino:?} is a file's");
        taken.push(ino);
    }
    for number in InodeNo::FIRST.0..greatest {
        assert!(had.contains(&number), "number {number} is lost");
    }
    for ino in taken {
        fs.layout().forget_inode(ino);
    }
}

fn run(seed: u64, options: Options, group_bytes: u64, step_blocks: u64) -> [u64; 2] {
    run_in(seed, options, (group_bytes, step_blocks), None)
}

/// Runs with private trees that spill beyond `spills_at` bytes.
fn run_in(
    seed: u64,
    options: Options,
    (group_bytes, step_blocks): (u64, u64),
    spills_at: Option<u64>,
) -> [u64; 2] {
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-fs transactions_model");
    let memory = MemoryOptions {
        group_bytes,
        ..Default::default()
    };
    let mut fs = fresh_with(memory, options.clone());
    fs.settings.step_blocks = step_blocks;
    if let Some(bytes) = spills_at {
        Arc::get_mut(&mut fs.budget).unwrap().spills_at = bytes;
    }
    fs.sync().unwrap();
    let mut run = Run {
        fs: Arc::new(fs),
        rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        now: View::of(Tree::new()),
        whole: BTreeSet::from([TOP]),
        open: Vec::new(),
        at: BTreeMap::new(),
        options,
        commits: [0, 0],
    };
    let moment = run.moment();
    run.note_groups(0, &moment, &moment);
    for _ in 0..30 {
        let group = run.group();
        let before = run.moment();
        run.make(Who::Outside);
        let after = run.moment();
        run.note_groups(group, &before, &after);
    }
    for step in 0..300 {
        run.step();
        if step % 23 == 0 {
            run.look_at_crashes();
        }
    }
    let commits = run.commits;
    let spilled = run.fs.statistics().transaction_spilled_blocks;
    assert_eq!(
        spills_at.is_some(),
        spilled > 0,
        "{spilled} blocks were spilled"
    );
    run.finish();
    commits
}

fn small() -> Options {
    Options {
        cache_bytes: 8 << 20,
        ..Default::default()
    }
}

#[test]
fn any_history_agrees_with_the_model() {
    let mut all = [0, 0];
    for seed in chosen(0, 40) {
        let commits = run(seed, small(), 1 << 20, 65_536);
        all = [all[0] + commits[0], all[1] + commits[1]];
    }
    eprintln!("{} commits, {} conflicts", all[0], all[1]);
}

#[test]
fn any_history_in_small_groups_and_steps() {
    for seed in chosen(10_000, 40) {
        run(seed, small(), 8192, 3);
    }
}

#[test]
fn any_history_in_which_everything_spills() {
    for seed in chosen(30_000, 40) {
        run_in(seed, small(), (1 << 20, 65_536), Some(0));
    }
}

#[test]
fn any_history_in_which_something_spills_in_small_groups() {
    for seed in chosen(40_000, 20) {
        run_in(seed, small(), (8192, 3), Some(60_000));
    }
}

#[test]
fn any_history_in_strict_order() {
    for seed in chosen(20_000, 20) {
        let options = Options {
            strict_order: true,
            ..small()
        };
        run(seed, options, 1 << 20, 65_536);
    }
}

/// [`seeds`], or the one that `VARVE_SEED` names.
fn chosen(first: u64, usual: u64) -> std::ops::Range<u64> {
    let seed = std::env::var("VARVE_SEED").ok();
    match seed.and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => seeds(first, usual),
    }
}
