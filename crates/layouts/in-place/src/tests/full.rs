//! Full volumes: accepted data is not lost, and everything can be removed.

use super::*;
use crate::format::Metadata;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use varve_fs::{Error, SetAttr};

/// Fills the volume with a file of its own, to the last fragment.
fn fill(system: &System) -> InodeNo {
    let filler = create(system, "filler");
    let mut at = 0;
    for bytes in [64 << 10, 4096, 512] {
        loop {
            match write(system, filler, at, &vec![1; bytes]) {
                Ok(_) => at += bytes as u64,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    system.sync().unwrap();
    filler
}

/// When the last but one leaf of a directory becomes empty, the last one replaces the
/// root, which is then longer: removals need space.
#[test]
fn directories_of_a_full_volume_collapse() {
    let options = FfsFormatOptions {
        minfree_percent: 0,
        ..FfsFormatOptions::default()
    };
    let device = memory(64 << 20, 512);
    let system = made_with(&device, &options);
    let root = Caller::root();
    let file = create(&system, "linked");
    let directories: Vec<InodeNo> = (0..120)
        .map(|nth| {
            let name = format!("directory {nth}");
            let made = system.mkdir(&root, InodeNo::ROOT, name.as_bytes(), 0o755);
            made.unwrap().ino
        })
        .collect();
    for &directory in &directories {
        for nth in 0..90 {
            let name = format!("{nth:060}");
            system
                .link(&root, file, directory, name.as_bytes())
                .unwrap();
        }
    }
    system.checkpoint().unwrap();
    // All have the same names and therefore the same tree: a root with two leaves.
    let blocks = |directory| {
        system.sync().unwrap();
        let blocks = system.layout().map(varve_fs::View::Live, directory, 0, 9);
        blocks.unwrap().len()
    };
    let order = names(&system, directories[0]);
    let mut order = order.iter();
    let mut first = Vec::new();
    assert_eq!(blocks(directories[0]), 3);
    while blocks(directories[0]) > 1 {
        let name = order.next().unwrap();
        system.unlink(&root, directories[0], name).unwrap();
        first.push(name);
    }
    let (last, others) = first.split_last().unwrap();
    for &directory in &directories[1..] {
        for name in others {
            system.unlink(&root, directory, name).unwrap();
        }
    }
    system.checkpoint().unwrap();
    fill(&system);
    for &directory in &directories[1..] {
        let removed = system.unlink(&root, directory, last);
        removed.unwrap_or_else(|error| panic!("{directory}: {error}"));
    }
    system.sync().unwrap();
    system.unlink(&root, InodeNo::ROOT, b"filler").unwrap();
    unmount(&system);
    sound(&device);
}

/// Attributes are written elsewhere at each change, also if fewer are left.
#[test]
fn attributes_are_removed_on_a_full_volume() {
    let options = FfsFormatOptions {
        minfree_percent: 0,
        ..FfsFormatOptions::default()
    };
    let device = memory(16 << 20, 4096);
    let system = made_with(&device, &options);
    let root = Caller::root();
    let set = |file, name: &[u8], bytes| {
        let value = vec![7; bytes];
        system.setxattr(&root, file, name, &value, false, false)
    };
    let files: Vec<InodeNo> = (0..60)
        .map(|nth| {
            let file = create(&system, &format!("{nth}"));
            set(file, b"user.kept", 3000).unwrap();
            set(file, b"user.removed", 500).unwrap();
            file
        })
        .collect();
    system.checkpoint().unwrap();
    fill(&system);
    for &file in &files {
        let removed = system.removexattr(&root, file, b"user.removed");
        removed.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    system.sync().unwrap();
    drop(system);
    sound(&device);
}

/// The content of the files of a volume, by block.
#[derive(Default)]
struct Model {
    files: BTreeMap<u64, (InodeNo, BTreeMap<u64, Vec<u8>>)>,
    next: u64,
    refused: u64,
}

impl Model {
    fn step(&mut self, system: &System, random: &mut Xoshiro256PlusPlus, removes: bool) {
        let root = Caller::root();
        let some = random.random_range(0..self.next.max(1));
        let found = self.files.range(some..).next().map(|(at, _)| *at);
        let taken = |result: varve_fs::Result<()>| match result {
            Ok(()) => true,
            Err(Error::NoSpace) => false,
            Err(error) => panic!("{error}"),
        };
        let Some(at) = found.filter(|_| random.random_range(0..4) > 0) else {
            let name = format!("file {}", self.next);
            let made = system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100644, 0);
            match made {
                Ok(made) => drop(self.files.insert(self.next, (made.ino, BTreeMap::new()))),
                Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
            }
            self.next += 1;
            return;
        };
        let (ino, blocks) = self.files.get_mut(&at).unwrap();
        let (ino, kind) = (*ino, random.random_range(0..if removes { 20 } else { 16 }));
        match kind {
            // The block is near the beginning, or far behind one, two or three indirect
            // blocks.
            0..14 => {
                let far = [0, 0, 0, 1 << 4, 1 << 9, 1 << 17, 1 << 24][random.random_range(0..7)];
                let block = far + random.random_range(0..14);
                let length = [100, 600, 1500, 4096][random.random_range(0..4)];
                let bytes = vec![random.random_range(1..255u8); length];
                if taken(write(system, ino, block * 4096, &bytes).map(drop)) {
                    let old = blocks.entry(block).or_default();
                    let rest = old.get(length..).unwrap_or(&[]).to_vec();
                    *old = [bytes, rest].concat();
                } else {
                    self.refused += 1;
                }
            }
            14 => {
                let value = vec![1; random.random_range(1..3000)];
                let set = system.setxattr(&root, ino, b"user.x", &value, false, false);
                taken(set);
            }
            15 => system.fsync(ino, false).unwrap(),
            16 => {
                let block = random.random_range(0..20u64);
                let size = Some(block * 4096);
                let set = SetAttr {
                    size,
                    ..SetAttr::default()
                };
                if taken(system.setattr(&root, ino, &set).map(drop)) {
                    blocks.retain(|at, _| *at < block);
                }
            }
            17 => {
                let from = random.random_range(0..20u64);
                let punched = system.fallocate(&root, ino, 3, from * 4096, 5 * 4096);
                if taken(punched) {
                    blocks.retain(|at, _| !(from..from + 5).contains(at));
                }
            }
            _ => {
                let name = format!("file {at}");
                system
                    .unlink(&root, InodeNo::ROOT, name.as_bytes())
                    .unwrap();
                self.files.remove(&at);
            }
        }
    }

    fn verify(&self, system: &System) {
        for (at, (ino, blocks)) in &self.files {
            for (block, bytes) in blocks {
                let found = read(system, *ino, block * 4096, bytes.len());
                assert!(found == *bytes, "file {at}, block {block}");
            }
        }
    }
}

fn fill_and_empty(bytes: u64, unit: u32, metadata: Metadata, seed: u64) {
    eprintln!("{bytes} bytes in units of {unit}, {metadata:?}, seed {seed}");
    let device = memory(bytes, unit);
    let options = FfsFormatOptions {
        metadata,
        ..FfsFormatOptions::default()
    };
    let mut system = made_with(&device, &options);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut model = Model::default();
    let empty = system.statfs().free;
    for round in 0..4 {
        let enough = model.refused + 30;
        for _ in 0..100_000 {
            if model.refused >= enough {
                break;
            }
            model.step(&system, &mut random, false);
        }
        system.sync().unwrap();
        model.verify(&system);
        // The power fails, or the volume is unmounted.
        if round % 2 == 0 {
            unmount(&system);
        }
        drop(system);
        sound(&device);
        system = again(&device);
        model.verify(&system);
        for _ in 0..2000 {
            model.step(&system, &mut random, true);
        }
    }
    let root = Caller::root();
    for at in model.files.keys() {
        let name = format!("file {at}");
        system
            .unlink(&root, InodeNo::ROOT, name.as_bytes())
            .unwrap();
    }
    system.unmount().unwrap();
    assert!(
        system.statfs().free + 16 > empty,
        "{} of {empty}",
        system.statfs().free
    );
    system.layout().unmount().unwrap();
    sound(&device);
}

#[test]
fn what_a_full_volume_has_accepted_is_kept() {
    let seeds = std::env::var("VARVE_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        for unit in [512, 4096] {
            for metadata in Metadata::ALL {
                fill_and_empty(16 << 20, unit, metadata, seed);
            }
        }
    }
}

/// A reservation has no pending bytes, but takes space. One that does not fit is
/// refused before any of it is taken, also while the space of removed files is not free
/// yet.
#[test]
fn reservations_that_do_not_fit_are_refused_and_nothing_else_is() {
    for metadata in Metadata::ALL {
        for seed in 0..4 {
            eprintln!("{metadata:?}, seed {seed}");
            reserve_and_remove(metadata, seed);
        }
    }
}

fn reserve_and_remove(metadata: Metadata, seed: u64) {
    const FILES: u64 = 60;
    let root = Caller::root();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let device = memory(32 << 20, 512);
    let options = FfsFormatOptions {
        metadata,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let kept = create(&system, "kept");
    write(&system, kept, 0, &[1; FILES as usize * 4096]).unwrap();
    let files = (0..FILES).map(|nth| create(&system, &format!("reserved {nth}")));
    let files: Vec<InodeNo> = files.collect();
    system.sync().unwrap();
    let free = system.statfs().free;
    let reserve = |ino, blocks| {
        let done = system.fallocate(&root, ino, 0, 0, blocks * 4096);
        assert!(matches!(done, Ok(()) | Err(Error::NoSpace)), "{done:?}");
        done.is_ok()
    };
    assert!(!reserve(kept, 2 * free));
    let (mut fitted, mut refused, mut removed) = (0, 0, 0);
    for (nth, &ino) in (0..).zip(&files) {
        match reserve(ino, random.random_range(1..free)) {
            true => fitted += 1,
            false => refused += 1,
        }
        write(&system, kept, nth * 4096, &[nth as u8; 4096]).unwrap();
        // The removal is pending, or appended and durable with everything else.
        let kind = random.random_range(0..4);
        while kind > 0 && removed <= nth {
            let name = format!("reserved {removed}");
            let gone = system.unlink(&root, InodeNo::ROOT, name.as_bytes());
            gone.unwrap();
            removed += 1;
        }
        if kind == 1 {
            system.sync().unwrap();
        }
    }
    assert!(fitted > 5 && refused > 5, "{fitted} fitted, {refused} not");
    system.sync().unwrap();
    for nth in 0..FILES {
        assert_eq!(read(&system, kept, nth * 4096, 4096), [nth as u8; 4096]);
    }
    unmount(&system);
    drop(system);
    sound(&device);
}
