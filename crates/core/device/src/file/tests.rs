//! Image files in a temporary directory, in every mode.

use std::io::ErrorKind;

use super::*;
use crate::AlignedBuffer;

const SIZE: u64 = 4 << 20;
const MODES: [IoMode; 3] = [IoMode::Direct, IoMode::Buffered, IoMode::Sync];

fn image(io: IoMode) -> (tempfile::TempDir, FileDevice) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let device = FileDevice::create(path, SIZE, Preallocate::Sparse, io).unwrap();
    (directory, device)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i / 512 + i % 251) as u8).collect()
}

#[test]
fn buffers_of_any_alignment_round_trip() {
    for io in MODES {
        let (_directory, device) = image(io);
        let block = device.geometry().logical_block as usize;
        let bytes = pattern(3 * BOUNCE_BYTES + 5 * block + 1);
        let mut back = vec![0; bytes.len() + 1];
        for (skip, length) in [
            (1, block),
            (0, 2 * block),
            (1, 2 * BOUNCE_BYTES + 4 * block),
        ] {
            let data = &bytes[skip..skip + length];
            let (left, right) = data.split_at(length / 3);
            device
                .write(
                    block as u64,
                    &[IoSlice::new(left), IoSlice::new(&[]), IoSlice::new(right)],
                )
                .unwrap();
            device
                .read(block as u64, &mut back[skip..skip + length])
                .unwrap();
            assert!(&back[skip..skip + length] == data, "{io:?} {skip} {length}");
        }
    }
}

#[test]
fn a_run_is_read_into_several_buffers_of_any_alignment() {
    for io in MODES {
        let (_directory, device) = image(io);
        let block = device.geometry().logical_block as usize;
        let bytes = pattern(40 * block);
        let at = 3 * block as u64;
        device.write(at, &[IoSlice::new(&bytes)]).unwrap();
        for lengths in [
            vec![block; 40],
            vec![8 * block, block, 31 * block],
            vec![0, 1, block - 1, 39 * block],
        ] {
            for skip in [0, 1] {
                let zeroed = |&bytes: &usize| AlignedBuffer::zeroed(bytes + skip);
                let mut parts: Vec<_> = lengths.iter().map(zeroed).collect();
                let mut buffers: Vec<_> = parts
                    .iter_mut()
                    .map(|part| IoSliceMut::new(&mut part[skip..]))
                    .collect();
                device.read_vectored(at, &mut buffers).unwrap();
                let read: Vec<u8> = parts
                    .iter()
                    .flat_map(|part| &part[skip..])
                    .copied()
                    .collect();
                assert!(read == bytes, "{io:?} {lengths:?} {skip}");
            }
        }
    }
}

#[test]
fn aligned_buffers_are_not_copied() {
    let (_directory, device) = image(IoMode::Direct);
    let mut buffer = AlignedBuffer::zeroed(64 << 10);
    device
        .write(0, &[IoSlice::new(&buffer[..4096]), IoSlice::new(&buffer)])
        .unwrap();
    device.read(4096, &mut buffer).unwrap();
    let mut buffers: Vec<_> = buffer.chunks_mut(4096).map(IoSliceMut::new).collect();
    device.read_vectored(4096, &mut buffers).unwrap();
    assert_eq!(device.counters().snapshot().bytes_copied, 0);
    if device.io_mode() == IoMode::Direct {
        device.read(0, &mut buffer[1..4097]).unwrap();
        assert_eq!(device.counters().snapshot().bytes_copied, 4096);
    }
}

#[test]
fn more_buffers_than_one_call_takes() {
    for io in MODES {
        let (_directory, device) = image(io);
        let mut data = AlignedBuffer::zeroed(1500 * 512);
        data.copy_from_slice(&pattern(1500 * 512));
        let buffers: Vec<IoSlice<'_>> = data.chunks(512).map(IoSlice::new).collect();
        device.write(0, &buffers).unwrap();
        let mut back = vec![0; data.len()];
        device.read(0, &mut back).unwrap();
        assert!(back == data[..], "{io:?}");
    }
}

#[test]
fn requests_outside_or_between_blocks_are_refused() {
    for io in MODES {
        let (_directory, device) = image(io);
        for (offset, length) in [
            (SIZE, 4096),
            (u64::MAX - 4095, 4096),
            (1, 4096),
            (0, 100),
            (SIZE - 4096, 8192),
        ] {
            let mut buffer = vec![0; length];
            let error = device.read(offset, &mut buffer).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
            let error = device.write(offset, &[IoSlice::new(&buffer)]).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(device.counters().snapshot(), Default::default());
    }
}

#[test]
fn a_second_writer_is_refused_and_readers_share() {
    let (directory, device) = image(IoMode::Buffered);
    let path = directory.path().join("image");
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let error = FileDevice::open(&path, mode, IoMode::Direct).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        assert!(error.to_string().contains("in use"));
        assert!(error.to_string().contains(path.to_str().unwrap()));
    }
    drop(device);
    let reader = FileDevice::open(&path, OpenMode::ReadOnly, IoMode::Buffered).unwrap();
    let _second = FileDevice::open(&path, OpenMode::ReadOnly, IoMode::Direct).unwrap();
    assert!(FileDevice::open(&path, OpenMode::ReadWrite, IoMode::Buffered).is_err());
    drop((reader, _second));
    FileDevice::open(&path, OpenMode::ReadWrite, IoMode::Buffered).unwrap();
}

#[test]
fn readers_cannot_change_anything() {
    let (directory, device) = image(IoMode::Buffered);
    drop(device);
    let path = directory.path().join("image");
    let reader = FileDevice::open(&path, OpenMode::ReadOnly, IoMode::Buffered).unwrap();
    reader.set_discard(true);
    let error = reader.write(0, &[IoSlice::new(&[1; 512])]).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::ReadOnlyFilesystem);
    let error = reader.discard(0, 512).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::ReadOnlyFilesystem);
    reader.flush().unwrap();
}

#[test]
fn an_existing_file_is_not_created_again() {
    let (directory, device) = image(IoMode::Buffered);
    device.write(0, &[IoSlice::new(&[7; 512])]).unwrap();
    drop(device);
    let path = directory.path().join("image");
    let error = FileDevice::create(&path, SIZE, Preallocate::Sparse, IoMode::Buffered).unwrap_err();
    let OpenError::Io { source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap()[..512], [7; 512]);
}

#[test]
fn preallocation_takes_space_and_reports_progress() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let allocated = |name: &str| {
        let metadata = std::fs::metadata(directory.path().join(name)).unwrap();
        assert_eq!(metadata.len(), SIZE);
        metadata.blocks() * 512
    };
    let mut calls = Vec::new();
    let mut progress = |done, total| calls.push((done, total));
    for (name, preallocate) in [
        ("sparse", Preallocate::Sparse),
        ("reserved", Preallocate::Reserve),
        ("written", Preallocate::Written(&mut progress)),
    ] {
        let path = directory.path().join(name);
        FileDevice::create(path, SIZE, preallocate, IoMode::Direct).unwrap();
    }
    let path = directory.path().join("sync");
    FileDevice::create(path, SIZE, Preallocate::Reserve, IoMode::Sync).unwrap();
    assert_eq!(calls.last(), Some(&(SIZE, SIZE)));
    assert!(calls.is_sorted());
    assert!(allocated("sparse") < SIZE / 4);
    assert!(allocated("reserved") >= SIZE);
    assert!(allocated("written") >= SIZE);
    assert!(allocated("sync") >= SIZE);
}

#[test]
fn a_failed_creation_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let huge = 1 << 60;
    for size in [0, 100, 513, huge] {
        let reserve = Preallocate::Reserve;
        FileDevice::create(&path, size, reserve, IoMode::Buffered).unwrap_err();
        assert!(!path.exists(), "{size}");
    }
}

#[test]
fn what_is_no_device_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path| FileDevice::open(path, OpenMode::ReadOnly, IoMode::Buffered);
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotADevice { .. }), "{error}");
    let error = open(&directory.path().join("absent")).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    let short = directory.path().join("short");
    std::fs::write(&short, [0; 511]).unwrap();
    let error = open(&short).unwrap_err();
    assert!(matches!(error, OpenError::BadSize { .. }), "{error}");
}

#[test]
fn an_uneven_file_is_used_in_whole_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    std::fs::write(&path, vec![1; 10_000]).unwrap();
    let device = FileDevice::open(&path, OpenMode::ReadWrite, IoMode::Buffered).unwrap();
    assert_eq!(device.geometry().size, 19 * 512);
    assert_eq!(device.geometry().physical_block, 4096);
}

#[test]
fn a_file_cut_short_underneath_is_an_error() {
    for io in MODES {
        let (directory, device) = image(io);
        let path = directory.path().join("image");
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(8192).unwrap();
        let error = device.read(4096, &mut [0; 8192]).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::UnexpectedEof);
    }
}

#[test]
fn discards_reach_the_host_only_when_asked_for() {
    let (_directory, device) = image(IoMode::Buffered);
    let write = || device.write(0, &[IoSlice::new(&[9; 8192])]).unwrap();
    let read = || {
        let mut bytes = [0; 8192];
        device.read(0, &mut bytes).unwrap();
        bytes
    };
    write();
    device.discard(4096, 4096).unwrap();
    assert_eq!(read(), [9; 8192]);
    device.set_discard(true);
    device.discard(4096, 4096).unwrap();
    if device.counters().snapshot().discards == 1 {
        assert_eq!(read()[..4096], [9; 4096]);
        assert_eq!(read()[4096..], [0; 4096]);
    }
}

/// Returns a block device whose content the tests may overwrite.
fn spare_block_device() -> PathBuf {
    let name = std::env::var_os("VARVE_TEST_BLOCK_DEVICE");
    name.expect("VARVE_TEST_BLOCK_DEVICE names a block device")
        .into()
}

#[test]
#[ignore = "needs a spare block device, named by VARVE_TEST_BLOCK_DEVICE"]
fn block_devices_are_measured_locked_and_written() {
    let path = spare_block_device();
    let device = FileDevice::open(&path, OpenMode::ReadWrite, IoMode::Direct).unwrap();
    let geometry = device.geometry();
    eprintln!("{geometry:?} {:?} {:?}", device.io_mode(), device.note());
    assert_eq!(device.io_mode(), IoMode::Direct);
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let error = FileDevice::open(&path, mode, IoMode::Buffered).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    }
    let block = geometry.logical_block as usize;
    let data = pattern(4 * block + 1);
    let at = geometry.size - 4 * block as u64;
    device.write(at, &[IoSlice::new(&data[1..])]).unwrap();
    device.flush().unwrap();
    let mut back = vec![0; 4 * block];
    device.read(at, &mut back).unwrap();
    assert_eq!(back, data[1..]);
    assert!(device.read(geometry.size, &mut back).is_err());
    device.set_discard(true);
    device.discard(at, 4 * block as u64).unwrap();
    drop(device);
    let reader = FileDevice::open(&path, OpenMode::ReadOnly, IoMode::Direct).unwrap();
    FileDevice::open(&path, OpenMode::ReadOnly, IoMode::Sync).unwrap();
    let error = FileDevice::open(&path, OpenMode::ReadWrite, IoMode::Direct).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(reader.write(0, &[IoSlice::new(&back)]).is_err());
}

#[test]
#[ignore = "needs a loop device, named by VARVE_TEST_BLOCK_DEVICE, on VARVE_TEST_BACKING_FILE"]
fn a_loop_device_and_its_file_exclude_each_other() {
    let device = spare_block_device();
    let file = PathBuf::from(std::env::var_os("VARVE_TEST_BACKING_FILE").unwrap());
    for (first, second) in [(&device, &file), (&file, &device)] {
        let held = FileDevice::open(first, OpenMode::ReadWrite, IoMode::Buffered).unwrap();
        let error = FileDevice::open(second, OpenMode::ReadOnly, IoMode::Buffered).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        drop(held);
        FileDevice::open(second, OpenMode::ReadWrite, IoMode::Buffered).unwrap();
    }
}

#[test]
fn zeroing_and_extents_follow_the_holes_of_the_file() {
    let (_directory, device) = image(IoMode::Buffered);
    let extent = |offset| device.extent(offset, SIZE - offset).unwrap();
    assert!(!device.zero(0, 1 << 20).unwrap(), "not asked for");
    let bytes = vec![7; 1 << 20];
    device.write(1 << 20, &[IoSlice::new(&bytes)]).unwrap();
    // A host that keeps no holes reports data everywhere.
    if extent(0).hole {
        assert_eq!(extent(0).length, 1 << 20);
        let data = extent(1 << 20);
        assert_eq!((data.length, data.hole), (1 << 20, false));
    }
    assert!(device.extent(SIZE, 512).is_err());
    device.set_discard(true);
    if device.zero(1 << 20, 1 << 19).unwrap() {
        let mut back = vec![1; 1 << 20];
        device.read(1 << 20, &mut back).unwrap();
        assert!(back[..1 << 19].iter().all(|&byte| byte == 0));
        assert!(back[1 << 19..].iter().all(|&byte| byte == 7));
    }
}

/// Returns pieces of each length and alignment that matters, at least two blocks apart.
fn pieces(block: usize) -> Vec<(u64, Vec<u8>)> {
    let lengths = [1, 1, 8, 1, 3, 700, 1, 2];
    let mut at = 0;
    let piece = |number: usize| {
        let length = block * lengths[number % lengths.len()];
        let bytes = (0..length).map(|i| (i / 7 + number * 31) as u8).collect();
        let offset = at;
        at += length as u64 + 2 * block as u64;
        (offset, bytes)
    };
    (0..200).map(piece).collect()
}

#[test]
fn scattered_pieces_are_written_and_read_whole_wherever_they_stand() {
    for io in MODES {
        for refused in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("image");
            let device = FileDevice::create(path, 64 << 20, Preallocate::Sparse, io).unwrap();
            if refused {
                device.rings.refuse(&Errno::NOSYS.into());
                assert!(device.rings.take().is_none());
            }
            let pieces = pieces(device.geometry().logical_block as usize);
            let before = device.counters().snapshot();
            let mut writes: Vec<(u64, &[u8])> =
                pieces.iter().map(|(at, p)| (*at, &p[..])).collect();
            writes.reverse();
            device.write_many(&writes).unwrap();
            let mut back: Vec<Vec<u8>> = pieces.iter().map(|(_, p)| vec![0; p.len()]).collect();
            let mut reads: Vec<(u64, &mut [u8])> = pieces
                .iter()
                .zip(&mut back)
                .map(|((at, _), bytes)| (*at, &mut bytes[..]))
                .collect();
            device.read_many(&mut reads).unwrap();
            let after = device.counters().snapshot();
            assert_eq!(after.writes - before.writes, 200);
            assert_eq!(after.reads - before.reads, 200);
            assert_eq!(
                after.bytes_read - before.bytes_read,
                after.bytes_written - before.bytes_written
            );
            for ((offset, wrote), read) in pieces.iter().zip(&back) {
                let mut plain = vec![0; wrote.len()];
                device.read(*offset, &mut plain).unwrap();
                assert!(
                    *wrote == *read && *wrote == plain,
                    "{io:?} {refused} {offset}"
                );
            }
        }
    }
}

#[test]
fn long_pieces_go_side_by_side_where_the_host_can_use_their_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let (io, each) = (IoMode::Direct, 700 << 10);
    let device = FileDevice::create(path, 16 << 20, Preallocate::Sparse, io).unwrap();
    let place = |nth: u64| (1 << 20) * (15 - nth);
    let pieces: Vec<AlignedBuffer> = (0..12)
        .map(|nth| {
            let mut piece = AlignedBuffer::zeroed(each);
            piece.fill(nth + 1);
            piece
        })
        .collect();
    let writes: Vec<(u64, &[u8])> = (0..)
        .map(place)
        .zip(pieces.iter().map(|p| &p[..]))
        .collect();
    let before = device.counters().snapshot();
    device.write_many(&writes).unwrap();
    let mut back: Vec<AlignedBuffer> = (0..12).map(|_| AlignedBuffer::zeroed(each)).collect();
    let mut one = vec![0; each + 512]; // memory that the host cannot use directly
    let skew = 512 - one.as_ptr().addr() % 512 + 8;
    let mut reads: Vec<(u64, &mut [u8])> = (0..)
        .map(place)
        .zip(back.iter_mut().map(|b| &mut b[..]))
        .collect();
    reads.insert(5, (place(3), &mut one[skew..][..each - 4096]));
    device.read_many(&mut reads).unwrap();
    let after = device.counters().snapshot();
    assert_eq!(
        (after.writes - before.writes, after.reads - before.reads),
        (12, 13)
    );
    let copied = after.bytes_copied - before.bytes_copied;
    assert_eq!(copied, each as u64 - 4096, "the one that could not be used");
    assert!(
        back.iter()
            .zip(&pieces)
            .all(|(read, wrote)| read[..] == wrote[..])
    );
    assert!(one[skew..][..each - 4096].iter().all(|byte| *byte == 4));
}

#[test]
fn threads_with_scattered_pieces_do_not_meet() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let io = IoMode::Direct;
    let device = FileDevice::create(path, 16 << 20, Preallocate::Sparse, io).unwrap();
    let block = u64::from(device.geometry().physical_block);
    let works = |thread: u64| {
        for round in 0..8 {
            let bytes = vec![(thread * 16 + round) as u8; block as usize];
            let places = (0..150).map(|n| (4 * n + thread) * block);
            let writes: Vec<(u64, &[u8])> = places.clone().map(|at| (at, &bytes[..])).collect();
            device.write_many(&writes).unwrap();
            let mut back = vec![vec![0; block as usize]; 150];
            let buffers = back.iter_mut().map(|buffer| &mut buffer[..]);
            let mut reads: Vec<(u64, &mut [u8])> = places.zip(buffers).collect();
            device.read_many(&mut reads).unwrap();
            assert!(
                back.iter().all(|buffer| *buffer == bytes),
                "{thread} {round}"
            );
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || works(thread));
        }
    });
}

#[test]
fn a_scattered_piece_that_fails_is_named() {
    for io in MODES {
        let (directory, device) = image(io);
        let block = device.geometry().physical_block as usize;
        let (good, bad) = (vec![1; block], vec![2; block]);
        let error = device.write_many(&[(0, &good), (SIZE, &bad)]).unwrap_err();
        assert_eq!((error.operation, error.offset), (Operation::Write, SIZE));
        let mut first = vec![0; block];
        device.read(0, &mut first).unwrap();
        assert!(
            first.iter().all(|byte| *byte == 0),
            "all are checked before any is written"
        );

        // A transfer that the host cannot deliver does not count as whole.
        let path = directory.path().join("image");
        let host = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        host.set_len(SIZE / 2).unwrap();
        let (mut here, mut gone) = (vec![7; block], vec![7; block]);
        let mut reads = [(0, &mut here[..]), (SIZE / 2, &mut gone[..])];
        let error = device.read_many(&mut reads).unwrap_err();
        assert_eq!((error.operation, error.offset), (Operation::Read, SIZE / 2));
        assert_eq!(error.source.kind(), ErrorKind::UnexpectedEof);
        assert!(here.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_file_gets_another_size_and_a_reader_does_not_give_it_one() {
    let host = tempfile::tempdir().unwrap();
    let path = host.path().join("image");
    let sparse = Preallocate::Sparse;
    let device = FileDevice::create(&path, 1 << 20, sparse, IoMode::Buffered).unwrap();
    assert_eq!(device.set_size(None).unwrap(), 1 << 20);
    assert_eq!(device.set_size(Some(3 << 20)).unwrap(), 3 << 20);
    assert_eq!(device.geometry().size, 3 << 20);
    device.write(2 << 20, &[IoSlice::new(&[7; 4096])]).unwrap();
    let mut told = 0;
    let mut progress = |done, _| told = done;
    let written = Preallocate::Written(&mut progress);
    assert_eq!(
        device.set_size_with(Some(4 << 20), written).unwrap(),
        4 << 20
    );
    assert_eq!(told, 1 << 20);
    let mut bytes = vec![1; 4096];
    device.read((4 << 20) - 4096, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4096]);
    assert_eq!(device.set_size(Some(2 << 20)).unwrap(), 2 << 20);
    assert!(device.read(2 << 20, &mut bytes).is_err());
    // Bytes that were cut off do not return.
    device.set_size(Some(3 << 20)).unwrap();
    device.read(2 << 20, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4096]);
    // Another process may have lengthened the file, by a fraction of a block.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len((5 << 20) + 100).unwrap();
    assert_eq!(device.set_size(None).unwrap(), 5 << 20);
    assert!(device.set_size(Some(0)).is_err());
    drop(device);
    file.set_len(5 << 20).unwrap();
    let reader = FileDevice::open(&path, OpenMode::ReadOnly, IoMode::Buffered).unwrap();
    assert_eq!(reader.set_size(Some(5 << 20)).unwrap(), 5 << 20);
    assert!(reader.set_size(Some(6 << 20)).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 5 << 20);
}
