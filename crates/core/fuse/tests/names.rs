//! Names, through real system calls.

use crate::support::Mounted;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat_with};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn rename_with(from: &Path, to: &Path, flags: RenameFlags) -> rustix::io::Result<()> {
    renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags)
}

#[test]
fn files_directories_and_links() {
    let Some(m) = Mounted::new() else { return };
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("d/f"), b"sediment").unwrap();
    fs::hard_link(m.path("d/f"), m.path("g")).unwrap();
    symlink("d/f", m.path("s")).unwrap();
    assert_eq!(fs::read(m.path("s")).unwrap(), b"sediment");
    assert_eq!(fs::read_link(m.path("s")).unwrap(), Path::new("d/f"));
    let (a, b) = (
        fs::metadata(m.path("d/f")).unwrap(),
        fs::metadata(m.path("g")).unwrap(),
    );
    assert_eq!((a.ino(), a.nlink()), (b.ino(), 2));
    assert_eq!(fs::metadata(m.root()).unwrap().nlink(), 3);
    assert_eq!(
        fs::remove_dir(m.path("d")).unwrap_err().kind(),
        ErrorKind::DirectoryNotEmpty
    );
    fs::remove_file(m.path("d/f")).unwrap();
    assert_eq!(fs::metadata(m.path("g")).unwrap().nlink(), 1);
    assert_eq!(
        fs::read(m.path("s")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    fs::remove_dir(m.path("d")).unwrap();
    assert_eq!(fs::read_dir(m.root()).unwrap().count(), 2);
}

#[test]
fn special_files_keep_their_numbers() {
    let Some(m) = Mounted::new() else { return };
    let make = |name: &str, kind, dev| {
        let mode = Mode::from_raw_mode(0o640);
        rustix::fs::mknodat(rustix::fs::CWD, m.path(name), kind, mode, dev).unwrap();
        fs::symlink_metadata(m.path(name)).unwrap()
    };
    let dev = rustix::fs::makedev(259, 70_000);
    let meta = make("c", rustix::fs::FileType::CharacterDevice, dev);
    assert!(meta.file_type().is_char_device());
    assert_eq!(meta.rdev(), dev);
    assert!(
        make("p", rustix::fs::FileType::Fifo, 0)
            .file_type()
            .is_fifo()
    );
    assert!(
        make("s", rustix::fs::FileType::Socket, 0)
            .file_type()
            .is_socket()
    );
    // A device node works: /dev/null by its number.
    make(
        "null",
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::makedev(1, 3),
    );
    fs::write(m.path("null"), b"gone").unwrap();
    assert_eq!(fs::read(m.path("null")).unwrap(), b"");
}

#[test]
fn rename_and_its_flags() {
    let Some(m) = Mounted::new() else { return };
    let (a, b) = (m.path("a"), m.path("b"));
    fs::write(&a, b"A").unwrap();
    fs::write(&b, b"B").unwrap();
    let taken = rename_with(&a, &b, RenameFlags::NOREPLACE).unwrap_err();
    assert_eq!(taken, rustix::io::Errno::EXIST);
    rename_with(&a, &b, RenameFlags::EXCHANGE).unwrap();
    assert_eq!(
        (fs::read(&a).unwrap(), fs::read(&b).unwrap()),
        (b"B".to_vec(), b"A".to_vec())
    );
    fs::rename(&a, &b).unwrap();
    assert_eq!(fs::read(&b).unwrap(), b"B");
    assert!(!a.exists());
    fs::create_dir(m.path("d")).unwrap();
    rename_with(&b, &m.path("d/c"), RenameFlags::NOREPLACE).unwrap();
    assert_eq!(fs::read(m.path("d/c")).unwrap(), b"B");
    let inside = fs::rename(m.path("d"), m.path("d/e")).unwrap_err();
    assert_eq!(inside.raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn a_temporary_file_has_no_name_until_it_is_linked() {
    let Some(m) = Mounted::new() else { return };
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let fd = rustix::fs::open(m.root(), flags, Mode::from_raw_mode(0o600)).unwrap();
    let mut file = File::from(fd);
    file.write_all(b"varve").unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::read_dir(m.root()).unwrap().count(), 0);
    let by_fd = format!("/proc/self/fd/{}", file.as_raw_fd());
    let (cwd, name) = (rustix::fs::CWD, m.path("named"));
    rustix::fs::linkat(cwd, &by_fd, cwd, &name, AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(fs::read(&name).unwrap(), b"varve");
    assert_eq!(file.metadata().unwrap().nlink(), 1);

    let forgotten = rustix::fs::open(m.root(), flags, Mode::from_raw_mode(0o600)).unwrap();
    let inodes = m.fs.usage().inodes;
    drop(forgotten);
    wait_until("the nameless file is freed", || {
        m.fs.usage().inodes < inodes
    });
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("never: {what}");
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    let Some(m) = Mounted::new() else { return };
    let path = m.path("f");
    fs::write(&path, vec![7; 100_000]).unwrap();
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let inodes = m.fs.usage().inodes;
    fs::write(&path, b"another").unwrap();
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    assert_eq!(content, vec![7; 100_000]);
    file.write_all(b"more").unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 100_004);
    drop(file);
    wait_until("the unlinked file is freed", || {
        m.fs.usage().inodes == inodes
    });
}

#[test]
fn five_thousand_entries_listed_while_they_are_deleted() {
    let Some(m) = Mounted::new() else { return };
    fs::create_dir(m.path("d")).unwrap();
    let names: BTreeSet<String> = (0..5000).map(|n| format!("entry-{n:05}")).collect();
    for name in &names {
        File::create(m.path("d").join(name)).unwrap();
    }
    let listed: BTreeSet<String> = fs::read_dir(m.path("d"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(listed, names);
    // Every name is seen exactly once, although those before it go away.
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(m.path("d")).unwrap() {
        let entry = entry.unwrap();
        fs::remove_file(entry.path()).unwrap();
        assert!(seen.insert(entry.file_name().into_string().unwrap()));
    }
    assert_eq!(seen, names);
    assert_eq!(fs::read_dir(m.path("d")).unwrap().count(), 0);
    fs::remove_dir(m.path("d")).unwrap();
}

#[test]
fn new_files_belong_to_whoever_asks() {
    let Some(m) = Mounted::new() else { return };
    use std::os::unix::process::CommandExt;
    crate::support::open_to_all(m.root());
    let shell = |uid: u32, gid: u32, script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(m.root())
            .uid(uid)
            .gid(gid);
        command.status().unwrap().success()
    };
    assert!(shell(
        1234,
        2345,
        "umask 027; mkdir d; echo x >f; ln -s f s; mkfifo p"
    ));
    for (name, mode) in [("d", 0o750), ("f", 0o640), ("p", 0o640)] {
        let meta = fs::symlink_metadata(m.path(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (1234, 2345), "{name}");
        assert_eq!(meta.permissions().mode() & 0o7777, mode, "{name}");
    }
    assert_eq!(fs::symlink_metadata(m.path("s")).unwrap().uid(), 1234);
    // The kernel checks: another user reads neither file nor directory.
    assert!(!shell(99, 99, "cat f 2>/dev/null || ls d 2>/dev/null"));
    // In a set-group-id directory the group is inherited, and the bit too.
    fs::set_permissions(m.path("d"), fs::Permissions::from_mode(0o2777)).unwrap();
    assert!(shell(99, 98, "cd d && echo y >g && mkdir e"));
    assert_eq!(fs::metadata(m.path("d/g")).unwrap().gid(), 2345);
    assert_eq!(fs::metadata(m.path("d/e")).unwrap().mode() & 0o7000, 0o2000);
    // Sticky: only the owner removes.
    fs::set_permissions(m.root(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(!shell(99, 98, "rm -f f 2>/dev/null"));
    assert!(shell(1234, 2345, "rm f"));
}

#[test]
fn names_may_hold_any_byte_and_be_255_long() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let Some(m) = Mounted::new() else { return };
    let odd: Vec<u8> = (1..=255).filter(|&b| b != b'/').collect();
    let path = m.root().join(OsStr::from_bytes(&odd));
    fs::write(&path, b"odd").unwrap();
    let listed = fs::read_dir(m.root())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    assert_eq!(listed.as_bytes(), odd);
    let longest = m.root().join(OsStr::from_bytes(&[b'n'; 255]));
    File::create(&longest).unwrap();
    let too_long = m.root().join(OsStr::from_bytes(&[b'n'; 256]));
    assert_eq!(
        File::create(&too_long).unwrap_err().raw_os_error(),
        Some(libc::ENAMETOOLONG)
    );
}
