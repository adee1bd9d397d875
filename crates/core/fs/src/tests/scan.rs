//! A scan of a tree: all data once, in the order of its places.

use super::harness::*;
use crate::{Caller, ScanPiece};
use std::collections::BTreeMap;
use std::sync::Arc;

fn pieces(fs: &Arc<Fs>, path: &str) -> Vec<ScanPiece> {
    let scan = fs.scan(&Caller::root(), path.as_bytes()).unwrap();
    scan.map(|piece| piece.unwrap()).collect()
}

/// What the pieces consist of, each byte once.
fn contents(pieces: &[ScanPiece]) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, BTreeMap<u64, &[u8]>> = BTreeMap::new();
    for ScanPiece {
        path,
        offset,
        bytes,
    } in pieces
    {
        let file = files.entry(String::from_utf8(path.to_vec()).unwrap());
        assert!(file.or_default().insert(*offset, bytes).is_none());
    }
    let whole = |(path, parts): (String, BTreeMap<u64, &[u8]>)| {
        let mut content = Vec::new();
        for (offset, bytes) in parts {
            assert!(offset >= content.len() as u64, "{path}: no byte twice");
            content.resize(offset as usize, 0);
            content.extend_from_slice(bytes);
        }
        (path, content)
    };
    files.into_iter().map(whole).collect()
}

#[test]
fn a_scan_yields_all_data_in_the_order_of_its_places() {
    let fs = Arc::new(fresh());
    let d = fs.t_mkdir(ROOT, "d");
    let late = fs.t_file("late", &pattern(20_000, 1));
    let early = fs
        .mknod(&Caller::root(), d, b"early", 0o100_644, 0)
        .unwrap()
        .ino;
    fs.t_write(early, 0, &pattern(9000, 2));
    fs.sync().unwrap();
    // A block of the first file is written again, behind the second one.
    fs.t_write(late, 4096, &pattern(4096, 3));
    fs.sync().unwrap();
    let small = fs.t_file("small", b"in memory");
    fs.link(&Caller::root(), small, d, b"linked").unwrap();
    fs.t_truncate(fs.t_file("empty", b""), 0);
    let all = pieces(&fs, "/");
    let mut expected = pattern(20_000, 1);
    expected[4096..8192].copy_from_slice(&pattern(4096, 3));
    let found = contents(&all);
    assert_eq!(found["late"], expected);
    assert_eq!(found["d/early"], pattern(9000, 2));
    let names = found
        .keys()
        .filter(|name| name.ends_with("linked") || *name == "small");
    assert_eq!(names.count(), 1, "a file with two names is read once");
    let order: Vec<(&[u8], u64)> = all.iter().map(|p| (&p.path[..], p.offset)).collect();
    let at = |path: &[u8], offset| order.iter().position(|o| *o == (path, offset)).unwrap();
    assert!(at(b"late", 4096) > at(b"d/early", 0), "{order:?}");
    assert!(at(b"late", 4096) > at(b"late", 8192), "{order:?}");
    assert_eq!(contents(&pieces(&fs, "/d/early")).len(), 1);
    assert!(fs.scan(&Caller::root(), b"/none").is_err());
}

/// A file that is removed while it is scanned stays readable until its window is dropped.
#[test]
fn files_of_a_window_are_pinned() {
    let fs = Arc::new(fresh());
    let f = fs.t_file("f", &pattern(10_000, 1));
    fs.sync().unwrap();
    let mut scan = fs.scan(&Caller::root(), b"/").unwrap();
    let window = scan.window().unwrap().unwrap();
    fs.unlink(&Caller::root(), ROOT, b"f").unwrap();
    fs.sync().unwrap();
    assert_eq!(
        window.read(&window.parts[0], 0).unwrap(),
        pattern(10_000, 1)
    );
    assert_eq!(window.directories.len(), 1, "the root is listed to its end");
    assert!(scan.window().unwrap().is_none());
    drop(window);
    assert!(fs.getattr(f).is_err(), "freed with the window");
}

/// A file that has more blocks than a window continues in the next one.
#[test]
fn a_file_larger_than_a_window_is_scanned_in_several() {
    let fs = Arc::new(fresh());
    let f = fs.t_file("f", b"");
    let far = 70_000_u64 * 4096;
    fs.t_write(f, 0, &[1; 4096]);
    fs.t_write(f, far, &[2; 100]);
    fs.sync().unwrap();
    let mut scan = fs.scan(&Caller::root(), b"/f").unwrap();
    let mut seen = Vec::new();
    while let Some(window) = scan.window().unwrap() {
        for file in &window.files {
            seen.push((file.is_first, file.is_last));
        }
    }
    assert_eq!(seen, [(true, false), (false, true)]);
    let all = pieces(&fs, "f");
    assert_eq!(all.iter().map(|p| p.offset).collect::<Vec<_>>(), [0, far]);
}

#[test]
fn a_scan_reads_only_what_its_caller_may() {
    let fs = Arc::new(fresh());
    let f = fs.t_file("secret", b"1");
    let set = crate::SetAttr {
        mode: Some(0o600),
        ..Default::default()
    };
    fs.setattr(&Caller::root(), f, &set).unwrap();
    let user = Caller {
        uid: 7,
        gid: 7,
        ..Caller::root()
    };
    let mut scan = fs.scan(&user, b"/").unwrap();
    let failed = scan.next().unwrap().unwrap_err();
    assert_eq!(failed.to_string(), "secret: permission denied");
    assert!(fs.scan(&Caller::root(), b"/secret/x").is_err());
}
