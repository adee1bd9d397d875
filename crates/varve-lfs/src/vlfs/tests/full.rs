//! Volumes filled to the last block: whatever they hold can be removed, and
//! the room comes back.

use super::*;
use varve_fs::Error;

/// What a volume is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    SmallFiles,
    OneLargeFile,
    DeepDirectories,
    ExtendedAttributes,
}

/// A name and the directory it is in.
struct Named {
    parent: InodeNo,
    name: String,
    directory: bool,
}

struct Filled {
    system: System,
    /// In the order in which they can be made.
    names: Vec<Named>,
}

impl Filled {
    /// Makes a file or a directory; `None` if there is no room.
    fn make(&mut self, parent: InodeNo, directory: bool) -> Option<InodeNo> {
        let name = format!("a name of some length, number {}", self.names.len());
        let (bytes, root) = (name.as_bytes(), Caller::root());
        let made = match directory {
            true => (self.system).mkdir(View::Live, &root, parent, bytes, 0o755),
            false => (self.system).mknod(View::Live, &root, parent, bytes, 0o100644, 0),
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

    /// True if it fitted.
    fn write(&self, ino: InodeNo, offset: u64, bytes: usize) -> bool {
        match write(&self.system, ino, offset, &vec![7; bytes]) {
            Ok(written) => written == bytes,
            Err(Error::NoSpace) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn attribute(&self, ino: InodeNo, bytes: usize) -> bool {
        let (root, value) = (Caller::root(), vec![7; bytes]);
        let made = (self.system).setxattr(View::Live, &root, ino, b"user.a", &value, false, false);
        match made {
            Ok(()) => true,
            Err(Error::NoSpace) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Until the volume takes no block more.
    fn fill(&mut self, content: Content) {
        let root = InodeNo::ROOT;
        let filler = self.make(root, false).unwrap();
        let mut parent = root;
        while content != Content::OneLargeFile {
            if content == Content::DeepDirectories {
                match self.make(parent, true) {
                    Some(ino) => parent = ino,
                    None => break,
                }
            }
            let Some(ino) = self.make(parent, false) else {
                break;
            };
            let fitted = match content {
                Content::ExtendedAttributes => self.attribute(ino, 3000),
                _ => self.write(ino, 0, 100 + self.names.len() % 50 * 100),
            };
            if !fitted {
                break;
            }
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

    /// Removes everything, children first. Some of it is waited for.
    fn empty(&mut self, sync_one_in: usize) {
        let root = Caller::root();
        for (nth, named) in std::mem::take(&mut self.names).iter().enumerate().rev() {
            let name = named.name.as_bytes();
            let removed = match named.directory {
                true => (self.system).rmdir(View::Live, &root, named.parent, name),
                false => (self.system).unlink(View::Live, &root, named.parent, name),
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

/// The least device that takes a volume with such units.
fn least_bytes(unit: u32) -> u64 {
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

/// So many numbers that room is what ends.
fn inodes_of(bytes: u64) -> u64 {
    bytes / 4096
}

fn fill_and_empty(bytes: u64, unit: u32, content: Content) {
    let what = format!("{bytes} bytes, units of {unit}, {content:?}");
    let medium = memory(bytes, unit);
    let options = VlfsFormatOptions {
        unit_bytes: unit,
        inodes: inodes_of(bytes),
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock(), &options).unwrap();
    FileSystem::format(&mounted(&medium), &*clock(), (0, 0)).unwrap();
    let mut filled = Filled {
        system: again(&medium),
        names: Vec::new(),
    };
    let empty = filled.system.statfs().free;
    for sync_one_in in [1, 7, usize::MAX] {
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
    filled.system.unmount().unwrap();
    filled.system.layout().unmount().unwrap();
    drop(filled);
    sound(&medium);
}

#[test]
fn what_fills_a_volume_to_the_last_block_can_be_removed() {
    for unit in [4096, 512] {
        for bytes in [least_bytes(unit), 2 << 20, 5 << 20, 12 << 20] {
            for content in [
                Content::SmallFiles,
                Content::OneLargeFile,
                Content::DeepDirectories,
                Content::ExtendedAttributes,
            ] {
                fill_and_empty(bytes, unit, content);
            }
        }
    }
}
