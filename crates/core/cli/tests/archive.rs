//! `varve archive` of images and real mounts.
//!
//! Without /dev/fuse the test of a mount is skipped loudly, but fails in CI.

mod support;

use std::fs;
use std::path::Path;
use support::mounted::{Mount, no_fuse};
use support::{Scratch, shell, umount, varve};

#[test]
fn a_mount_is_archived_while_it_is_written() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let out = Scratch::new();
    let (dir, folder) = (mount.dir.clone(), out.text("archives"));
    fs::create_dir(Path::new(&dir).join("kept")).unwrap();
    for nth in 0..20_u8 {
        fs::write(
            Path::new(&dir).join(format!("kept/{nth}")),
            vec![nth; 100_000],
        )
        .unwrap();
    }
    varve(["snapshot", "create", &dir, "monday"]).expect(0, "");
    varve(["archive", &dir, "--to", &folder]).expect(0, "segments, of which");
    // The cleaner works while the second archive is made.
    let churn = std::thread::spawn({
        let dir = dir.clone();
        move || {
            for nth in 0..60_usize {
                let path = Path::new(&dir).join(format!("new{}", nth % 7));
                fs::write(path, vec![nth as u8; 3 << 20]).unwrap();
            }
        }
    });
    varve(["archive", &dir, "--to", &folder]).expect(0, "segments");
    churn.join().unwrap();
    shell(&format!("rm -r '{dir}/kept'; sync -f '{dir}'"));
    varve(["archive", &dir, "--to", &folder, "--json"]).expect(0, "\"read_by_cleaner\"");

    let image = out.text("image");
    varve(["archive", "restore", "--from", &folder, "--to", &image]).expect(0, "checkpoint");
    varve(["fsck", "--data", &image]).expect(0, ": clean");
    let (now, copy) = (Path::new(&dir), out.text("copy"));
    varve(["cp", "--unordered", &image, &copy]).expect(0, "");
    shell(&format!("diff -r '{}' '{copy}'", now.display()));

    let image = out.text("monday");
    let restore = [
        "archive",
        "restore",
        "--from",
        &folder,
        "--to",
        &image,
        "--snapshot",
    ];
    varve(restore.iter().chain(&["monday"])).expect(0, "checkpoint");
    varve(["fsck", "--data", &image]).expect(0, ": clean");
    let volume = varve::Volume::open(&image).unwrap();
    assert_eq!(volume.read("/kept/7").unwrap(), vec![7; 100_000]);
    assert!(!volume.exists("/new0").unwrap());
    volume.close().unwrap();

    varve(restore.iter().chain(&["monday"])).expect(1, "File exists");
    let restore = [
        "archive",
        "restore",
        "--from",
        &folder,
        "--to",
        &out.text("x"),
        "--snapshot",
    ];
    varve(restore.iter().chain(&["none"])).expect(1, "no archive has this snapshot");
    umount(&dir);
    varve(["archive", &mount.image, "--to", &folder]).expect(0, "segments");
    mount.mount();
}

#[test]
fn wrong_arguments_are_refused() {
    let scratch = Scratch::new();
    let image = scratch.volume("image", "64M");
    let (folder, none) = (scratch.text("folder"), scratch.text("none"));
    varve(["archive", &image]).expect(2, "--to");
    varve(["archive", &none, "--to", &folder]).expect(1, "none");
    varve(["archive", &image, "--to", "/dev/null/x"]).expect(1, "Not a directory");
    let restore = ["archive", "restore", "--from"];
    varve(restore.iter().chain(&[none.as_str(), "--to", "x"])).expect(1, "is no folder");
    varve(restore.iter().chain(&[folder.as_str(), "--to", "x"])).expect(1, "there is no archive");
    let vlfs = scratch.text("vlfs");
    varve(["mkfs", "--layout", "vlfs", "--size", "64M", &vlfs]).expect(0, "");
    varve(["archive", &vlfs, "--to", &folder]).expect(1, "only volumes with the layout log");
}
