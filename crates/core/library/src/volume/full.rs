//! A full volume of each layout: the requests that it refuses, the device operations of a
//! refusal, and the errors that do not depend on space.

use super::*;
use crate::file::OpenOptions;
use crate::metadata::FileTimes;
use crate::options::VolumeOptions;
use std::fs::Permissions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::SystemTime;
use varve_device::MemoryDevice;

const LAYOUTS: [Layout; 3] = [Layout::Log, Layout::VirtualLog, Layout::InPlace];
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

/// Makes a volume in memory. Returns it with its device.
fn volume(layout: Layout) -> (Volume, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(16 << 20));
    let mut options = VolumeOptions::new();
    crate::format::format_device(device.clone(), options.layout(layout)).unwrap();
    let options = VolumeOptions::new().background(false).clone();
    let volume = Volume::open_on(device.clone(), &options).unwrap();
    (volume, device)
}

fn errno<T: std::fmt::Debug>(result: crate::Result<T>) -> i32 {
    result.map_or_else(|error| error.errno(), |_| 0)
}

/// Creates files of `bytes` bytes until one is refused, and returns their number.
fn fill_with_files(v: &Volume, directory: &str, bytes: usize) -> usize {
    let content = vec![7; bytes];
    let made = |n: usize| v.write(format!("{directory}/{n}"), &content);
    let (last, refused) = (0..)
        .map(|n| (n, errno(made(n))))
        .find(|(_, errno)| *errno != 0)
        .unwrap();
    assert_eq!(refused, ENOSPC, "{:?}", v.layout());
    let _ = v.remove_file(format!("{directory}/{last}"));
    last
}

/// Fills a volume with files of all sizes, until there is no space for a name.
fn fill(v: &Volume) {
    let sizes = [1 << 20, 64 << 10, 4096, 100, 0];
    for bytes in sizes {
        v.create_dir(format!("/{bytes}")).unwrap();
    }
    for bytes in sizes {
        fill_with_files(v, &format!("/{bytes}"), bytes);
    }
    let mut names = (0..).map(|n| format!("/0/{n:0200}"));
    let refused = names.find_map(|name| Some(errno(v.write(name, b""))).filter(|e| *e != 0));
    assert_eq!(refused, Some(ENOSPC), "{:?}", v.layout());
}

/// As in ext4, errors about existing and missing names have priority over a lack of
/// space.
#[test]
fn what_exists_is_found_before_space_is_missed() {
    for layout in LAYOUTS {
        let (v, _) = volume(layout);
        v.create_dir_all("/d/e").unwrap();
        v.write("/f", vec![1; 100_000]).unwrap();
        v.write("/tail", vec![1; 5000]).unwrap();
        v.hard_link("/f", "/g").unwrap();
        v.symlink("f", "/s").unwrap();
        v.set_xattr("/f", "user.a", &[1; 1000]).unwrap();
        fill(&v);
        assert_eq!(errno(v.create_dir("/new")), ENOSPC, "{layout:?}");
        let exclusive = OpenOptions::new().write(true).create_new(true).clone();
        let made = OpenOptions::new().write(true).create(true).clone();
        let existing = [
            ("mkdir", errno(v.create_dir("/d"))),
            ("mkdir of a file", errno(v.create_dir("/f"))),
            ("symlink", errno(v.symlink("x", "/s"))),
            ("link", errno(v.hard_link("/f", "/g"))),
            ("link to a directory's name", errno(v.hard_link("/f", "/d"))),
            (
                "exclusive create",
                errno(exclusive.open(&v, "/f").map(drop)),
            ),
            ("rename", errno(v.rename_no_replace("/f", "/d"))),
        ];
        let missing = [
            ("mkdir", errno(v.create_dir("/no/d"))),
            ("link", errno(v.hard_link("/no", "/x"))),
            ("rename", errno(v.rename("/no", "/x"))),
            ("exchange", errno(v.exchange("/f", "/x"))),
        ];
        let open = |path| OpenOptions::new().write(true).open(&v, path).unwrap();
        let (f, tail) = (open("/f"), open("/tail"));
        let now = FileTimes::new().set_modified(SystemTime::now());
        let without_effect = [
            ("mkdir -p", errno(v.create_dir_all("/d/e"))),
            ("mkdir -p /", errno(v.create_dir_all("/"))),
            ("open to create", errno(made.open(&v, "/f").map(drop))),
            ("rename to itself", errno(v.rename("/f", "/f"))),
            ("rename to its other name", errno(v.rename("/f", "/g"))),
            ("truncate to its size", errno(f.set_len(100_000))),
            (
                "chmod",
                errno(v.set_permissions("/f", Permissions::from_mode(0o644))),
            ),
            ("utimes", errno(f.set_times(now))),
            (
                "the same attribute",
                errno(v.set_xattr("/f", "user.a", &[1; 1000])),
            ),
            (
                "a write over",
                f.write_at(&[2; 5000], 50_000)
                    .map_or_else(|e| e.raw_os_error().unwrap(), |n| 5000 - n as i32),
            ),
            ("truncate into a hole", errno(tail.set_len(1 << 20))),
        ];
        for (what, got) in existing {
            assert_eq!(got, EEXIST, "{layout:?}: {what}");
        }
        for (what, got) in missing {
            assert_eq!(got, ENOENT, "{layout:?}: {what}");
        }
        for (what, got) in without_effect {
            assert_eq!(got, 0, "{layout:?}: {what}");
        }
    }
}

/// Numbers of removed files are reused, although a layout learns of them only with a
/// group.
#[test]
fn as_many_files_are_made_as_were_removed() {
    for layout in LAYOUTS {
        let (v, _) = volume(layout);
        v.create_dir("/d").unwrap();
        let made = fill_with_files(&v, "/d", 0);
        v.sync().unwrap();
        let removed = made / 8;
        for n in 0..removed {
            v.remove_file(format!("/d/{n}")).unwrap();
        }
        let again = |n: &usize| errno(v.write(format!("/d/{n}"), b"")) == 0;
        let again = (0..removed).take_while(again).count();
        // The log reserves the largest size that dirty data can need, so a few files
        // fewer may fit.
        let least = match layout {
            Layout::Log => removed - removed / 100,
            _ => removed,
        };
        assert!(
            again >= least,
            "{layout:?}: {again} of {removed}, {made} made"
        );
    }
}

/// Each new question to the layout costs a checkpoint and flushes.
#[test]
fn a_refusal_is_known_until_something_is_freed() {
    for layout in LAYOUTS {
        let (v, device) = volume(layout);
        fill(&v);
        let refuse = |times: u32| {
            for n in 0..times {
                let mode = Permissions::from_mode(0o600 + n % 8);
                v.set_permissions("/65536/0", mode).unwrap();
                assert_eq!(
                    errno(v.create_dir(format!("/new{n}"))),
                    ENOSPC,
                    "{layout:?}"
                );
                assert_eq!(errno(v.write("/0/0", [1; 9000])), ENOSPC, "{layout:?}");
            }
        };
        refuse(3);
        let before = device.counters().snapshot();
        refuse(300);
        let after = device.counters().snapshot();
        let (flushes, writes) = (after.flushes - before.flushes, after.writes - before.writes);
        assert!(
            flushes <= 4 && writes <= 40,
            "{layout:?}: {flushes} flushes and {writes} writes for 600 refusals"
        );
        v.remove_file("/1048576/0").unwrap();
        assert_eq!(errno(v.create_dir("/new")), 0, "{layout:?}");
    }
}
