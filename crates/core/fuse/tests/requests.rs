//! What operations cost, in requests.

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Cost, Mounted, as_user, open_to_all};
use varve_fuse::{MountOptions, query_statistics};

/// One test at a time. A session that ends closes copies of this process's low
/// descriptors, other tests' files among them, and the kernel writes a file back
/// when it is closed: that would be counted.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// OPEN, OPENDIR and FLUSH are asked once per mount; this asks them.
fn warm_up(m: &Mounted) {
    fs::write(m.path("warm"), b"up").unwrap();
    fs::read(m.path("warm")).unwrap();
    fs::read_dir(m.root()).unwrap().count();
    m.settle();
}

fn show(what: &str, cost: &Cost) {
    eprintln!("{what}: {} requests, {cost:?}", cost.total());
}

#[test]
fn writes_with_write_back_cost_only_their_data() {
    let _alone = alone();
    let Some(m) = Mounted::new() else { return };
    warm_up(&m);
    let file = File::create(m.path("f")).unwrap();
    // The first write asks once whether the file has capabilities.
    file.write_all_at(&[0; 4096], 0).unwrap();
    let cost = m.cost(|| {
        for n in 1..256u64 {
            file.write_all_at(&[n as u8; 4096], n * 4096).unwrap();
        }
    });
    show("255 writes of a block", &cost);
    assert_eq!(cost.total(), cost.of("write"), "{cost:?}");
    let cost = m.cost(|| file.sync_all().unwrap());
    show("fsync of 1 MiB", &cost);
    // 256 KiB each.
    assert_eq!((cost.of("write"), cost.of("fsync")), (4, 1), "{cost:?}");
    assert!(cost.of("setattr") <= 1 && cost.total() <= 6, "{cost:?}");
    let cost = m.cost(|| drop(file));
    assert_eq!(cost.total(), 0, "{cost:?}");
}

#[test]
fn the_usual_operations() {
    let _alone = alone();
    let Some(m) = Mounted::new() else { return };
    warm_up(&m);
    let cost = m.cost(|| {
        let mut file = File::create(m.path("f")).unwrap();
        file.write_all(&[1; 1000]).unwrap();
    });
    show("create, write, close", &cost);
    for never in ["open", "release", "flush", "opendir"] {
        assert_eq!(cost.of(never), 0, "{cost:?}");
    }
    assert!(cost.total() <= 5, "{cost:?}");

    let cost = m.cost(|| {
        let mut file = File::options().append(true).open(m.path("f")).unwrap();
        file.write_all(&[1; 1000]).unwrap();
    });
    show("open, append, close", &cost);
    assert!(cost.total() <= 3, "{cost:?}");

    let cost = m.cost(|| {
        fs::metadata(m.path("f")).unwrap();
    });
    show("stat after a write", &cost);
    assert!(cost.total() <= 1, "{cost:?}");
    let cost = m.cost(|| {
        fs::metadata(m.path("f")).unwrap();
    });
    show("stat again", &cost);
    assert_eq!(cost.total(), 0, "{cost:?}");
    let cost = m.cost(|| {
        fs::read(m.path("f")).unwrap();
    });
    show("open, read, close of cached data", &cost);
    assert!(cost.total() <= 1, "{cost:?}");
    let cost = m.cost(|| fs::remove_file(m.path("f")).unwrap());
    show("unlink", &cost);
    // With write-back the kernel keeps the change time, and reports it once
    // more even for a file that goes away.
    assert_eq!(cost.of("unlink"), 1, "{cost:?}");
    assert!(
        cost.of("setattr") <= 1 && cost.of("forget") <= 1,
        "{cost:?}"
    );
    assert!(cost.total() <= 3, "{cost:?}");
    let cost = m.cost(|| assert!(!m.path("f").exists()));
    show("stat of what was just removed", &cost);
    // Attributes of the changed directory, and the name.
    assert!(cost.total() <= 2, "{cost:?}");
    let cost = m.cost(|| assert!(!m.path("f").exists()));
    assert_eq!(cost.total(), 0, "absent names are remembered: {cost:?}");
}

#[test]
fn a_cold_read_costs_a_lookup_and_its_data() {
    let _alone = alone();
    let Some(m) = Mounted::new() else { return };
    warm_up(&m);
    fs::write(m.path("f"), vec![3; 4 << 20]).unwrap();
    let served = std::sync::Arc::clone(&m.fs);
    drop(m);
    let m = Mounted::serve(served, MountOptions::default());
    fs::read(m.path("warm")).unwrap();
    let mut buffer = vec![0; 4 << 20];
    let cost = m.cost(|| {
        File::open(m.path("f"))
            .unwrap()
            .read_exact(&mut buffer)
            .unwrap()
    });
    show("cold open, read of 4 MiB, close", &cost);
    assert_eq!(cost.of("lookup"), 1, "{cost:?}");
    assert!(cost.of("read") <= 20, "{cost:?}");
    assert_eq!(
        cost.total(),
        cost.of("lookup") + cost.of("read"),
        "{cost:?}"
    );
}

#[test]
fn a_listing_with_attributes_needs_no_lookups() {
    let _alone = alone();
    let Some(m) = Mounted::new() else { return };
    fs::create_dir(m.path("d")).unwrap();
    for n in 0..200 {
        File::create(m.path(&format!("d/{n}"))).unwrap();
    }
    let served = std::sync::Arc::clone(&m.fs);
    drop(m);
    let m = Mounted::serve(served, MountOptions::default());
    let list = || {
        let entries = fs::read_dir(m.path("d")).unwrap();
        let sizes = entries.map(|e| rustix::fs::lstat(e.unwrap().path()).unwrap().st_size);
        assert_eq!(sizes.count(), 200);
    };
    let cost = m.cost(list);
    show("first listing of 200 with attributes", &cost);
    // One look-up is the directory's own.
    assert!(cost.of("lookup") <= 1 && cost.total() <= 8, "{cost:?}");
    let cost = m.cost(list);
    show("second listing", &cost);
    assert!(cost.total() <= 1, "{cost:?}");
    // Birth times are asked for one by one, and only once.
    let born = || {
        fs::read_dir(m.path("d")).unwrap().for_each(|e| {
            e.unwrap().metadata().unwrap().created().unwrap();
        })
    };
    let cost = m.cost(born);
    show("birth times of 200", &cost);
    assert_eq!(cost.of("statx"), 200, "{cost:?}");
    assert_eq!(m.cost(born).of("statx"), 0);
}

#[test]
fn without_birth_times_nobody_asks_twice() {
    let _alone = alone();
    let options = MountOptions {
        birth_times: false,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    for n in 0..10 {
        fs::write(m.path(&n.to_string()), b"x").unwrap();
        assert!(
            fs::metadata(m.path(&n.to_string()))
                .unwrap()
                .created()
                .is_err()
        );
    }
    assert_eq!(m.requests("statx"), 1);
}

#[test]
fn without_extended_attributes_nobody_asks_for_capabilities() {
    let _alone = alone();
    let options = MountOptions {
        extended_attributes: false,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    for n in 0..10 {
        fs::write(m.path(&n.to_string()), b"x").unwrap();
    }
    assert_eq!(m.requests("getxattr"), 1);
    let none = rustix::fs::getxattr_query(m.path("1"), "user.a").unwrap_err();
    assert_eq!(none, rustix::io::Errno::OPNOTSUPP);
}

#[test]
fn many_files_in_one_directory() {
    let _alone = alone();
    let Some(m) = Mounted::new() else { return };
    warm_up(&m);
    let path = |n: u32| m.path(&format!("file-{n}"));
    let cost = m.cost(|| (0..100).for_each(|n| fs::write(path(n), b"small").unwrap()));
    show("100 times create, write, close", &cost);
    // GETATTR: a changed directory's attributes, for the permission check.
    assert!(cost.total() <= 600, "{cost:?}");
    let cost = m.cost(|| (0..100).for_each(|n| assert_eq!(fs::read(path(n)).unwrap(), b"small")));
    show("100 times open, read, close of cached data", &cost);
    assert!(cost.total() <= 101, "{cost:?}");
    let cost = m.cost(|| (0..100).for_each(|n| fs::remove_file(path(n)).unwrap()));
    show("100 times unlink", &cost);
    assert!(cost.total() <= 400, "{cost:?}");
}

/// Nothing was opened before on this mount, so that no OPEN has been refused.
#[test]
fn what_is_made_first_is_not_released() {
    let _alone = alone();
    let Some(m) = Mounted::new() else { return };
    let make = |n: u32| fs::write(m.path(&n.to_string()), b"small").unwrap();
    make(0);
    m.settle();
    let cost = m.cost(|| (1..=100).for_each(make));
    show("100 times create, write, close on a new mount", &cost);
    assert_eq!(cost.of("release"), 0, "{cost:?}");
    assert_eq!((cost.of("create"), cost.of("mknod")), (0, 100), "{cost:?}");
}

#[test]
fn who_makes_a_file_may_write_it_whatever_its_mode() {
    let Some(m) = Mounted::new() else { return };
    open_to_all(m.root());
    as_user(1000, || {
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o444);
        let mut file = options.open(m.path("f")).unwrap();
        file.write_all(b"once").unwrap();
        let again = File::options().write(true).open(m.path("f"));
        let refused = again.unwrap_err().kind();
        assert_eq!(refused, std::io::ErrorKind::PermissionDenied);
    });
    assert_eq!(fs::read(m.path("f")).unwrap(), b"once");
}

#[test]
fn strict_order_writes_through() {
    let _alone = alone();
    let options = MountOptions {
        strict_order: true,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    warm_up(&m);
    let file = File::create(m.path("f")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    let cost = m.cost(|| file.write_all_at(b"second", 0).unwrap());
    show("write through", &cost);
    assert_eq!((cost.of("write"), cost.total()), (1, 1), "{cost:?}");
    let ino = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let mut held = [0; 6];
    m.fs.read(varve_fs::InodeNo(ino), 0, &mut held).unwrap();
    assert_eq!(&held, b"second");
}

#[test]
fn a_synchronous_write_is_one_request_and_others_go_beside_it() {
    let _alone = alone();
    let options = MountOptions {
        dsync: true,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    warm_up(&m);
    let mut open = File::options();
    open.read(true).write(true).create(true);
    for (name, flags) in [("d", libc::O_DSYNC), ("s", libc::O_SYNC)] {
        let file = open.custom_flags(flags).open(m.path(name)).unwrap();
        file.write_all_at(&[0; 64 << 10], 0).unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        let again = open.open(m.path(name)).unwrap();
        // More than times advance by.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let cost = m.cost(|| {
            std::thread::scope(|scope| {
                for n in 0..16u8 {
                    let file = if n % 2 == 0 { &file } else { &again };
                    let at = u64::from(n) * 4096;
                    scope.spawn(move || file.write_all_at(&[n + 1; 4096], at).unwrap());
                }
            });
        });
        show("16 synchronous writes", &cost);
        assert_eq!((cost.of("write"), cost.of("fsync")), (16, 0), "{cost:?}");
        assert!(file.metadata().unwrap().modified().unwrap() > before);
        let through_the_cache = fs::read(m.path(name)).unwrap();
        for (n, block) in through_the_cache.chunks(4096).enumerate() {
            assert!(block.iter().all(|byte| *byte == n as u8 + 1), "{name} {n}");
        }
    }
    // Who does not ask for it has the kernel's cache.
    let plain = open.custom_flags(0).open(m.path("d")).unwrap();
    let mut block = [0; 4096];
    plain.read_exact_at(&mut block, 0).unwrap();
    let cost = m.cost(|| plain.read_exact_at(&mut block, 0).unwrap());
    assert_eq!(cost.of("read"), 0, "{cost:?}");
}

#[test]
fn statistics_come_through_the_mount() {
    let _alone = alone();
    let options = MountOptions {
        statistics: Some(std::sync::Arc::new(|| {
            r#"{"volume":{"segments":7}}"#.into()
        })),
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    warm_up(&m);
    let all: serde_json::Value =
        serde_json::from_str(&query_statistics(m.root()).unwrap()).unwrap();
    assert_eq!(all["volume"]["segments"], 7);
    assert!(all["requests"]["mknod"].as_u64().unwrap() >= 1);
    assert_eq!(all["requests"]["ioctl"], 1);
    let capabilities = all["protocol"]["capabilities"].as_array().unwrap();
    eprintln!("{}", all["protocol"]);
    assert!(capabilities.iter().any(|c| c == "handle_killpriv_v2"));
    fs::create_dir(m.path("d")).unwrap();
    let refused = query_statistics(&m.path("d")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOTTY));
}

#[test]
fn requests_come_over_io_uring_where_the_host_has_it() {
    let _alone = alone();
    for uring in [false, true] {
        let options = MountOptions {
            uring,
            ..MountOptions::default()
        };
        let Some(m) = Mounted::with(options) else {
            return;
        };
        warm_up(&m);
        let all = m.adapter.statistics_text();
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        let capabilities = all["protocol"]["capabilities"].as_array().unwrap();
        let used = capabilities.iter().any(|c| c == "over_io_uring");
        // Of kernels before 6.14 there is no such file.
        let offered = fs::read_to_string("/sys/module/fuse/parameters/enable_uring")
            .is_ok_and(|value| value.trim() == "Y");
        if uring && !offered {
            eprintln!("SKIPPED: the kernel does not offer FUSE over io_uring");
        }
        assert_eq!(used, uring && offered);
    }
}
