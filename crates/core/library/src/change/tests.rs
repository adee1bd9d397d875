//! Changes of the size and the label of image files.

use super::*;
use crate::{Layout, Volume, VolumeOptions};
use std::io::ErrorKind;
use std::path::PathBuf;

fn sized(path: &Path, bytes: u64) -> Result<Resized> {
    resize(
        path,
        NewSize::Bytes(bytes),
        Preallocation::Sparse,
        &mut |_, _, _| {},
    )
}

/// Makes an image file in a temporary directory.
fn made(bytes: u64, layout: Layout) -> (tempfile::TempDir, PathBuf) {
    let host = tempfile::tempdir().unwrap();
    let path = host.path().join("image");
    let options = VolumeOptions::new().size(bytes).layout(layout).clone();
    options.create(&path).unwrap().close().unwrap();
    (host, path)
}

#[test]
fn a_full_volume_is_grown_and_goes_on() {
    let (_host, path) = made(16 << 20, Layout::Log);
    let volume = Volume::open(&path).unwrap();
    let mut files = 0;
    while volume
        .write(format!("/{files}"), vec![files as u8; 1 << 18])
        .is_ok()
    {
        files += 1;
    }
    let _ = volume.remove_file(format!("/{files}"));
    volume.close().unwrap();
    assert!(files > 20, "{files}");
    let resized = sized(&path, 40 << 20).unwrap();
    assert_eq!(resized.after.device_bytes.get(), 40 << 20);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 40 << 20);
    let volume = Volume::open(&path).unwrap();
    for more in files..files + 60 {
        volume
            .write(format!("/{more}"), vec![more as u8; 1 << 18])
            .unwrap();
    }
    for file in 0..files + 60 {
        assert_eq!(
            volume.read(format!("/{file}")).unwrap(),
            vec![file as u8; 1 << 18]
        );
    }
    volume.close().unwrap();
    // The live data no longer fits, and the attempt loses nothing.
    let refused = sized(&path, 16 << 20).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull, "{refused}");
    assert!(refused.to_string().contains("it needs"), "{refused}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 40 << 20);
    Volume::open(&path).unwrap().close().unwrap();
}

#[test]
fn a_device_may_be_longer_than_its_volume() {
    let (_host, path) = made(16 << 20, Layout::Log);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len((24 << 20) + 100).unwrap();
    let same = sized(&path, 16 << 20).unwrap();
    assert_eq!(same.after.generation, same.before.generation);
    assert_eq!(same.device_bytes, 16 << 20);
    file.set_len(24 << 20).unwrap();
    let max = resize(
        &path,
        NewSize::Max,
        Preallocation::Sparse,
        &mut |_, _, _| {},
    )
    .unwrap();
    assert_eq!(max.after.device_bytes.get(), 24 << 20);
    // A volume that is shorter than its file leaves the file's length as it is.
    file.set_len(48 << 20).unwrap();
    let within = sized(&path, 32 << 20).unwrap();
    assert_eq!(
        (within.after.device_bytes.get(), within.device_bytes),
        (32 << 20, 48 << 20)
    );
}

#[test]
fn space_is_had_before_the_volume_has_it() {
    let (_host, path) = made(16 << 20, Layout::Log);
    let mut last = (0, 0);
    resize(
        &path,
        NewSize::Bytes(20 << 20),
        Preallocation::Written,
        &mut |stage, done, all| {
            assert_eq!(stage, ResizeStage::Writing);
            last = (done, all);
        },
    )
    .unwrap();
    assert_eq!(last, (4 << 20, 4 << 20));
    resize(
        &path,
        NewSize::Bytes(24 << 20),
        Preallocation::Reserve,
        &mut |_, _, _| {},
    )
    .unwrap();
    Volume::open(&path).unwrap().close().unwrap();
}

#[test]
fn what_is_in_use_or_not_to_be_written_is_left_alone() {
    let (host, path) = made(16 << 20, Layout::Log);
    let label = Tune {
        label: Some("new".into()),
        ..Tune::default()
    };
    let volume = Volume::open(&path).unwrap();
    assert_eq!(
        sized(&path, 32 << 20).unwrap_err().kind(),
        ErrorKind::ResourceBusy
    );
    assert_eq!(
        tune(&path, &label).unwrap_err().kind(),
        ErrorKind::ResourceBusy
    );
    volume.close().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 16 << 20);
    for wrong in [0, 4096, 1 << 20, u64::MAX, 1 << 50] {
        let refused = sized(&path, wrong).unwrap_err();
        assert_eq!(
            refused.kind(),
            ErrorKind::InvalidInput,
            "{wrong}: {refused}"
        );
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 16 << 20);
    let missing = host.path().join("missing");
    assert_eq!(
        sized(&missing, 32 << 20).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    std::fs::write(&missing, vec![7; 1 << 20]).unwrap();
    assert_eq!(
        sized(&missing, 32 << 20).unwrap_err().kind(),
        ErrorKind::InvalidData
    );
    assert_eq!(
        tune(&missing, &label).unwrap_err().kind(),
        ErrorKind::InvalidData
    );
}

#[test]
fn the_virtual_log_has_a_name_and_keeps_its_size() {
    let (_host, path) = made(32 << 20, Layout::VirtualLog);
    let volume = Volume::open(&path).unwrap();
    volume.write("/kept", b"what lives").unwrap();
    volume.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = sized(&path, 64 << 20).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(std::fs::read(&path).unwrap() == before);
    let both = Tune {
        label: Some("lake".into()),
        uuid: Some([3; 16]),
        ..Tune::default()
    };
    let Superblock::VirtualLog(superblock) = tune(&path, &both).unwrap() else {
        panic!("another layout");
    };
    assert_eq!(
        (superblock.label_text(), superblock.uuid),
        ("lake".into(), [3; 16])
    );
    let Superblock::VirtualLog(told) = tune(&path, &Tune::default()).unwrap() else {
        panic!("another layout");
    };
    assert_eq!(told.uuid, [3; 16]);
    let volume = Volume::open(&path).unwrap();
    assert_eq!(volume.read("/kept").unwrap(), b"what lives");
    volume.close().unwrap();
}

/// Grows the log below an open volume.
fn grow(
    volume: &Volume,
    bytes: Option<u64>,
) -> std::result::Result<varve_lfs::Grown, varve_lfs::Error> {
    let fs = crate::admin::tree(volume).log().expect("a log");
    fs.layout().grow(bytes)
}

#[test]
fn a_volume_grows_while_it_is_written_and_read() {
    let (_host, path) = made(24 << 20, Layout::Log);
    let volume = Volume::open(&path).unwrap();
    let ending = std::sync::atomic::AtomicBool::new(false);
    let written = |thread: u64, round: u64| vec![(thread * 31 + round) as u8; 200_000];
    let rounds: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let (volume, ending) = (volume.clone(), &ending);
                scope.spawn(move || {
                    let mut round = 0;
                    while !ending.load(std::sync::atomic::Ordering::Relaxed) {
                        let name = format!("/{thread}-{}", round % 20);
                        match volume.write(&name, written(thread, round)) {
                            Ok(()) => {}
                            Err(error) => panic!("{name}: {error}"),
                        }
                        assert_eq!(volume.read(&name).unwrap(), written(thread, round));
                        round += 1;
                    }
                    round
                })
            })
            .collect();
        for step in 1..=10 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let bytes = (24 << 20) + step * (9 << 20);
            let grown = grow(&volume, Some(bytes)).unwrap();
            assert_eq!((grown.bytes, grown.device_bytes), (bytes, bytes));
        }
        ending.store(true, std::sync::atomic::Ordering::Relaxed);
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    let smaller = grow(&volume, Some(16 << 20)).unwrap_err();
    assert!(smaller.to_string().contains("does not shrink"), "{smaller}");
    // These files would not have fitted before.
    for more in 0..300 {
        volume
            .write(format!("/more{more}"), vec![more as u8; 200_000])
            .unwrap();
    }
    volume.close().unwrap();
    let volume = Volume::open(&path).unwrap();
    for (thread, rounds) in (0..).zip(rounds) {
        for round in rounds.saturating_sub(20)..rounds {
            let name = format!("/{thread}-{}", round % 20);
            assert_eq!(
                volume.read(&name).unwrap(),
                written(thread, round),
                "{name}"
            );
        }
    }
    for more in 0..300 {
        assert_eq!(
            volume.read(format!("/more{more}")).unwrap(),
            vec![more as u8; 200_000]
        );
    }
    volume.close().unwrap();
    let device = Arc::new(open_device(&path, OpenMode::ReadOnly, IoMode::Direct).unwrap());
    let options = varve_fsck::check::CheckOptions {
        data: true,
        ..Default::default()
    };
    let report = varve_fsck::check::check(device, Arc::new(HostClock::default()), &options);
    let report = report.unwrap();
    assert!(
        report.errors.is_empty() && report.warnings.is_empty(),
        "{report}"
    );
}

#[test]
fn a_full_volume_grows_while_it_is_open() {
    let (_host, path) = made(16 << 20, Layout::Log);
    let volume = Volume::open(&path).unwrap();
    let mut files = 0;
    while volume
        .write(format!("/{files}"), vec![files as u8; 1 << 17])
        .is_ok()
    {
        files += 1;
    }
    for step in 1..=70u64 {
        let bytes = (16 << 20) + step * (1 << 20);
        match grow(&volume, Some(bytes)) {
            Ok(grown) => assert_eq!(grown.bytes, bytes),
            // A mounted volume can grow only this often.
            Err(error) => {
                assert!(
                    step == 64 && error.to_string().contains("as often"),
                    "{step}: {error}"
                );
                break;
            }
        }
        for more in 0..4 {
            let name = format!("/{step}-{more}");
            volume.write(&name, vec![step as u8; 1 << 17]).unwrap();
        }
    }
    volume.close().unwrap();
    let volume = Volume::open(&path).unwrap();
    for file in 0..files {
        assert_eq!(
            volume.read(format!("/{file}")).unwrap(),
            vec![file as u8; 1 << 17]
        );
    }
    volume.close().unwrap();
}

#[test]
fn who_only_reads_does_not_let_a_volume_grow() {
    let (_host, path) = made(16 << 20, Layout::Log);
    let volume = VolumeOptions::new().read_only(true).open(&path).unwrap();
    let refused = grow(&volume, Some(32 << 20)).unwrap_err();
    assert!(refused.to_string().contains("read-only"), "{refused}");
    volume.close().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 16 << 20);
}
