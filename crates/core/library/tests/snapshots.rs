//! Snapshots of a real log at random, against copies of the trees by path: their content,
//! differences, rollbacks, and crashes.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use varve::{Change, ChangeKind, Snapshot, Volume, VolumeOptions};
use varve_prove::random::{Random, scaled};

/// Mode and content of each path; a directory has none.
type Tree = BTreeMap<PathBuf, (u32, Option<Vec<u8>>)>;

fn tree(volume: &Volume) -> Tree {
    let mut tree = Tree::new();
    for entry in volume.walk("/").unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let content = metadata
            .is_file()
            .then(|| volume.read(entry.path()).unwrap());
        let mode = metadata.permissions().mode();
        tree.insert(entry.path().to_owned(), (mode, content));
    }
    tree
}

#[track_caller]
fn same(found: &Tree, wanted: &Tree) {
    let paths = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(found), paths(wanted));
    for (path, (mode, content)) in wanted {
        let (found_mode, found_content) = &found[path];
        assert_eq!(found_mode, mode, "{}", path.display());
        assert!(found_content == content, "content of {}", path.display());
    }
}

/// Every difference of the trees is explained by a change.
fn judge(changes: &[Change], old: &Tree, new: &Tree) {
    let is_at = |path: &Path, place: &Path| path.starts_with(place);
    let explained = |path: &Path, is_gone: bool| {
        changes.iter().any(|change| match change.kind {
            ChangeKind::Removed => is_gone && is_at(path, &change.path),
            ChangeKind::Created => !is_gone && is_at(path, &change.path),
            ChangeKind::Renamed if is_gone => is_at(path, change.from.as_ref().unwrap()),
            ChangeKind::Renamed => is_at(path, &change.path),
            ChangeKind::Modified | ChangeKind::Attributes => false,
        })
    };
    for path in old.keys().filter(|path| !new.contains_key(*path)) {
        assert!(
            explained(path, true),
            "{} is gone: {changes:#?}",
            path.display()
        );
    }
    for (path, now) in new {
        let is_same = old.get(path) == Some(now);
        let is_changed = changes.iter().any(|change| &change.path == path);
        let is_known = is_same || is_changed || explained(path, false);
        assert!(is_known, "{} is new: {changes:#?}", path.display());
    }
    if changes.is_empty() {
        same(old, new);
    }
}

struct Run {
    image: PathBuf,
    volume: Volume,
    random: Random,
    taken: Vec<(Snapshot, Tree)>,
}

fn options() -> VolumeOptions {
    let mut options = VolumeOptions::new();
    options.background(false).size(48 << 20);
    options
}

impl Run {
    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    fn path(&mut self) -> PathBuf {
        let mut path = PathBuf::from("/");
        for _ in 0..=self.below(3) {
            path.push(["a", "b", "c", "d"][self.below(4)]);
        }
        path
    }

    fn step(&mut self) {
        let (path, other) = (self.path(), self.path());
        let volume = self.volume.clone();
        match self.below(16) {
            0..5 => {
                let length = [0, 30, 3000, 9000, 300_000][self.below(5)];
                let byte = self.below(256) as u8;
                drop(volume.write(&path, vec![byte; length]));
            }
            5..7 => drop(volume.create_dir(&path)),
            7..9 => drop(volume.remove_file(&path)),
            9 => drop(volume.remove_dir_all(&path)),
            10 => drop(volume.rename(&path, &other)),
            11 => {
                if let Ok(file) = varve::OpenOptions::new().write(true).open(&volume, &path) {
                    use std::os::unix::fs::FileExt;
                    let at = self.below(40_000) as u64;
                    let data = vec![self.below(256) as u8; 5000];
                    file.write_all_at(&data, at).unwrap();
                }
            }
            12 => {
                let mode = 0o600 + self.below(64) as u32;
                drop(volume.set_permissions(&path, std::fs::Permissions::from_mode(mode)));
            }
            13 => volume.checkpoint().unwrap(),
            14 => {
                drop(volume);
                self.reopen();
            }
            _ => self.snapshot(),
        }
    }

    /// After a crash, or a clean end.
    fn reopen(&mut self) {
        self.volume.sync().unwrap();
        let empty = Volume::in_memory(16 << 20).unwrap();
        let volume = std::mem::replace(&mut self.volume, empty);
        match self.below(2) {
            0 => volume.abandon(),
            _ => assert_eq!(volume.close().unwrap(), 0),
        }
        self.volume = options().open(&self.image).unwrap();
    }

    fn snapshot(&mut self) {
        if self.taken.len() > 4 {
            let (old, _) = self.taken.remove(self.random.below(4) as usize);
            self.volume.delete_snapshot(&old).unwrap();
        }
        let name = format!("s{}", self.random.word());
        let taken = self.volume.snapshot(&name).unwrap();
        self.taken.push((taken, tree(&self.volume)));
    }

    fn check(&self) {
        let present = tree(&self.volume);
        for (nth, (snapshot, wanted)) in self.taken.iter().enumerate() {
            same(&tree(&self.volume.at(snapshot).unwrap()), wanted);
            judge(&self.volume.diff(snapshot, None).unwrap(), wanted, &present);
            for (later, then) in &self.taken[nth..] {
                let changes = self.volume.diff(snapshot, Some(later)).unwrap();
                judge(&changes, wanted, then);
            }
        }
    }

    fn rollback(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let nth = self.below(self.taken.len());
        let before = tree(&self.volume);
        let (snapshot, wanted) = &self.taken[nth];
        self.volume.rollback(snapshot).unwrap();
        same(&tree(&self.volume), wanted);
        let automatic = self.volume.snapshots().unwrap().pop().unwrap();
        assert!(automatic.is_automatic());
        same(&tree(&self.volume.at(&automatic).unwrap()), &before);
        self.volume.delete_snapshot(&automatic).unwrap();
    }
}

#[test]
fn snapshots_of_a_log_are_what_they_were() {
    for seed in 0..scaled(6) {
        eprintln!("reproduce: seed {seed} of snapshots_of_a_log_are_what_they_were");
        let host = tempfile::tempdir().unwrap();
        let image = host.path().join("volume.img");
        let mut run = Run {
            volume: options().create(&image).unwrap(),
            image,
            random: Random::new(seed),
            taken: Vec::new(),
        };
        for _ in 0..4 {
            for _ in 0..40 {
                run.step();
            }
            run.check();
            run.rollback();
            run.reopen();
            run.check();
        }
        run.volume.close().unwrap();
    }
}
