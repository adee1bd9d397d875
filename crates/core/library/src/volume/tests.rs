//! Operations by path, on volumes in memory of each layout.

use super::*;
use crate::TransactionOptions;
use crate::file::OpenOptions;
use crate::metadata::FileTimes;
use crate::options::VolumeOptions;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use varve_device::{Device, MemoryDevice};
use varve_fs::{Detection, Isolation};

fn device(layout: Layout) -> Arc<dyn Device> {
    let device = Arc::new(MemoryDevice::new(32 << 20));
    let mut options = VolumeOptions::new();
    crate::format::format_device(device.clone(), options.layout(layout)).unwrap();
    device
}

fn on_both(test: impl Fn(Volume)) {
    for layout in [Layout::Log, Layout::VirtualLog, Layout::InPlace] {
        let mut options = VolumeOptions::new();
        let v = Volume::open_on(device(layout), options.background(false)).unwrap();
        assert_eq!(v.layout(), layout);
        test(v);
    }
}

fn errno<T: std::fmt::Debug>(result: crate::Result<T>) -> i32 {
    result.unwrap_err().errno()
}

#[test]
fn files_are_written_read_and_replaced() {
    on_both(|v| {
        v.write("/a", b"one").unwrap();
        v.write("a", b"second").unwrap();
        assert_eq!(v.read("/a").unwrap(), b"second");
        let big: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
        v.write("/big", &big).unwrap();
        v.tree().drop_caches();
        assert_eq!(v.read("/big").unwrap(), big);
        assert_eq!(v.copy("/big", "/copy").unwrap(), big.len() as u64);
        assert_eq!(v.read("/copy").unwrap(), big);
        assert_eq!(errno(v.read("/missing")), 2);
        assert_eq!(errno(v.write("/a/b", b"x")), 20);
        assert_eq!(v.copy("/copy", "/copy").unwrap(), big.len() as u64);
        assert_eq!(v.read("/copy").unwrap().len(), big.len());
        v.write("/raw", [0xff]).unwrap();
        let error = v.read_to_string("/raw").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    });
}

#[test]
fn paths_go_through_links_and_dots() {
    on_both(|v| {
        v.create_dir_all("/x/y/z").unwrap();
        v.create_dir_all("/x/y/z").unwrap();
        v.write("/x/y/file", b"here").unwrap();
        v.symlink("y/file", "/x/short").unwrap();
        v.symlink("/x/y", "/abs").unwrap();
        v.symlink("..", "/x/y/up").unwrap();
        assert_eq!(v.read("/x/short").unwrap(), b"here");
        assert_eq!(v.read("//x/./y/z/..//file").unwrap(), b"here");
        assert_eq!(v.read("/abs/up/y/file").unwrap(), b"here");
        assert_eq!(v.read_link("/x/short").unwrap(), Path::new("y/file"));
        assert!(v.symlink_metadata("/abs").unwrap().is_symlink());
        assert!(v.symlink_metadata("/abs/").unwrap().is_dir());
        assert!(v.metadata("/..").unwrap().is_dir());
        assert_eq!(errno(v.read("/x/y/file/")), 20);
        assert_eq!(errno(v.metadata("/x/y/file/..")), 20);
    });
}

#[test]
fn forty_links_are_followed_and_no_more() {
    on_both(|v| {
        v.write("/l0", b"end").unwrap();
        for i in 1..=41 {
            v.symlink(format!("l{}", i - 1), format!("/l{i}")).unwrap();
        }
        assert_eq!(v.read("/l40").unwrap(), b"end");
        assert_eq!(errno(v.read("/l41")), 40);
        v.symlink("/loop", "/loop").unwrap();
        assert_eq!(errno(v.metadata("/loop")), 40);
        assert_eq!(errno(v.write("/loop", b"x")), 40);
    });
}

#[test]
fn creating_through_a_dangling_link_makes_its_target() {
    on_both(|v| {
        v.create_dir("/d").unwrap();
        v.symlink("d/new", "/link").unwrap();
        v.write("/link", b"made").unwrap();
        assert_eq!(v.read("/d/new").unwrap(), b"made");
        let exclusive = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&v, "/link");
        assert_eq!(errno(exclusive), 17);
        assert_eq!(errno(v.create_file("/d")), 21);
    });
}

#[test]
fn trees_are_removed_whole() {
    on_both(|v| {
        for i in 0..600 {
            v.create_dir_all(format!("/t/{}/{i}", i % 3)).unwrap();
            v.write(format!("/t/{}/f{i}", i % 3), b"x").unwrap();
        }
        v.symlink("/", "/t/root").unwrap();
        assert_eq!(errno(v.remove_dir("/t")), 39);
        v.remove_dir_all("/t").unwrap();
        assert!(!v.exists("/t").unwrap());
        assert_eq!(v.read_dir("/").unwrap().count(), 0);
        v.write("/a", b"").unwrap();
        v.remove_dir_all("/").unwrap();
        assert!(!v.exists("/a").unwrap());
    });
}

#[test]
fn listings_are_complete_while_names_go() {
    on_both(|v| {
        v.create_dir("/d").unwrap();
        for i in 0..1000 {
            v.write(format!("/d/f{i}"), b"").unwrap();
        }
        let mut seen = 0;
        for entry in v.read_dir("/d").unwrap() {
            let entry = entry.unwrap();
            assert!(entry.file_type().unwrap().is_file());
            assert_eq!(entry.ino(), v.metadata(entry.path()).unwrap().ino());
            v.remove_file(entry.path()).unwrap();
            let gone = entry.metadata().unwrap_err();
            assert_eq!(gone.path(), Some(&*entry.path()), "{gone}");
            seen += 1;
        }
        assert_eq!(seen, 1000);
        assert_eq!(errno(v.read_dir("/nowhere").map(|_| ())), 2);
    });
}

#[test]
fn a_walk_meets_everything_below_once_and_follows_no_link() {
    on_both(|v| {
        let mut made = vec![PathBuf::from("/t/up")];
        v.create_dir("/t").unwrap();
        v.symlink("/t", "/t/up").unwrap();
        for i in 0..300 {
            let directory = PathBuf::from(format!("/t/{}", i % 7));
            let file = directory.join(format!("f{i}"));
            if !v.exists(&directory).unwrap() {
                v.create_dir(&directory).unwrap();
                made.push(directory);
            }
            v.write(&file, b"x").unwrap();
            made.push(file);
        }
        let seen: Vec<PathBuf> = v.walk("/t").unwrap().map(|e| e.unwrap().path()).collect();
        for (place, path) in seen.iter().enumerate() {
            let above = seen.iter().position(|p| Some(&**p) == path.parent());
            assert!(
                above.is_none_or(|above| above < place),
                "{}",
                path.display()
            );
        }
        let mut sorted = seen;
        sorted.sort();
        made.sort();
        assert_eq!(sorted, made);
        assert_eq!(errno(v.walk("/t/0/f0").map(|_| ())), 20);
    });
}

#[test]
fn a_walk_goes_on_beside_what_is_removed() {
    on_both(|v| {
        for name in ["a", "b", "c"] {
            v.create_dir_all(format!("/t/{name}/below")).unwrap();
        }
        let mut seen = 0;
        for entry in v.walk("/t").unwrap() {
            v.remove_dir_all(entry.unwrap().path()).unwrap();
            seen += 1;
        }
        assert_eq!(seen, 3);
    });
}

#[test]
fn names_are_linked_renamed_and_exchanged() {
    on_both(|v| {
        v.write("/a", b"a").unwrap();
        v.write("/b", b"b").unwrap();
        v.hard_link("/a", "/c").unwrap();
        assert_eq!(v.metadata("/a").unwrap().nlink(), 2);
        assert_eq!(errno(v.rename_no_replace("/a", "/b")), 17);
        v.exchange("/a", "/b").unwrap();
        assert_eq!(v.read("/a").unwrap(), b"b");
        v.rename("/a", "/b").unwrap();
        assert_eq!(v.read("/b").unwrap(), b"b");
        assert!(!v.exists("/a").unwrap());
        assert_eq!(v.metadata("/c").unwrap().nlink(), 1);
        assert_eq!(errno(v.exists("/b/x")), 20);
    });
}

#[test]
fn attributes_are_set_and_told() {
    on_both(|v| {
        v.write("/f", b"12345").unwrap();
        v.chown("/f", Some(7), None).unwrap();
        v.set_permissions("/f", Permissions::from_mode(0o4750))
            .unwrap();
        let then = SystemTime::UNIX_EPOCH - Duration::new(5, 1);
        let times = FileTimes::new().set_accessed(then).set_modified(then);
        v.set_times("/f", times).unwrap();
        let m = v.metadata("/f").unwrap();
        assert_eq!((m.len(), m.uid(), m.mode()), (5, 7, 0o104750));
        assert_eq!((m.modified().unwrap(), m.accessed().unwrap()), (then, then));
        assert_eq!((m.mtime(), m.mtime_nsec(), m.size()), (-6, 999_999_999, 5));
        assert_eq!(m.dev(), v.metadata("/").unwrap().dev());
        v.set_xattr("/f", "user.k", b"v").unwrap();
        assert_eq!(v.xattr_names("/f").unwrap(), ["user.k"]);
        v.remove_xattr("/f", "user.k").unwrap();
        assert_eq!(errno(v.remove_xattr("/f", "user.k")), 61);
    });
}

#[test]
fn new_files_are_as_the_options_say() {
    let mut options = VolumeOptions::new();
    options.background(false).owner(12, 34).umask(0o077);
    let v = Volume::open_on(device(Layout::Log), &options).unwrap();
    v.write("/f", b"").unwrap();
    v.create_dir("/d").unwrap();
    let told = ["/f", "/d"].map(|path| v.metadata(path).unwrap());
    assert_eq!(told.map(|m| (m.uid(), m.gid())), [(12, 34); 2]);
    assert_eq!(told.map(|m| m.mode() & 0o777), [0o600, 0o700]);
    let mut making = OpenOptions::new();
    making.write(true).create_new(true).mode(0o444);
    let file = making.open(&v, "/g").unwrap();
    file.write_all_at(b"mode binds the next to open", 0)
        .unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o400);
}

#[test]
fn what_was_closed_is_there_when_opened_again() {
    for layout in [Layout::Log, Layout::VirtualLog, Layout::InPlace] {
        let device = device(layout);
        let mut options = VolumeOptions::new();
        options.cache(4 << 20);
        let v = Volume::open_on(device.clone(), &options).unwrap();
        let content = vec![7; 5 << 20];
        v.write("/kept", &content).unwrap();
        assert_eq!(v.close().unwrap(), 0);
        let v = Volume::open_on(device.clone(), &options).unwrap();
        if let Some(log) = v.tree().log() {
            assert!(log.layout().recovery_report().clean);
        }
        assert_eq!(v.read("/kept").unwrap(), content);
        drop(v);
        let v = Volume::open_on(device, options.read_only(true)).unwrap();
        assert!(v.read_only_reason().is_some());
        let error = v.write("/kept", b"no").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
        v.close().unwrap();
    }
}

#[test]
fn errors_name_operation_and_path() {
    on_both(|v| {
        let error = v.read("no/such").unwrap_err();
        let text = "cannot open no/such: no such file or directory";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.path(), Some(Path::new("no/such")));
        let error = std::io::Error::from(error);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let kept = error.into_inner().unwrap().downcast::<Error>().unwrap();
        assert_eq!((kept.errno(), kept.to_string()), (2, text.into()));
        assert_eq!(errno(v.read("")), 2);
        assert_eq!(errno(v.read("a\0b")), 22);
    });
}

#[test]
fn what_holds_no_volume_is_told_by_kind() {
    let host = tempfile::tempdir().unwrap();
    let image = host.path().join("image");
    let kind = |image: &Path| Volume::open(image).unwrap_err().kind();
    assert_eq!(kind(&image), ErrorKind::NotFound);
    std::fs::write(&image, vec![0; 1 << 20]).unwrap();
    assert_eq!(kind(&image), ErrorKind::InvalidData);
    std::fs::remove_file(&image).unwrap();
    let v = Volume::create(&image, 16 << 20).unwrap();
    assert_eq!(kind(&image), ErrorKind::ResourceBusy);
    let again = Volume::create(&image, 16 << 20).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ResourceBusy, "{again}");
    v.close().unwrap();
    let again = Volume::create(&image, 16 << 20).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
}

#[test]
fn only_the_log_has_transactions_of_whatever_kind() {
    on_both(|v| {
        for isolation in [
            Isolation::Snapshot,
            Isolation::Serializable,
            Isolation::Locking,
        ] {
            let begun = v.begin_with(&TransactionOptions::new().isolation(isolation));
            match v.layout() {
                Layout::Log => drop(begun.unwrap()),
                _ => assert_eq!(errno(begun), 95),
            }
        }
    });
}

#[test]
fn a_volume_that_was_opened_so_has_its_deadlocks_ended_on_call() {
    let mut options = VolumeOptions::new();
    options.background(false).deadlocks(Detection::OnCall);
    let v = Volume::open_on(device(Layout::Log), &options).unwrap();
    v.write("/a", b"old").unwrap();
    v.write("/b", b"old").unwrap();
    assert_eq!(v.detect_deadlocks().unwrap(), 0);
    let locking = TransactionOptions::new().isolation(Isolation::Locking);
    let (one, two) = (
        v.begin_with(&locking).unwrap(),
        v.begin_with(&locking).unwrap(),
    );
    one.write("/a", b"one").unwrap();
    two.write("/b", b"two").unwrap();
    let outcomes = std::thread::scope(|scope| {
        let one = scope.spawn(move || one.write("/b", b"one").and_then(|()| one.commit()));
        let two = scope.spawn(move || two.write("/a", b"two").and_then(|()| two.commit()));
        // Neither transaction ends by itself.
        while v.detect_deadlocks().unwrap() == 0 {
            std::thread::yield_now();
        }
        [one, two].map(|thread| thread.join().unwrap())
    });
    let ended: Vec<_> = outcomes.into_iter().filter(Result::is_err).collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended.into_iter().map(errno).collect::<Vec<_>>(), [35]);
    assert_eq!(v.read("/a").unwrap(), v.read("/b").unwrap());
    assert_eq!(v.detect_deadlocks().unwrap(), 0);
}
