//! Attributes, extended attributes, statfs and set-id bits.

use crate::support::Mounted;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, SystemTime};
use varve_fs::{Atime, MemoryOptions, Options};
use varve_fuse::MountOptions;

fn mode_of(m: &Mounted, name: &str) -> u32 {
    fs::metadata(m.path(name)).unwrap().mode() & 0o7777
}

fn held_mode(m: &Mounted, name: &str) -> u32 {
    let ino = varve_fs::InodeNo(fs::metadata(m.path(name)).unwrap().ino());
    m.fs.getattr(ino).unwrap().mode & 0o7777
}

fn as_user(m: &Mounted, script: &str) -> bool {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .current_dir(m.root())
        .uid(1234)
        .gid(1234);
    command.status().unwrap().success()
}

#[test]
fn times_and_modes_can_be_set() {
    let Some(m) = Mounted::new() else { return };
    let file = File::create(m.path("f")).unwrap();
    let early = SystemTime::UNIX_EPOCH - Duration::new(1000, 5);
    let late = SystemTime::UNIX_EPOCH + Duration::new(5_000_000_000, 999_999_999);
    file.set_times(fs::FileTimes::new().set_accessed(early).set_modified(late))
        .unwrap();
    let meta = fs::metadata(m.path("f")).unwrap();
    assert_eq!(
        (meta.accessed().unwrap(), meta.modified().unwrap()),
        (early, late)
    );
    let born = meta.created().unwrap().elapsed().unwrap();
    assert!(born < Duration::from_secs(60));
    fs::set_permissions(m.path("f"), fs::Permissions::from_mode(0o4751)).unwrap();
    assert_eq!(mode_of(&m, "f"), 0o4751);
    chown(m.path("f"), Some(7), Some(8)).unwrap();
    let meta = fs::metadata(m.path("f")).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (7, 8));
    // A change of owner clears the set-id bits.
    assert_eq!((mode_of(&m, "f"), held_mode(&m, "f")), (0o751, 0o751));
}

#[test]
fn a_write_moves_the_modification_time_and_reaches_the_server() {
    let Some(m) = Mounted::new() else { return };
    let mut file = File::create(m.path("f")).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    file.write_all(b"x").unwrap();
    let after = file.metadata().unwrap().modified().unwrap();
    assert!(after > before);
    file.sync_all().unwrap();
    let ino = varve_fs::InodeNo(file.metadata().unwrap().ino());
    let held = m.fs.getattr(ino).unwrap().mtime;
    let shown = after.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(
        (held.seconds as u64, held.nanos),
        (shown.as_secs(), shown.subsec_nanos())
    );
}

/// truncate(2) by a path, which neither std nor rustix offers.
#[allow(unsafe_code)]
fn truncate(path: &std::path::Path, size: i64) {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a string that ends with NUL, and a number.
    assert_eq!(unsafe { libc::truncate(path.as_ptr(), size) }, 0);
}

#[test]
fn a_truncate_changes_times_at_once_or_never() {
    // With the kernel's write-back cache the kernel keeps times, without it the server.
    for strict_order in [false, true] {
        let Some(m) = Mounted::ordered(strict_order) else {
            return;
        };
        fs::write(m.path("f"), b"content").unwrap();
        File::open(m.path("f")).unwrap().sync_all().unwrap();
        let times = || {
            let meta = fs::metadata(m.path("f")).unwrap();
            let changed = (meta.ctime(), meta.ctime_nsec());
            (meta.modified().unwrap(), changed)
        };
        let held = || {
            let ino = fs::metadata(m.path("f")).unwrap().ino();
            let attr = m.fs.getattr(varve_fs::InodeNo(ino)).unwrap();
            let modified = Duration::new(attr.mtime.seconds as u64, attr.mtime.nanos);
            let changed = (attr.ctime.seconds, i64::from(attr.ctime.nanos));
            (SystemTime::UNIX_EPOCH + modified, changed)
        };
        let pause = || std::thread::sleep(Duration::from_millis(30));
        let before = times();
        pause();
        truncate(&m.path("f"), 7);
        let after = times();
        match strict_order {
            // Nothing is left to jump later.
            false => assert_eq!((after, held()), (before, before)),
            true => assert!(after.0 > before.0 && after.1 > before.1 && held() == after),
        }
        pause();
        let file = File::options().write(true).open(m.path("f")).unwrap();
        file.set_len(7).unwrap();
        let last = times();
        assert!(
            last.0 > after.0 && last.1 > after.1,
            "ftruncate changes both"
        );
        assert_eq!(held(), last);
        pause();
        truncate(&m.path("f"), 3);
        let shorter = times();
        assert!(shorter.0 > last.0 && shorter.1 > last.1);
        assert_eq!(held(), shorter);
    }
}

#[test]
fn every_read_that_reaches_the_server_sets_strict_access_times() {
    if !crate::support::can_mount() {
        return;
    }
    let strict = Options {
        relatime: Atime::Strict,
        ..Options::default()
    };
    let fs = crate::support::file_system(MemoryOptions::default(), strict);
    let mut options = MountOptions::default();
    assert!(options.apply("strictatime"));
    let m = Mounted::serve(fs, options);
    fs::write(m.path("f"), [1; 4096]).unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut ours = mounts
        .lines()
        .filter(|line| line.contains(m.root().to_str().unwrap()));
    assert!(ours.all(|line| !line.contains("relatime") && !line.contains("noatime")));
    let atime = || fs::metadata(m.path("f")).unwrap().accessed().unwrap();
    let direct = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(m.path("f"))
        .unwrap();
    for _ in 0..3 {
        let before = atime();
        std::thread::sleep(Duration::from_millis(30));
        direct.read_exact_at(&mut [0; 512], 0).unwrap();
        assert!(atime() > before);
    }
    // What the kernel has in its cache it does not ask for.
    let before = atime();
    std::thread::sleep(Duration::from_millis(30));
    let cost = m.cost(|| drop(fs::read(m.path("f")).unwrap()));
    assert_eq!(atime() > before, cost.of("read") > 0);
}

#[test]
fn writes_by_others_clear_set_id_bits() {
    for strict_order in [false, true] {
        let Some(m) = Mounted::ordered(strict_order) else {
            return;
        };
        crate::support::open_to_all(m.root());
        let reset = |mode: u32| {
            fs::write(m.path("f"), b"#!/bin/sh\n").unwrap();
            fs::set_permissions(m.path("f"), fs::Permissions::from_mode(mode)).unwrap();
        };
        let writes = [
            "echo more >>f",
            ": >f",
            "dd if=/dev/zero of=f bs=4096 count=1 oflag=direct conv=notrunc 2>/dev/null",
            "truncate -s 3 f",
            "fallocate -l 20000 f",
        ];
        for script in writes {
            reset(0o6777);
            assert!(as_user(&m, script), "{script}");
            assert_eq!(mode_of(&m, "f"), 0o777, "{script}, strict {strict_order}");
            assert_eq!(held_mode(&m, "f"), 0o777, "{script}, strict {strict_order}");
        }
        // Without group execution the set-group-id bit gives no rights. Those
        // who are not in the group take it away all the same.
        reset(0o6767);
        assert!(as_user(&m, "echo more >>f"));
        assert_eq!(mode_of(&m, "f"), 0o767);
        chown(m.path("f"), None, Some(1234)).unwrap();
        reset(0o6767);
        assert!(as_user(&m, "echo more >>f"));
        assert_eq!(mode_of(&m, "f"), 0o2767);
        chown(m.path("f"), None, Some(0)).unwrap();
        // Root keeps them.
        reset(0o6777);
        File::options()
            .append(true)
            .open(m.path("f"))
            .unwrap()
            .write_all(b"root")
            .unwrap();
        assert_eq!((mode_of(&m, "f"), held_mode(&m, "f")), (0o6777, 0o6777));
    }
}

#[test]
fn a_group_member_may_set_the_group_id_bit_and_a_stranger_not() {
    let Some(m) = Mounted::new() else { return };
    crate::support::open_to_all(m.root());
    fs::write(m.path("f"), b"").unwrap();
    chown(m.path("f"), Some(1234), Some(555)).unwrap();
    // The owner is in the group only through a supplementary one.
    let chmod = |groups: &str| {
        let user = ["--reuid", "1234", "--regid", "1234"];
        let mut command = Command::new("setpriv");
        command
            .args(user)
            .args(groups.split(' '))
            .args(["chmod", "2775", "f"]);
        command.current_dir(m.root()).status().unwrap().success()
    };
    assert!(chmod("--groups 555"));
    assert_eq!(mode_of(&m, "f"), 0o2775);
    assert!(chmod("--clear-groups"));
    assert_eq!(mode_of(&m, "f"), 0o775);
}

#[test]
fn extended_attributes() {
    let Some(m) = Mounted::new() else { return };
    let path = m.path("f");
    File::create(&path).unwrap();
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
    let get = |name: &str, room: usize| {
        let mut value = vec![0; room];
        rustix::fs::getxattr(&path, name, &mut value[..]).map(|n| value[..n.min(room)].to_vec())
    };
    set("user.a", b"layer", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.b", b"", XattrFlags::REPLACE), Err(Errno::NODATA));
    set("user.a", b"sediment", XattrFlags::REPLACE).unwrap();
    set("user.empty", b"", XattrFlags::empty()).unwrap();
    assert_eq!(get("user.a", 100).unwrap(), b"sediment");
    assert_eq!(get("user.a", 3), Err(Errno::RANGE));
    assert_eq!(get("user.none", 3), Err(Errno::NODATA));
    let size = rustix::fs::getxattr_query(&path, "user.a").unwrap();
    assert_eq!(size, 8);
    let mut names = [0u8; 100];
    let n = rustix::fs::listxattr(&path, &mut names[..]).unwrap();
    assert_eq!(&names[..n], b"user.a\0user.empty\0");
    assert_eq!(
        rustix::fs::listxattr(&path, &mut [0u8; 2][..]),
        Err(Errno::RANGE)
    );
    rustix::fs::removexattr(&path, "user.a").unwrap();
    assert_eq!(rustix::fs::removexattr(&path, "user.a"), Err(Errno::NODATA));
    set("user.big", &vec![7; 20_000], XattrFlags::empty()).unwrap();
    assert_eq!(get("user.big", 65_536).unwrap(), vec![7; 20_000]);
}

#[test]
fn statfs_counts_what_is_written() {
    let Some(m) = Mounted::new() else { return };
    let before = rustix::fs::statvfs(m.root()).unwrap();
    assert_eq!((before.f_namemax, before.f_frsize), (255, 4096));
    let mut file = File::create(m.path("f")).unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let after = rustix::fs::statvfs(m.root()).unwrap();
    assert!(before.f_bfree - after.f_bfree >= 256);
    assert_eq!(
        after.f_files - after.f_ffree,
        before.f_files - before.f_ffree + 1
    );
}

#[test]
fn read_only_mounts_refuse_changes() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.path("f"), b"old").unwrap();
    let fs_behind = std::sync::Arc::clone(&m.fs);
    drop(m);
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let m = Mounted::serve(fs_behind, options);
    assert_eq!(fs::read(m.path("f")).unwrap(), b"old");
    let refused = fs::write(m.path("f"), b"new").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
}

#[test]
fn mount_flags_reach_the_kernel() {
    let options = MountOptions {
        no_suid: true,
        no_dev: true,
        no_exec: true,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    let script = m.path("run");
    let mut file = File::options()
        .create_new(true)
        .write(true)
        .mode(0o755)
        .open(&script)
        .unwrap();
    file.write_all(b"#!/bin/sh\n").unwrap();
    drop(file);
    let refused = Command::new(&script).status().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table
        .lines()
        .find(|l| l.contains(m.root().to_str().unwrap()))
        .unwrap();
    for word in [
        "fuse.varve",
        "nosuid",
        "nodev",
        "noexec",
        "default_permissions",
    ] {
        assert!(line.contains(word), "{word}: {line}");
    }
}

/// An access list: owner, group and others as given, one more user, a mask
/// of everything.
fn access_list(user: u32, rights: u16) -> Vec<u8> {
    let lines: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, rights, user),
        (0x04, 0, u32::MAX),
        (0x10, 7, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in lines {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

#[test]
fn access_lists_are_in_force_where_asked_for() {
    let options = MountOptions {
        acl: true,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(options) else {
        return;
    };
    crate::support::open_to_all(m.root());
    fs::write(m.path("f"), b"secret").unwrap();
    fs::set_permissions(m.path("f"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!as_user(&m, "cat f 2>/dev/null"));
    let grant = access_list(1234, 4);
    rustix::fs::setxattr(m.path("f"), ACCESS, &grant, XattrFlags::empty()).unwrap();
    assert!(as_user(&m, "cat f >/dev/null"));
    assert!(!as_user(&m, "echo x 2>/dev/null >f"));
    // The mask shows as the group's rights.
    assert_eq!(mode_of(&m, "f"), 0o670);
    // What a directory bequeaths takes the umask's place.
    fs::create_dir(m.path("d")).unwrap();
    crate::support::open_to_all(&m.path("d"));
    rustix::fs::setxattr(m.path("d"), DEFAULT, &grant, XattrFlags::empty()).unwrap();
    assert!(as_user(&m, "umask 077; echo x >d/g"));
    assert_eq!(mode_of(&m, "d/g"), 0o660);
    assert!(as_user(&m, "umask 027; echo x >h; mkdir e"));
    assert_eq!((mode_of(&m, "h"), mode_of(&m, "e")), (0o640, 0o750));
}

#[test]
fn access_lists_that_nobody_checks_are_refused() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.path("f"), b"").unwrap();
    let grant = access_list(1234, 4);
    let refused = rustix::fs::setxattr(m.path("f"), ACCESS, &grant, XattrFlags::empty());
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
}
