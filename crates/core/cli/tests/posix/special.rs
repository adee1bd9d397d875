//! FIFOs, sockets, devices.

use crate::mount::{Layout, Mount, STRANGER, Table, open};
use rustix::fs::{CWD, FileType, OFlags, makedev, mknodat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};

on_every_layout! {
    who_makes_what,
    they_work,
    devices_and_set_id_are_ignored_where_the_mount_says_so,
}

fn who_makes_what(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let device = makedev(259, 0xf_ffff);
    for (kind, ordinary) in [
        (FileType::RegularFile, Ok(())),
        (FileType::Fifo, Ok(())),
        (FileType::Socket, Ok(())),
        (FileType::CharacterDevice, Err(Errno::PERM)),
        (FileType::BlockDevice, Err(Errno::PERM)),
        (FileType::Directory, Err(Errno::PERM)),
        (FileType::Symlink, Err(Errno::INVAL)),
    ] {
        let (a, b) = (m.path("a"), m.path("b"));
        let make = |path| mknodat(CWD, path, kind, 0o640.into(), device);
        let root = if ordinary == Err(Errno::PERM) && kind != FileType::Directory {
            Ok(())
        } else {
            ordinary
        };
        table.row((kind, "root"), make(&a), root);
        table.row((kind, "other"), STRANGER.run(|| make(&b)), ordinary);
        if root.is_ok() {
            let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
            let found = rustix::fs::lstat(&a).unwrap();
            let rdev = if is_device { device } else { 0 };
            table.row((kind, "rdev"), found.st_rdev, rdev);
            table.row((kind, "kind"), FileType::from_raw_mode(found.st_mode), kind);
            table.row((kind, "again"), make(&a), Err(Errno::EXIST));
        }
        m.clear();
    }
    // A whiteout, as overlays make it, is allowed for every user.
    let whiteout = |path| mknodat(CWD, path, FileType::CharacterDevice, 0o600.into(), 0);
    table.row("whiteout", STRANGER.run(|| whiteout(m.path("w"))), Ok(()));
    table.end();
}

fn they_work(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (fifo, socket, null) = (m.path("fifo"), m.path("socket"), m.path("null"));
    mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&fifo, b"through the fifo").unwrap());
        assert_eq!(fs::read(&fifo).unwrap(), b"through the fifo");
    });
    let listener = UnixListener::bind(&socket).unwrap();
    let mut client = UnixStream::connect(&socket).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    server.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    mknodat(
        CWD,
        &null,
        FileType::CharacterDevice,
        0o600.into(),
        makedev(1, 3),
    )
    .unwrap();
    fs::write(&null, b"nothing").unwrap();
    assert_eq!(fs::read(&null).unwrap(), b"");
    let held = File::open(&null).unwrap();
    assert!(held.metadata().unwrap().file_type().is_char_device());
    drop((client, server, listener, held));
    m.remount();
    assert!(
        fs::symlink_metadata(&socket)
            .unwrap()
            .file_type()
            .is_socket()
    );
    assert_eq!(fs::symlink_metadata(&null).unwrap().rdev(), makedev(1, 3));
    fs::remove_file(&socket).unwrap();
}

fn devices_and_set_id_are_ignored_where_the_mount_says_so(on: Layout) {
    let Some(m) = Mount::with(on, "nodev,nosuid") else {
        return;
    };
    let null = m.path("null");
    mknodat(
        CWD,
        &null,
        FileType::CharacterDevice,
        0o666.into(),
        makedev(1, 3),
    )
    .unwrap();
    assert_eq!(open(&null, OFlags::RDONLY, 0).map(drop), Err(Errno::ACCESS));
    // By a process of its own: programs started by other tests have copies of this
    // process's open files from fork to exec, and a file open for writing cannot be
    // executed.
    crate::support::shell(&format!("cp /usr/bin/id {}", m.path("id").display()));
    crate::mount::chmod(&m.path("id"), 0o4755).unwrap();
    let id = STRANGER.run(|| crate::support::shell(&format!("{} -u", m.path("id").display())));
    assert_eq!(id.trim(), STRANGER.uid.to_string());
}
