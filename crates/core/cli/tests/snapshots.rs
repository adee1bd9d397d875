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
