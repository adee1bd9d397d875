//! How mounts end: unmounted, asked to end, killed.

use crate::support::server::Server;
use crate::support::{Mounted, can_mount};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_fuse::{End, MountOptions, Session};

fn is_mounted(path: &Path) -> bool {
    fs::read_to_string("/proc/self/mounts")
        .unwrap()
        .contains(path.to_str().unwrap())
}

#[test]
fn unmounting_brings_everything_to_the_file_system() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.path("f"), vec![1; 3 << 20]).unwrap();
    let behind = Arc::clone(&m.fs);
    let root = m.root().to_owned();
    assert_eq!(m.unmount().unwrap(), End::Unmounted);
    assert!(!is_mounted(&root));
    let caller = varve_fs::Caller::root();
    let found = behind
        .lookup(&caller, varve_fs::InodeNo::ROOT, b"f")
        .unwrap();
    assert_eq!(found.size, 3 << 20);
}

#[test]
fn a_mount_in_use_is_busy_and_then_cut_off() {
    let Some(m) = Mounted::new() else { return };
    let mut file = File::create(m.path("f")).unwrap();
    file.write_all(b"held").unwrap();
    let busy = m.unmounter.unmount().unwrap_err();
    assert_eq!(busy.raw_os_error(), Some(libc::EBUSY));
    let behind = Arc::clone(&m.fs);
    m.unmounter.shut_down(Duration::from_millis(200)).unwrap();
    assert_eq!(m.ended().unwrap(), End::Aborted);
    let lost = file.sync_all().unwrap_err();
    assert!(
        matches!(lost.raw_os_error(), Some(libc::ENOTCONN | libc::EIO)),
        "{lost}"
    );
    // What the kernel held when the grace ended was written first.
    let caller = varve_fs::Caller::root();
    let found = behind
        .lookup(&caller, varve_fs::InodeNo::ROOT, b"f")
        .unwrap();
    assert_eq!(found.size, 4);
}

#[test]
fn termination_unmounts() {
    if !can_mount() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start("");
        fs::write(server.root().join("f"), b"x").unwrap();
        server.signal(signal);
        server.expect("ended Unmounted");
        assert!(server.child.wait().unwrap().success());
        assert!(!is_mounted(server.root()));
    }
}

#[test]
fn termination_does_not_wait_for_ever() {
    if !can_mount() {
        return;
    }
    let mut server = Server::start("");
    let held = File::create(server.root().join("f")).unwrap();
    let began = Instant::now();
    server.signal(Signal::TERM);
    server.expect("ended Aborted");
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(!is_mounted(server.root()));
    drop(held);
}

#[test]
fn a_killed_server_leaves_an_error_and_no_hang() {
    if !can_mount() {
        return;
    }
    let mut server = Server::start("");
    let held = File::create(server.root().join("f")).unwrap();
    // Somebody is in the middle of many requests.
    let root = server.root().to_owned();
    let busy = std::thread::spawn(move || {
        (0..)
            .find_map(|n| fs::write(root.join(format!("g{n}")), b"x").err())
            .unwrap()
    });
    std::thread::sleep(Duration::from_millis(100));
    server.signal(Signal::KILL);
    server.child.wait().unwrap();
    let error = busy.join().unwrap();
    let ends = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];
    assert!(ends.contains(&error.raw_os_error().unwrap()), "{error}");
    // The kernel takes the queues of io_uring down after the process is gone.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let error = fs::read_dir(server.root()).unwrap_err().raw_os_error();
        if error == Some(libc::ENOTCONN) {
            break;
        }
        let on_the_way = [libc::ECANCELED, libc::ECONNABORTED];
        assert!(on_the_way.contains(&error.unwrap()), "{error:?}");
        assert!(Instant::now() < deadline, "still not cut");
    }
    // The dead mount is cleared away although a file is still open.
    assert!(is_mounted(server.root()));
    varve_fuse::unmount(server.root()).unwrap();
    assert!(!is_mounted(server.root()));
    assert_eq!(fs::read_dir(server.root()).unwrap().count(), 0);
    drop(held);
}

/// Killed while it has the kernel write back what its mount holds: a wait that
/// only its own threads could end, and no signal does.
#[test]
fn a_server_killed_while_it_ends_is_gone() {
    if !can_mount() {
        return;
    }
    for round in 0..20u64 {
        let mut server = Server::start("");
        let connection = fs::metadata(server.root()).unwrap().dev() & 0xff;
        let path = server.path("f");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let writer = std::thread::spawn(move || {
            let file = File::create(path)?;
            // The kernel takes writes to a dead mount, too.
            (0..)
                .take_while(|_| !stopped.load(Relaxed))
                .try_for_each(|n| file.write_all_at(&[7; 1 << 16], (n % 200) << 16))?;
            file.sync_all()
        });
        std::thread::sleep(Duration::from_millis(30));
        server.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(10));
        server.signal(Signal::TERM); // no grace: write back, and cut
        std::thread::sleep(Duration::from_micros(round * 500));
        server.signal(Signal::KILL);
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                let abort = format!("/sys/fs/fuse/connections/{connection}/abort");
                fs::write(abort, "1").unwrap();
                panic!("round {round}: the server waits for itself");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Relaxed);
        writer.join().unwrap().unwrap_err();
        let _ = varve_fuse::unmount(server.root());
        assert!(!is_mounted(server.root()), "round {round}");
    }
}

#[test]
fn a_session_that_is_never_run_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fs = crate::support::file_system(Default::default(), Default::default());
    let session = Session::new(fs, directory.path(), MountOptions::default()).unwrap();
    assert!(is_mounted(directory.path()));
    drop(session);
    assert!(!is_mounted(directory.path()));
}

#[test]
fn a_lock_that_waits_holds_no_thread() {
    let options = MountOptions {
        threads_max: 2,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    let open = || {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(m.path("f"))
            .unwrap()
    };
    let held = open();
    held.lock().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| open().lock().unwrap());
        }
        std::thread::sleep(Duration::from_millis(100));
        fs::write(m.path("g"), b"served meanwhile").unwrap();
        held.unlock().unwrap();
    });
    assert_eq!(m.requests("setlk") + m.requests("setlkw"), 0);
}

#[test]
fn only_a_directory_can_be_a_mount_point() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, b"").unwrap();
    for (at, want) in [
        (file, libc::ENOTDIR),
        (directory.path().join("none"), libc::ENOENT),
    ] {
        let fs = crate::support::file_system(Default::default(), Default::default());
        let refused = Session::new(fs, &at, MountOptions::default())
            .err()
            .unwrap();
        assert_eq!(refused.raw_os_error(), Some(want));
    }
}

#[test]
fn an_ordinary_user_mounts_through_the_helper() {
    let has = |path, bits| fs::metadata(path).is_ok_and(|m| m.mode() & bits == bits);
    if !can_mount() || !has("/usr/bin/fusermount3", 0o4000) || !has("/dev/fuse", 0o006) {
        eprintln!("=== SKIPPED: no set-user-id fusermount3, or /dev/fuse is closed to users ===");
        return;
    }
    // Nobody: the helper wants a user with a name.
    let user = 65_534;
    let mut server = Server::start_as("", Some(user));
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table
        .lines()
        .find(|l| l.contains(server.root().to_str().unwrap()))
        .unwrap();
    for word in [
        "fuse.varve",
        "nosuid",
        "nodev",
        "default_permissions",
        "user_id=65534",
    ] {
        assert!(line.contains(word), "{word}: {line}");
    }
    // Nobody else gets in, not even root.
    assert!(fs::read_dir(server.root()).is_err());
    let mut list = Command::new("ls");
    assert!(
        list.arg(server.root())
            .uid(user)
            .gid(user)
            .status()
            .unwrap()
            .success()
    );
    server.signal(Signal::TERM);
    server.expect("ended Unmounted");
    assert!(!is_mounted(server.root()));
}
