//! A tree in memory, and its comparison with another.

use crate::volume::{Volume, mount_options, system_options};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use varve_device::{Device, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileKind, FileSystem, InodeNo};
use varve_lfs::Lfs;

/// The attributes and content of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub ino: u64,
    pub kind: FileKind,
    pub mode: u32,
    pub owner: (u32, u32),
    pub nlink: u32,
    pub size: u64,
    pub mtime: i64,
    pub content: Vec<(u64, Vec<u8>)>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All files by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<String, File>);

impl Tree {
    /// Mounts the volume read-only and reads everything.
    pub fn of(device: &Arc<MemoryDevice>) -> Tree {
        let clock = Arc::new(VirtualClock::new(2_000_000_000_000, 1000));
        let options = varve_lfs::MountOptions {
            read_only: true,
            ..mount_options(1)
        };
        let device: Arc<dyn Device> = device.clone();
        let lfs = Arc::new(Lfs::mount(device, clock.clone(), options).unwrap());
        assert_eq!(lfs.recovery_report().damage, Vec::<String>::new());
        let system = FileSystem::mount(lfs, clock, system_options()).unwrap();
        let mut tree = Tree::default();
        read(&system, InodeNo::ROOT, "", &mut tree);
        tree
    }

    /// Returns the paths that differ from `other`, with the difference.
    pub fn differences(&self, other: &Tree) -> Vec<Difference> {
        let mut all = Vec::new();
        for (path, file) in &self.0 {
            match other.0.get(path) {
                None => all.push(Difference::new(path, file.ino, "is gone")),
                Some(now) if now == file => {}
                Some(now) => all.extend(changes(path, file, now)),
            }
        }
        for (path, file) in &other.0 {
            if !self.0.contains_key(path) {
                all.push(Difference::new(path, file.ino, "is new"));
            }
        }
        all
    }
}

/// One path that differs.
#[derive(Clone, Debug)]
pub struct Difference {
    pub path: String,
    pub ino: u64,
    pub what: String,
}

impl Difference {
    fn new(path: &str, ino: u64, what: impl Into<String>) -> Self {
        Difference {
            path: path.to_owned(),
            ino,
            what: what.into(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (inode {}) {}", self.path, self.ino, self.what)
    }
}

fn changes(path: &str, was: &File, now: &File) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut note = |what: String| all.push(Difference::new(path, was.ino, what));
    if was.kind != now.kind {
        note(format!("WRONG: was {:?}, is {:?}", was.kind, now.kind));
    }
    if was.ino != now.ino {
        note(format!("WRONG: leads to inode {}", now.ino));
    }
    if (was.mode, was.owner, was.mtime) != (now.mode, now.owner, now.mtime) {
        note("has other attributes".into());
    }
    if was.nlink != now.nlink {
        note(format!("has {} links, had {}", now.nlink, was.nlink));
    }
    if was.xattrs != now.xattrs {
        let kept = now.xattrs.iter().all(|(k, v)| was.xattrs.get(k) == Some(v));
        note(
            if kept {
                "lost extended attributes"
            } else {
                "WRONG attributes"
            }
            .into(),
        );
    }
    if was.kind == FileKind::Directory {
        return all;
    }
    if was.size != now.size {
        note(format!("WRONG: size {}, was {}", now.size, was.size));
    }
    if was.content != now.content {
        // Every block must have existed before; missing blocks are holes.
        let before: BTreeMap<u64, &Vec<u8>> = was.content.iter().map(|(o, b)| (*o, b)).collect();
        for (offset, bytes) in &now.content {
            if before.get(offset) != Some(&bytes) {
                note(format!("WRONG bytes at {offset}"));
            }
        }
        note("lost content".into());
    }
    all
}

fn read(system: &FileSystem<Lfs>, ino: InodeNo, path: &str, tree: &mut Tree) {
    let attr = system.getattr(ino).unwrap();
    let mut content = Vec::new();
    match attr.kind {
        FileKind::Regular => {
            let mut at = 0;
            while let Some(start) = data_from(system, ino, at, attr.size) {
                let mut bytes = vec![0; 4096.min((attr.size - start) as usize)];
                let done = system.read(ino, start, &mut bytes).unwrap();
                bytes.truncate(done);
                if bytes.iter().any(|byte| *byte != 0) {
                    content.push((start, bytes));
                }
                at = start + 4096;
            }
        }
        FileKind::Symlink => content.push((0, system.readlink(ino).unwrap())),
        _ => {}
    }
    let caller = Caller::root();
    let mut xattrs = BTreeMap::new();
    for name in system.listxattr(&caller, ino).unwrap() {
        let value = system.getxattr(&caller, ino, &name).unwrap();
        xattrs.insert(name, value);
    }
    let file = File {
        ino: ino.0,
        kind: attr.kind,
        mode: attr.mode,
        owner: (attr.uid, attr.gid),
        nlink: attr.nlink,
        size: if attr.kind == FileKind::Directory {
            0
        } else {
            attr.size
        },
        mtime: if attr.kind == FileKind::Directory {
            0
        } else {
            attr.mtime.seconds
        },
        content,
        xattrs,
    };
    let shown = if path.is_empty() { "/" } else { path };
    tree.0.insert(shown.to_owned(), file);
    if attr.kind == FileKind::Directory {
        let mut children = Vec::new();
        system
            .readdir(ino, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    let name = String::from_utf8_lossy(entry.name).into_owned();
                    children.push((name, entry.ino, entry.kind));
                }
                true
            })
            .unwrap();
        for (name, child, _) in children {
            read(system, child, &format!("{path}/{name}"), tree);
        }
    }
}

/// Returns the first block at or behind `from` that may contain data.
fn data_from(system: &FileSystem<Lfs>, ino: InodeNo, from: u64, size: u64) -> Option<u64> {
    if from >= size {
        return None;
    }
    let whence = varve_fs::Whence::Data;
    let found = system.seek(ino, from, whence).ok()?;
    (found < size).then_some(found / 4096 * 4096)
}

/// Fills a volume so that its metadata takes many blocks of every kind.
pub fn populate(volume: &Volume) {
    volume.populate();
    let root = InodeNo::ROOT;
    let tree = volume.directory(root, "tree");
    let mut at = tree;
    for depth in 0..6 {
        at = volume.directory(at, &format!("level{depth}"));
        let file = volume.file(at, "leaf");
        volume.write(file, 0, &crate::volume::pattern(depth, 3000));
    }
    let crowd = volume.directory(root, "crowd");
    for n in 0..260 {
        volume.file(crowd, &format!("one of the crowd, number {n:04}"));
    }
    for n in (0..260).step_by(3) {
        volume.unlink(crowd, &format!("one of the crowd, number {n:04}"));
    }
    let holes = volume.file(root, "holes");
    for step in 0..40u64 {
        volume.write(holes, step * 600_000, &crate::volume::pattern(step, 9000));
    }
    volume.system.sync().unwrap();
    volume.system.checkpoint().unwrap();
    // The log has been checkpointed more than once.
    let home = volume.lookup(root, "home");
    let again = volume.file(home, "again");
    volume.write(again, 0, &crate::volume::pattern(5, 60_000));
    volume.write(holes, 0, &crate::volume::pattern(6, 4000));
    volume
        .system
        .fallocate(&Caller::root(), holes, 3, 1_200_000, 9000)
        .unwrap();
}
