//! Memory maps, O_DIRECT and plain I/O on the same bytes.

use crate::map::SharedMap;
use crate::mount::{Layout, Mount, Table, file, open};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, ftruncate, seek};
use std::fs::File;
use std::os::unix::fs::FileExt;

on_every_policy! {
    what_a_map_has_stored_is_data_before_it_is_written_back,
    maps_reads_and_writes_see_each_other,
    what_is_mapped_beyond_the_end_is_not_stored,
    direct_transfers_take_any_place_and_length,
    appends_of_several_writers_stay_whole,
}

fn byte(file: &File, at: u64) -> Option<u8> {
    let mut byte = [0];
    (file.read_at(&mut byte, at).unwrap() == 1).then_some(byte[0])
}

/// A program that copies a file by its data must not lose bytes stored through a map.
fn what_a_map_has_stored_is_data_before_it_is_written_back(on: Layout) {
    for options in ["rw", "order=strict"] {
        let Some(m) = Mount::with(on, options) else {
            return;
        };
        let mut table = Table::default();
        let f = file(&m.path("f"), b"", 0o644);
        ftruncate(&f, 1 << 20).unwrap();
        let map = SharedMap::new(&f, 1 << 20);
        map.set(500_000, 1);
        let page = 500_000 / 4096 * 4096;
        table.row("data", seek(&f, SeekFrom::Data(0)), Ok(page));
        table.row("hole", seek(&f, SeekFrom::Hole(page)), Ok(page + 4096));
        map.set(page as usize + 4096, 1);
        table.row("more", seek(&f, SeekFrom::Hole(page)), Ok(page + 8192));
        drop(map);
        table.end();
    }
}

fn maps_reads_and_writes_see_each_other(on: Layout) {
    for options in ["rw", "order=strict"] {
        let Some(m) = Mount::with(on, options) else {
            return;
        };
        let (path, mut table) = (m.path("f"), Table::default());
        let plain = file(&path, &[b'a'; 16_384], 0o644);
        let direct = open(&path, OFlags::RDWR | OFlags::DIRECT, 0).unwrap();
        let (one, two) = (
            SharedMap::new(&plain, 16_384),
            SharedMap::new(&plain, 16_384),
        );
        plain.write_all_at(b"b", 100).unwrap();
        table.row("write, map", one.get(100), b'b');
        one.set(101, b'c');
        table.row("map, map", two.get(101), b'c');
        table.row("map, read", byte(&plain, 101), Some(b'c'));
        table.row("map, direct read", byte(&direct, 101), Some(b'c'));
        direct.write_all_at(b"d", 102).unwrap();
        table.row("direct write, read", byte(&plain, 102), Some(b'd'));
        table.row("direct write, map", two.get(102), b'd');
        plain.write_all_at(b"e", 103).unwrap();
        table.row("write, direct read", byte(&direct, 103), Some(b'e'));
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&plain, punch, 100, 2).unwrap();
        table.row(
            "punch, map",
            [100, 101, 102].map(|at| one.get(at)),
            [0, 0, b'd'],
        );
        fallocate(&plain, FallocateFlags::ZERO_RANGE, 0, 4096).unwrap();
        table.row("zero, map", (one.get(102), one.get(4096)), (0, b'a'));
        one.set(5_000, b'f');
        ftruncate(&plain, 4_500).unwrap();
        ftruncate(&plain, 16_384).unwrap();
        table.row(
            "truncate, map",
            [4_499, 4_500, 5_000].map(|at| one.get(at)),
            [b'a', 0, 0],
        );
        one.set(9_000, b'g');
        drop((one, two, direct, plain));
        m.remount();
        table.row(
            "remounted",
            byte(&File::open(&path).unwrap(), 9_000),
            Some(b'g'),
        );
        table.end();
    }
}

fn what_is_mapped_beyond_the_end_is_not_stored(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let path = m.path("f");
    let f = file(&path, &[1; 100], 0o644);
    let map = SharedMap::new(&f, 4096);
    map.set(200, 9);
    map.sync();
    drop((map, f));
    m.remount();
    let f = open(&path, OFlags::RDWR, 0).unwrap();
    ftruncate(&f, 4096).unwrap();
    assert_eq!((byte(&f, 99), byte(&f, 200)), (Some(1), Some(0)));
}

fn direct_transfers_take_any_place_and_length(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let mut table = Table::default();
    let f = open(
        &m.path("f"),
        OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT,
        0o644,
    )
    .unwrap();
    let mut model = Vec::new();
    let places = [
        (0, 4096),
        (4096, 512),
        (100, 1),
        (4608, 1000),
        (5000, 8192),
        (20_000, 70_000),
    ];
    for (n, (at, length)) in places.into_iter().enumerate() {
        let data = vec![n as u8 + 1; length];
        f.write_all_at(&data, at as u64).unwrap();
        model.resize(model.len().max(at + length), 0);
        model[at..at + length].copy_from_slice(&data);
        let mut found = vec![0xff; model.len() + 10];
        let got = f.read_at(&mut found, 0).unwrap();
        table.row((at, length), found[..got] == model[..], true);
    }
    table.row("beyond the end", byte(&f, 1 << 20), None);
    table.end();
}

fn appends_of_several_writers_stay_whole(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let path = m.path("log");
    std::thread::scope(|scope| {
        for writer in 1..=4u8 {
            let path = &path;
            scope.spawn(move || {
                use std::io::Write;
                let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
                let mut log = open(path, flags, 0o644).unwrap();
                for _ in 0..200 {
                    log.write_all(&[writer; 97]).unwrap();
                }
            });
        }
    });
    let log = std::fs::read(&path).unwrap();
    assert_eq!(log.len(), 4 * 200 * 97);
    assert!(
        log.chunks(97)
            .all(|line| line.iter().all(|b| *b == line[0]))
    );
}
