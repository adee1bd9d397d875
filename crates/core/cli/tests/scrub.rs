//! `varve scrub` and the verification after roll-forward, on real mounts whose image is
//! damaged beneath them.
//!
//! Without /dev/fuse the tests are skipped loudly, but fail in CI.

mod support;

use serde_json::Value;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, VARVE, varve};

fn no_fuse() -> bool {
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if device.is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI must have /dev/fuse");
        eprintln!("SKIPPED: no /dev/fuse");
    }
    device.is_err()
}

struct Mount {
    image: String,
    dir: String,
    _scratch: Scratch,
}

impl Mount {
    fn new(size: &str) -> Self {
        let scratch = Scratch::new();
        let image = scratch.volume("image", size);
        fs::create_dir(scratch.path("mnt")).unwrap();
        let mount = Mount {
            image,
            dir: scratch.text("mnt"),
            _scratch: scratch,
        };
        mount.mount("rw");
        mount
    }

    fn mount(&self, options: &str) {
        varve([
            "mount",
            "-o",
            options,
            "--cache",
            "16M",
            &self.image,
            &self.dir,
        ])
        .expect(0, "");
    }

    fn umount(&self) {
        support::umount(&self.dir);
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(&self.dir).join(name)
    }

    fn sync(&self) {
        fs::File::open(&self.dir).unwrap().sync_all().unwrap();
    }

    fn stats(&self) -> Value {
        varve(["stats", "--json", &self.dir]).expect(0, "").json()
    }

    /// Kills the server, and removes the mount.
    fn kill(&self) {
        let info = varve(["info", "--json", &self.dir]).expect(0, "").json();
        let server = info["holder"]["pid"].to_string();
        let killed = Command::new("kill").args(["-KILL", &server]).status();
        assert!(killed.unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(60);
        while varve(["info", "--json", &self.image]).json()["state"] == "mounted" {
            assert!(Instant::now() < deadline, "the server did not die");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.umount();
    }

    /// Flips a bit of every copy of `text` on the image.
    fn damage(&self, text: &[u8]) -> usize {
        let mut image = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.image)
            .unwrap();
        let mut bytes = Vec::new();
        image.read_to_end(&mut bytes).unwrap();
        let places: Vec<usize> = (0..bytes.len() - text.len())
            .filter(|&at| bytes[at] == text[0] && bytes[at..].starts_with(text))
            .collect();
        for &at in &places {
            image.seek(SeekFrom::Start(at as u64 + 1)).unwrap();
            image.write_all(&[bytes[at + 1] ^ 0x10]).unwrap();
        }
        image.sync_all().unwrap();
        places.len()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new("umount").args(["-l", &self.dir]).status();
        }
    }
}

#[test]
fn a_sound_mount_is_scrubbed_and_stays_in_service() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    varve(["scrub", "--status", &m.dir]).expect(8, "nothing has been scrubbed");
    for n in 0..50 {
        fs::write(m.path(&format!("f{n}")), vec![n; 10_000]).unwrap();
    }
    m.sync();
    varve(["scrub", &m.dir]).expect(0, "no damage found");
    let report = varve(["scrub", "--json", "--rate", "0", &m.dir]);
    let report = report.expect(0, "").json();
    assert_eq!(report["outcome"], "complete");
    assert_eq!(report["found"], 0);
    assert!(report["progress"]["data_bytes"].as_u64().unwrap() >= 500_000);
    varve(["scrub", "--status", &m.dir]).expect(0, "no damage found");
    let stats = m.stats();
    assert_eq!(stats["scrub"]["state"], "complete");
    assert_eq!(stats["state"]["read_only"], 0);
    let text = varve(["stats", "--prometheus", &m.dir]).expect(0, "").out;
    assert!(text.contains("# TYPE varve_scrub_errors gauge"), "{text}");
    assert!(text.contains("operation=\"reads\"} 0"), "{text}");
    m.umount();
    varve(["scrub", &m.image]).expect(8, "varve fsck --data");
    varve(["scrub", &m.dir]).expect(8, "nothing is mounted on");
    varve(["fsck", "--data", &m.image]).expect(0, ": clean");
}

#[test]
fn bad_data_is_found_by_path_and_the_volume_goes_on() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::create_dir(m.path("dir")).unwrap();
    let mut data = vec![b'.'; 40_000];
    data[20_000..20_009].copy_from_slice(b"findme-77");
    fs::write(m.path("dir/file"), &data).unwrap();
    fs::write(m.path("other"), b"whole").unwrap();
    m.sync();
    assert_eq!(m.damage(b"findme-77"), 1);
    let shown = varve(["scrub", &m.dir]).expect(4, "bad data: /dir/file");
    assert!(shown.out.contains("bytes 16384 to 20479"), "{}", shown.out);
    let report = varve(["scrub", "--json", &m.dir]).expect(4, "").json();
    let file = &report["files"][0];
    assert_eq!(file["path"], "/dir/file");
    assert_eq!(file["ranges"][0]["offset"], 16384);
    assert_eq!(file["ranges"][0]["length"], 4096);
    // Replacing the content is enough.
    fs::write(m.path("dir/file"), b"anew").unwrap();
    m.sync();
    varve(["scrub", &m.dir]).expect(0, "no damage found");
    fs::write(m.path("dir/file"), &data).unwrap();
    m.sync();
    assert!(m.damage(b"findme-77") > 0);
    varve(["scrub", "--strict", &m.dir]).expect(4, "takes no more changes");
    let refused = fs::create_dir(m.path("new")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30));
    assert_eq!(fs::read(m.path("other")).unwrap(), b"whole");
    m.umount();
}

#[test]
fn a_damaged_directory_makes_the_volume_read_only_and_says_why() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::create_dir(m.path("dir")).unwrap();
    fs::write(m.path("dir/a-name-found-nowhere-else"), b"x").unwrap();
    fs::write(m.path("other"), b"whole").unwrap();
    m.sync();
    assert!(m.damage(b"a-name-found-nowhere-else") > 0);
    let shown = varve(["scrub", &m.dir]).expect(4, "takes no more changes");
    assert!(shown.out.contains("/dir"), "{}", shown.out);
    let refused = fs::create_dir(m.path("new")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30));
    assert_eq!(fs::read(m.path("other")).unwrap(), b"whole");
    let stats = m.stats();
    assert_eq!(stats["state"]["read_only"], 1);
    let reason = stats["state"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("verification found damage: inode"),
        "{reason}"
    );
    let _ = varve(["umount", &m.dir]);
}

#[test]
fn the_tree_is_verified_after_a_roll_forward() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    assert_eq!(m.stats()["verification"]["state"], "none");
    for n in 0..100 {
        fs::write(m.path(&format!("f{n}")), vec![n; 3000]).unwrap();
    }
    m.sync();
    m.kill();
    m.mount("rw");
    let deadline = Instant::now() + Duration::from_secs(60);
    let verified = loop {
        let verification = m.stats()["verification"].clone();
        if verification["state"] == "complete" {
            break verification;
        }
        assert!(Instant::now() < deadline, "{verification}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(verified["errors"], 0);
    assert_eq!(verified["inodes"], 101);
    fs::write(m.path("more"), b"x").unwrap();
    m.sync();
    m.kill();
    m.mount("noverify");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(m.stats()["verification"]["state"], "none");
    m.umount();
    varve(["fsck", "--data", &m.image]).expect(0, ": clean");
}

#[test]
fn a_scrub_is_slow_alone_and_cancelled_at_once() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::write(m.path("large"), vec![5; 20 << 20]).unwrap();
    m.sync();
    // It would take 80 seconds.
    let start = |rate: &str| {
        let mut command = Command::new(VARVE);
        command.args(["scrub", "--rate", rate, &m.dir]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let running = || {
        let deadline = Instant::now() + Duration::from_secs(60);
        while m.stats()["scrub"]["state"] != "running" {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut slow = start("256K");
    running();
    varve(["scrub", &m.dir]).expect(8, "is running");
    varve(["scrub", "--status", &m.dir]).expect(0, "still running");
    let asked = Instant::now();
    let id = slow.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(slow.wait().unwrap().code(), Some(32));
    assert!(asked.elapsed() < Duration::from_secs(30));
    // An unmount does not wait for it either.
    let mut slow = start("256K");
    running();
    let asked = Instant::now();
    m.umount();
    assert!(asked.elapsed() < Duration::from_secs(30));
    assert_eq!(slow.wait().unwrap().code(), Some(8));
    varve(["fsck", "--data", &m.image]).expect(0, ": clean");
}

#[test]
fn a_device_that_does_not_deliver_is_told_by_stats() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::write(m.path("file"), vec![5; 6 << 20]).unwrap();
    m.sync();
    m.umount();
    m.mount("rw");
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(m.path("file")).unwrap());
    // Data beyond the end of the image is no longer readable.
    let image = fs::OpenOptions::new().write(true).open(&m.image).unwrap();
    image.set_len(5 << 20).unwrap();
    let error = fs::read(m.path("file")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    image.set_len(64 << 20).unwrap();
    let stats = m.stats();
    assert!(stats["device"]["reads"]["failed"].as_u64().unwrap() > 0);
    let failures = stats["device"]["last_failures"].as_array().unwrap();
    let told = failures
        .iter()
        .any(|f| f["kind"] == "read" && f["outcome"] == "failed" && f["inode"] == inode);
    assert!(told, "{failures:?}");
    m.kill();
}

/// A volume mounted read-only has not stopped by an error.
#[test]
fn a_read_only_mount_is_scrubbed_and_ends_without_an_error() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::write(m.path("file"), vec![5; 100_000]).unwrap();
    m.umount();
    let mut server = Command::new(VARVE)
        .args(["mount", "-f", "-r", &m.image, &m.dir])
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !m.path("file").exists() {
        assert!(Instant::now() < deadline, "not mounted");
        std::thread::sleep(Duration::from_millis(10));
    }
    varve(["scrub", &m.dir]).expect(0, "no damage found");
    std::thread::sleep(Duration::from_millis(1200)); // a round of maintenance
    m.umount();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
