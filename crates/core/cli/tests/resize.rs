//! `varve resize` and `varve tune`: on images, and on a mount that is written while it
//! grows.
//!
//! Without /dev/fuse the tests of mounts are skipped loudly, but fail in CI.

mod support;

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::mounted::{Mount, lacks, no_fuse};
use support::{Scratch, VARVE, has, shell, umount, varve};

#[test]
fn tune_shows_and_changes_label_and_uuid() {
    let s = Scratch::new();
    for layout in ["log", "vlfs"] {
        let image = s.text(layout);
        varve([
            "mkfs", &image, "--size", "32M", "--layout", layout, "-L", "old",
        ])
        .expect(0, "");
        let before = varve(["tune", &image, "--json"]).expect(0, "").json();
        assert_eq!(before["label"], "old");
        let same = fs::read(&image).unwrap();
        varve(["tune", &image]).expect(0, "label: old");
        assert!(fs::read(&image).unwrap() == same, "looking changes nothing");
        varve(["tune", &image, "--label", "new lake"]).expect(0, "label: new lake");
        let uuid = "0123456789abcdef0123456789ABCDEF";
        let changed = varve(["tune", &image, "--uuid", uuid, "--json"])
            .expect(0, "")
            .json();
        assert_eq!(changed["uuid"], "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(changed["tag"], before["tag"]);
        varve(["tune", &image]).expect(0, "as its first UUID began");
        let random = varve(["tune", &image, "-U", "random", "-L", "", "--json"]).expect(0, "");
        assert_ne!(random.json()["uuid"], changed["uuid"]);
        assert_eq!(random.json()["label"], "");
        let info = varve(["info", &image, "--json"]).expect(0, "").json();
        assert_eq!(info["uuid"], random.json()["uuid"]);
        varve(["fsck", "--data", &image]).expect(0, "clean");
        let old = before["uuid"].as_str().unwrap();
        let back = varve(["tune", &image, "--uuid", old, "--label", "old", "--json"]);
        assert_eq!(back.expect(0, "").json(), before);
    }
}

#[test]
fn tune_refuses_what_cannot_be() {
    let s = Scratch::new();
    let image = s.volume("image", "16M");
    let before = fs::read(&image).unwrap();
    varve(["tune", &image, "--label", &"x".repeat(65)]).expect(2, "65 bytes, 64 fit");
    for wrong in ["7", "", "0123456789abcdef0123456789abcdeg", &"0".repeat(32)] {
        varve(["tune", &image, "--uuid", wrong]).expect(2, "is no UUID");
    }
    let refused = "only volumes with the layout log have snapshots";
    for layout in ["vlfs", "ffs"] {
        let other = s.text(layout);
        varve(["mkfs", &other, "--size", "32M", "--layout", layout]).expect(0, "");
        varve(["tune", &other, "--snapshots"]).expect(1, refused);
    }
    varve(["tune", &image, "--snapshots"]).expect(0, "label:");
    varve(["tune", &s.text("none")]).expect(1, "No such file");
    varve(["tune", "/dev/null"]).expect(1, "neither a regular file nor a block device");
    varve(["tune"]).expect(2, "--help");
    assert!(fs::read(&image).unwrap() == before);
    fs::write(s.path("junk"), vec![3; 1 << 20]).unwrap();
    varve(["tune", &s.text("junk"), "--label", "x"]).expect(1, "");
}

#[test]
fn resize_grows_and_shrinks_an_image() {
    let s = Scratch::new();
    let image = s.volume("image", "16M");
    let length = || fs::metadata(&image).unwrap().len();
    varve(["resize", &image, "48M"]).expect(0, "48 MiB instead of 16 MiB");
    assert_eq!(length(), 48 << 20);
    varve(["fsck", "--data", &image]).expect(0, "clean");
    let told = varve(["resize", &image, "24M", "--json"])
        .expect(0, "")
        .json();
    assert_eq!(
        (&told["before"], &told["bytes"]),
        (&(48 << 20).into(), &(24 << 20).into())
    );
    assert_eq!(length(), 24 << 20);
    varve(["fsck", "--data", &image]).expect(0, "clean");
    varve(["resize", &image, "24M"]).expect(0, "has 24 MiB already");
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(32 << 20).unwrap();
    drop(file);
    varve(["fsck", &image]).expect(0, "clean");
    varve(["resize", &image, "max"]).expect(0, "32 MiB instead of 24 MiB");
    varve(["resize", &image, "max"]).expect(0, "has 32 MiB already");
    varve(["resize", &image, "40M", "--preallocate"]).expect(0, "40 MiB");
    varve(["resize", &image, "44M", "--reserve"]).expect(0, "44 MiB");
    varve(["fsck", "--data", &image]).expect(0, "clean");
    // A file that is too short for its volume is an error with its own message.
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(20 << 20).unwrap();
    varve(["fsck", &image]).expect(
        8,
        "the volume needs 46137344 bytes, the device has 20971520",
    );
}

#[test]
fn resize_refuses_what_cannot_be() {
    let s = Scratch::new();
    let image = s.volume("image", "16M");
    let before = fs::read(&image).unwrap();
    varve(["resize", &image, "1M"]).expect(1, "are needed");
    varve(["resize", &image, "0"]).expect(1, "are needed");
    varve(["resize", &image, "1000T"]).expect(1, "use larger segments");
    varve(["resize", &image, "64G"]).expect(1, "make a new volume with larger ones");
    varve(["resize", &image, "17179869183G"]).expect(1, "use larger segments");
    varve(["resize", &image, "much"]).expect(2, "is no size");
    varve(["resize", &image]).expect(2, "--help");
    varve(["resize", &image, "32M", "max"]).expect(2, "--help");
    varve(["resize", &image, "32M", "--preallocate", "--reserve"]).expect(2, "--help");
    varve(["resize", &s.text("none"), "32M"]).expect(1, "No such file");
    varve(["resize", &s.text(""), "32M"]).expect(1, "nothing is mounted on");
    assert!(fs::read(&image).unwrap() == before);
    let small = s.text("vlfs");
    varve(["mkfs", &small, "--size", "32M", "--layout", "vlfs"]).expect(0, "");
    varve(["resize", &small, "64M"]).expect(1, "whose size cannot be changed");
    assert_eq!(fs::metadata(&small).unwrap().len(), 32 << 20);
}

#[test]
fn resize_moves_what_lives_and_says_what_does_not_fit() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("96M");
    for file in 0..60 {
        fs::write(m.path(&format!("f{file}")), vec![file as u8; 1 << 20]).unwrap();
    }
    varve(["resize", &m.dir, "48M"]).expect(1, "does not shrink");
    varve(["resize", &m.image, "48M"]).expect(1, "is in use");
    varve(["tune", &m.image, "--label", "x"]).expect(1, "is in use");
    m.umount();
    let refused = varve(["resize", &m.image, "48M"]).expect(1, "it needs");
    varve(["fsck", "--data", &m.image]).expect(0, "clean");
    // The printed least size is enough.
    let least = refused.err.split("it needs ").nth(1).unwrap();
    let least = least.split(',').next().unwrap();
    varve(["resize", &m.image, least]).expect(0, "instead of 96 MiB");
    varve(["fsck", "--data", &m.image]).expect(0, "clean");
    let mebibytes: f64 = least.strip_suffix(" MiB").unwrap().parse().unwrap();
    let bytes = fs::metadata(&m.image).unwrap().len();
    assert!(bytes <= (mebibytes * f64::from(1 << 20)) as u64, "{least}");
    m.mount();
    for file in (0..60).rev() {
        let bytes = fs::read(m.path(&format!("f{file}"))).unwrap();
        assert!(bytes == vec![file as u8; 1 << 20], "f{file}");
        fs::remove_file(m.path(&format!("f{file}"))).unwrap();
    }
    m.umount();
    varve(["resize", &m.image, "24M"]).expect(0, "24 MiB");
    m.mount();
    m.finish();
}

#[test]
fn a_full_mount_grows_while_it_is_written() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("32M");
    let mut files = 0;
    while fs::write(m.path(&format!("full{files}")), vec![7; 1 << 20]).is_ok() {
        files += 1;
        shell(&format!("sync -f '{}'", m.dir));
    }
    let _ = fs::remove_file(m.path(&format!("full{files}")));
    varve(["resize", &m.dir, "64M"]).expect(0, "64 MiB instead of 32 MiB");
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer: u8| {
                let (m, ending) = (&m, &ending);
                scope.spawn(move || {
                    let mut round = 0u8;
                    while !ending.load(Relaxed) {
                        let path = m.path(&format!("w{writer}-{}", round % 5));
                        fs::write(&path, vec![round; 700_000]).unwrap();
                        fs::File::open(&path).unwrap().sync_all().unwrap();
                        assert!(fs::read(&path).unwrap() == vec![round; 700_000]);
                        round = round.wrapping_add(1);
                    }
                })
            })
            .collect();
        for size in ["70M", "80M", "100M", "130M", "200M"] {
            varve(["resize", &m.dir, size]).expect(0, "instead of");
        }
        ending.store(true, Relaxed);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
    });
    assert_eq!(fs::metadata(&m.image).unwrap().len(), 200 << 20);
    let file = fs::OpenOptions::new().write(true).open(&m.image).unwrap();
    file.set_len(256 << 20).unwrap();
    varve(["resize", &m.dir, "max", "--json"]).expect(0, "268435456");
    varve(["resize", &m.dir, "max"]).expect(0, "has 256 MiB already");
    varve(["resize", &m.dir, "300M", "--preallocate"]).expect(2, "grows sparse");
    for more in 0..120 {
        fs::write(m.path(&format!("more{more}")), vec![more; 1 << 20]).unwrap();
    }
    for file in 0..files {
        assert!(fs::read(m.path(&format!("full{file}"))).unwrap() == vec![7; 1 << 20]);
    }
    m.remount_checked();
    for more in 0..120 {
        assert!(fs::read(m.path(&format!("more{more}"))).unwrap() == vec![more; 1 << 20]);
    }
    m.finish();
}

/// A block device that becomes larger, and that keeps the bytes beyond the end of a
/// volume that became smaller.
#[test]
fn a_volume_on_a_block_device_follows_it() {
    let root = lacks("root", rustix::process::geteuid().is_root());
    let loops = lacks("loop devices", fs::exists("/dev/loop-control").unwrap());
    if root || loops || lacks("losetup", has("losetup")) || no_fuse() {
        return;
    }
    let s = Scratch::new();
    let image = s.text("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let device = shell(&format!("losetup --find --show '{image}'"))
        .trim()
        .to_owned();
    let lengthen = |bytes: u64| {
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        file.set_len(bytes).unwrap();
        shell(&format!("losetup --set-capacity {device}"));
    };
    let done = std::panic::catch_unwind(|| {
        varve(["mkfs", &device]).expect(0, "64 MiB");
        let too_much = "giving it 128 MiB failed: the device has 64 MiB";
        varve(["resize", &device, "128M"]).expect(1, too_much);
        lengthen(128 << 20);
        varve(["resize", &device, "max"]).expect(0, "128 MiB instead of 64 MiB");
        varve(["resize", &device, "40M"]).expect(0, "40 MiB instead of 128 MiB");
        varve(["fsck", "--data", &device]).expect(0, "clean");
        // The copies of the smaller volume are used.
        shell(&format!(
            "dd if=/dev/urandom of={device} bs=512 count=1 status=none"
        ));
        varve(["fsck", "-p", "-f", &device]).expect(1, "REPAIRED");
        varve(["info", &device]).expect(0, "size       40 MiB");
        let dir = s.text("mnt");
        fs::create_dir(&dir).unwrap();
        varve(["mount", &device, &dir]).expect(0, "");
        lengthen(256 << 20);
        varve(["resize", &dir, "max"]).expect(0, "256 MiB instead of 40 MiB");
        varve(["resize", &dir, "1G"]).expect(1, "the device has 256 MiB");
        fs::write(s.path("mnt/much"), vec![5; 150 << 20]).unwrap();
        umount(&dir);
        varve(["fsck", "--data", &device]).expect(0, "clean");
    });
    shell(&format!("losetup --detach {device}"));
    done.unwrap();
}

/// A server that is killed after the growth leaves a volume of the new size.
#[test]
fn a_mount_that_dies_after_it_has_grown_has_grown() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("32M");
    fs::write(m.path("before"), b"there").unwrap();
    varve(["resize", &m.dir, "64M"]).expect(0, "64 MiB");
    for file in 0..30 {
        fs::write(m.path(&format!("f{file}")), vec![file; 1 << 20]).unwrap();
    }
    let synced = fs::File::open(&m.dir).unwrap();
    synced.sync_all().unwrap();
    drop(synced);
    let pid = m.server();
    assert!(
        Command::new("kill")
            .args(["-KILL", &pid])
            .status()
            .unwrap()
            .success()
    );
    let umount = Command::new(VARVE)
        .args(["umount", "--force", &m.dir])
        .status();
    assert!(umount.unwrap().success());
    varve(["fsck", "--data", &m.image]).expect(0, "");
    m.mount();
    for file in 0..30 {
        assert!(fs::read(m.path(&format!("f{file}"))).unwrap() == vec![file; 1 << 20]);
    }
    m.finish();
}
