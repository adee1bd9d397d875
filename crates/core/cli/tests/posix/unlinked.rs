//! Files without names: removed but open, and those of O_TMPFILE.

use crate::mount::{Answer, Layout, Mount, STRANGER, Table, directory, file, open};
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

on_every_policy! {
    a_removed_file_lives_while_it_is_open,
    room_comes_back_when_the_last_user_closes,
    a_file_is_made_without_a_name,
    thousands_of_removed_files_stay_open,
}

/// Gives an open file a name, by both methods of Linux.
fn link(file: &File, path: &Path) -> [Answer; 2] {
    let through = format!("/proc/self/fd/{}", file.as_raw_fd());
    let twin = path.with_extension("twin");
    [
        rustix::fs::linkat(file, "", CWD, path, AtFlags::EMPTY_PATH),
        rustix::fs::linkat(CWD, through, CWD, twin, AtFlags::SYMLINK_FOLLOW),
    ]
}

fn a_removed_file_lives_while_it_is_open(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let f = file(&m.path("f"), b"content", 0o644);
    fs::remove_file(m.path("f")).unwrap();
    let through = format!("/proc/self/fd/{}", f.as_raw_fd());
    table.row("links", f.metadata().unwrap().nlink(), 0);
    table.row("chmod", rustix::fs::fchmod(&f, 0o600.into()), Ok(()));
    table.row("truncate", rustix::fs::ftruncate(&f, 4), Ok(()));
    table.row("write", f.write_at(b"!", 4).unwrap(), 1);
    table.row(
        "fallocate",
        rustix::fs::fallocate(&f, FallocateFlags::empty(), 0, 9000),
        Ok(()),
    );
    table.row("fsync", rustix::fs::fsync(&f), Ok(()));
    table.row(
        "xattr",
        rustix::fs::fsetxattr(&f, "user.a", b"1", XattrFlags::empty()),
        Ok(()),
    );
    table.row("again", fs::read(&through).unwrap().len(), 9000);
    table.row(
        "read",
        &fs::read(&through).unwrap()[..6] == b"cont!\0",
        true,
    );
    table.row(
        "no way back",
        link(&f, &m.path("g")),
        [Err(Errno::NOENT); 2],
    );
    table.row("mode", f.metadata().unwrap().mode() & 0o777, 0o600);

    let replaced = file(&m.path("old"), b"old", 0o644);
    drop(file(&m.path("new"), b"new", 0o644));
    fs::rename(m.path("new"), m.path("old")).unwrap();
    table.row("replaced", replaced.metadata().unwrap().nlink(), 0);
    let mut content = [0; 3];
    replaced.read_at(&mut content, 0).unwrap();
    table.row("replaced", &content, b"old");
    directory(&m.path("d"), 0o755);
    directory(&m.path("e"), 0o755);
    let held = File::open(m.path("e")).unwrap();
    fs::rename(m.path("d"), m.path("e")).unwrap();
    table.row("replaced directory", held.metadata().unwrap().nlink(), 0);
    table.end();
}

fn room_comes_back_when_the_last_user_closes(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let free = || rustix::fs::statvfs(m.path(".")).unwrap().f_bfree;
    let before = free();
    let f = file(&m.path("f"), &[1; 4 << 20], 0o644);
    fs::remove_file(m.path("f")).unwrap();
    rustix::fs::fsync(&f).unwrap();
    assert!(free() + 1000 < before, "in use");
    drop(f);
    // The kernel releases the file after a delay.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while free() + 100 < before {
        assert!(
            std::time::Instant::now() < deadline,
            "{} of {before}",
            free()
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn a_file_is_made_without_a_name(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let make = |flags| open(&m.path("."), OFlags::TMPFILE | OFlags::RDWR | flags, 0o640);
    let f = make(OFlags::empty()).unwrap();
    f.write_all_at(b"content", 0).unwrap();
    let meta = f.metadata().unwrap();
    table.row("made", (meta.nlink(), meta.mode() & 0o777), (0, 0o640));
    table.row("no name", fs::read_dir(m.path(".")).unwrap().count(), 0);
    table.row("named", link(&f, &m.path("f")), [Ok(()); 2]);
    table.row("links", f.metadata().unwrap().nlink(), 2);
    let never = make(OFlags::EXCL).unwrap();
    table.row("O_EXCL", link(&never, &m.path("n")), [Err(Errno::NOENT); 2]);
    drop(never);
    let read_only = open(&m.path("."), OFlags::TMPFILE, 0o600);
    table.row("read-only", read_only.map(drop), Err(Errno::INVAL));
    let in_file = open(&m.path("f"), OFlags::TMPFILE | OFlags::RDWR, 0o600);
    table.row("in a file", in_file.map(drop), Err(Errno::NOTDIR));
    directory(&m.path("closed"), 0o755);
    let in_closed = || open(&m.path("closed"), OFlags::TMPFILE | OFlags::RDWR, 0o600).map(drop);
    table.row(
        "without rights",
        STRANGER.run(in_closed),
        Err(Errno::ACCESS),
    );
    drop(f);
    m.remount();
    table.row("kept", fs::read(m.path("f")).unwrap(), b"content".to_vec());
    table.end();
}

fn thousands_of_removed_files_stay_open(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let files: Vec<File> = (0..700u32)
        .map(|n| {
            let path = m.path(&n.to_string());
            let f = file(&path, &n.to_le_bytes(), 0o600);
            fs::remove_file(path).unwrap();
            f
        })
        .collect();
    rustix::fs::fsync(File::open(m.path(".")).unwrap()).unwrap();
    for (n, f) in files.iter().enumerate() {
        let mut content = [0; 4];
        f.read_at(&mut content, 0).unwrap();
        assert_eq!(u32::from_le_bytes(content) as usize, n);
    }
}
