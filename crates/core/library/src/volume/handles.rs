//! The moment at which a volume is closed, and the use of its handles afterwards.

use super::*;
use crate::file::{File, OpenOptions};
use crate::options::VolumeOptions;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

fn image() -> (tempfile::TempDir, PathBuf) {
    let host = tempfile::tempdir().unwrap();
    let image = host.path().join("image");
    (host, image)
}

fn is_free(image: &Path) -> bool {
    match VolumeOptions::new().background(false).open(image) {
        Ok(volume) => {
            volume.close().unwrap();
            true
        }
        Err(error) if error.kind() == ErrorKind::ResourceBusy => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn it_is_closed_when_the_last_of_its_handles_goes() {
    let (_host, image) = image();
    for layout in [Layout::Log, Layout::VirtualLog, Layout::InPlace] {
        let _ = std::fs::remove_file(&image);
        let mut options = VolumeOptions::new();
        let volume = options
            .size(16 << 20)
            .layout(layout)
            .create(&image)
            .unwrap();
        volume.write("/f", b"content").unwrap();
        let clone = volume.clone();
        let elsewhere = std::thread::spawn(move || clone.open_file("/f").unwrap());
        let mut file = elsewhere.join().unwrap();
        let listing = volume.read_dir("/").unwrap();
        drop(volume);
        assert!(!is_free(&image), "a file and a listing are left");
        let entries: Vec<_> = listing.collect();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        drop(file);
        assert!(!is_free(&image), "an entry is left");
        drop(entries);
        assert!(is_free(&image));
        let volume = Volume::open(&image).unwrap();
        if let Some(log) = volume.tree().log() {
            assert!(log.layout().recovery_report().clean);
        }
        assert_eq!(volume.read("/f").unwrap(), b"content");
    }
}

fn is_told(error: crate::Error) {
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(
        error.to_string().ends_with("the volume was closed"),
        "{error}"
    );
}

#[test]
fn what_is_left_of_a_closed_volume_says_so() {
    let (_host, image) = image();
    let volume = Volume::create(&image, 16 << 20).unwrap();
    volume.write("/f", b"content").unwrap();
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .open(&volume, "/f")
        .unwrap();
    let mut listing = volume.read_dir("/").unwrap();
    let mut walk = volume.walk("/").unwrap();
    let entry = volume.read_dir("/").unwrap().next().unwrap().unwrap();
    let clone = volume.clone();
    // The handles are a clone, a file, a listing, a walk and an entry.
    assert_eq!(volume.close().unwrap(), 5);
    is_told(clone.sync().unwrap_err());
    is_told(clone.read("/f").unwrap_err());
    is_told(clone.rename("/f", "/g").unwrap_err());
    is_told(clone.create_file("/new").map(drop).unwrap_err());
    is_told(clone.metadata("/").unwrap_err());
    is_told(file.sync_all().unwrap_err());
    is_told(file.set_len(0).unwrap_err());
    is_told(file.metadata().unwrap_err());
    is_told(file.try_clone().map(drop).unwrap_err());
    is_told(listing.next().unwrap().unwrap_err());
    is_told(walk.next().unwrap().unwrap_err());
    is_told(entry.metadata().unwrap_err());
    let kinds = [
        file.write(b"x").unwrap_err().kind(),
        file.read(&mut [0]).unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::NotConnected; 2]);
    is_told(clone.close().unwrap_err());
    drop((file, listing, walk, entry));
    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.read("/f").unwrap(), b"content");
}

#[test]
fn what_was_abandoned_is_recovered() {
    for layout in [Layout::Log, Layout::VirtualLog, Layout::InPlace] {
        let (_host, image) = image();
        let mut options = VolumeOptions::new();
        options.size(16 << 20).layout(layout);
        let volume = options.create(&image).unwrap();
        volume.write("/synced", b"kept").unwrap();
        volume.sync().unwrap();
        volume.write("/late", b"lost").unwrap();
        let clone = volume.clone();
        volume.abandon();
        is_told(clone.sync().unwrap_err());
        drop(clone);
        let volume = Volume::open(&image).unwrap();
        assert_eq!(volume.read("/synced").unwrap(), b"kept");
        assert!(!volume.exists("/late").unwrap());
    }
}

#[test]
fn clones_of_a_file_share_its_position_and_other_files_do_not() {
    let volume = Volume::in_memory(16 << 20).unwrap();
    volume.write("/f", b"abcdef").unwrap();
    let file = volume.open_file("/f").unwrap();
    let (clone, other) = (file.try_clone().unwrap(), volume.open_file("/f").unwrap());
    let next = |mut file: &File| {
        let mut two = [0; 2];
        file.read_exact(&mut two).unwrap();
        two
    };
    assert_eq!((&next(&file), &next(&clone)), (b"ab", b"cd"));
    assert_eq!((&next(&other), &next(&file)), (b"ab", b"ef"));
    drop(file);
    assert_eq!(next(&other), *b"cd");
    assert_eq!(volume.close().unwrap(), 2);
    drop(clone);
}

/// Each piece that one of several threads appends is whole.
#[test]
fn appended_pieces_are_whole() {
    const PIECE: usize = 5000;
    let volume = Volume::in_memory(32 << 20).unwrap();
    std::thread::scope(|scope| {
        for thread in b'a'..b'e' {
            let volume = volume.clone();
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                let opened = options.append(true).create(true).open(&volume, "/log");
                let mut file = opened.unwrap();
                for _ in 0..100 {
                    assert_eq!(file.write(&[thread; PIECE]).unwrap(), PIECE);
                }
            });
        }
    });
    let content = volume.read("/log").unwrap();
    assert_eq!(content.len(), 4 * 100 * PIECE);
    for piece in content.chunks(PIECE) {
        assert!(piece.iter().all(|byte| *byte == piece[0]));
    }
}

/// Each change that was acknowledged while another thread closed the volume is kept,
/// synced or not.
#[test]
fn what_was_answered_beside_a_close_is_kept() {
    for round in 0..8 {
        let (_host, image) = image();
        let mut options = VolumeOptions::new();
        options.size(16 << 20).layout(match round % 2 {
            0 => Layout::Log,
            _ => Layout::VirtualLog,
        });
        let volume = options.create(&image).unwrap();
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let volume = volume.clone();
                std::thread::spawn(move || {
                    let write = |n: u32| {
                        let path = format!("/{thread}-{n}");
                        volume.write(&path, path.as_bytes())
                    };
                    (0..).take_while(|n| write(*n).is_ok()).count()
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(5 + 3 * round));
        volume.close().unwrap();
        let kept: Vec<usize> = writers.into_iter().map(|w| w.join().unwrap()).collect();
        let volume = Volume::open(&image).unwrap();
        for (thread, count) in kept.iter().enumerate() {
            for n in 0..*count {
                let path = format!("/{thread}-{n}");
                assert_eq!(volume.read_to_string(&path).unwrap(), path);
            }
        }
    }
}
