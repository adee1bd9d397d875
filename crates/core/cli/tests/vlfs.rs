//! Volumes on the virtual log, by the commands: made, mounted, used by real programs,
//! killed, filled, checked; and refusals of operations that they do not support.
//!
//! Without /dev/fuse the mounts are skipped loudly, but fail in CI.

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::mounted::{Mount, no_fuse};
use support::{Scratch, varve};

fn volume(scratch: &Scratch, size: &str) -> String {
    let image = scratch.text("image");
    let made = varve(["mkfs", "--layout", "vlfs", "--size", size, &image]);
    made.expect(0, "on the virtual log");
    image
}

fn mounted(size: &str) -> Mount {
    let scratch = Scratch::new();
    let image = volume(&scratch, size);
    Mount::of(scratch, image)
}

#[test]
fn what_it_is_and_what_it_has_not() {
    let scratch = Scratch::new();
    let image = &volume(&scratch, "64M");
    varve(["info", image]).expect(0, "VLFS, on the virtual log");
    let info = varve(["info", "--json", image]).expect(0, "").json();
    assert_eq!(info["layout"], "vlfs");
    assert_eq!(info["state"], "clean");
    varve(["fsck", "--data", image]).expect(0, ": clean");
    let dump = varve(["dump", image, "superblock"]).expect(0, "").json();
    assert_eq!(dump["usage"]["inodes"], 1);
    // As at boot; there is no repair, and nothing to be repaired.
    varve(["fsck", "--repair", image]).expect(0, ": clean");
    varve(["fsck", "-p", image]).expect(0, ": clean");
    // A copy is used; that is reported, at boot as well.
    let first = fs::read(image).unwrap()[..512].to_vec();
    let file = File::options().write(true).open(image).unwrap();
    file.write_all_at(&[0; 512], 0).unwrap();
    varve(["fsck", image]).expect(4, "superblock copy at byte 0");
    varve(["fsck", "-p", image]).expect(4, "has no repair");
    file.write_all_at(&first, 0).unwrap();
    let target = &scratch.text("target");
    varve(["salvage", image, target]).expect(1, "on the virtual log");
    varve(["dump", image, "segments"]).expect(1, "on the virtual log");
    // Neither overwrites the other without --force.
    varve(["mkfs", "--size", "64M", image]).expect(1, "--force");
}

#[test]
fn what_is_made_over_it_is_not_taken_for_it() {
    let scratch = Scratch::new();
    let image = &volume(&scratch, "64M");
    let overwrite = |front: &[u8]| {
        let mut file = File::options().write(true).open(image).unwrap();
        file.write_all(front).unwrap();
    };
    let mut front = vec![0; 4096];
    overwrite(&front);
    // The copy in the last block is sufficient if the start contains no other file
    // system.
    varve(["info", image]).expect(0, "VLFS, on the virtual log");
    front[0x438..][..2].copy_from_slice(&[0x53, 0xef]);
    overwrite(&front);
    varve(["info", image]).expect(1, "");
}

#[test]
fn what_was_synced_survives_a_killed_server() {
    if no_fuse() {
        return;
    }
    let m = mounted("64M");
    for round in 0..3_u8 {
        let content = vec![round; 300_000];
        let name = format!("file{round}");
        let mut file = File::create(m.path(&name)).unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        fs::rename(m.path(&name), m.path("newest")).unwrap();
        File::open(&m.dir).unwrap().sync_all().unwrap();
        fs::write(m.path("not synced"), b"may be lost").unwrap();
        drop(file);
        let server = m.server();
        let killed = Command::new("kill").args(["-KILL", &server]).status();
        assert!(killed.unwrap().success());
        let _ = Command::new("umount").args(["-l", &m.dir]).status();
        m.mount();
        assert!(fs::read(m.path("newest")).unwrap() == content);
        let left = fs::metadata(m.path(&name));
        assert!(left.is_err(), "the old name is gone");
    }
    m.finish();
}

#[test]
fn a_full_volume_says_so_and_is_emptied() {
    if no_fuse() {
        return;
    }
    let m = mounted("64M");
    for _ in 0..3 {
        let mut file = File::create(m.path("large")).unwrap();
        let block = [7_u8; 1 << 16];
        let mut written = 0;
        let error = loop {
            match file.write_all(&block).and_then(|()| file.sync_data()) {
                Ok(()) => written += block.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(28), "{error}");
        assert!(written > 32 << 20, "{written}");
        drop(file);
        fs::remove_file(m.path("large")).unwrap();
    }
    m.remount_checked();
    m.finish();
}

#[test]
fn git_works_on_it() {
    if no_fuse() {
        return;
    }
    let m = mounted("64M");
    let script = "git init -q r && cd r && for i in 1 2 3; do cp -r /usr/include/linux d$i 2>/dev/null \
                  || cp -r /etc/. d$i; git add . && git -c user.name=a -c user.email=a@b \
                  commit -qm $i; done && git gc -q && git fsck --no-progress";
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(&m.dir)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    m.remount_checked();
    m.finish();
}

#[test]
fn an_idle_mount_makes_empty_regions_if_asked_to() {
    if no_fuse() {
        return;
    }
    let m = mounted("16M");
    m.umount();
    m.mount_with(&["-o", "compact"]);
    let content = |nth: usize| vec![nth as u8; 20_000];
    let mut files = 0;
    while fs::write(m.path(&format!("{files}")), content(files)).is_ok() {
        files += 1;
    }
    assert!(files > 200, "{files}");
    let _ = fs::remove_file(m.path(&format!("{files}")));
    for nth in (0..files).filter(|nth| nth % 3 > 0) {
        fs::remove_file(m.path(&format!("{nth}"))).unwrap();
    }
    File::open(&m.dir).unwrap().sync_all().unwrap();
    let emptied = || {
        let stats = varve(["stats", "--json", &m.dir]).expect(0, "").json();
        stats["virtual_log"]["regions_emptied"].as_u64().unwrap()
    };
    let begun = Instant::now();
    while emptied() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(240), "nothing moves");
        sleep(Duration::from_secs(1));
    }
    m.remount_checked();
    for nth in (0..files).step_by(3) {
        assert!(fs::read(m.path(&format!("{nth}"))).unwrap() == content(nth));
    }
    m.finish();
}
