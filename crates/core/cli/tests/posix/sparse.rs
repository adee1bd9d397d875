//! Holes, reservations, sizes: fallocate, SEEK_HOLE, copy_file_range, limits.

use crate::mount::{Answer, Layout, Mount, Table, file, open};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range, fallocate};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

on_every_policy! {
    every_mode_of_fallocate,
    reservations_take_room_and_give_it_back,
    data_and_holes_are_found,
    ranges_are_copied,
    sizes_have_their_limits,
}

const KIB: u64 = 1 << 10;

fn bytes(file: &File, from: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let got = file.read_at(&mut bytes, from).unwrap();
    bytes.truncate(got);
    bytes
}

fn size(file: &File) -> u64 {
    file.metadata().unwrap().len()
}

/// SEEK_DATA and SEEK_HOLE from `from`.
fn seek(file: &File, from: u64) -> [Result<u64, Errno>; 2] {
    [SeekFrom::Data(from), SeekFrom::Hole(from)].map(|to| rustix::fs::seek(file, to))
}

fn every_mode_of_fallocate(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    let (keep, punch) = (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE);
    let zero = FallocateFlags::ZERO_RANGE;
    let none = FallocateFlags::empty();
    let unsupported = Err(Errno::OPNOTSUPP);
    // Of 20,000 bytes of data, 10,000 are affected, or 10,000 beyond them.
    for (flags, want, extends, zeroes) in [
        (none, Ok(()), true, false),
        (keep, Ok(()), false, false),
        (keep | punch, Ok(()), false, true),
        (zero, Ok(()), true, true),
        (zero | keep, Ok(()), false, true),
        (punch, unsupported, false, false),
        (punch | zero, unsupported, false, false),
        (FallocateFlags::COLLAPSE_RANGE, unsupported, false, false),
        (FallocateFlags::INSERT_RANGE, unsupported, false, false),
        (FallocateFlags::UNSHARE_RANGE, unsupported, false, false),
    ] {
        for from in [5_000, 25_000] {
            let f = file(&path, &[7; 20_000], 0o644);
            table.row((flags, from), fallocate(&f, flags, from, 10_000), want);
            let end = if extends {
                20_000.max(from + 10_000)
            } else {
                20_000
            };
            table.row((flags, from, "size"), size(&f), end);
            let mut content = vec![0; end as usize];
            content[..20_000].fill(7);
            if zeroes && from == 5_000 {
                content[5_000..15_000].fill(0);
            }
            let same = bytes(&f, 0, 50_000) == content;
            table.row((flags, from, "content"), same, true);
        }
    }
    let f = file(&path, b"x", 0o644);
    let reader = open(&path, OFlags::RDONLY, 0).unwrap();
    let directory = open(&m.path("."), OFlags::RDONLY, 0).unwrap();
    let mut row = |what, got: Answer, want| table.row(what, got, Err(want));
    row("no length", fallocate(&f, none, 0, 0), Errno::INVAL);
    row(
        "too far",
        fallocate(&f, none, i64::MAX as u64, 1),
        Errno::FBIG,
    );
    row("read-only", fallocate(&reader, none, 0, 1), Errno::BADF);
    row("directory", fallocate(&directory, none, 0, 1), Errno::BADF);
    row("no room", fallocate(&f, none, 0, 1 << 30), Errno::NOSPC);
    row(
        "none to zero",
        fallocate(&f, zero, 0, 1 << 30),
        Errno::NOSPC,
    );
    // It has no other effect.
    let synced = f.write_all_at(b"y", 0).is_ok() && f.sync_all().is_ok();
    table.row("goes on", (synced, bytes(&f, 0, 9)), (true, b"y".to_vec()));
    table.end();
}

fn reservations_take_room_and_give_it_back(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let f = file(&m.path("f"), &[1; 4096], 0o644);
    let sectors = || {
        rustix::fs::fsync(&f).unwrap();
        rustix::fs::statx(
            &f,
            "",
            rustix::fs::AtFlags::EMPTY_PATH | rustix::fs::AtFlags::STATX_FORCE_SYNC,
            rustix::fs::StatxFlags::ALL,
        )
        .unwrap()
        .stx_blocks
    };
    let mut table = Table::default();
    table.row("data", sectors(), 8);
    fallocate(&f, FallocateFlags::KEEP_SIZE, 0, 64 * KIB).unwrap();
    table.row("reserved", (size(&f), sectors()), (4096, 128));
    rustix::fs::ftruncate(&f, 4096).unwrap();
    table.row("given back", sectors(), 8);
    fallocate(&f, FallocateFlags::empty(), 0, 64 * KIB).unwrap();
    table.row("allocated", (size(&f), sectors()), (64 * KIB, 128));
    let hole = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
    fallocate(&f, hole, 0, 64 * KIB).unwrap();
    table.row("punched", (size(&f), sectors()), (64 * KIB, 0));
    table.end();
}

fn data_and_holes_are_found(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let f = file(&m.path("f"), b"", 0o644);
    let nothing = Err(Errno::NXIO);
    table.row("empty", seek(&f, 0), [nothing; 2]);
    rustix::fs::ftruncate(&f, 1024 * KIB).unwrap();
    table.row("hole", seek(&f, 0), [nothing, Ok(0)]);
    f.write_all_at(&[1; 4096], 64 * KIB).unwrap();
    for synced in [false, true] {
        table.row((synced, 1), seek(&f, 1), [Ok(64 * KIB), Ok(1)]);
        table.row(
            (synced, 2),
            seek(&f, 65 * KIB),
            [Ok(65 * KIB), Ok(68 * KIB)],
        );
        table.row((synced, 3), seek(&f, 68 * KIB), [nothing, Ok(68 * KIB)]);
        rustix::fs::fsync(&f).unwrap();
    }
    f.write_all_at(b"x", 1024 * KIB - 1).unwrap();
    table.row(
        "tail",
        seek(&f, 1000 * KIB),
        [Ok(1020 * KIB), Ok(1000 * KIB)],
    );
    table.row(
        "end",
        seek(&f, 1024 * KIB - 1),
        [Ok(1024 * KIB - 1), Ok(1024 * KIB)],
    );
    table.row("beyond", seek(&f, 1024 * KIB), [nothing; 2]);
    fallocate(&f, FallocateFlags::empty(), 1024 * KIB, 64 * KIB).unwrap();
    table.row(
        "reserved is a hole",
        seek(&f, 1024 * KIB),
        [nothing, Ok(1024 * KIB)],
    );
    table.end();
}

fn ranges_are_copied(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let from = file(&m.path("from"), &[5; 10_000], 0o644);
    let path = m.path("to");
    let to = file(&path, &[6; 100], 0o644);
    let copy = |from: &File, at: u64, to: &File, target: u64, count| {
        copy_file_range(from, Some(&mut { at }), to, Some(&mut { target }), count)
    };
    table.row("whole", copy(&from, 0, &to, 50, 10_000), Ok(10_000));
    table.row("content", bytes(&to, 48, 4), vec![6, 6, 5, 5]);
    table.row("short", copy(&from, 9_990, &to, 0, 100), Ok(10));
    table.row("at the end", copy(&from, 10_000, &to, 0, 100), Ok(0));
    table.row("nothing", copy(&from, 0, &to, 0, 0), Ok(0));
    table.row("beside itself", copy(&from, 0, &from, 20_000, 100), Ok(100));
    table.row(
        "over itself",
        copy(&from, 0, &from, 50, 100),
        Err(Errno::INVAL),
    );
    let append = open(&path, OFlags::WRONLY | OFlags::APPEND, 0).unwrap();
    table.row("append", copy(&from, 0, &append, 0, 10), Err(Errno::BADF));
    let reader = open(&path, OFlags::RDONLY, 0).unwrap();
    table.row(
        "to a reader",
        copy(&from, 0, &reader, 0, 10),
        Err(Errno::BADF),
    );
    let directory = open(&m.path("."), OFlags::RDONLY, 0).unwrap();
    table.row(
        "a directory",
        copy(&directory, 0, &to, 0, 10),
        Err(Errno::ISDIR),
    );
    table.row(
        "too far",
        copy(&from, 0, &to, 1 << 62, 10),
        Err(Errno::FBIG),
    );
    let hole = file(&m.path("hole"), b"", 0o644);
    rustix::fs::ftruncate(&hole, 5_000).unwrap();
    table.row("a hole", copy(&hole, 0, &to, 0, 5_000), Ok(5_000));
    table.row(
        "zeros",
        bytes(&to, 0, 5_001),
        [vec![0; 5_000], vec![5]].concat(),
    );
    table.end();
}

fn sizes_have_their_limits(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let f = file(&m.path("f"), b"", 0o644);
    let most = on.largest_file();
    for (length, want) in [
        (most >> 20, Ok(())),
        (most, Ok(())),
        (most + 1, Err(Errno::FBIG)),
        (i64::MAX as u64, Err(Errno::FBIG)),
        (i64::MAX as u64 + 1, Err(Errno::INVAL)),
    ] {
        table.row(length, rustix::fs::ftruncate(&f, length), want);
    }
    f.write_all_at(b"z", most / 2 - 1).unwrap();
    rustix::fs::fsync(&f).unwrap();
    table.row("far away", bytes(&f, most / 2 - 2, 3), vec![0, b'z', 0]);
    table.row("last", bytes(&f, most - 1, 9), vec![0]);
    // ulimit -f counts kibibytes here; the signal is not part of the test.
    let script = format!(
        "cd {}; trap '' XFSZ; ulimit -f 8; head -c 20000 /dev/zero >limited || :; \
         truncate -s 8193 limited && exit 1; fallocate -l 8193 limited && exit 1; \
         truncate -s 8192 limited",
        m.path(".").display()
    );
    crate::support::shell(&format!("{{ {script}; }} 2>&1"));
    table.row(
        "limited",
        fs::metadata(m.path("limited")).unwrap().size(),
        8192,
    );
    table.end();
}
