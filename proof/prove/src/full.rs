//! The full volume: removal always succeeds and frees its space.
//!
//! On a volume so full, space is reused as soon as possible. So while it fills, its image
//! is sometimes also mounted with the newest checkpoint damaged: everything that the
//! older one references must still be present (log protocol, rule 20).

use crate::explorer::same_tree;
use crate::failure::{Failure, Promise};
use crate::mounted::{Mounted, Subject};
use crate::operation::{Range, pattern_bytes};
use crate::panics;
use crate::random::Random;
use crate::runner::new_clock;
use crate::tree::{Bounds, Tree, walk};
use std::sync::Arc;
use varve_device::{MemoryDevice, MemoryImage};
use varve_fs::{Error, FileKind, InodeNo, SetAttr};

const BLOCK: u64 = 4096;

/// Number of times that a quarter of a full volume's files is replaced before all are
/// removed.
const CHURNS: u64 = 3;

/// One in this number of created files is followed by a mount from either checkpoint.
const LOOK_ONE_IN: u64 = 6;

/// One file of known content, by number.
#[derive(Clone, Copy)]
struct Known {
    number: u64,
    blocks: u64,
    pattern: u64,
}

impl Known {
    fn name(self) -> Vec<u8> {
        format!("file {}", self.number).into_bytes()
    }

    fn bytes(self) -> Vec<u8> {
        pattern_bytes(
            self.pattern,
            Range {
                offset: 0,
                length: self.blocks * BLOCK,
            },
        )
    }
}

struct Full<'a> {
    subject: &'a dyn Subject,
    device: Arc<MemoryDevice>,
    mounted: Box<dyn Mounted>,
    random: Random,
    files: Vec<Known>,
    next: u64,
}

impl Full<'_> {
    fn ino(&self, file: Known) -> InodeNo {
        self.mounted
            .lookup(InodeNo::ROOT, &file.name())
            .expect("a known file")
            .ino
    }

    /// Creates files until there is no space; the last one may then be shorter.
    fn fill(&mut self) {
        loop {
            let blocks = 1 + self.random.below(40);
            let mut file = Known {
                number: self.next,
                blocks: 0,
                pattern: self.random.word() >> 40,
            };
            self.next += 1;
            let mode = FileKind::Regular.mode_bits() | 0o644;
            let ino = match self.mounted.mknod(InodeNo::ROOT, &file.name(), mode) {
                Ok(attr) => attr.ino,
                Err(Error::NoSpace) => return,
                Err(error) => panic!("create: {error}"),
            };
            for _ in 0..blocks {
                let range = Range {
                    offset: file.blocks * BLOCK,
                    length: BLOCK,
                };
                let data = pattern_bytes(file.pattern, range);
                match self.mounted.write(ino, range.offset, &data) {
                    Ok(count) => assert_eq!(count as u64, BLOCK),
                    Err(Error::NoSpace) => {
                        self.files.push(file);
                        return;
                    }
                    Err(error) => panic!("write: {error}"),
                }
                file.blocks += 1;
            }
            self.files.push(file);
            if self.random.once_in(LOOK_ONE_IN) {
                self.look_from_either_checkpoint();
            }
        }
    }

    /// Returns the tree of `image` by a read-only mount.
    fn seen(&self, image: &MemoryImage, when: &str) -> Tree {
        let device = Arc::new(MemoryDevice::from_image(image));
        let mounted = self.subject.mount_read_only(device, new_clock());
        let mounted = mounted
            .expect("a volume that can be mounted read-only")
            .unwrap_or_else(|error| panic!("{when}: {error}"));
        let damage = mounted.damage();
        assert!(damage.is_empty(), "{when}: {damage:?}");
        walk(&*mounted, Bounds::default()).unwrap_or_else(|error| panic!("{when}: {error}"))
    }

    /// Checks that the newest checkpoint and the one before lead to the same tree.
    fn look_from_either_checkpoint(&self) {
        let image = self.device.snapshot();
        let Some(older) = self.subject.without_newest_checkpoint(&image) else {
            return;
        };
        let newest = self.seen(&image, "from the newest checkpoint");
        let older = self.seen(&older, "from the older checkpoint");
        let same = same_tree(&newest, &older, "from the older checkpoint");
        same.unwrap_or_else(|failure| panic!("{failure}"));
    }

    fn verify(&self) {
        for &file in &self.files {
            let expected = file.bytes();
            let mut found = vec![0; expected.len() + 1];
            let count = self
                .mounted
                .read(self.ino(file), 0, &mut found)
                .expect("a readable file");
            found.truncate(count);
            assert!(
                found == expected,
                "file {} holds something else",
                file.number
            );
        }
    }

    /// Removes or truncates files until `keep` are left; everything must succeed.
    fn thin_out(&mut self, keep: usize) {
        while self.files.len() > keep {
            let index = self.random.below(self.files.len() as u64) as usize;
            let file = self.files.swap_remove(index);
            let cut = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            if self.random.once_in(3) {
                self.mounted
                    .setattr(self.ino(file), &cut)
                    .expect("truncate on a full volume");
            }
            let unlinked = self.mounted.unlink(InodeNo::ROOT, &file.name());
            unlinked.expect("unlink on a full volume");
            if self.random.once_in(8) {
                self.mounted.sync().expect("sync on a full volume");
            }
        }
    }

    /// Runs operations that must succeed on any full volume: renames, overwriting.
    fn change_in_place(&mut self) {
        let picked = self.random.below(self.files.len() as u64) as usize;
        let old = self.files[picked];
        let new = Known {
            number: self.next,
            ..old
        };
        self.next += 1;
        let (from, to) = (old.name(), new.name());
        let root = InodeNo::ROOT;
        let renamed = self
            .mounted
            .rename((root, &from), (root, &to), Default::default());
        renamed.expect("rename on a full volume");
        self.files[picked] = new;
    }
}

/// Fills a volume and removes files, `count` times.
///
/// # Errors
/// An operation that was refused, or data or space that was lost.
pub fn cycles(subject: &dyn Subject, seed: u64, count: u64) -> Result<(), Failure> {
    let done = panics::catch(|| cycle(subject, seed, count));
    done.map_err(|text| Failure::new(Promise::Bounds, text))
}

fn cycle(subject: &dyn Subject, seed: u64, count: u64) {
    let device = Arc::new(MemoryDevice::new(subject.device_bytes()));
    subject.format(device.clone(), new_clock()).expect("format");
    let mount = |cycle| {
        subject
            .mount(device.clone(), new_clock(), cycle)
            .expect("mount")
    };
    let mut full = Full {
        subject,
        device: device.clone(),
        mounted: mount(0),
        random: Random::new(seed),
        files: Vec::new(),
        next: 0,
    };
    let empty = full.mounted.statfs();
    for cycle in 1..=count {
        full.fill();
        assert!(!full.files.is_empty(), "cycle {cycle}: nothing fits");
        full.change_in_place();
        for _ in 0..CHURNS {
            let most = full.files.len();
            full.thin_out(most - most / 4);
            full.fill();
            full.look_from_either_checkpoint();
        }
        full.mounted.sync().expect("sync on a full volume");
        full.verify();
        let keep = if cycle % 5 == 0 {
            0
        } else {
            full.random.below(4) as usize
        };
        full.thin_out(keep);
        full.mounted.sync().expect("sync after deleting");
        full.verify();
        if keep == 0 {
            let now = full.mounted.statfs();
            let wanted = empty.free * 95 / 100;
            assert!(
                now.free >= wanted,
                "cycle {cycle}: {empty:?} when new, {now:?} when empty"
            );
        }
        if cycle % 4 == 0 {
            full.mounted.unmount().expect("unmount");
            let found = subject.check(device.clone());
            assert!(found.is_empty(), "cycle {cycle}: {found:?}");
            full.mounted = mount(cycle);
            full.verify();
        }
    }
}
