//! Snapshots on images and real mounts: the commands, their output, and restorations.
//!
//! Without /dev/fuse the tests of mounts are skipped loudly, but fail in CI.

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use support::mounted::{Mount, no_fuse};
use support::{Scratch, shell, umount, varve};

fn json(arguments: &[&str]) -> Value {
    varve(arguments.iter().chain(&["--json"]))
        .expect(0, "")
        .json()
}

fn names(volume: &str) -> Vec<String> {
    let listed = json(&["snapshot", "list", volume]);
    let listed = listed.as_array().unwrap();
    let named = listed.iter().filter(|one| one["automatic"] == false);
    named
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Changes as lines, as people see them.
fn diff(arguments: &[&str]) -> Vec<String> {
    let said = varve(["diff"].iter().chain(arguments)).expect(0, "");
    said.out.lines().map(str::to_owned).collect()
}

#[test]
fn an_image_has_snapshots() {
    let scratch = Scratch::new();
    let image = scratch.volume("image", "64M");
    assert!(names(&image).is_empty());
    varve(["snapshot", "create", &image, "monday"]).expect(0, "monday: taken at 2");
    varve(["snapshot", "create", &image, "monday"]).expect(1, "a snapshot with this name exists");
    varve(["snapshot", "create", &image, "@-2h"]).expect(1, "begins with @ is a time");
    varve(["snapshot", "rename", &image, "monday", "tuesday"]).expect(0, "");
    assert_eq!(names(&image), ["tuesday"]);
    varve(["snapshot", "show", &image, "tuesday"]).expect(0, "changed since: 0");
    varve(["snapshot", "delete", &image, "tuesday", "none"]).expect(1, "`none`: no such snapshot");
    assert_eq!(names(&image), ["tuesday"]);
    varve(["dump", &image, "history"]).expect(0, "snapshot 1: tuesday, taken at ");
    varve(["salvage", &image, &scratch.text("copy")]).expect(0, "not copied: snapshots");
    varve(["snapshot", "keep", &image]).expect(0, "of 0 hours, 0 days, 0 weeks");
    varve(["snapshot", "keep", &image, "--hourly", "24", "--daily", "7"]).expect(0, "24 hours");
    varve(["snapshot", "keep", &image]).expect(0, "of 24 hours, 7 days, 0 weeks");
    varve(["snapshot", "delete", &image, "tuesday"]).expect(0, "");
    assert!(names(&image).is_empty());
    varve(["fsck", "--data", &image]).expect(0, ": clean");
}

#[test]
fn other_layouts_refuse() {
    let scratch = Scratch::new();
    let image = scratch.text("image");
    varve(["mkfs", "--layout", "vlfs", "--size", "64M", &image]).expect(0, "");
    let refused = "only volumes with the layout log have snapshots";
    varve(["snapshot", "create", &image, "monday"]).expect(1, refused);
    varve(["snapshot", "list", &image]).expect(1, refused);
}

#[test]
fn a_mount_is_compared_restored_and_rolled_back() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("128M");
    let dir = &mount.dir;
    let path = |name: &str| Path::new(dir).join(name);
    fs::create_dir_all(path("letters/old")).unwrap();
    fs::write(path("letters/may"), vec![b'm'; 20_000]).unwrap();
    fs::write(path("letters/old/april"), b"april").unwrap();
    fs::write(path("kept"), b"kept").unwrap();
    // Nothing was synced: taking a snapshot does that.
    varve(["snapshot", "create", dir, "monday"]).expect(0, "monday");
    fs::write(path("letters/may"), b"short").unwrap();
    fs::remove_dir_all(path("letters/old")).unwrap();
    fs::write(path("letters/june"), b"june").unwrap();
    fs::rename(path("kept"), path("moved")).unwrap();
    let wanted = [
        "+ /letters/june (4 B)",
        "M /letters/may (19.5 KiB)",
        "- /letters/old",
        "- /letters/old/april",
        "R /kept -> /moved",
    ];
    assert_eq!(diff(&[dir, "monday"]), wanted);
    let changes = json(&["diff", dir, "monday", "--content"]);
    assert_eq!(changes[1]["ranges"], serde_json::json!([[0, 20_000]]));

    let letters = mount.dir.clone() + "/letters";
    varve(["undelete", &letters]).expect(0, "old/  (in monday)");
    varve(["undelete", &letters, "old/april"]).expect(0, "restored from monday");
    assert_eq!(fs::read(path("letters/old/april")).unwrap(), b"april");
    let may = mount.dir.clone() + "/letters/may";
    varve(["versions", &may]).expect(0, "(present)");
    let first = varve(["versions", &may, "--get", "1"]).expect(0, "");
    assert_eq!(first.out, "m".repeat(20_000));
    varve(["versions", &may, "--get", "3"]).expect(1, "versions 1 to 2");

    // The kernel has seen all of these files, and one is open.
    let open = fs::File::open(path("letters/may")).unwrap();
    assert!(path("letters/june").exists() && !path("kept").exists());
    varve(["rollback", dir, "monday"]).expect(0, "what was there before is in @");
    assert_eq!(fs::read(path("letters/may")).unwrap(), vec![b'm'; 20_000]);
    assert_eq!(open.metadata().unwrap().len(), 20_000);
    assert!(!path("letters/june").exists() && !path("moved").exists());
    assert_eq!(fs::read(path("kept")).unwrap(), b"kept");
    // A file that had another name has its own again, and is no difference.
    let rewritten = [
        "M /letters/may (19.5 KiB)",
        "+ /letters/old",
        "- /letters/old",
        "+ /letters/old/april (5 B)",
        "- /letters/old/april",
    ];
    assert_eq!(diff(&[dir, "monday"]), rewritten);
    drop(open);

    // The state before the rollback is an automatic snapshot.
    let listed = json(&["snapshot", "list", dir]);
    let before = listed.as_array().unwrap().last().unwrap();
    assert_eq!(before["automatic"], true);
    let before = before["name"].as_str().unwrap();
    varve(["rollback", dir, before, "letters/june"]).expect(0, "1 files");
    assert_eq!(fs::read(path("letters/june")).unwrap(), b"june");
    mount.umount();
    varve(["fsck", "--data", &mount.image]).expect(0, ": clean");
}

#[test]
fn a_snapshot_is_mounted_alone_and_next_to_its_volume() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("128M");
    let file = Path::new(&mount.dir).join("file");
    fs::write(&file, b"before").unwrap();
    varve(["snapshot", "create", &mount.dir, "monday"]).expect(0, "monday");
    fs::write(&file, b"after").unwrap();
    let past = mount.scratch.text("past");
    fs::create_dir(&past).unwrap();
    let shows = || {
        assert_eq!(fs::read(Path::new(&past).join("file")).unwrap(), b"before");
        let refused = fs::write(Path::new(&past).join("file"), b"x").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    };
    let mount_past = |name: &str| {
        let option = format!("snapshot={name}");
        varve(["mount", &mount.image, &past, "-o", &option])
    };
    mount_past("tuesday").expect(32, "`tuesday`: no such snapshot");
    mount_past("monday").expect(0, "");
    shows();
    assert_eq!(fs::read(&file).unwrap(), b"after");
    shell(&format!("umount {past}"));
    mount.umount();
    mount_past("monday").expect(0, "");
    shows();
    umount(&past);
    mount_past("tuesday").expect(32, "`tuesday`: no such snapshot");
}

/// A mount with the directory of snapshots, a file in each directory, and a snapshot.
fn with_directory() -> Mount {
    let scratch = Scratch::new();
    let image = scratch.volume("image", "128M");
    let mount = Mount::with_options(scratch, image, "cache=64M,snapdir");
    let path = |name: &str| Path::new(&mount.dir).join(name);
    fs::create_dir_all(path("letters/old")).unwrap();
    fs::write(path("letters/may"), vec![b'm'; 300_000]).unwrap();
    fs::write(path("letters/old/april"), b"april").unwrap();
    fs::hard_link(path("letters/may"), path("linked")).unwrap();
    std::os::unix::fs::symlink("letters/may", path("symbolic")).unwrap();
    let sparse = fs::File::create(path("sparse")).unwrap();
    sparse.set_len(10 << 20).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"x", 5 << 20).unwrap();
    mount
}

fn listed(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_root_has_a_directory_of_snapshots() {
    use std::os::unix::fs::MetadataExt;
    if no_fuse() {
        return;
    }
    let mount = with_directory();
    let path = |name: &str| Path::new(&mount.dir).join(name);
    let all = path(".snapshots");
    assert!(listed(&all).is_empty());
    varve(["snapshot", "create", &mount.dir, "monday"]).expect(0, "");
    assert_eq!(listed(&all), ["monday"]);
    let copy = mount.scratch.text("copy");
    shell(&format!("cp -a {} {copy}", mount.dir));
    assert!(
        !Path::new(&copy).join(".snapshots").exists(),
        "it is listed"
    );

    let may = fs::metadata(path("letters/may")).unwrap();
    fs::write(path("letters/may"), b"changed").unwrap();
    fs::remove_dir_all(path("letters/old")).unwrap();
    fs::write(path("new"), b"new").unwrap();
    let monday = format!("{}/.snapshots/monday", mount.dir);
    // Programs that compare and copy trees see what there was.
    shell(&format!("diff -r {copy} {monday}"));
    shell(&format!(
        "cp -a {monday} {copy}-2 && diff -r {copy} {copy}-2"
    ));
    shell(&format!("tar -C {monday} -c . | tar -C {copy}-2 -d"));
    shell(&format!(
        "test $(find {monday} | wc -l) = $(find {copy} | wc -l)"
    ));
    shell(&format!(
        "cd {monday}/letters/old && test \"$(cat ../old/april)\" = april && cd ../../.. && ls | grep -qx monday"
    ));
    let was = fs::metadata(path(".snapshots/monday/letters/may")).unwrap();
    assert_eq!(
        (was.len(), was.nlink(), was.mtime()),
        (300_000, 2, may.mtime())
    );
    assert_eq!(was.dev(), may.dev());
    assert_ne!(was.ino(), may.ino());
    let linked = fs::metadata(path(".snapshots/monday/linked")).unwrap();
    assert_eq!(was.ino(), linked.ino());
    assert!(
        fs::metadata(path(".snapshots/monday/sparse"))
            .unwrap()
            .blocks()
            < 100
    );

    // A second one, an automatic one, another name, and the listing.
    varve(["snapshot", "create", &mount.dir, "tuesday"]).expect(0, "");
    varve(["rollback", &mount.dir, "monday", "letters/may"]).expect(0, "");
    let names = listed(&all);
    assert_eq!(
        (names.len(), &names[1]),
        (3, &"monday".to_owned()),
        "{names:?}"
    );
    assert!(names[0].starts_with("@20"), "{names:?}");
    assert!(path(&format!(".snapshots/{}/new", names[0])).exists());
    assert!(!path(".snapshots/monday/new").exists());
    varve(["snapshot", "rename", &mount.dir, "tuesday", "friday"]).expect(0, "");
    assert!(path(".snapshots/friday/new").exists() && !path(".snapshots/tuesday").exists());
    assert_eq!(listed(&all)[1..], ["friday", "monday"]);

    // A snapshot that is deleted while it is in use.
    let directory = fs::File::open(path(".snapshots/friday")).unwrap();
    let open = fs::File::open(path(".snapshots/friday/letters/may")).unwrap();
    varve(["snapshot", "delete", &mount.dir, "friday"]).expect(0, "");
    assert_eq!(listed(&all)[1..], ["monday"]);
    assert!(!path(".snapshots/friday/new").exists());
    let mut buffer = [0; 16];
    let gone = std::os::unix::fs::FileExt::read_at(&open, &mut buffer, 0).unwrap_err();
    assert_eq!(
        gone.raw_os_error(),
        Some(rustix::io::Errno::STALE.raw_os_error())
    );
    let inside = format!(
        "/proc/self/fd/{}/linked",
        std::os::fd::AsRawFd::as_raw_fd(&directory)
    );
    assert!(fs::metadata(inside).is_err());
    drop((directory, open));
    mount.finish();
}

#[test]
fn the_directory_of_snapshots_takes_no_changes() {
    use rustix::io::Errno;
    if no_fuse() {
        return;
    }
    let mount = with_directory();
    varve(["snapshot", "create", &mount.dir, "monday"]).expect(0, "");
    let path = |name: &str| Path::new(&mount.dir).join(name);
    let monday = path(".snapshots/monday");
    let refused = |done: std::io::Result<()>, wanted: Errno| {
        let code = done.unwrap_err().raw_os_error();
        assert_eq!(code, Some(wanted.raw_os_error()));
    };
    let may = monday.join("letters/may");
    for directory in [path(".snapshots"), monday.clone()] {
        refused(fs::write(directory.join("new"), b"x"), Errno::ROFS);
        refused(fs::create_dir(directory.join("new")), Errno::ROFS);
        refused(
            std::os::unix::fs::symlink("x", directory.join("new")),
            Errno::ROFS,
        );
        refused(
            fs::rename(path("linked"), directory.join("new")),
            Errno::ROFS,
        );
    }
    refused(fs::write(&may, b"x"), Errno::ROFS);
    refused(
        fs::OpenOptions::new().append(true).open(&may).map(drop),
        Errno::ROFS,
    );
    refused(fs::remove_file(&may), Errno::ROFS);
    refused(fs::remove_dir(monday.join("letters/old")), Errno::ROFS);
    refused(fs::remove_dir(path(".snapshots/monday")), Errno::ROFS);
    refused(fs::rename(&may, path("stolen")), Errno::ROFS);
    refused(fs::rename(path(".snapshots"), path("stolen")), Errno::ROFS);
    refused(fs::rename(path("letters"), path(".snapshots")), Errno::ROFS);
    refused(fs::remove_dir(path(".snapshots")), Errno::ROFS);
    refused(fs::create_dir(path(".snapshots")), Errno::EXIST);
    refused(fs::hard_link(&may, path("stolen")), Errno::XDEV);
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    refused(fs::set_permissions(&may, rights), Errno::ROFS);
    // Copies within the mount go through the kernel's copy_file_range.
    assert_eq!(fs::copy(&may, path("copy")).unwrap(), 300_000);
    assert_eq!(fs::read(path("copy")).unwrap(), vec![b'm'; 300_000]);
    let view = format!("test -e {0}/letters && ! test -e {0}/.snapshots", mount.dir);
    varve(["txn", "run", &mount.dir, "--", "sh", "-c", &view]).expect(0, "");
    mount.umount();

    // A file that has the name is not hidden: the mount is refused.
    mount.mount_with(&[]);
    assert!(!path(".snapshots").exists());
    fs::create_dir(path(".snapshots")).unwrap();
    mount.umount();
    let with = ["mount", &mount.image, &mount.dir, "-o", "snapdir"];
    varve(with).expect(32, "the root has a file `.snapshots`");
    varve(["fsck", "--data", &mount.image]).expect(0, ": clean");
}

#[test]
fn many_snapshots_are_in_the_directory() {
    if no_fuse() {
        return;
    }
    let mount = with_directory();
    let path = |name: &str| Path::new(&mount.dir).join(name);
    for number in 0..30 {
        fs::write(path("linked"), format!("content {number}")).unwrap();
        varve([
            "snapshot",
            "create",
            &mount.dir,
            &format!("number {number:02}"),
        ])
        .expect(0, "");
    }
    // More than are open at the same time, in both orders, with files that stay open.
    let all = listed(&path(".snapshots"));
    assert_eq!(all.len(), 30);
    let open = all
        .iter()
        .map(|name| fs::File::open(path(&format!(".snapshots/{name}/linked"))));
    let open: Vec<fs::File> = open.map(Result::unwrap).collect();
    for (number, file) in open.iter().enumerate().rev() {
        let mut buffer = [0; 32];
        let read = std::os::unix::fs::FileExt::read_at(file, &mut buffer, 0).unwrap();
        assert_eq!(buffer[..read], *format!("content {number}").as_bytes());
    }
    shell(&format!(
        "find {}/.snapshots -type f -exec cat {{}} + | wc -c",
        mount.dir
    ));
    drop(open);
    mount.finish();
}

/// On a full volume the log of the server, `varve stats` and the error of a new snapshot say
/// what snapshots keep.
#[test]
fn a_full_volume_says_which_snapshot_keeps_space() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let path = |name: &str| Path::new(&mount.dir).join(name);
    fs::write(path("small"), vec![1; 1 << 20]).unwrap();
    varve(["snapshot", "create", &mount.dir, "first"]).expect(0, "");
    fs::write(path("large"), vec![2; 12 << 20]).unwrap();
    varve(["snapshot", "create", &mount.dir, "second"]).expect(0, "");
    fs::remove_file(path("large")).unwrap();
    fs::remove_file(path("small")).unwrap();
    let piece = vec![3; 256 << 10];
    let mut files = (0..).map(|n| fs::write(path(&format!("{n}")), &piece));
    let refused = files.find_map(Result::err).unwrap();
    assert_eq!(
        refused.raw_os_error(),
        Some(rustix::io::Errno::NOSPC.raw_os_error())
    );
    let advice = "delete files, or `second`, which frees 12.0 MiB";
    varve(["snapshot", "create", &mount.dir, "third"]).expect(1, advice);
    let stats = json(&["stats", &mount.dir]);
    let snapshots = &stats["snapshots"];
    assert_eq!(
        (&snapshots["named"], &snapshots["automatic"]),
        (&2.into(), &0.into())
    );
    let kept = snapshots["kept_bytes"].as_u64().unwrap();
    assert!((13 << 20..14 << 20).contains(&kept), "{snapshots}");
    let log = fs::read_to_string(mount.scratch.path("log")).unwrap();
    let lines = log
        .lines()
        .filter(|line| line.contains("refused for lack of space"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("second"), "{log}");
    mount.umount();
    let dumped = json(&["dump", &mount.image, "history"]);
    let only = |at: usize| dumped["snapshots"][at]["only_bytes"].as_u64().unwrap();
    assert_eq!(dumped["snapshots"][1]["name"], "second");
    assert!((12 << 20..13 << 20).contains(&only(1)), "{dumped}");
    assert!(
        only(0) < 65536 && !dumped["runs"].as_array().unwrap().is_empty(),
        "{dumped}"
    );
    mount.mount();
    varve(["snapshot", "delete", &mount.dir, "second"]).expect(0, "");
    fs::write(path("large"), vec![4; 8 << 20]).unwrap();
    mount.finish();
}
