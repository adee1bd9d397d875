//! Many at once, on a volume that is full now and then.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use varve_fs::{Error, Rename, SetAttr};

/// One thread's directory, and what its files hold.
struct Own<'a> {
    system: &'a System,
    directory: InodeNo,
    random: Xoshiro256PlusPlus,
    files: BTreeMap<u32, (InodeNo, Vec<u8>)>,
}

fn taken<T>(result: varve_fs::Result<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(Error::NoSpace) => None,
        Err(error) => panic!("{error}"),
    }
}

impl Own<'_> {
    fn name(nth: u32) -> Vec<u8> {
        format!("a name that is not short at all {nth}").into_bytes()
    }

    fn step(&mut self) {
        let root = Caller::root();
        let nth = self.random.random_range(0..24u32);
        let name = Self::name(nth);
        let Some((ino, content)) = self.files.get_mut(&nth) else {
            let made = self.system.mknod(&root, self.directory, &name, 0o100644, 0);
            if let Some(made) = taken(made) {
                self.files.insert(nth, (made.ino, Vec::new()));
            }
            return;
        };
        match self.random.random_range(0..12) {
            0..5 => {
                let length = [10, 700, 4096, 9000, 40_000][self.random.random_range(0..5)];
                let at = self.random.random_range(0..=content.len().min(100_000));
                let bytes = vec![self.random.random_range(1..255u8); length];
                let done = self.system.write(&root, *ino, at as u64, &bytes);
                let done = taken(done).unwrap_or(0);
                content.resize(content.len().max(at + done), 0);
                content[at..at + done].copy_from_slice(&bytes[..done]);
            }
            5 => {
                let size = self.random.random_range(0..100_000u64);
                let set = SetAttr {
                    size: Some(size),
                    ..SetAttr::default()
                };
                if taken(self.system.setattr(&root, *ino, &set)).is_some() {
                    content.resize(size as usize, 0);
                }
            }
            6 => {
                let removed = self.system.unlink(&root, self.directory, &name);
                removed.unwrap();
                self.files.remove(&nth);
            }
            7 => {
                let other = self.random.random_range(0..24u32);
                let (from, to) = (self.directory, Self::name(other));
                let renamed = self
                    .system
                    .rename(&root, from, &name, from, &to, Rename::default());
                if taken(renamed).is_some() && other != nth {
                    let moved = self.files.remove(&nth).unwrap();
                    self.files.insert(other, moved);
                }
            }
            8 => self.system.fsync(*ino, false).unwrap(),
            9 => {
                let value = vec![1; self.random.random_range(1..3000)];
                taken(
                    self.system
                        .setxattr(&root, *ino, b"user.x", &value, false, false),
                );
            }
            _ => assert!(read(self.system, *ino, 0, 200_000) == *content, "{ino}"),
        }
    }
}

#[test]
fn many_work_on_a_volume_that_is_full_now_and_then() {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().unwrap());
    eprintln!("reproduce: VARVE_SEED={seed}");
    for unit in [512, 4096] {
        let device = memory(6 << 20, unit);
        drop(made(&device));
        let few = Options {
            cache_bytes: 1 << 20,
            read_ahead_threads: 1,
            keep_written: false,
            ..Options::default()
        };
        let system = FileSystem::mount(mounted(&device), clock(), few).unwrap();
        let over = AtomicBool::new(false);
        let files: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..8)
                .map(|nth| {
                    let name = format!("directory {nth}");
                    let made = system.mkdir(&Caller::root(), InodeNo::ROOT, name.as_bytes(), 0o755);
                    let mut own = Own {
                        system: &system,
                        directory: made.unwrap().ino,
                        random: Xoshiro256PlusPlus::seed_from_u64(seed << 8 | nth),
                        files: BTreeMap::new(),
                    };
                    scope.spawn(move || {
                        (0..400).for_each(|_| own.step());
                        own.files
                    })
                })
                .collect();
            let (system, over) = (&system, &over);
            let background = scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    while system.write_back().unwrap() {}
                    system.maintain().unwrap();
                    system.checkpoint().unwrap();
                }
            });
            let done: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            over.store(true, Ordering::Relaxed);
            background.join().unwrap();
            done.into_iter().flat_map(|files| files.unwrap()).collect()
        });
        system.sync().unwrap();
        drop(system);
        sound(&device);
        let system = again(&device);
        for (_, (ino, content)) in files {
            assert!(read(&system, ino, 0, 200_000) == content, "{ino}");
        }
    }
}
