//! Open files: access, positions, holes.

use super::*;
use crate::volume::Volume;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

fn volume() -> Volume {
    Volume::in_memory(32 << 20).unwrap()
}

fn both() -> OpenOptions {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .clone()
}

/// All combinations of options give the same result in std and here.
#[test]
fn options_are_allowed_and_refused_as_std_does() {
    let host = tempfile::tempdir().unwrap();
    let volume = volume();
    for bits in 0..64_u32 {
        let bit = |n: u32| bits >> n & 1 == 1;
        let mut theirs = std::fs::OpenOptions::new();
        theirs.read(bit(0)).write(bit(1)).append(bit(2));
        theirs.truncate(bit(3)).create(bit(4)).create_new(bit(5));
        let mut ours = OpenOptions::new();
        ours.read(bit(0)).write(bit(1)).append(bit(2));
        ours.truncate(bit(3)).create(bit(4)).create_new(bit(5));
        for name in ["there", "missing"] {
            let path = host.path().join(name);
            if name == "there" {
                std::fs::write(&path, b"content").unwrap();
                volume.write(name, b"content").unwrap();
            } else {
                let _ = (std::fs::remove_file(&path), volume.remove_file(name));
            }
            let theirs = theirs
                .open(&path)
                .map(|file| file.metadata().unwrap().len());
            let ours = ours.open(&volume, name);
            let ours = ours.map(|file| file.metadata().unwrap().len());
            assert_eq!(
                theirs.map_err(|error| error.kind()),
                ours.map_err(|error| error.kind()),
                "{name}, options {bits:#08b}"
            );
        }
    }
}

#[test]
fn a_file_does_only_what_it_was_opened_for() {
    let volume = volume();
    volume.write("/f", b"content").unwrap();
    let (mut reads, mut writes) = (volume.open_file("/f").unwrap(), OpenOptions::new());
    let mut writes = writes.write(true).open(&volume, "/f").unwrap();
    let errno = |error: crate::Error| error.errno();
    let bad = rustix::io::Errno::BADF.raw_os_error();
    assert_eq!(errno(reads.punch(0, 1).unwrap_err()), bad);
    assert_eq!(errno(reads.allocate(0, 1, true).unwrap_err()), bad);
    assert_eq!(errno(reads.set_len(0).unwrap_err()), 22);
    assert!(reads.write(b"x").is_err() && reads.write_at(b"x", 0).is_err());
    assert!(writes.read(&mut [0]).is_err() && writes.read_at(&mut [0], 0).is_err());
    let text = reads.write(b"x").unwrap_err().to_string();
    assert_eq!(text, "cannot write /f: the file was not opened for that");
    writes.write_all(b"C").unwrap();
    assert_eq!(volume.read("/f").unwrap(), b"Content");
}

#[test]
fn directories_are_opened_to_be_synced_and_examined() {
    let volume = volume();
    volume.create_dir("/d").unwrap();
    let directory = volume.open_file("/d").unwrap();
    directory.sync_all().unwrap();
    assert!(directory.metadata().unwrap().is_dir());
    let error = (&directory).read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsADirectory);
    let written = OpenOptions::new().write(true).open(&volume, "/d");
    assert_eq!(written.unwrap_err().kind(), ErrorKind::IsADirectory);
}

#[test]
fn a_file_stands_where_it_was_left() {
    let volume = volume();
    let mut file = both().open(&volume, "/f").unwrap();
    file.write_all(b"0123456789").unwrap();
    assert_eq!(file.stream_position().unwrap(), 10);
    assert_eq!(file.seek(SeekFrom::End(-4)).unwrap(), 6);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "6789");
    assert_eq!(file.seek(SeekFrom::Current(5)).unwrap(), 15);
    file.write_all(b"!").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 16);
    let before = file.seek(SeekFrom::Current(-17)).unwrap_err();
    assert_eq!(before.kind(), ErrorKind::InvalidInput);
    assert!(file.seek(SeekFrom::Start(u64::MAX)).is_err());
    assert_eq!(file.stream_position().unwrap(), 16);
    file.write_all_at(b"abc", 0).unwrap();
    assert_eq!(file.stream_position().unwrap(), 16);
    assert_eq!(&volume.read("/f").unwrap()[..12], b"abc3456789\0\0");
}

/// The position after an append is known at the commit of a locking transaction, or when
/// the transaction asks for it.
#[test]
fn what_a_transaction_appends_is_read_by_it_from_where_it_stands() {
    use crate::{Isolation, TransactionOptions};
    let volume = Volume::in_memory(16 << 20).unwrap();
    volume.write("/log", b"begin").unwrap();
    let options = TransactionOptions::new().isolation(Isolation::Locking);
    let open = |volume: &Volume| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .append(true)
            .open(volume, "/log")
            .unwrap()
    };
    let (transaction, other) = (
        volume.begin_with(&options).unwrap(),
        volume.begin_with(&options).unwrap(),
    );
    let (mut one, mut two) = (open(&transaction), open(&transaction));
    let mut theirs = open(&other);
    one.write_all(b"one").unwrap();
    theirs.write_all(b"theirs").unwrap();
    two.write_all(b"two").unwrap();
    drop(theirs);
    other.commit().unwrap();
    let mut rest = String::new();
    one.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two", "behind what it wrote itself");
    assert_eq!(two.stream_position().unwrap(), 17);
    assert_eq!(one.seek(std::io::SeekFrom::Current(-6)).unwrap(), 11);
    drop((one, two));
    transaction.commit().unwrap();
    assert_eq!(volume.read("/log").unwrap(), b"begintheirsonetwo");
}

#[test]
fn what_is_appended_goes_to_the_end_wherever_the_file_stands() {
    let volume = volume();
    volume.write("/log", b"one,").unwrap();
    let mut options = OpenOptions::new();
    let mut log = options
        .read(true)
        .append(true)
        .open(&volume, "/log")
        .unwrap();
    log.write_all(b"two,").unwrap();
    log.rewind().unwrap();
    log.write_all(b"three,").unwrap();
    assert_eq!(log.stream_position().unwrap(), 14);
    log.write_all_at(b"four", 0).unwrap();
    assert_eq!(log.write(b"").unwrap(), 0);
    assert_eq!(volume.read_to_string("/log").unwrap(), "one,two,three,four");
}

#[test]
fn an_open_file_outlives_its_name() {
    let volume = volume();
    let file = both().open(&volume, "/f").unwrap();
    file.write_all_at(b"still here", 0).unwrap();
    volume.remove_file("/f").unwrap();
    let mut buffer = [0; 20];
    assert_eq!(file.read_at(&mut buffer, 6).unwrap(), 4);
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    let then = SystemTime::UNIX_EPOCH;
    file.set_modified(then).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.nlink()), (0o600, 0));
    assert_eq!(metadata.modified().unwrap(), then);
}

#[test]
fn room_is_reserved_and_given_back() {
    let volume = volume();
    let file = both().open(&volume, "/f").unwrap();
    file.allocate(0, 1 << 20, false).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert!(file.metadata().unwrap().blocks() >= 2048);
    file.allocate(0, 1 << 20, true).unwrap();
    assert_eq!(file.next_data(0).unwrap(), None);
    file.write_all_at(&[7; 8192], 65536).unwrap();
    let data = file.next_data(0).unwrap().unwrap();
    assert_eq!((data, file.next_hole(data).unwrap()), (65536, Some(73728)));
    file.punch(0, 1 << 20).unwrap();
    assert_eq!(file.next_data(0).unwrap(), None);
    assert_eq!(file.next_hole(0).unwrap(), Some(0));
    assert_eq!(file.next_hole(1 << 20).unwrap(), None);
    file.set_len(1 << 30).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 30);
    assert_eq!(file.set_len(u64::MAX).unwrap_err().errno(), 22);
}
