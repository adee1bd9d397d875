//! open(2): flags on files of every kind.

use crate::mount::{Layout, Mount, OWNER, STRANGER, Table, chmod, file, open};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, mknodat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

on_every_layout! {
    flags_and_kinds_of_file,
    a_path_is_held_without_being_opened,
    a_running_program_is_not_written,
    a_read_only_mount_refuses_changes_and_nothing_else,
}

fn flags_and_kinds_of_file(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    fs::write(m.path("file"), b"content").unwrap();
    fs::create_dir(m.path("dir")).unwrap();
    rustix::fs::symlink("file", m.path("link")).unwrap();
    rustix::fs::symlink("absent", m.path("broken")).unwrap();
    mknodat(CWD, m.path("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
    mknodat(CWD, m.path("socket"), FileType::Socket, 0o600.into(), 0).unwrap();
    // No such device, so that the test does not depend on an existing one.
    mknodat(
        CWD,
        m.path("device"),
        FileType::CharacterDevice,
        0o600.into(),
        0xfff_0ff,
    )
    .unwrap();
    let (read, write) = (OFlags::RDONLY, OFlags::WRONLY);
    let (make, exclusive) = (OFlags::CREATE, OFlags::CREATE | OFlags::EXCL);
    let nofollow = OFlags::NOFOLLOW;
    for (name, flags, want) in [
        ("file", read, Ok(())),
        ("file", make | write, Ok(())),
        ("file", exclusive | write, Err(Errno::EXIST)),
        ("file", OFlags::DIRECTORY, Err(Errno::NOTDIR)),
        ("file", OFlags::DIRECT | OFlags::RDWR, Ok(())),
        ("file", nofollow, Ok(())),
        ("file/", read, Err(Errno::NOTDIR)),
        ("file/", make | write, Err(Errno::ISDIR)),
        ("file/x", make | write, Err(Errno::NOTDIR)),
        ("dir", read, Ok(())),
        ("dir", OFlags::DIRECTORY, Ok(())),
        ("dir", write, Err(Errno::ISDIR)),
        ("dir", OFlags::TRUNC, Err(Errno::ISDIR)),
        ("dir", make, Err(Errno::ISDIR)),
        ("dir", exclusive, Err(Errno::EXIST)),
        ("link", nofollow, Err(Errno::LOOP)),
        ("link", nofollow | OFlags::PATH, Ok(())),
        ("link", exclusive, Err(Errno::EXIST)),
        ("link", OFlags::DIRECTORY, Err(Errno::NOTDIR)),
        ("broken", read, Err(Errno::NOENT)),
        ("broken", exclusive, Err(Errno::EXIST)),
        ("absent", read, Err(Errno::NOENT)),
        ("absent/", make, Err(Errno::ISDIR)),
        ("absent/x", make, Err(Errno::NOENT)),
        ("fifo", write | OFlags::NONBLOCK, Err(Errno::NXIO)),
        ("fifo", read | OFlags::NONBLOCK, Ok(())),
        ("socket", read, Err(Errno::NXIO)),
        ("device", read, Err(Errno::NXIO)),
        ("broken", make | write, Ok(())),
        ("absent", read, Ok(())),
    ] {
        table.row(
            (name, flags),
            open(&m.path(name), flags, 0o600).map(drop),
            want,
        );
    }
    let kept = open(&m.path("file"), OFlags::WRONLY | OFlags::TRUNC, 0);
    drop(kept);
    table.row("truncated", fs::metadata(m.path("file")).unwrap().len(), 0);
    drop(file(&m.path("file"), b"x", 0o444));
    let noatime =
        |user: crate::mount::User| user.run(|| open(&m.path("file"), OFlags::NOATIME, 0).map(drop));
    table.row("O_NOATIME, owner", noatime(OWNER), Ok(()));
    table.row("O_NOATIME, other", noatime(STRANGER), Err(Errno::PERM));
    let made = OWNER.run(|| {
        // The creator may write the new file, whatever its mode.
        let mut file = open(&m.path("made"), exclusive | write, 0)?;
        std::io::Write::write_all(&mut file, b"x").map_err(|e| Errno::from_io_error(&e).unwrap())
    });
    table.row("made without rights", made, Ok(()));
    table.end();
}

fn a_path_is_held_without_being_opened(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    drop(file(&m.path("f"), b"content", 0o600));
    let held = STRANGER
        .run(|| open(&m.path("f"), OFlags::PATH, 0))
        .unwrap();
    table.row(
        "read",
        rustix::io::read(&held, &mut [0; 8][..]),
        Err(Errno::BADF),
    );
    table.row(
        "chmod",
        rustix::fs::fchmod(&held, 0o666.into()),
        Err(Errno::BADF),
    );
    table.row("stat", rustix::fs::fstat(&held).unwrap().st_size, 7);
    let link = rustix::fs::linkat(&held, "", CWD, m.path("g"), AtFlags::EMPTY_PATH);
    table.row("link", link, Ok(()));
    fs::rename(m.path("g"), m.path("h")).unwrap();
    fs::remove_file(m.path("f")).unwrap();
    table.row("follows", rustix::fs::fstat(&held).unwrap().st_nlink, 1);
    table.end();
}

fn a_running_program_is_not_written(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let path = m.path("program");
    let writer = file(&path, &fs::read("/bin/cat").unwrap(), 0o755);
    let start = || {
        Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
    };
    assert_eq!(
        start().unwrap_err().raw_os_error(),
        Some(Errno::TXTBSY.raw_os_error())
    );
    drop(writer);
    // Other tests start programs, which have copies of this process's files from fork to
    // exec.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut running = loop {
        match start() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            started => break started.unwrap(),
        }
    };
    let mut table = Table::default();
    let busy = Err(Errno::TXTBSY);
    table.row("write", open(&path, OFlags::WRONLY, 0).map(drop), busy);
    table.row(
        "truncate",
        open(&path, OFlags::WRONLY | OFlags::TRUNC, 0).map(drop),
        busy,
    );
    table.row("read", open(&path, OFlags::RDONLY, 0).map(drop), Ok(()));
    table.row("chmod", chmod(&path, 0o700), Ok(()));
    table.row("unlink", rustix::fs::unlink(&path), Ok(()));
    drop(running.stdin.take());
    table.row("it ran on", running.wait().unwrap().success(), true);
    table.end();
}

fn a_read_only_mount_refuses_changes_and_nothing_else(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    drop(file(&m.path("f"), b"content", 0o666));
    fs::create_dir(m.path("d")).unwrap();
    mknodat(
        CWD,
        m.path("null"),
        FileType::CharacterDevice,
        0o666.into(),
        0x103,
    )
    .unwrap();
    m.remount_read_only();
    let refused = Err(Errno::ROFS);
    let f = m.path("f");
    table.row("read", fs::read(&f).unwrap(), b"content".to_vec());
    table.row("write", open(&f, OFlags::WRONLY, 0).map(drop), refused);
    table.row(
        "create",
        open(&m.path("g"), OFlags::CREATE, 0o600).map(drop),
        refused,
    );
    table.row(
        "O_CREAT of what is there",
        open(&f, OFlags::CREATE, 0).map(drop),
        Ok(()),
    );
    table.row("unlink", rustix::fs::unlink(&f), refused);
    table.row("rename", rustix::fs::rename(&f, m.path("g")), refused);
    table.row("link", rustix::fs::link(&f, m.path("g")), refused);
    table.row("chmod", chmod(&f, 0o600), refused);
    table.row(
        "mkdir",
        rustix::fs::mkdir(m.path("g"), 0o700.into()),
        refused,
    );
    table.row("rmdir", rustix::fs::rmdir(m.path("d")), refused);
    // An existing name is reported before missing permission.
    table.row(
        "mkdir over",
        rustix::fs::mkdir(m.path("d"), 0o700.into()),
        Err(Errno::EXIST),
    );
    table.row(
        "symlink over",
        rustix::fs::symlink("x", &f),
        Err(Errno::EXIST),
    );
    let null = File::options().write(true).open(m.path("null"));
    table.row("a device is written", null.is_ok(), true);
    table.end();
}
