//! ioctls on a whole volume, on mounts of all layouts: shutting it down, and discarding
//! free space.

mod support;

#[path = "../../fuse/tests/support/ioctls.rs"]
mod ioctls;

use ioctls::{Trim, freeze, shut_down, trim};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use support::mounted::{Mount, no_fuse};
use support::{Scratch, varve};

const LAYOUTS: [&str; 3] = ["log", "vlfs", "ffs"];
/// FS_IOC_SHUTDOWN: what is made durable before.
const DEFAULT: u32 = 0;
const LOGFLUSH: u32 = 1;
const NOLOGFLUSH: u32 = 2;

fn mounted(layout: &str) -> Mount {
    let scratch = Scratch::new();
    let image = scratch.text("image");
    varve(["mkfs", "--layout", layout, "--size", "64M", &image]).expect(0, "");
    Mount::of(scratch, image)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap()
}

#[track_caller]
fn is_down(m: &Mount) {
    let io = Err(Errno::IO);
    let made = fs::write(m.path("late"), b"x").map_err(errno);
    assert_eq!(made, io);
    assert_eq!(fs::create_dir(m.path("late")).map_err(errno), io);
    assert_eq!(fs::metadata(m.path("unseen")).map(drop).map_err(errno), io);
    let root = File::open(m.path("")).unwrap();
    assert_eq!(root.sync_all().map_err(errno), io);
    let all = Trim {
        start: 0,
        len: u64::MAX,
        minlen: 0,
    };
    assert_eq!(trim(&m.path(""), all), Err(Errno::IO));
    // A second call changes nothing.
    assert_eq!(shut_down(&m.path(""), NOLOGFLUSH), Ok(()));
}

/// The bytes of an image after a crash, as far as they matter.
fn image_of(m: &Mount) -> Vec<u8> {
    fs::read(&m.image).unwrap()
}

#[test]
fn after_a_shutdown_nothing_is_written_and_what_was_synced_is_there() {
    if no_fuse() {
        return;
    }
    for layout in LAYOUTS {
        for flags in [NOLOGFLUSH, LOGFLUSH, DEFAULT] {
            let m = mounted(layout);
            let synced = File::create(m.path("synced")).unwrap();
            synced.write_all_at(&[7; 100_000], 0).unwrap();
            synced.sync_all().unwrap();
            drop(synced);
            fs::create_dir(m.path("named")).unwrap();
            let late = File::create(m.path("cached")).unwrap();
            late.write_all_at(b"in the kernel's cache", 0).unwrap();
            assert_eq!(shut_down(&m.path(""), flags), Ok(()));
            let left = image_of(&m);
            is_down(&m);
            assert!(late.sync_all().is_err());
            drop(late);
            // Longer than the server's interval of write-back.
            std::thread::sleep(std::time::Duration::from_millis(1500));
            m.umount();
            assert!(image_of(&m) == left, "{layout}: something was written");

            m.mount();
            assert_eq!(fs::read(m.path("synced")).unwrap(), [7; 100_000]);
            let named = m.path("named").exists();
            assert_eq!(named, flags != NOLOGFLUSH, "{layout}, flags {flags}");
            fs::write(m.path("late"), b"x").unwrap();
            m.finish();
        }
    }
}

#[test]
fn a_shutdown_in_the_middle_of_work_leaves_a_sound_volume() {
    if no_fuse() {
        return;
    }
    for layout in LAYOUTS {
        let m = mounted(layout);
        let synced_often = [const { AtomicBool::new(false) }; 2];
        let work = |name: &str, often: &AtomicBool| -> u32 {
            let mut synced = 0;
            for round in 0..10_000_u32 {
                let path = m.path(&format!("{name}-{}", round % 50));
                let write = || {
                    let file = File::create(&path)?;
                    file.write_all_at(&round.to_le_bytes().repeat(5_000), 0)?;
                    if round % 10 == 0 {
                        file.sync_all()?;
                    }
                    std::io::Result::Ok(())
                };
                match write() {
                    Ok(()) => synced = round / 10 * 10,
                    Err(_) => break,
                }
                often.store(synced > 0, Relaxed);
            }
            synced
        };
        let ended = std::thread::scope(|scope| {
            let jobs = ["a", "b"].into_iter().zip(&synced_often);
            let threads: Vec<_> = jobs
                .map(|(name, often)| scope.spawn(move || work(name, often)))
                .collect();
            std::thread::sleep(Duration::from_millis(300));
            let go_on = || threads.iter().all(|thread| !thread.is_finished());
            while !synced_often.iter().all(|often| often.load(Relaxed)) && go_on() {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(shut_down(&m.path(""), NOLOGFLUSH), Ok(()));
            let ended = threads.into_iter().map(|thread| thread.join().unwrap());
            ended.collect::<Vec<u32>>()
        });
        is_down(&m);
        m.umount();
        varve(["fsck", "--data", &m.image]).expect(0, ": sound");
        m.mount();
        for (name, synced) in ["a", "b"].into_iter().zip(ended) {
            let path = m.path(&format!("{name}-{}", synced % 50));
            let content = fs::read(path).unwrap();
            let want = synced.to_le_bytes().repeat(5_000);
            assert!(content == want, "{layout}, {name}: {synced}");
        }
        m.finish();
    }
}

#[test]
fn a_shutdown_is_for_root_and_knows_its_flags() {
    if no_fuse() {
        return;
    }
    let m = mounted("log");
    assert_eq!(shut_down(&m.path(""), 3), Err(Errno::INVAL));
    support::shell(&format!("chmod 755 {}", m.scratch.dir.path().display()));
    let as_other = |path: &Path| {
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| {
                let other = rustix::fs::Uid::from_raw(1234);
                rustix::thread::set_thread_res_uid(other, other, other).unwrap();
                let all = Trim {
                    start: 0,
                    len: u64::MAX,
                    minlen: 0,
                };
                (shut_down(path, NOLOGFLUSH), trim(path, all).map(drop))
            });
            asks.join().unwrap()
        })
    };
    let refused = (Err(Errno::PERM), Err(Errno::PERM));
    assert_eq!(as_other(&m.path("")), refused);
    fs::write(m.path("f"), b"still up").unwrap();
    m.finish();
}

#[test]
fn trimming_gives_the_host_back_what_is_free() {
    if no_fuse() {
        return;
    }
    for layout in LAYOUTS {
        let m = mounted(layout);
        fs::write(m.path("kept"), vec![1; 2 << 20]).unwrap();
        fs::write(m.path("gone"), vec![2; 24 << 20]).unwrap();
        File::open(m.path("")).unwrap().sync_all().unwrap();
        fs::remove_file(m.path("gone")).unwrap();
        // After two checkpoints no recovery would return to the freed space.
        for _ in 0..2 {
            fs::write(m.path("mark"), b"x").unwrap();
            m.remount_checked();
        }
        let stored = || fs::metadata(&m.image).unwrap().blocks() * 512;
        let before = stored();
        let root = &m.path("");
        let range = |start, len, minlen| Trim { start, len, minlen };
        let most = range(0, u64::MAX, 64 << 20);
        assert_eq!(trim(root, most), Ok(0), "{layout}: pieces are smaller");
        let half = trim(root, range(0, 32 << 20, 0)).unwrap();
        assert!(half > 0 && half <= 32 << 20, "{layout}: {half}");
        let whole = trim(root, range(0, u64::MAX, 0)).unwrap();
        assert!(whole >= 32 << 20, "{layout}: {whole} of {before}");
        assert!(whole <= 62 << 20, "{layout}: {whole}");
        let after = stored();
        assert!(after + (12 << 20) < before, "{layout}: {before} {after}");
        let free = rustix::fs::statvfs(root).unwrap();
        assert!(whole <= free.f_bfree * free.f_frsize, "{layout}: {whole}");
        let behind = range(1 << 40, 1 << 20, 0);
        assert_eq!(trim(root, behind), Err(Errno::INVAL));
        // Less than a block.
        assert_eq!(trim(root, range(0, 100, 0)), Err(Errno::INVAL));
        assert!(fs::read(m.path("kept")).unwrap() == vec![1; 2 << 20]);
        fs::write(m.path("new"), vec![3; 30 << 20]).unwrap();
        m.remount_checked();
        assert!(fs::read(m.path("new")).unwrap() == vec![3; 30 << 20]);
        assert!(fs::read(m.path("kept")).unwrap() == vec![1; 2 << 20]);
        m.finish();
    }
}

#[test]
fn freezing_is_refused_by_the_kernel() {
    if no_fuse() {
        return;
    }
    // If a kernel passes it on, the documentation must be changed.
    let m = mounted("log");
    assert_eq!(freeze(&m.path("")), Err(Errno::OPNOTSUPP));
    m.finish();
}

#[test]
fn files_are_protected_and_shown_to_be() {
    if no_fuse() {
        return;
    }
    let m = mounted("log");
    let text = |path: &str| m.path(path).to_str().unwrap().to_owned();
    fs::create_dir(m.path("home")).unwrap();
    fs::write(m.path("file"), b"x").unwrap();
    let (home, file) = (text("home"), text("file"));
    varve(["protect", &home, &file]).expect(0, "");
    fs::write(m.path("home/new"), b"inherits").unwrap();
    let new = text("home/new");
    let all = ["protect", "--show", &home, &file, &new];
    let shown = format!("protected {home}\nprotected {file}\nprotected {new}\n");
    assert_eq!(varve(all).expect(0, "").out, shown);
    varve(["protect", "--off", &file]).expect(0, "");
    let shown = format!("unprotected {file}\n");
    assert_eq!(varve(["protect", "--show", &file]).expect(0, "").out, shown);
    // Callers outside of transactions use it as before.
    fs::write(m.path("home/new"), b"again").unwrap();
    assert_eq!(fs::read(m.path("home/new")).unwrap(), b"again");
    varve(["protect", "/dev/null"]).expect(1, "no file or directory of a mounted volume");
    m.finish();
}
