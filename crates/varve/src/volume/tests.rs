//! The facade over a volume in memory.

use super::*;
use crate::{CreateOptions, OpenOptions};
use varve_device::MemoryDevice;
use varve_fs::{FileKind, SetTime, Timestamp};

fn volume() -> Volume {
    Volume::in_memory(32 << 20).unwrap()
}

fn errno<T: std::fmt::Debug>(result: crate::Result<T>) -> i32 {
    result.unwrap_err().errno()
}

#[test]
fn files_are_written_read_and_replaced() {
    let v = volume();
    v.write("/a", b"one").unwrap();
    v.write("a", b"second").unwrap();
    assert_eq!(v.read("/a").unwrap(), b"second");
    let big: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    v.write("/big", &big).unwrap();
    v.drop_caches();
    assert_eq!(v.read("/big").unwrap(), big);
    assert_eq!(v.copy("/big", "/copy").unwrap(), big.len() as u64);
    assert_eq!(v.read("/copy").unwrap(), big);
    assert_eq!(errno(v.read("/missing")), 2);
    assert_eq!(errno(v.write("/a/b", b"x")), 20);
}

#[test]
fn paths_go_through_links_and_dots() {
    let v = volume();
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
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let v = volume();
    v.write("/l0", b"end").unwrap();
    for i in 1..=41 {
        v.symlink(format!("l{}", i - 1), format!("/l{i}")).unwrap();
    }
    assert_eq!(v.read("/l40").unwrap(), b"end");
    assert_eq!(errno(v.read("/l41")), 40);
    v.symlink("/loop", "/loop").unwrap();
    assert_eq!(errno(v.metadata("/loop")), 40);
    assert_eq!(errno(v.write("/loop", b"x")), 40);
}

#[test]
fn creating_through_a_dangling_link_makes_its_target() {
    let v = volume();
    v.create_dir("/d").unwrap();
    v.symlink("d/new", "/link").unwrap();
    v.write("/link", b"made").unwrap();
    assert_eq!(v.read("/d/new").unwrap(), b"made");
    let exclusive = OpenFlags {
        create_new: true,
        ..OpenFlags::READ_WRITE
    };
    assert_eq!(errno(v.open_file("/link", exclusive)), 17);
    assert_eq!(errno(v.open_file("/d", OpenFlags::CREATE)), 21);
}

#[test]
fn trees_are_removed_whole() {
    let v = volume();
    for i in 0..600 {
        v.create_dir_all(format!("/t/{}/{i}", i % 3)).unwrap();
        v.write(format!("/t/{}/f{i}", i % 3), b"x").unwrap();
    }
    v.symlink("/", "/t/root").unwrap();
    assert_eq!(errno(v.remove_dir("/t")), 39);
    v.remove_dir_all("/t").unwrap();
    assert!(!v.exists("/t"));
    assert_eq!(v.read_dir("/").unwrap().count(), 0);
    v.write("/a", b"").unwrap();
    v.remove_dir_all("/").unwrap();
    assert!(!v.exists("/a"));
}

#[test]
fn listings_are_complete_while_names_go() {
    let v = volume();
    v.create_dir("/d").unwrap();
    for i in 0..1000 {
        v.write(format!("/d/f{i}"), b"").unwrap();
    }
    let mut seen = 0;
    for entry in v.read_dir("/d").unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.kind(), FileKind::Regular);
        v.remove_file(Path::new("/d").join(entry.file_name()))
            .unwrap();
        seen += 1;
    }
    assert_eq!(seen, 1000);
    assert_eq!(errno(v.read_dir("/nowhere").map(|_| ())), 2);
}

#[test]
fn names_are_linked_renamed_and_exchanged() {
    let v = volume();
    v.write("/a", b"a").unwrap();
    v.write("/b", b"b").unwrap();
    v.hard_link("/a", "/c").unwrap();
    assert_eq!(v.metadata("/a").unwrap().links(), 2);
    assert_eq!(errno(v.rename_no_replace("/a", "/b")), 17);
    v.exchange("/a", "/b").unwrap();
    assert_eq!(v.read("/a").unwrap(), b"b");
    v.rename("/a", "/b").unwrap();
    assert_eq!(v.read("/b").unwrap(), b"b");
    assert!(!v.exists("/a"));
    assert_eq!(v.metadata("/c").unwrap().links(), 1);
}

#[test]
fn attributes_are_set_and_told() {
    let v = volume();
    v.write("/f", b"12345").unwrap();
    v.set_permissions("/f", 0o4750).unwrap();
    v.set_owner("/f", Some(7), None).unwrap();
    let then = Timestamp {
        seconds: -5,
        nanos: 1,
    };
    v.set_times("/f", None, Some(SetTime::At(then))).unwrap();
    let m = v.metadata("/f").unwrap();
    assert_eq!((m.len(), m.uid(), m.attr().mtime), (5, 7, then));
    v.set_xattr("/f", "user.k", b"v").unwrap();
    assert_eq!(v.xattr_names("/f").unwrap(), ["user.k"]);
    v.remove_xattr("/f", "user.k").unwrap();
    assert_eq!(errno(v.remove_xattr("/f", "user.k")), 61);
}

#[test]
fn an_open_file_outlives_its_name() {
    let v = volume();
    let file = v.open_file("/f", OpenFlags::CREATE).unwrap();
    file.write_at(0, b"still here").unwrap();
    v.remove_file("/f").unwrap();
    let mut buffer = [0; 20];
    assert_eq!(file.read_at(6, &mut buffer).unwrap(), 4);
    file.punch(0, 4096).unwrap();
    file.set_len(1 << 30).unwrap();
    file.allocate(0, 8192, false).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 30);
    let readable = v.open_file("/g", OpenFlags::CREATE).unwrap();
    drop(readable);
    let readable = v.open_file("/g", OpenFlags::READ).unwrap();
    assert_eq!(errno(readable.write_at(0, b"no")), 22);
}

#[test]
fn what_was_closed_is_there_when_opened_again() {
    let device = Arc::new(MemoryDevice::new(32 << 20));
    crate::format::format_device(device.clone(), &CreateOptions::default()).unwrap();
    let options = OpenOptions {
        cache_bytes: 4 << 20,
        ..OpenOptions::default()
    };
    let v = Volume::open_on(device.clone(), &options).unwrap();
    let content = vec![7; 5 << 20];
    v.write("/kept", &content).unwrap();
    v.close().unwrap();
    let v = Volume::open_on(device.clone(), &options).unwrap();
    assert!(v.recovery_report().clean);
    assert_eq!(v.read("/kept").unwrap(), content);
    drop(v);
    let options = OpenOptions {
        read_only: true,
        ..options
    };
    let v = Volume::open_on(device, &options).unwrap();
    assert!(v.read_only_reason().is_some());
    assert_eq!(errno(v.write("/kept", b"no")), 30);
    v.close().unwrap();
}

#[test]
fn errors_name_operation_and_path() {
    let text = volume().read("/no/such").unwrap_err().to_string();
    assert_eq!(text, "cannot open /no/such: no such file or directory");
}
