//! Many threads on one volume with the cleaner at work: on the library, and on a mount.
//! Each thread has a tree of its own and knows its contents to the byte. In a common tree
//! any change may happen, but a block is never torn, and no call returns an I/O error. In
//! the end the volume is closed, checked with all its data, opened again, and compared
//! once more.
//!
//! `VARVE_STRESS_SECONDS` (default 4) is the time for each of the two.

mod support;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::mounted::{Mount, no_fuse};
use support::{Scratch, varve};
use varve::admin::{self, Statistics};
use varve::{OpenOptions, Volume, VolumeOptions};
use varve_prove::random::Random;

const THREADS: u64 = 6;
/// Number and greatest size of the files that are made and removed in a thread's own
/// tree.
const FILES: u64 = 12;
const FILE_BYTES: u64 = 300_000;
/// Size of a lasting file in which single blocks are overwritten, so that the volume is
/// full enough for the cleaner to have live data to move.
const BALLAST_BYTES: u64 = 2 << 20;
const BLOCK: usize = 4096;

/// The operations of the threads, independent of the tree below.
trait Tree: Sync {
    fn write(&self, path: &str, offset: u64, data: &[u8]) -> io::Result<()>;
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    fn truncate(&self, path: &str, size: u64) -> io::Result<()>;
    fn fsync(&self, path: &str) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, path: &str) -> io::Result<()>;
    fn mkdir(&self, path: &str) -> io::Result<()>;
    fn rmdir(&self, path: &str) -> io::Result<()>;
    fn list(&self, path: &str) -> io::Result<usize>;
}

impl Tree for Volume {
    fn write(&self, path: &str, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).open(self, path)?;
        file.write_all_at(data, offset)
    }
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        Ok(Volume::read(self, path)?)
    }
    fn truncate(&self, path: &str, size: u64) -> io::Result<()> {
        Ok(OpenOptions::new()
            .write(true)
            .open(self, path)?
            .set_len(size)?)
    }
    fn fsync(&self, path: &str) -> io::Result<()> {
        Ok(self.open_file(path)?.sync_all()?)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(Volume::rename(self, from, to)?)
    }
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(self.hard_link(from, to)?)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        Ok(self.remove_file(path)?)
    }
    fn mkdir(&self, path: &str) -> io::Result<()> {
        Ok(self.create_dir(path)?)
    }
    fn rmdir(&self, path: &str) -> io::Result<()> {
        Ok(self.remove_dir(path)?)
    }
    fn list(&self, path: &str) -> io::Result<usize> {
        let mut count = 0;
        for entry in self.read_dir(path)? {
            entry?;
            count += 1;
        }
        Ok(count)
    }
}

/// A directory of the host, on which a volume is mounted.
struct Host(PathBuf);

impl Host {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

impl Tree for Host {
    fn write(&self, path: &str, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut options = std::fs::File::options();
        options.write(true).create(true).truncate(false);
        options.open(self.path(path))?.write_all_at(data, offset)
    }
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.path(path))
    }
    fn truncate(&self, path: &str, size: u64) -> io::Result<()> {
        let file = std::fs::File::options().write(true).open(self.path(path));
        file?.set_len(size)
    }
    fn fsync(&self, path: &str) -> io::Result<()> {
        std::fs::File::open(self.path(path))?.sync_all()
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::hard_link(self.path(from), self.path(to))
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path))
    }
    fn mkdir(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir(self.path(path))
    }
    fn rmdir(&self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(self.path(path))
    }
    fn list(&self, path: &str) -> io::Result<usize> {
        let mut count = 0;
        for entry in std::fs::read_dir(self.path(path))? {
            entry?;
            count += 1;
        }
        Ok(count)
    }
}

/// The expected contents of a thread's own tree.
struct Own {
    dir: String,
    ballast: (String, Vec<u8>),
    files: BTreeMap<String, Vec<u8>>,
    random: Random,
    /// Description of each operation.
    history: Vec<String>,
}

impl Own {
    fn new(tree: &dyn Tree, seed: u64, thread: u64) -> Self {
        let dir = format!("own{thread}");
        tree.mkdir(&dir).unwrap();
        let mut own = Own {
            ballast: (format!("{dir}/ballast"), Vec::new()),
            dir,
            files: BTreeMap::new(),
            random: Random::new(seed * 1000 + thread),
            history: Vec::new(),
        };
        own.ballast.1 = own.bytes(BALLAST_BYTES);
        tree.write(&own.ballast.0, 0, &own.ballast.1).unwrap();
        own
    }

    fn name(&mut self) -> String {
        format!("{}/f{}", self.dir, self.random.below(FILES))
    }

    /// An existing file.
    fn some(&mut self) -> Option<String> {
        let count = self.files.len() as u64;
        let at = (count > 0).then(|| self.random.below(count))?;
        self.files.keys().nth(at as usize).cloned()
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        let word = self.random.word();
        (0..length)
            .map(|at| (word >> (at % 8 * 8)) as u8 ^ (at >> 3) as u8)
            .collect()
    }

    fn write(&mut self, tree: &dyn Tree) {
        let name = self.name();
        let length = 1 + self.random.below(60_000);
        let offset = self.random.below(FILE_BYTES - length);
        let data = self.bytes(length);
        self.note(format!("write {name} {offset}+{length}"));
        tree.write(&name, offset, &data).unwrap();
        let held = self.files.entry(name).or_default();
        let end = (offset + length) as usize;
        held.resize(held.len().max(end), 0);
        held[offset as usize..end].copy_from_slice(&data);
    }

    fn shift_ballast(&mut self, tree: &dyn Tree) {
        let offset = self.random.below(BALLAST_BYTES - BLOCK as u64);
        let data = self.bytes(BLOCK as u64);
        tree.write(&self.ballast.0, offset, &data).unwrap();
        self.ballast.1[offset as usize..][..BLOCK].copy_from_slice(&data);
    }

    fn act(&mut self, tree: &dyn Tree) {
        let what = self.random.below(16);
        let Some(name) = self.some().filter(|_| what > 6) else {
            return self.write(tree);
        };
        match what {
            7 => {
                self.note(format!("remove {name}"));
                tree.remove(&name).unwrap();
                self.files.remove(&name);
            }
            8 => {
                let other = self.name();
                self.note(format!("rename {name} {other}"));
                tree.rename(&name, &other).unwrap();
                let held = self.files.remove(&name).unwrap();
                self.files.insert(other, held);
            }
            9 => {
                let size = self.random.below(FILE_BYTES);
                self.note(format!("truncate {name} {size}"));
                tree.truncate(&name, size).unwrap();
                self.files.get_mut(&name).unwrap().resize(size as usize, 0);
            }
            10 => {
                self.note(format!("fsync {name}"));
                tree.fsync(&name).unwrap();
            }
            11 => assert_eq!(tree.list(&self.dir).unwrap(), self.files.len() + 1),
            12 | 13 => self.shift_ballast(tree),
            _ => self.compare(tree, &name, &self.files[&name]),
        }
    }

    fn note(&mut self, what: String) {
        self.history.push(what);
    }

    fn compare_all(&self, tree: &dyn Tree) {
        let all = self
            .files
            .iter()
            .chain([(&self.ballast.0, &self.ballast.1)]);
        all.for_each(|(name, held)| self.compare(tree, name, held));
        assert_eq!(tree.list(&self.dir).unwrap(), self.files.len() + 1);
    }

    fn compare(&self, tree: &dyn Tree, name: &str, held: &[u8]) {
        let found = tree.read(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        if found == held {
            return;
        }
        let differs = |at: &usize| found.get(*at) != held.get(*at);
        let ends = 0..found.len().max(held.len());
        let (first, last) = (ends.clone().find(differs), ends.rev().find(differs));
        let again = tree.read(name).is_ok_and(|again| again == held);
        let of_it = self.history.iter().filter(|line| line.contains(name));
        let before: Vec<&str> = of_it.map(String::as_str).collect();
        panic!(
            "{name}: {} bytes, {} expected, other from {first:?} to {last:?}, found {:x?} there; \
             right when read again: {again}; history:\n{}",
            found.len(),
            held.len(),
            first.map(|at| &found[at..(at + 8).min(found.len())]),
            before[before.len().saturating_sub(40)..].join("\n")
        );
    }
}

/// A block of one repeated word, so that a torn one is recognised.
fn stamped(random: &mut Random) -> Vec<u8> {
    random.word().to_le_bytes().repeat(BLOCK / 8)
}

/// Runs an operation in the common tree, where names collide.
fn collide(tree: &dyn Tree, random: &mut Random) -> io::Result<()> {
    let any = |random: &mut Random| {
        let dirs = ["common", "common/x", "common/y", "common/x/z"];
        let dir = *random.pick(&dirs);
        format!("{dir}/{}", random.pick(&["a", "b", "c", "x", "y", "z"]))
    };
    let path = any(random);
    match random.below(10) {
        0 => tree.mkdir(&path),
        1 => tree.rmdir(&path),
        2 => tree.remove(&path),
        3 => tree.rename(&path, &any(random)),
        4 => tree.link(&path, &any(random)),
        5 => tree.fsync(&path),
        6 => tree.list(&path).map(|_| ()),
        7 | 8 => tree.write(&path, random.below(40) * BLOCK as u64, &stamped(random)),
        _ => {
            for block in tree.read(&path)?.chunks(BLOCK) {
                let stamp = &block[..8];
                let torn = block.chunks(8).any(|word| word != stamp);
                assert!(!torn, "{path}: a torn block");
            }
            Ok(())
        }
    }
}

/// Refusals that colliding names explain.
fn is_expected(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    let busy = matches!(
        error.kind(),
        NotFound
            | AlreadyExists
            | IsADirectory
            | NotADirectory
            | DirectoryNotEmpty
            | InvalidInput
            | ResourceBusy
            | PermissionDenied
            | StaleNetworkFileHandle
    );
    busy || error.raw_os_error() == Some(1)
}

/// Runs all threads for the time; returns the contents of their own trees.
fn work(tree: &dyn Tree, seed: u64) -> Vec<Own> {
    let seconds = std::env::var("VARVE_STRESS_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(4.0);
    for dir in ["common", "common/x", "common/y"] {
        tree.mkdir(dir).unwrap();
    }
    let owns: Vec<Own> = (0..THREADS).map(|n| Own::new(tree, seed, n)).collect();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let run = |mut own: Own| {
        let mut steps = 0;
        while Instant::now() < end {
            for _ in 0..8 {
                own.act(tree);
                if let Err(error) = collide(tree, &mut own.random) {
                    assert!(is_expected(&error), "{error:?}");
                }
                steps += 2;
            }
        }
        own.compare_all(tree);
        (own, steps)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = owns
            .into_iter()
            .map(|own| scope.spawn(move || run(own)))
            .collect();
        let done = threads.into_iter().map(|thread| thread.join().unwrap());
        let (owns, steps): (Vec<Own>, Vec<u64>) = done.unzip();
        eprintln!("{} operations", steps.iter().sum::<u64>());
        owns
    })
}

#[test]
fn threads_on_the_library() {
    let seed = announce("threads_on_the_library");
    let scratch = Scratch::new();
    let image = scratch.volume("image", "32M");
    let mut options = VolumeOptions::new();
    let volume = options.cache(8 << 20).open(&image).unwrap();
    let owns = work(&volume, seed);
    let fs = admin::tree(&volume).log().unwrap();
    let (room, layout) = (volume.statfs(), Statistics::of(fs).layout);
    eprintln!(
        "{} of {} blocks free, {} segments cleaned, {} moved by the cleaner",
        room.free, room.blocks, layout.segments_cleaned, layout.cleaner_bytes
    );
    volume.close().unwrap();
    varve(["fsck", "--data", &image]).expect(0, ": clean");
    let volume = options.open(&image).unwrap();
    owns.iter().for_each(|own| own.compare_all(&volume));
    volume.close().unwrap();
}

#[test]
fn threads_on_a_mount() {
    let seed = announce("threads_on_a_mount");
    if no_fuse() {
        return;
    }
    let mount = Mount::new("32M");
    let tree = Host(mount.dir.clone().into());
    let owns = work(&tree, seed);
    mount.remount_checked();
    owns.iter().for_each(|own| own.compare_all(&tree));
    mount.finish();
}

fn announce(test: &str) -> u64 {
    let seed = std::env::var("VARVE_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(1);
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-cli --test stress {test}");
    seed
}
