//! Many threads, little memory: nothing deadlocks, nothing is lost, and the account is
//! right in the end. Lock ranks are checked throughout.

use super::harness::*;
use crate::{Caller, Error, InodeNo, Layout, MemoryOptions, Options, Rename, Result, SetAttr};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Runs one random operation on a few names in a few directories.
fn act(fs: &Fs, rng: &mut Xoshiro256PlusPlus, directories: &[InodeNo]) -> Result<()> {
    let caller = Caller::root();
    let any = |rng: &mut Xoshiro256PlusPlus| directories[rng.random_range(0..directories.len())];
    let d = any(rng);
    let name = [b'a' + rng.random_range(0..4u8)];
    let file = |fs: &Fs| fs.lookup(&caller, d, &name).map(|attr| attr.ino);
    match rng.random_range(0..16) {
        0 | 1 => fs.mknod(&caller, d, &name, 0o644, 0).map(|_| ()),
        2 => fs.unlink(&caller, d, &name),
        3 => fs.mkdir(&caller, d, &name, 0o755).map(|_| ()),
        4 => fs.rmdir(&caller, d, &name),
        5 => {
            let (to, new) = (any(rng), [b'a' + rng.random_range(0..4u8)]);
            let exchange = rng.random_bool(0.2);
            let flags = Rename {
                no_replace: false,
                exchange,
                ..Rename::default()
            };
            fs.rename(&caller, d, &name, to, &new, flags)
        }
        6 => fs.link(&caller, file(fs)?, any(rng), &name).map(|_| ()),
        7..=10 => {
            let length = rng.random_range(1..20_000);
            let data = vec![rng.random_range(1..=255u8); length];
            let offset = rng.random_range(0..50_000);
            fs.write(&caller, file(fs)?, offset, &data).map(|_| ())
        }
        11 => {
            let size = Some(rng.random_range(0..60_000));
            let set = SetAttr {
                size,
                ..Default::default()
            };
            fs.setattr(&caller, file(fs)?, &set).map(|_| ())
        }
        12 => {
            let mode = [0, 1, 3, 16][rng.random_range(0..4)];
            let (offset, length) = (rng.random_range(0..50_000), rng.random_range(1..30_000));
            fs.fallocate(&caller, file(fs)?, mode, offset, length)
        }
        13 => fs.fsync(file(fs)?, rng.random_bool(0.5)),
        14 => {
            let ino = file(fs)?;
            fs.retain(ino)?;
            let removed = fs.unlink(&caller, d, &name);
            fs.release(ino, 1);
            removed
        }
        _ => {
            let mut buffer = vec![0; 30_000];
            fs.read(file(fs)?, rng.random_range(0..50_000), &mut buffer)?;
            fs.readdir(d, 0, &mut |_| true)
        }
    }
}

fn expected(error: &Error) -> bool {
    !matches!(
        error,
        Error::Damaged { .. }
            | Error::Device(_)
            | Error::ReadOnly(_)
            | Error::NotDurable(_)
            | Error::NoSpace
    )
}

fn run(seed: u64, options: Options) {
    eprintln!("seed {seed}");
    let memory = MemoryOptions {
        group_bytes: 65_536,
        ..Default::default()
    };
    let mut fs = fresh_with(memory, options);
    fs.settings.step_blocks = 8;
    let mut directories = vec![ROOT];
    for name in ["x", "y"] {
        let d = fs.t_mkdir(ROOT, name);
        directories.push(d);
        directories.push(fs.t_mkdir(d, "z"));
    }
    let fs = Arc::new(fs);
    let done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|worker| {
                let (fs, directories) = (&fs, &directories);
                scope.spawn(move || {
                    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed * 100 + worker);
                    for step in 0..1_500 {
                        if let Err(error) = act(fs, &mut rng, directories) {
                            assert!(expected(&error), "worker {worker} step {step}: {error}");
                        }
                    }
                })
            })
            .collect();
        let (fs, done) = (&fs, &done);
        scope.spawn(move || {
            let mut turn = 0u32;
            while !done.load(Relaxed) {
                turn += 1;
                fs.maintain().unwrap();
                match turn % 8 {
                    0 => fs.drop_caches(),
                    1 => fs.layout().memory().move_blocks(),
                    2 => fs.checkpoint().unwrap(),
                    _ => std::thread::yield_now(),
                }
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Relaxed);
    });
    fs.unmount().unwrap();
    assert_eq!(fs.layout().usage(), fs.usage());
    assert_eq!(fs.statistics().dirty_bytes, 0);
    let after = crash(&fs, None);
    let mut queue = vec![ROOT];
    let mut seen = std::collections::BTreeSet::from([ROOT]);
    while let Some(d) = queue.pop() {
        let mut links = 2;
        let mut entries = Vec::new();
        let list = |entry: crate::Entry<'_>| {
            entries.push((entry.name.to_vec(), entry.ino, entry.kind));
            true
        };
        after.readdir(d, 2, &mut { list }).unwrap();
        for (_, ino, kind) in entries {
            let attr = after.getattr(ino).unwrap();
            assert_eq!(attr.kind, kind);
            if kind == crate::FileKind::Directory {
                links += 1;
                assert_eq!(after.parent(ino).unwrap(), d);
                queue.push(ino);
            } else {
                assert!(after.t_read(ino) == fs.t_read(ino), "{ino}");
            }
            seen.insert(ino);
        }
        assert_eq!(after.getattr(d).unwrap().nlink, links);
    }
    // A directory moved below a removed one would be missed here.
    assert_eq!(after.usage().inodes, seen.len() as u64);
}

#[test]
fn many_threads_with_little_memory() {
    for seed in seeds(0, 4) {
        run(
            seed,
            Options {
                cache_bytes: 1 << 20,
                ..Default::default()
            },
        );
    }
}

#[test]
fn many_threads_in_strict_order() {
    run(
        77,
        Options {
            cache_bytes: 1 << 20,
            strict_order: true,
            ..Default::default()
        },
    );
}

#[test]
fn many_threads_with_read_ahead() {
    run(
        99,
        Options {
            cache_bytes: 2 << 20,
            read_ahead_threads: 2,
            ..Default::default()
        },
    );
}

#[test]
fn concurrent_fsyncs_share_groups() {
    let fs = Arc::new(fresh());
    let files: Vec<_> = (0..8)
        .map(|n| fs.t_create(ROOT, &format!("f{n}")).ino)
        .collect();
    std::thread::scope(|scope| {
        for &f in &files {
            let fs = &fs;
            scope.spawn(move || {
                for round in 0..100u64 {
                    fs.t_write(f, round * 100, &pattern(100, round as u8));
                    fs.t_fsync(f);
                }
            });
        }
    });
    let after = crash(&fs, None);
    for f in files {
        assert!(after.t_read(f) == fs.t_read(f));
    }
}
