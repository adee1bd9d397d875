//! Random operations against a model that is obviously right, with crashes.
//!
//! Single-threaded, so each group captures one moment: after a crash at any group, the
//! names are the model's names at that moment, and all synced files are whole.

use super::harness::*;
use crate::{Caller, FileKind, InodeNo, Layout, MemoryOptions, Options, Position, SetAttr};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

type Content = Vec<u8>;

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    names: BTreeMap<String, usize>,
    files: BTreeMap<usize, Content>,
    next: usize,
}

/// All names of a tree with one directory level, and the files' content.
fn tree(fs: &Fs) -> BTreeMap<String, (InodeNo, Content)> {
    let mut all = BTreeMap::new();
    let mut entries = Vec::new();
    fs.readdir(ROOT, 2, &mut |entry| {
        entries.push((
            String::from_utf8(entry.name.to_vec()).unwrap(),
            entry.ino,
            entry.kind,
        ));
        true
    })
    .unwrap();
    for (name, ino, kind) in entries {
        assert_eq!(kind, FileKind::Regular);
        all.insert(name, (ino, fs.t_read(ino)));
    }
    all
}

fn names_of(fs: &Fs) -> Vec<String> {
    fs.t_names(ROOT)
}

struct Run {
    fs: Fs,
    model: Model,
    rng: Xoshiro256PlusPlus,
    /// The model's names before the operation that appended each group.
    at: BTreeMap<u64, Vec<String>>,
}

impl Run {
    fn name(&mut self) -> String {
        ["a", "b", "c", "d"][self.rng.random_range(0..4)].to_owned()
    }

    fn file(&mut self) -> Option<(InodeNo, usize)> {
        let name = self.name();
        let id = *self.model.names.get(&name)?;
        Some((self.fs.t_lookup(&name).unwrap(), id))
    }

    fn step(&mut self) {
        match self.rng.random_range(0..20) {
            0..=2 => self.create(),
            3 => self.unlink(),
            4 => self.rename(),
            5 => self.link(),
            6..=10 => self.write(),
            11 | 12 => self.truncate(),
            13 | 14 => self.fallocate(),
            15 => {
                if let Some((ino, _)) = self.file() {
                    self.fs.t_fsync(ino);
                }
            }
            16 => {
                self.fs.write_back().unwrap();
                self.fs.sync().unwrap();
            }
            17 => self.fs.drop_caches(),
            18 => self.fs.maintain().unwrap(),
            _ => {
                if let Some((ino, id)) = self.file() {
                    assert!(self.fs.t_read(ino) == self.model.files[&id]);
                }
            }
        }
    }

    fn create(&mut self) {
        let name = self.name();
        let made = self
            .fs
            .mknod(&Caller::root(), ROOT, name.as_bytes(), 0o644, 0);
        assert_eq!(made.is_ok(), !self.model.names.contains_key(&name));
        if made.is_ok() {
            self.model.next += 1;
            self.model.names.insert(name, self.model.next);
            self.model.files.insert(self.model.next, Vec::new());
        }
    }

    fn unlink(&mut self) {
        let name = self.name();
        let gone = self.fs.unlink(&Caller::root(), ROOT, name.as_bytes());
        assert_eq!(gone.is_ok(), self.model.names.remove(&name).is_some());
    }

    fn rename(&mut self) {
        let (from, to) = (self.name(), self.name());
        let moved = self.fs.t_rename(&from, &to);
        let source = self.model.names.get(&from).copied();
        assert_eq!(moved.is_ok(), source.is_some());
        let Some(source) = source else { return };
        if self.model.names.get(&to) != Some(&source) {
            self.model.names.remove(&from);
            self.model.names.insert(to, source);
        }
    }

    fn link(&mut self) {
        let to = self.name();
        let Some((ino, id)) = self.file() else { return };
        let made = self.fs.link(&Caller::root(), ino, ROOT, to.as_bytes());
        assert_eq!(made.is_ok(), !self.model.names.contains_key(&to));
        self.model.names.entry(to).or_insert(id);
    }

    fn write(&mut self) {
        let Some((ino, id)) = self.file() else { return };
        let length = [5, 100, 512, 4096, 10_000][self.rng.random_range(0..5)];
        let length = self.rng.random_range(1..=length);
        let content = self.model.files.get_mut(&id).unwrap();
        let offset = match self.rng.random_range(0..3) {
            0 => content.len(),
            1 => 0,
            _ => self.rng.random_range(0..40_000),
        };
        let data = pattern(length, self.rng.random());
        self.fs.t_write(ino, offset as u64, &data);
        let end = content.len().max(offset + length);
        content.resize(end, 0);
        content[offset..offset + length].copy_from_slice(&data);
    }

    fn truncate(&mut self) {
        let Some((ino, id)) = self.file() else { return };
        let size = [0, 50, 4096, 40_000][self.rng.random_range(0..4)];
        let size = self.rng.random_range(0..=size);
        let set = SetAttr {
            size: Some(size as u64),
            ..Default::default()
        };
        self.fs.setattr(&Caller::root(), ino, &set).unwrap();
        self.model.files.get_mut(&id).unwrap().resize(size, 0);
    }

    fn fallocate(&mut self) {
        let Some((ino, id)) = self.file() else { return };
        let mode = [0, 1, 3, 16, 17][self.rng.random_range(0..5)];
        let offset = self.rng.random_range(0..40_000usize);
        let length = self.rng.random_range(1..30_000usize);
        self.fs
            .fallocate(&Caller::root(), ino, mode, offset as u64, length as u64)
            .unwrap();
        let content = self.model.files.get_mut(&id).unwrap();
        let end = offset + length;
        if mode & 1 == 0 && content.len() < end {
            content.resize(end, 0);
        }
        if mode & 18 != 0 {
            let end = end.min(content.len());
            content[offset.min(end)..end].fill(0);
        }
    }

    fn compare(&self, fs: &Fs) {
        let found = tree(fs);
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            self.model.names.keys().collect::<Vec<_>>()
        );
        for (name, (_, content)) in &found {
            let expected = &self.model.files[&self.model.names[name]];
            assert!(
                content == expected,
                "{name}: {} and {} bytes",
                content.len(),
                expected.len()
            );
        }
    }

    /// Crashes at every group not committed, checks the result, and continues.
    fn look_at_crashes(&mut self) {
        let memory = self.fs.layout().memory();
        for position in memory.committed().0 + 1..=memory.appended().0 {
            let after = crash(&self.fs, Some(Position(position)));
            assert_eq!(&names_of(&after), &self.at[&position], "group {position}");
            let usage = after.usage();
            after.unmount().unwrap();
            assert_eq!(after.layout().usage(), usage);
        }
    }
}

fn run(seed: u64, options: Options, group_bytes: u64, step_blocks: u64) {
    eprintln!("seed {seed}");
    let memory = MemoryOptions {
        group_bytes,
        ..Default::default()
    };
    let mut fs = fresh_with(memory, options);
    fs.settings.step_blocks = step_blocks;
    let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut run = Run {
        fs,
        model: Model::default(),
        rng,
        at: BTreeMap::new(),
    };
    for step in 0..400 {
        let before = run.fs.layout().memory().appended().0;
        let names: Vec<String> = run.model.names.keys().cloned().collect();
        run.step();
        let after = run.fs.layout().memory().appended().0;
        for position in before + 1..=after {
            run.at.insert(position, names.clone());
        }
        if step % 23 == 0 {
            run.look_at_crashes();
        }
        if step % 67 == 66 {
            run.compare(&run.fs);
            run.fs.sync().unwrap();
            assert_eq!(
                run.fs.layout().usage(),
                run.fs.usage(),
                "seed {seed} step {step}"
            );
            assert_eq!(
                run.fs.statistics().dirty_bytes,
                0,
                "seed {seed} step {step}"
            );
            let step_blocks = run.fs.settings.step_blocks;
            run.fs = crash(&run.fs, None);
            run.fs.settings.step_blocks = step_blocks;
            // The recovery may have appended groups, too.
            let recovered = run.fs.layout().memory().appended().0;
            let names: Vec<String> = run.model.names.keys().cloned().collect();
            run.at = (1..=recovered)
                .map(|position| (position, names.clone()))
                .collect();
            run.compare(&run.fs);
        }
    }
}

#[test]
fn any_history_agrees_with_the_model() {
    for seed in seeds(0, 60) {
        run(
            seed,
            Options {
                cache_bytes: 1 << 20,
                ..Default::default()
            },
            1 << 20,
            65_536,
        );
    }
}

#[test]
fn any_history_in_small_groups_and_steps() {
    for seed in seeds(10_000, 60) {
        run(
            seed,
            Options {
                cache_bytes: 1 << 20,
                ..Default::default()
            },
            8_192,
            3,
        );
    }
}

#[test]
fn any_history_in_strict_order() {
    for seed in seeds(20_000, 15) {
        let options = Options {
            strict_order: true,
            ..Default::default()
        };
        run(seed, options, 8_192, 65_536);
    }
}
