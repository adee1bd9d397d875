//! Volumes are filled through the kernel until nothing more fits, and everything in them
//! can be removed: the drawn cases of `varve_prove::space`, with servers that are killed,
//! and the cases first reported by hand.
//!
//! Without /dev/fuse they are skipped loudly, but fail in CI.

mod host;
mod mounts;
#[path = "../support/mod.rs"]
mod support;

use mounts::Mounts;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::mounted::{Mount, no_fuse};
use support::{shell, varve};
use varve_prove::random::{announce_seed, scale, scaled};
use varve_prove::space::{Case, run};

/// Seconds after which no further case is begun; scaled by `VARVE_PROVE_SCALE`.
const SECONDS: u64 = 6;

fn cases(layout: &'static str, count: u64) {
    if no_fuse() {
        return;
    }
    let seed = announce_seed("--test space (of varve-cli)", 1);
    let (start, mut removed) = (Instant::now(), 0);
    for nth in 0..scaled(count) {
        if start.elapsed() > Duration::from_secs(scaled(SECONDS)) {
            eprintln!("{nth} cases were done in time");
            break;
        }
        let threads = [1, 12][nth as usize % 2];
        let case = Case::nth_small(seed, nth).through_the_kernel(threads);
        let report = run(&case, &Mounts { layout });
        removed += report.unwrap_or_else(|failure| panic!("{failure}")).removed;
    }
    eprintln!("{removed} removals in {:?}", start.elapsed());
    assert!(removed > 0);
}

#[test]
fn a_mounted_volume_on_the_log_can_always_be_emptied() {
    cases("log", 8);
}

#[test]
fn a_mounted_volume_on_the_virtual_log_can_always_be_emptied() {
    cases("vlfs", 8);
}

#[test]
fn a_mounted_volume_that_is_updated_in_place_can_always_be_emptied() {
    cases("ffs", 8);
}

/// Calls `make` with one number after the other until it is refused for lack of space.
fn until_full(mut make: impl FnMut(u64) -> io::Result<()>) -> u64 {
    let mut made = 0;
    loop {
        match make(made) {
            Ok(()) => made += 1,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(28), "number {made}: {error}");
                return made;
            }
        }
    }
}

/// Removes everything, in the order of the listing.
fn empty(m: &Mount) -> u64 {
    let listed = fs::read_dir(&m.dir).unwrap();
    let listed: Vec<_> = listed.map(|entry| entry.unwrap()).collect();
    for (nth, entry) in listed.iter().enumerate() {
        let path = entry.path();
        let gone = match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir(path),
            false => fs::remove_file(path),
        };
        gone.unwrap_or_else(|error| panic!("removal {nth} of {}: {error}", listed.len()));
    }
    listed.len() as u64
}

/// Makes directories in the root until nothing fits, and removes them in the order of the
/// listing.
fn directories(size: &str, least: u64) {
    if no_fuse() {
        return;
    }
    let m = Mount::new(size);
    let made = until_full(|nth| fs::create_dir(m.path(&format!("d{nth}"))));
    assert!(made > least, "{made}");
    assert_eq!(empty(&m), made);
    assert_eq!(
        until_full(|nth| match nth {
            0..100 => fs::create_dir(m.path(&format!("e{nth}"))),
            _ => Err(io::Error::from_raw_os_error(28)),
        }),
        100
    );
    empty(&m);
    m.finish();
}

#[test]
fn directories_that_fill_32_mib_are_removed_through_the_kernel() {
    directories("32M", 40_000);
}

/// At 64 and 128 MiB this takes minutes in a build with assertions.
#[test]
fn directories_that_fill_larger_volumes_are_removed_through_the_kernel() {
    if scale() < 4.0 {
        eprintln!("SKIPPED: VARVE_PROVE_SCALE is not set to 4 or more");
        return;
    }
    directories("64M", 80_000);
    directories("128M", 160_000);
}

fn kill(m: &Mount) {
    shell(&format!("kill -KILL {}; umount -l {}", m.server(), m.dir));
    m.mount();
}

/// The history of a volume of 16 MiB that once refused every `unlink`.
#[test]
fn files_of_every_kind_come_and_go_on_16_mib() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("16M");
    let path = |nth: u64| -> PathBuf { m.path(&format!("n{nth}")) };
    let content = |nth: u64| vec![nth as u8; 1 + (nth * 7919 % 3000) as usize];
    let small = || until_full(|nth| fs::write(path(nth), content(nth)));
    assert!(small() > 1000);
    empty(&m);
    assert!(until_full(|nth| fs::create_dir(path(nth))) > 10_000);
    empty(&m);
    let with_attribute = |nth| {
        fs::write(path(nth), "")?;
        let flags = rustix::fs::XattrFlags::empty();
        Ok(rustix::fs::setxattr(
            path(nth),
            "user.a",
            &[7; 1500],
            flags,
        )?)
    };
    assert!(until_full(with_attribute) > 1000);
    kill(&m);
    empty(&m);
    let target = "t".repeat(500);
    let link = |nth| std::os::unix::fs::symlink(&target, path(nth));
    assert!(until_full(link) > 1000);
    empty(&m);
    let mut large = fs::File::create(path(0)).unwrap();
    until_full(|_| {
        io::Write::write_all(&mut large, &[9; 65_536])?;
        large.sync_data()
    });
    drop(large);
    kill(&m);
    empty(&m);
    let made = small();
    let overwritten = |nth: u64| -> io::Result<()> {
        let file = fs::File::options().write(true).open(path(nth))?;
        std::os::unix::fs::FileExt::write_all_at(&file, &content(nth), 0)?;
        file.sync_all()
    };
    let refused = (0..200.min(made)).filter(|&nth| overwritten(nth).is_err());
    eprintln!("{} of 200 overwritten in vain", refused.count());
    empty(&m);
    m.umount();
    varve(["fsck", "--data", &m.image]).expect(0, ": clean");
    m.mount();
    assert!(small() > 1000, "the room has come back");
    empty(&m);
    m.finish();
}
