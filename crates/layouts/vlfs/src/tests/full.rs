//! Volumes filled to the last block: all content can be removed, and the space becomes
//! free.

use super::parts::without;
use super::*;
use crate::format::LONG_XATTRS;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use varve_fs::{Error, Rename, SetAttr};

/// The kind of content that a volume is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    SmallFiles,
    FilesInInodes,
    OneLargeFile,
    DeepDirectories,
    ExtendedAttributes,
}

/// A name, and the directory that contains it.
struct Named {
    parent: InodeNo,
    name: String,
    directory: bool,
}

pub(super) struct Filled {
    pub system: System,
    /// The files and directories in the order of their creation.
    names: Vec<Named>,
}

impl Filled {
    /// Creates a file or a directory; `None` if there is no space.
    pub fn make(&mut self, parent: InodeNo, directory: bool) -> Option<InodeNo> {
        let name = format!("a name of some length, number {}", self.names.len());
        let (bytes, root) = (name.as_bytes(), Caller::root());
        let made = match directory {
            true => (self.system).mkdir(&root, parent, bytes, 0o755),
            false => (self.system).mknod(&root, parent, bytes, 0o100644, 0),
        };
        let ino = match made {
            Ok(made) => made.ino,
            Err(Error::NoSpace) => return None,
            Err(error) => panic!("{error}"),
        };
        self.names.push(Named {
            parent,
            name,
            directory,
        });
        Some(ino)
    }

    /// Writes `bytes` bytes; returns true if they fitted.
    pub fn write(&self, ino: InodeNo, offset: u64, bytes: usize) -> bool {
        match write(&self.system, ino, offset, &vec![7; bytes]) {
            Ok(written) => written == bytes,
            Err(Error::NoSpace) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn attribute(&self, ino: InodeNo, bytes: usize) -> bool {
        let (root, value) = (Caller::root(), vec![7; bytes]);
        let made = (self.system).setxattr(&root, ino, b"user.a", &value, false, false);
        match made {
            Ok(()) => true,
            Err(Error::NoSpace) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates files until there is no space for another one.
    fn make_many(&mut self, content: Content) {
        let mut parent = InodeNo::ROOT;
        loop {
            if content == Content::DeepDirectories {
                match self.make(parent, true) {
                    Some(ino) => parent = ino,
                    None => return,
                }
            }
            let Some(ino) = self.make(parent, false) else {
                return;
            };
            let fitted = match content {
                Content::ExtendedAttributes => self.attribute(ino, 3000),
                Content::FilesInInodes => self.write(ino, 0, 100),
                _ => self.write(ino, 0, 100 + self.names.len() % 50 * 100),
            };
            if !fitted {
                return;
            }
        }
    }

    /// Fills the volume until no block fits.
    pub fn fill(&mut self, content: Content) {
        let filler = self.make(InodeNo::ROOT, false).unwrap();
        if content != Content::OneLargeFile {
            self.make_many(content);
        }
        let mut at = 0;
        while self.write(filler, at, 4096) {
            at += 4096;
        }
        self.system.sync().unwrap();
        while self.write(filler, at, 4096) {
            at += 4096;
        }
    }

    /// Removes everything, children first, with a sync now and then.
    fn empty(&mut self, sync_one_in: usize) {
        let root = Caller::root();
        for (nth, named) in std::mem::take(&mut self.names).iter().enumerate().rev() {
            let name = named.name.as_bytes();
            let removed = match named.directory {
                true => (self.system).rmdir(&root, named.parent, name),
                false => (self.system).unlink(&root, named.parent, name),
            };
            let free = self.system.statfs().free;
            removed.unwrap_or_else(|error| panic!("number {nth}, {free} blocks free: {error}"));
            if nth % sync_one_in == 0 {
                self.system.sync().unwrap();
            }
        }
        self.system.sync().unwrap();
    }
}

/// Removes these files, of which none may be refused; then does as [`ends_sound`].
pub(super) fn ends_empty(system: System, medium: &Arc<dyn Medium>, names: &[String]) {
    for (nth, name) in names.iter().enumerate() {
        let (root, name) = (Caller::root(), name.as_bytes());
        let gone = system.unlink(&root, InodeNo::ROOT, name);
        gone.unwrap_or_else(|error| panic!("{nth} of {}: {error}", names.len()));
    }
    ends_sound(system, medium);
}

/// Unmounts the volume, and checks it.
pub(super) fn ends_sound(system: System, medium: &Arc<dyn Medium>) {
    system.unmount().unwrap();
    system.layout().unmount().unwrap();
    drop(system);
    sound(medium);
}

/// Returns the size of the smallest device on which a volume with such units can be
/// made.
pub(super) fn least_bytes(unit: u32) -> u64 {
    let fits = |blocks: u64| {
        let options = VlfsFormatOptions {
            unit_bytes: unit,
            inodes: inodes_of(blocks * 4096),
            ..VlfsFormatOptions::default()
        };
        plan(&*memory(blocks * 4096, unit), &options, 0).is_ok()
    };
    let (mut low, mut high) = (16, 4096);
    while low + 1 < high {
        let middle = (low + high) / 2;
        match fits(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    high * 4096
}

/// Returns a limit of inode numbers that is not reached before the space ends.
fn inodes_of(bytes: u64) -> u64 {
    bytes / 4096
}

pub(super) fn new(bytes: u64, unit: u32) -> (Arc<dyn Medium>, Filled) {
    let medium = memory(bytes, unit);
    let options = VlfsFormatOptions {
        unit_bytes: unit,
        inodes: inodes_of(bytes),
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock(), &options).unwrap();
    FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
    let filled = Filled {
        system: again(&medium),
        names: Vec::new(),
    };
    (medium, filled)
}

fn fill_and_empty(bytes: u64, unit: u32, content: Content) {
    let what = format!("{bytes} bytes, units of {unit}, {content:?}");
    let (medium, mut filled) = new(bytes, unit);
    let empty = filled.system.statfs().free;
    // Large volumes take a long time.
    let rounds: &[usize] = match bytes <= 5 << 20 {
        true => &[1, 7, usize::MAX],
        false => &[50],
    };
    for &sync_one_in in rounds {
        filled.fill(content);
        let left = filled.system.statfs().free;
        assert!(
            left < 64.max(empty / 16),
            "{what}: {left} of {empty} blocks left"
        );
        filled.empty(sync_one_in);
        let free = filled.system.statfs().free;
        assert!(
            free * 100 >= empty * 95,
            "{what}: {free} of {empty} blocks came back"
        );
    }
    ends_sound(filled.system, &medium);
}

#[test]
fn what_fills_a_volume_to_the_last_block_can_be_removed() {
    for unit in [4096, 512] {
        for mebibytes in [0, 2, 5, 20, 36, 64] {
            let bytes = least_bytes(unit).max(mebibytes << 20);
            for content in [
                Content::SmallFiles,
                Content::FilesInInodes,
                Content::OneLargeFile,
                Content::DeepDirectories,
                Content::ExtendedAttributes,
            ] {
                fill_and_empty(bytes, unit, content);
            }
        }
    }
}

/// Changes that free nothing leave space for removals, in whatever order files are
/// changed: an inode that moves leaves its block to others that share it.
#[test]
fn changed_attributes_leave_room_to_remove_everything() {
    for mebibytes in [6, 20] {
        let (_medium, mut filled) = new(mebibytes << 20, 512);
        filled.fill(Content::FilesInInodes);
        filled.system.sync().unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        filled.names.shuffle(&mut random);
        let root = Caller::root();
        let mut refused = 0;
        for named in &filled.names {
            let name = named.name.as_bytes();
            let found = (filled.system).lookup(&root, named.parent, name);
            let mode = SetAttr {
                mode: Some(0o600),
                ..SetAttr::default()
            };
            let set = (filled.system).setattr(&root, found.unwrap().ino, &mode);
            match set {
                Ok(_) => {}
                Err(Error::NoSpace) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(refused < filled.names.len(), "none was changed");
        filled.names.shuffle(&mut random);
        filled.empty(usize::MAX);
    }
}

/// The replacement of a name is a removal, and is not refused.
#[test]
fn names_are_replaced_on_a_full_volume() {
    for unit in [4096, 512] {
        let (_medium, mut filled) = new(least_bytes(unit), unit);
        filled.fill(Content::SmallFiles);
        let (root, none) = (Caller::root(), Rename::default());
        while filled.names.len() > 2 {
            let one = filled.names.pop().unwrap();
            let (from, to) = (one.name.as_bytes(), filled.names[1].name.as_bytes());
            let (system, above) = (&filled.system, InodeNo::ROOT);
            (system.rename(&root, above, from, above, to, none)).unwrap();
        }
        filled.empty(1);
    }
}

/// A refusal follows from the accounts alone if no appended change could free the
/// space, because a transaction costs a flush.
#[test]
fn a_refusal_costs_no_transaction() {
    for unit in [4096, 512] {
        let (_medium, mut filled) = new(20 << 20, unit);
        filled.fill(Content::SmallFiles);
        filled.system.sync().unwrap();
        let transactions = || filled.system.layout().statistics().transactions;
        let (root, filler) = (Caller::root(), &filled.names[0]);
        let name = filler.name.as_bytes();
        let found = (filled.system).lookup(&root, filler.parent, name);
        let ino = found.unwrap().ino;
        for nth in 0..20 {
            assert!(filled.write(ino, nth * 4096, 4096));
            while filled.system.write_back().unwrap() {}
            let before = transactions();
            let more = (filled.system).fallocate(&root, ino, 0, 0, 1 << 40);
            assert!(matches!(more, Err(Error::NoSpace)), "{more:?}");
            assert_eq!(transactions(), before, "units of {unit}");
        }
    }
}

/// A directory stores the entries that it inherits twice, and a volume limits the bytes
/// of attributes: to a block, if it was made by an earlier program.
#[test]
fn lists_of_more_than_half_of_all_attributes_are_not_inherited() {
    for (old, entries) in [(true, 300), (false, 8180)] {
        lists_are_inherited_once(old, entries);
    }
}

fn lists_are_inherited_once(old: bool, entries: u32) {
    let (medium, mut filled) = new(6 << 20, 512);
    if old {
        filled.system.unmount().unwrap();
        filled.system.layout().unmount().unwrap();
        without(&medium, LONG_XATTRS);
        filled.system = again(&medium);
    }
    let directory = filled.make(InodeNo::ROOT, true).unwrap();
    let entry = |tag: u16, permissions: u16, id: u32| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&tag.to_le_bytes());
        bytes[2..4].copy_from_slice(&permissions.to_le_bytes());
        bytes[4..].copy_from_slice(&id.to_le_bytes());
        bytes
    };
    let mut list = 2u32.to_le_bytes().to_vec();
    list.extend(entry(1, 7, u32::MAX));
    (0..entries).for_each(|id| list.extend(entry(2, 6, id)));
    for (tag, permissions) in [(4, 5), (0x10, 7), (0x20, 0)] {
        list.extend(entry(tag, permissions, u32::MAX));
    }
    let (root, system) = (Caller::root(), &filled.system);
    let (default, access) = (b"system.posix_acl_default", b"system.posix_acl_access");
    (system.setxattr(&root, directory, default, &list, false, false)).unwrap();
    let below = system.mkdir(&root, directory, b"below", 0o755);
    assert!(matches!(below, Err(Error::NoSpace)), "{below:?}");
    let file = filled.make(directory, false).unwrap();
    filled.system.sync().unwrap();
    drop(filled);
    let system = again(&medium);
    let read = system.getxattr(&root, file, access).unwrap();
    assert_eq!(read.len(), list.len());
    ends_sound(system, &medium);
}

/// Free space is reported as if pending changes were written: an inode takes a block
/// where a block is one unit.
#[test]
fn files_that_wait_and_are_gone_are_told_with_their_inodes() {
    let (_medium, mut filled) = new(20 << 20, 4096);
    let empty = filled.system.statfs().free;
    for _ in 0..500 {
        filled.make(InodeNo::ROOT, false).unwrap();
    }
    let waiting = filled.system.statfs().free;
    filled.system.sync().unwrap();
    let written = filled.system.statfs().free;
    assert!(waiting.abs_diff(written) < 20, "{waiting}, {written}");
    assert!(written + 500 <= empty);
    filled.empty(usize::MAX);
    let free = filled.system.statfs().free;
    assert!(free.abs_diff(empty) < 20, "{free} of {empty}");
}
