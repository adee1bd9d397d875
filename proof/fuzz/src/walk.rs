//! Everything a mounted volume can be asked, errors ignored.

use crate::sample::Mounted;
use std::collections::HashSet;
use std::sync::Arc;
use varve_device::Block;
use varve_fs::directory::{self, DirectoryBlocks, Key};
use varve_fs::{Caller, FileKind, InodeNo, Layout, Rename, Result, SetAttr, View, Whence};
use varve_lfs::Lfs;

const LIVE: View = View::Live;
/// Names seen before a walk gives up: crafted directories share children.
const NAMES_MAX: usize = 4000;
/// Inodes whose content is read.
const LOOKED_AT: usize = 50;

/// Walks, checks, changes, cleans, and unmounts.
pub fn all(lfs: &Arc<Lfs>, system: &Mounted) {
    let seen = walk(system);
    for &(ino, kind) in &seen {
        if kind == FileKind::Directory {
            check_directory(lfs, ino);
        }
    }
    for segment in 0..lfs.geometry_of_volume().segment_count {
        if let Ok(contents) = lfs.mechanism().read_segment(segment) {
            let _ = lfs.mechanism().bmapv(&contents);
        }
    }
    let _ = (system.statfs(), lfs.unfinished(), lfs.stopped());
    change(system, &seen);
    let _ = lfs.cleaner().clean_batch();
    let _ = system.maintain();
    system.drop_caches();
    lfs.drop_caches();
    walk(system);
    let _ = system.unmount();
    let _ = lfs.unmount();
}

/// Every inode reached from the root, each once.
pub fn walk(system: &Mounted) -> Vec<(InodeNo, FileKind)> {
    let mut queue = vec![(InodeNo::ROOT, FileKind::Directory)];
    let mut seen = HashSet::from([InodeNo::ROOT]);
    let mut all = Vec::new();
    while let Some((ino, kind)) = queue.pop() {
        all.push((ino, kind));
        if all.len() <= LOOKED_AT {
            look(system, ino);
        }
        let mut found = Vec::new();
        let _ = system.readdir(ino, 2, &mut |entry| {
            found.push((entry.name.to_vec(), entry.ino, entry.kind));
            found.len() < NAMES_MAX
        });
        for (name, ino, kind) in found {
            if seen.len() < NAMES_MAX && seen.insert(ino) {
                let _ = system.lookup(&Caller::root(), all[all.len() - 1].0, &name);
                queue.push((ino, kind));
            }
        }
    }
    all
}

/// Attributes and content of one inode.
fn look(system: &Mounted, ino: InodeNo) {
    let root = &Caller::root();
    let Ok(attr) = system.getattr(ino) else {
        return;
    };
    let _ = system.readlink(ino);
    let _ = system.access(root, ino, 7);
    for name in system.listxattr(root, ino).unwrap_or_default() {
        let _ = system.getxattr(root, ino, &name);
    }
    let mut buffer = vec![0; 16 << 10];
    let _ = system.read(ino, 0, &mut buffer);
    let _ = system.read(ino, attr.size.saturating_sub(100), &mut buffer);
    let mut at = 0;
    for whence in [Whence::Data, Whence::Hole].repeat(8) {
        let Ok(next) = system.seek(ino, at, whence) else {
            break;
        };
        let _ = system.read(ino, next, &mut buffer);
        at = next;
    }
}

/// What a user might do next.
fn change(system: &Mounted, seen: &[(InodeNo, FileKind)]) {
    let root = &Caller::root();
    let top = InodeNo::ROOT;
    if let Ok(made) = system.mknod(root, top, b"new", 0o100_644, 0) {
        let _ = system.write(root, made.ino, 3000, &[9; 6000]);
        let _ = system.fsync(made.ino, false);
        let _ = system.link(root, made.ino, top, b"newer");
    }
    let few = seen.iter().rev().take(6).chain(seen.iter().take(3));
    for &(ino, _) in few {
        let _ = system.write(root, ino, 70_000, &[8; 700]);
        let _ = system.fallocate(root, ino, 0, 1 << 20, 64 << 10);
        let _ = system.fallocate(root, ino, 3, 0, 8192);
        let _ = system.setxattr(root, ino, b"user.new", &[1; 200], false, false);
        let cut = SetAttr {
            size: Some(50),
            mode: Some(0o700),
            ..SetAttr::default()
        };
        let _ = system.setattr(root, ino, &cut);
        let _ = system.mkdir(root, ino, b"made", 0o755);
    }
    let _ = system.sync();
    let _ = system.checkpoint();
    for name in [&b"tiny"[..], b"sparse", b"late", b"long", b"many", b"new"] {
        let _ = system.rename(root, top, name, top, b"moved", Rename::default());
        let _ = system.unlink(root, top, b"moved");
        let _ = system.unlink(root, top, name);
        let _ = system.rmdir(root, top, name);
    }
    let _ = system.write_back();
    let _ = system.sync();
    let _ = system.checkpoint();
}

/// A directory's blocks, straight from the layout.
struct Blocks<'a> {
    lfs: &'a Lfs,
    ino: InodeNo,
}

impl DirectoryBlocks for Blocks<'_> {
    fn read(&mut self, block: u64) -> Result<Arc<Block>> {
        let mapped = self.lfs.map(LIVE, self.ino, block, 1)?;
        let mut read = self.lfs.read(self.ino, &mapped)?;
        Ok(read.pop().unwrap_or_default())
    }

    fn write(&mut self, _: u64, _: Vec<u8>) {
        unreachable!("a check changes nothing");
    }

    fn free(&mut self, _: u64) {
        unreachable!("a check changes nothing");
    }

    fn exists(&mut self, block: u64) -> Result<bool> {
        Ok(self.next_existing(block)? == Some(block))
    }

    fn next_existing(&mut self, from: u64) -> Result<Option<u64>> {
        self.lfs.next_mapped(LIVE, self.ino, from)
    }
}

fn check_directory(lfs: &Lfs, ino: InodeNo) {
    let Ok(inode) = lfs.read_inode(LIVE, ino) else {
        return;
    };
    let geometry = lfs.geometry();
    let key = Key {
        hash_seed: geometry.hash_seed,
        case_fold: geometry.case_fold,
        ino,
        version: inode.version,
    };
    let _ = directory::check(&key, &mut Blocks { lfs, ino }, &mut |_| {});
}
