//! Snapshots, differences between them and restorations at random, against copies of
//! the trees.

use super::harness::*;
use super::tree_model::{Id, Tree};
use crate::{Caller, Change, ChangeKind, FileKind, InodeNo, Rename, SetAttr, Whence};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The file at each path, without numbers: of the content a hash, and of files with
/// several names the first.
type Paths = BTreeMap<String, (FileKind, u32, u64, BTreeMap<Vec<u8>, Vec<u8>>, String)>;

struct Run {
    fs: Arc<Fs>,
    rng: Xoshiro256PlusPlus,
    taken: Vec<(u32, Tree)>,
}

fn id_of(ino: InodeNo, fs: &Fs) -> Id {
    (ino.0, fs.getattr(ino).unwrap().version)
}

/// The path of each id, all of them.
fn paths_of(tree: &Tree) -> BTreeMap<Id, Vec<String>> {
    let mut paths: BTreeMap<Id, Vec<String>> = BTreeMap::new();
    let mut rest = vec![(super::tree_model::TOP, String::new())];
    while let Some((id, path)) = rest.pop() {
        let shown = if path.is_empty() { "/" } else { &path };
        paths.entry(id).or_default().push(shown.to_owned());
        for (name, child) in &tree.nodes[&id].names {
            rest.push((*child, format!("{path}/{name}")));
        }
    }
    paths
}

/// Content by path; names of one file share its first path.
fn by_path(tree: &Tree) -> Paths {
    let paths = paths_of(tree);
    let mut all = Paths::new();
    for (id, own) in &paths {
        let node = &tree.nodes[id];
        let first = own.iter().min().unwrap().clone();
        for path in own {
            let content = (
                node.kind,
                node.mode,
                xxhash_rust::xxh3::xxh3_64(&node.data),
                node.xattrs.clone(),
                first.clone(),
            );
            all.insert(path.clone(), content);
        }
    }
    all
}

fn entries(tree: &Tree) -> BTreeSet<(Id, String, Id)> {
    let nodes = tree.nodes.iter();
    nodes
        .flat_map(|(id, node)| {
            let names = node.names.iter();
            names.map(move |(name, child)| (*id, name.clone(), *child))
        })
        .collect()
}

/// A difference must be exactly that of the names, and cover that of the files.
fn judge(changes: &[Change], old: &Tree, new: &Tree) {
    let (before, after) = (entries(old), entries(new));
    let count = |set: &BTreeSet<(Id, String, Id)>, other: &BTreeSet<(Id, String, Id)>| {
        let mut counts: BTreeMap<Id, usize> = BTreeMap::new();
        for (_, _, child) in set.difference(other) {
            *counts.entry(*child).or_default() += 1;
        }
        counts
    };
    let (gone, come) = (count(&before, &after), count(&after, &before));
    let renamed: usize = gone
        .iter()
        .map(|(id, n)| *n.min(come.get(id).unwrap_or(&0)))
        .sum();
    let of_kind = |kind| changes.iter().filter(move |change| change.kind == kind);
    let text = format!("{changes:#?}");
    assert_eq!(of_kind(ChangeKind::Renamed).count(), renamed, "{text}");
    let removed = gone.values().sum::<usize>() - renamed;
    assert_eq!(of_kind(ChangeKind::Removed).count(), removed, "{text}");
    let created = come.values().sum::<usize>() - renamed;
    assert_eq!(of_kind(ChangeKind::Created).count(), created, "{text}");

    let (old_paths, new_paths) = (by_path(old), by_path(new));
    for change in changes {
        let (is_old, is_new) = match change.kind {
            ChangeKind::Removed => (Some(&change.path), None),
            ChangeKind::Renamed => (change.from.as_ref(), Some(&change.path)),
            _ => (None, Some(&change.path)),
        };
        for (path, paths) in [(is_old, &old_paths), (is_new, &new_paths)] {
            let exists = |path: &Vec<u8>| paths.contains_key(str::from_utf8(path).unwrap());
            assert!(path.is_none_or(exists), "{change:?}");
        }
    }
    for (id, mine) in &old.nodes {
        let Some(theirs) = new.nodes.get(id) else {
            continue;
        };
        let about = |kind| of_kind(kind).find(|change| change.ino.0 == id.0);
        if (mine.mode, &mine.xattrs) != (theirs.mode, &theirs.xattrs) {
            assert!(about(ChangeKind::Attributes).is_some(), "{id:?} {text}");
        }
        let length = mine.data.len().max(theirs.data.len());
        let ranges = about(ChangeKind::Modified).map_or(&[][..], |change| &change.ranges);
        let covered = |at: u64| ranges.iter().any(|range| range.contains(&at));
        for at in 0..length {
            let differs = mine.data.get(at) != theirs.data.get(at);
            assert!(!differs || covered(at as u64), "{id:?} at {at}: {text}");
        }
        assert!(ranges.is_sorted_by(|a, b| a.end < b.start), "{text}");
        assert!(
            ranges.iter().all(|range| range.end <= length as u64),
            "{text}"
        );
    }
}

impl Run {
    fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end)
    }

    fn name(&mut self) -> &'static [u8] {
        NAMES[self.below(NAMES.len())].as_bytes()
    }

    /// Some directory.
    fn directory(&mut self) -> InodeNo {
        let mut at = ROOT;
        while self.below(2) == 0 {
            let name = self.name();
            match self.fs.lookup(&Caller::root(), at, name) {
                Ok(found) if found.kind == FileKind::Directory => at = found.ino,
                _ => break,
            }
        }
        at
    }

    fn file(&mut self) -> Option<InodeNo> {
        let (at, name) = (self.directory(), self.name());
        let found = self.fs.lookup(&Caller::root(), at, name).ok()?;
        (found.kind == FileKind::Regular).then_some(found.ino)
    }

    fn step(&mut self) {
        let caller = Caller::root();
        let fs = Arc::clone(&self.fs);
        let (at, name) = (self.directory(), self.name());
        let salt = self.below(250) as u8;
        match self.below(24) {
            0..5 => {
                if let Ok(made) = fs.mknod(&caller, at, name, 0o644, 0) {
                    let length = [10, 100, 5000, 40_000][self.below(4)];
                    fs.t_write(made.ino, 0, &pattern(length, salt));
                }
            }
            5..7 => drop(fs.mkdir(&caller, at, name, 0o755)),
            7..10 => drop(fs.unlink(&caller, at, name)),
            10 => drop(fs.rmdir(&caller, at, name)),
            11..13 => {
                let (to, new) = (self.directory(), self.name());
                drop(fs.rename(&caller, at, name, to, new, Rename::default()));
            }
            13 => drop(fs.symlink(&caller, at, name, &pattern(200, salt))),
            14 => {
                if let Some(file) = self.file() {
                    drop(fs.link(&caller, file, at, name));
                }
            }
            15 => {
                if let Ok(found) = fs.lookup(&caller, at, name) {
                    let set = SetAttr {
                        mode: Some(0o600 + u32::from(salt % 8)),
                        ..SetAttr::default()
                    };
                    fs.setattr(&caller, found.ino, &set).unwrap();
                    if found.kind != FileKind::Symlink {
                        let value = [salt % 3];
                        fs.setxattr(&caller, found.ino, b"user.x", &value, false, false)
                            .unwrap();
                    }
                }
            }
            16..20 => {
                if let Some(file) = self.file() {
                    let offset = self.below(30_000) as u64;
                    match self.below(4) {
                        0 => fs.t_truncate(file, offset),
                        1 => {
                            let end = fs.getattr(file).unwrap().size.max(1);
                            fs.fallocate(&caller, file, 3, offset.min(end), 9000)
                                .unwrap();
                        }
                        _ => fs.t_write(file, offset, &pattern(6000, salt)),
                    }
                }
            }
            20 => fs.layout().memory().move_blocks(),
            21 => fs.sync().unwrap(),
            22 => {
                self.fs.sync().unwrap();
                self.fs = Arc::new(crash(&self.fs, None));
            }
            _ => self.snapshot(),
        }
    }

    fn snapshot(&mut self) {
        if self.taken.len() > 6 {
            let (number, _) = self.taken.remove(self.rng.random_range(0..6));
            self.fs.delete_snapshots(&[number]).unwrap();
        }
        let number = self.fs.create_snapshot("").unwrap().number;
        self.taken.push((number, Tree::of(&self.fs, 100)));
    }

    fn check(&self) {
        for (number, tree) in &self.taken {
            let at = self.fs.at(*number).unwrap();
            assert_eq!(&Tree::of(&at, 100), tree, "snapshot {number}");
        }
        let present = Tree::of(&self.fs, 100);
        for (nth, (from, old)) in self.taken.iter().enumerate() {
            judge(&self.fs.diff(*from, None).unwrap(), old, &present);
            for (to, new) in &self.taken[nth..] {
                judge(&self.fs.diff(*from, Some(*to)).unwrap(), old, new);
            }
        }
    }

    fn restore(&mut self) {
        let Some(nth) = self.taken.len().checked_sub(1) else {
            return;
        };
        let nth = self.rng.random_range(0..=nth);
        let (number, old) = &self.taken[nth];
        let from = self.fs.at(*number).unwrap();
        let txn = begin(&self.fs);
        txn.restore(&Caller::root(), &from, b"/").unwrap();
        txn.commit().unwrap();
        let present = Tree::of(&self.fs, 100);
        let (now, before) = (by_path(&present), by_path(old));
        for (path, found) in &before {
            assert_eq!(Some(found), now.get(path), "{path}");
        }
        assert_eq!(now.len(), before.len());
        // Files that were not touched kept their holes.
        for (id, node) in old
            .nodes
            .iter()
            .filter(|(id, _)| present.nodes.contains_key(id))
        {
            if node.kind == FileKind::Regular && !node.data.is_empty() {
                let data = |fs: &Fs| fs.seek(InodeNo(id.0), 0, Whence::Data).ok();
                assert_eq!(id_of(InodeNo(id.0), &from), *id);
                assert_eq!(data(&from), data(&self.fs), "{id:?}");
            }
        }
    }
}

#[test]
fn snapshots_differences_and_restorations() {
    for seed in seeds(0, 60) {
        eprintln!("reproduce: seed {seed} of snapshots_differences_and_restorations");
        let mut run = Run {
            fs: shared(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            taken: Vec::new(),
        };
        for _ in 0..6 {
            for _ in 0..25 {
                run.step();
            }
            run.check();
            run.restore();
        }
        drop(run.taken);
        assert_eq!(
            run.fs.layout().memory().snapshots(),
            0,
            "one was not released"
        );
    }
}
