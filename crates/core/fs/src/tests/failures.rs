//! Reads that fail, and a volume that takes no more writes: an operation that fails has
//! changed nothing, and the tree in memory stays consistent.

use super::harness::*;
use crate::{
    Atime, Attr, Caller, Error, FileKind, FileSystem, InodeNo, Layout, MemoryOptions, Options,
    Rename, Result, SetAttr,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Makes every access to the stored state fail from the `after`th on.
fn fail_reads(fs: &Fs, after: u64) {
    let mut left = after;
    let fails = move || {
        let fails = left == 0;
        left = left.saturating_sub(1);
        fails
    };
    *fs.layout().fail_read.lock() = Some(Box::new(fails));
}

fn mend(fs: &Fs) {
    *fs.layout().fail_read.lock() = None;
}

/// Runs `operation` with the first, the second, ... access to the stored state failing,
/// until none does; an operation that failed must have changed nothing.
fn fails_whole<T>(fs: &Fs, what: &str, operation: impl Fn() -> Result<T>) {
    let before = Tree::of(fs);
    for after in 0..200 {
        fs.drop_caches();
        fail_reads(fs, after);
        let done = operation();
        mend(fs);
        match done {
            Ok(_) => return,
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }), "{what}: {error}");
                fs.drop_caches();
                Tree::of(fs).same_as(&before, &format!("{what}, read {after}"));
            }
        }
    }
    panic!("{what} never succeeds");
}

/// The visible state of a file, except for the time of the last read.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    attr: Attr,
    content: Vec<u8>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The visible state of a tree, by path.
#[derive(Debug, PartialEq)]
struct Tree {
    files: BTreeMap<String, Seen>,
}

impl Tree {
    /// Reads the whole tree, and asserts that it is consistent with itself and with the
    /// space account.
    fn of(fs: &Fs) -> Tree {
        let mut tree = Tree {
            files: BTreeMap::new(),
        };
        let mut names: BTreeMap<InodeNo, u32> = BTreeMap::new();
        let mut directories = vec![(String::new(), ROOT)];
        tree.look(fs, "", ROOT);
        while let Some((path, directory)) = directories.pop() {
            let mut entries = Vec::new();
            fs.readdir(directory, 2, &mut |entry| {
                entries.push((entry.name.to_vec(), entry.ino, entry.kind));
                true
            })
            .unwrap_or_else(|error| panic!("{path}/ cannot be listed: {error}"));
            let mut links = 2;
            for (name, ino, kind) in entries {
                let path = format!("{path}/{}", String::from_utf8_lossy(&name));
                let found = fs.lookup(&Caller::root(), directory, &name);
                let found = found.unwrap_or_else(|error| panic!("{path} is listed: {error}"));
                assert_eq!((found.ino, found.kind), (ino, kind), "{path}");
                *names.entry(ino).or_default() += 1;
                tree.look(fs, &path, ino);
                if kind == FileKind::Directory {
                    assert_eq!(fs.parent(ino).unwrap(), directory, "{path}");
                    links += 1;
                    directories.push((path, ino));
                }
            }
            let nlink = fs.getattr(directory).unwrap().nlink;
            assert_eq!(nlink, links, "links of {path}/");
        }
        for (path, seen) in &tree.files {
            if seen.attr.kind != FileKind::Directory {
                assert_eq!(seen.attr.nlink, names[&seen.attr.ino], "links of {path}");
            }
        }
        tree.assert_accounted(fs);
        tree
    }

    fn look(&mut self, fs: &Fs, path: &str, ino: InodeNo) {
        let attr = fs.getattr(ino).unwrap();
        let content = match attr.kind {
            FileKind::Regular => fs.t_read(ino),
            FileKind::Symlink => fs.readlink(ino).unwrap(),
            _ => Vec::new(),
        };
        let root = Caller::root();
        let xattrs = fs.listxattr(&root, ino).unwrap();
        let value = |name: Vec<u8>| {
            let value = fs.getxattr(&root, ino, &name).unwrap();
            (name, value)
        };
        let seen = Seen {
            attr: Attr {
                atime: attr.btime,
                ..attr
            },
            content,
            xattrs: xattrs.into_iter().map(value).collect(),
        };
        self.files.insert(path.to_owned(), seen);
    }

    /// Asserts that the account equals the usage of the tree.
    fn assert_accounted(&self, fs: &Fs) {
        let inos: BTreeMap<InodeNo, &String> = self
            .files
            .iter()
            .map(|(path, seen)| (seen.attr.ino, path))
            .collect();
        let mut taken = crate::Usage::default();
        for ino in inos.keys() {
            let vnode = fs.vnode(*ino).unwrap();
            taken = crate::account::sum(taken, vnode.read().usage());
        }
        assert_eq!(fs.usage(), taken, "the account");
    }

    fn regular_files(&self) -> Vec<InodeNo> {
        let regular = |seen: &&Seen| seen.attr.kind == FileKind::Regular;
        let files = self.files.values().filter(regular);
        files.map(|seen| seen.attr.ino).collect()
    }

    fn same_as(&self, other: &Tree, when: &str) {
        let paths = |tree: &Tree| tree.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(paths(self), paths(other), "{when}");
        for (path, seen) in &self.files {
            let before = &other.files[path];
            assert_eq!(seen.attr, before.attr, "{when}: {path}");
            assert!(seen.content == before.content, "{when}: content of {path}");
            assert_eq!(seen.xattrs, before.xattrs, "{when}: {path}");
        }
    }
}

/// Makes a directory of several nodes: the root at block 0 and leaves.
fn many_names(fs: &Fs, parent: InodeNo, name: &str, count: usize) -> InodeNo {
    let directory = fs.t_mkdir(parent, name);
    for number in 0..count {
        fs.t_create(directory, &format!("{number:0>60}"));
    }
    directory
}

#[test]
fn what_a_failed_append_took_along_stays_in_memory() {
    for applied in [false, true] {
        let options = Options {
            relatime: Atime::Never, // the list of files read would reference them
            ..Default::default()
        };
        let fs = fresh_with(MemoryOptions::default(), options);
        let old = fs.t_file("old", b"before");
        let moved = fs.t_mkdir(ROOT, "moved");
        fs.sync().unwrap();
        fs.layout().apply_failed.store(applied, Relaxed);
        fs.layout().fail_append.store(true, Relaxed);
        let d = fs.t_mkdir(ROOT, "d");
        let new = fs.t_create(d, "new").ino;
        fs.t_write(new, 0, b"inline");
        fs.t_write(old, 0, b"AFTER!");
        fs.rename(
            &Caller::root(),
            ROOT,
            b"moved",
            d,
            b"moved",
            Rename::default(),
        )
        .unwrap();
        let before = Tree::of(&fs);
        assert!(fs.sync().is_err());
        fs.drop_caches();
        Tree::of(&fs).same_as(&before, "after the failure");
        assert_eq!(fs.parent(moved).unwrap(), d);
    }
}

#[test]
fn a_directory_whose_last_name_goes_while_reads_fail() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    fs.t_mkdir(d, "only");
    fs.sync().unwrap();
    // Its block is in the cache, the block's place is not.
    fs.drop_caches();
    assert_eq!(fs.t_names(d), ["only"]);
    fs.lookup(&Caller::root(), d, b"only").unwrap();
    fail_reads(&fs, 0);
    let removed = fs.rmdir(&Caller::root(), d, b"only");
    mend(&fs);
    assert!(matches!(removed, Err(Error::Damaged { .. })));
    fs.drop_caches();
    assert_eq!(fs.t_names(d), ["only"]);
    fs.rmdir(&Caller::root(), d, b"only").unwrap();
    Tree::of(&fs);
    fs.unmount().unwrap();
}

#[test]
fn operations_on_large_directories_fail_whole_or_not_at_all() {
    let fs = fresh();
    let root = Caller::root();
    let big = many_names(&fs, ROOT, "big", 150);
    let other = many_names(&fs, ROOT, "other", 150);
    let below = fs.t_mkdir(big, "below");
    fs.t_create(below, "x");
    let rename = |from, old: &[u8], to, new: &[u8], exchange| {
        let flags = Rename {
            no_replace: false,
            exchange,
            ..Rename::default()
        };
        fs.rename(&root, from, old, to, new, flags)
    };
    let numbered = |number: usize| format!("{number:0>60}").into_bytes();
    // Enough names that leaves are split, and emptied again.
    for number in 0..20 {
        fs.sync().unwrap();
        let name = format!("{number:x>60}");
        fails_whole(&fs, "create", || {
            fs.mknod(&root, big, name.as_bytes(), 0o644, 0)
        });
        fs.sync().unwrap();
        fails_whole(&fs, "rename", || {
            rename(big, name.as_bytes(), big, &numbered(1_000 + number), false)
        });
        fs.sync().unwrap();
        fails_whole(&fs, "rename over a name elsewhere", || {
            rename(big, &numbered(number), other, &numbered(2 * number), false)
        });
        fs.sync().unwrap();
        fails_whole(&fs, "exchange", || {
            rename(
                big,
                &numbered(20 + number),
                other,
                &numbered(2 * number + 1),
                true,
            )
        });
        fs.sync().unwrap();
        fails_whole(&fs, "unlink", || {
            fs.unlink(&root, other, &numbered(2 * number))
        });
    }
    fails_whole(&fs, "move a directory", || {
        rename(big, b"below", ROOT, b"below", false)
    });
    fs.unmount().unwrap();
}

#[test]
fn attributes_are_set_all_or_none() {
    let fs = fresh();
    let root = Caller::root();
    let f = fs.t_file("f", &pattern(9_000, 1));
    // Two named entries and a mask, which mode bits cannot express.
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, !0),
        (2, 6, 7),
        (4, 4, !0),
        (0x10, 6, !0),
        (0x20, 4, !0),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let access = b"system.posix_acl_access";
    fs.setxattr(&root, f, access, &list, false, false).unwrap();
    fs.t_truncate(f, 8_500);
    fs.sync().unwrap();
    let set = SetAttr {
        mode: Some(0o600),
        uid: Some(7),
        gid: Some(8),
        size: Some(20_000),
        ..Default::default()
    };
    fails_whole(&fs, "setattr", || fs.setattr(&root, f, &set));
    // A list that does not fit must not change the mode either.
    fs.setxattr(&root, f, b"user.a", &[0; 65_000], false, false)
        .unwrap();
    fs.setxattr(&root, f, b"user.b", &[0; 65_000], false, false)
        .unwrap();
    fs.removexattr(&root, f, access).unwrap();
    for id in 0..200 {
        list.extend(2u16.to_le_bytes());
        list.extend(6u16.to_le_bytes());
        list.extend((1_000 + id as u32).to_le_bytes());
    }
    let before = Tree::of(&fs);
    let too_large = fs.setxattr(&root, f, access, &list, false, false);
    assert!(too_large.is_err());
    Tree::of(&fs).same_as(&before, "a list too large");
}

#[test]
fn writes_and_holes_fail_whole_or_not_at_all() {
    let root = Caller::root();
    for length in [0, 50, 100, 5_000, 40_000] {
        let fs = fresh();
        let f = fs.t_file("f", &pattern(length, 1));
        fs.sync().unwrap();
        // Bytes beyond the new size must not reappear.
        fs.t_truncate(f, length as u64 * 3 / 4);
        fs.sync().unwrap();
        fails_whole(&fs, "write", || {
            fs.write(&root, f, 45_000, &pattern(3_000, 2))
        });
        fs.sync().unwrap();
        fails_whole(&fs, "write within", || {
            fs.write(&root, f, 1_000, &pattern(9_000, 3))
        });
        fs.sync().unwrap();
        fails_whole(&fs, "punch", || fs.fallocate(&root, f, 3, 2_000, 13_000));
        fs.sync().unwrap();
        fs.t_truncate(f, 47_000);
        fs.sync().unwrap();
        fails_whole(&fs, "reserve", || fs.fallocate(&root, f, 0, 3_000, 60_000));
        fs.sync().unwrap();
        fails_whole(&fs, "truncate", || {
            let set = SetAttr {
                size: Some(6_100),
                ..Default::default()
            };
            fs.setattr(&root, f, &set)
        });
        fs.unmount().unwrap();
        assert_eq!(crash(&fs, None).t_read(f), fs.t_read(f));
    }
}

/// Number of files whose content is changed; few, so that each is changed often.
const FILES: usize = 6;

/// A random run: few names in few directories, one of them large.
struct Run {
    fs: Fs,
    rng: Xoshiro256PlusPlus,
    directories: Vec<InodeNo>,
    /// Number of failed accesses to the stored state.
    struck: Arc<AtomicU64>,
}

impl Run {
    fn new(seed: u64) -> Run {
        eprintln!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let memory = MemoryOptions {
            group_bytes: 65_536,
            hash_seed: rng.random(),
            case_fold: rng.random_bool(0.2),
            ..Default::default()
        };
        let options = Options {
            cache_bytes: 1 << 20,
            strict_order: rng.random_bool(0.1),
            relatime: [Atime::Never, Atime::Relatime][rng.random_range(0..2)],
            ..Default::default()
        };
        let fs = fresh_with(memory, options);
        let x = fs.t_mkdir(ROOT, "x");
        let z = fs.t_mkdir(x, "z");
        let many = many_names(&fs, ROOT, "many", 70);
        fs.sync().unwrap();
        Run {
            fs,
            rng,
            directories: vec![ROOT, x, z, many],
            struck: Arc::default(),
        }
    }

    /// Makes accesses to the stored state fail at random from here on.
    fn fail_reads(&mut self) {
        let share = [0.02, 0.1, 0.4, 1.0][self.rng.random_range(0..4)];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.rng.random());
        let struck = Arc::clone(&self.struck);
        let fails = move || {
            let fails = rng.random_bool(share);
            struck.fetch_add(fails.into(), Relaxed);
            fails
        };
        *self.fs.layout().fail_read.lock() = Some(Box::new(fails));
    }

    fn name(&mut self) -> Vec<u8> {
        if self.rng.random_bool(0.3) {
            return format!("{:0>60}", self.rng.random_range(0..90)).into_bytes();
        }
        ["a", "b", "A", "c"][self.rng.random_range(0..4)].into()
    }

    /// Runs one random operation, on one of `files` or some name. Returns its result, and
    /// whether it may fail half done.
    fn act(&mut self, files: &[InodeNo]) -> (Result<()>, bool) {
        let caller = Caller::root();
        let mut any = || self.directories[self.rng.random_range(0..self.directories.len())];
        let (d, to) = (any(), any());
        let (name, new) = (self.name(), self.name());
        let (fs, rng) = (&self.fs, &mut self.rng);
        let file = files.get(rng.random_range(0..FILES));
        let file = || file.copied().ok_or(Error::NotFound);
        let (offset, length) = (rng.random_range(0..50_000), rng.random_range(1..30_000));
        let done = match rng.random_range(0..20) {
            0 | 1 => fs.mknod(&caller, d, &name, 0o644, 0).map(drop),
            2 => fs.mkdir(&caller, d, &name, 0o755).map(drop),
            3 => {
                let target = vec![b't'; rng.random_range(1..4_000)];
                fs.symlink(&caller, d, &name, &target).map(drop)
            }
            4 | 5 => fs.unlink(&caller, d, &name),
            6 => fs.rmdir(&caller, d, &name),
            7..=9 => {
                let flags = Rename {
                    no_replace: false,
                    exchange: rng.random_bool(0.3),
                    whiteout: rng.random_bool(0.2),
                };
                fs.rename(&caller, d, &name, to, &new, flags)
            }
            10 => file().and_then(|ino| fs.link(&caller, ino, to, &new).map(drop)),
            11..=13 => {
                let data = vec![rng.random_range(1..=255u8); length as usize];
                file().and_then(|ino| fs.write(&caller, ino, offset, &data).map(drop))
            }
            14 => {
                let set = SetAttr {
                    size: rng.random_bool(0.7).then_some(offset),
                    mode: rng.random_bool(0.5).then(|| rng.random_range(0..0o1000)),
                    ..Default::default()
                };
                file().and_then(|ino| fs.setattr(&caller, ino, &set).map(drop))
            }
            15 => {
                let mode = [0, 1, 3, 16][rng.random_range(0..4)];
                // The zeros are made first, and space for them is reserved after that.
                let done = file().and_then(|ino| fs.fallocate(&caller, ino, mode, offset, length));
                return (done, mode == 16);
            }
            16 => {
                let value = vec![1; rng.random_range(0..3_000)];
                file().and_then(|ino| fs.setxattr(&caller, ino, b"user.a", &value, false, false))
            }
            17 => file().and_then(|ino| {
                let copied = fs.copy_range(&caller, ino, 0, ino, offset, length);
                copied.map(drop)
            }),
            18 => file().and_then(|ino| fs.fsync(ino, rng.random_bool(0.5))),
            _ => match rng.random_range(0..3) {
                0 => fs.sync(),
                1 => fs.maintain(),
                _ => fs.checkpoint(),
            },
        };
        (done, false)
    }

    /// Removes removed directories from the list, so that new ones are made.
    fn find_directories(&mut self) {
        let fs = &self.fs;
        self.directories
            .retain(|ino| fs.getattr(*ino).is_ok_and(|attr| attr.nlink > 0));
    }

    /// Runs an operation, and asserts that it has changed nothing if it failed.
    fn step(&mut self, step: usize, reads_fail: bool) {
        let before = Tree::of(&self.fs);
        if self.rng.random_bool(0.7) {
            self.fs.drop_caches();
        }
        if reads_fail {
            self.fail_reads();
        }
        let (done, in_steps) = self.act(&before.regular_files());
        mend(&self.fs);
        self.fs.drop_caches();
        let after = Tree::of(&self.fs);
        if let Err(error) = done
            && !in_steps
        {
            after.same_as(&before, &format!("step {step}: {error}"));
        }
        self.find_directories();
    }
}

#[test]
fn any_operation_fails_whole_while_reads_fail() {
    let mut struck = 0;
    for seed in seeds(0, 8) {
        let mut run = Run::new(seed);
        for step in 0..150 {
            run.step(step, true);
        }
        struck += run.struck.load(Relaxed);
        let before = Tree::of(&run.fs);
        run.fs.unmount().unwrap();
        assert_eq!(run.fs.statistics().dirty_bytes, 0, "seed {seed}");
        assert_eq!(run.fs.layout().usage(), run.fs.usage(), "seed {seed}");
        Tree::of(&crash(&run.fs, None)).same_as(&before, &format!("seed {seed}, remounted"));
    }
    assert!(struck > 0, "no read failed");
}

#[test]
fn the_tree_stays_whole_when_the_volume_stops() {
    for seed in seeds(1_000, 8) {
        let mut run = Run::new(seed);
        let moment = run.rng.random_range(0..100);
        let reads_fail = run.rng.random_bool(0.5);
        for step in 0..150 {
            if step == moment {
                let applied = run.rng.random_bool(0.5);
                run.fs.layout().apply_failed.store(applied, Relaxed);
                run.fs.layout().fail_append.store(true, Relaxed);
            }
            run.step(step, reads_fail);
        }
    }
}

#[test]
fn an_unfinished_file_that_cannot_be_read_does_not_keep_the_volume_from_mounting() {
    let fs = fresh();
    for n in 0..3 {
        let f = fs.t_file(&format!("f{n}"), &[7; 50_000]);
        fs.retain(f).unwrap();
        fs.t_unlink(&format!("f{n}"));
    }
    let kept = fs.t_file("kept", b"kept");
    fs.sync().unwrap();
    // The first access to the stored state is for the root.
    for after in 1..20 {
        let crashed = Recorder::new(fs.layout().memory().crash());
        let mut left = after;
        *crashed.fail_read.lock() = Some(Box::new(move || {
            left -= 1;
            left < 0
        }));
        let again = FileSystem::mount(crashed, clock(), Options::default()).unwrap();
        mend(&again);
        assert_eq!(again.t_read(kept), b"kept");
        again.sync().unwrap();
        // The next mount finishes the work that this one could not.
        let crashed = Recorder::new(again.layout().memory().crash());
        let last = FileSystem::mount(crashed, clock(), Options::default()).unwrap();
        assert_eq!(last.usage().inodes, 2);
    }
}
