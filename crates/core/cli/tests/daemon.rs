//! The server of a mount as a daemon: what it inherits from its starter, and that it ends
//! in time.
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use support::mounted::{Mount, no_fuse};
use support::{Scratch, VARVE, has, shell, umount, varve};

/// A line of `/proc/PID/status`.
fn status(server: &str, name: &str) -> String {
    let all = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}

/// Removes the mount if a test fails.
struct Away<'a>(&'a str);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new("umount").args(["-l", self.0]).status();
        }
    }
}

/// The pipes of which only this process has both ends.
fn own_pipes(server: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{server}/fd"))
        .unwrap()
        .flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let mut pipes: Vec<String> = targets
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| target.starts_with("pipe:"))
        .collect();
    pipes.sort();
    let pairs = pipes.windows(2).filter(|pair| pair[0] == pair[1]);
    pairs.map(|pair| pair[0].clone()).collect()
}

#[test]
fn a_server_keeps_nothing_of_whoever_started_it() {
    if no_fuse() {
        return;
    }
    assert!(has("flock") && has("env"), "util-linux and coreutils");
    let scratch = Scratch::new();
    let image = scratch.volume("image", "64M");
    let (dir, log) = (scratch.text("mnt"), scratch.text("log"));
    let (lock, start) = (scratch.text("lock"), scratch.text("start"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&start).unwrap();
    let _away = Away(&dir);
    // A lock, a pipe and a file; blocked signals; a umask and a directory.
    shell(&format!(
        "exec 9>{lock}; flock -x 9; exec 7<{image} 8> >(cat >{lock}.pipe 2>/dev/null); umask 077; cd {start}
         env --block-signal=TERM --block-signal=USR1 {VARVE} mount {image} {dir} --log {log}"
    ));
    let info = varve(["info", "--json", &dir]).expect(0, "").json();
    let server = info["holder"]["pid"].to_string();
    shell(&format!(
        "flock -n -x {lock} true || {{ ls -l /proc/{server}/fd; false; }}"
    ));
    for entry in fs::read_dir(format!("/proc/{server}/fd")).unwrap() {
        let entry = entry.unwrap();
        let number: u32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_str().unwrap();
        let stream = number < 3 && (target == "/dev/null" || target == log);
        let own = ["/dev/fuse", image.as_str()].contains(&target)
            // Its own descriptors, of rings and of the thread that watches for signals.
            || target.starts_with("anon_inode:")
            || target.starts_with("socket:")
            || target.starts_with(&image);
        // Descriptors of the thread that watches for remounts.
        let watched = target == format!("/proc/{server}/mountinfo");
        let watch = watched || own_pipes(&server).contains(&target.to_owned());
        assert!(stream || own || watch, "{number} is {target}");
    }
    assert_eq!(status(&server, "SigBlk"), "0000000000000000");
    assert_eq!(status(&server, "Umask"), "0000");
    let place = fs::read_link(format!("/proc/{server}/cwd")).unwrap();
    assert_eq!(place, Path::new("/"));
    // A session of its own.
    let stat = fs::read_to_string(format!("/proc/{server}/stat")).unwrap();
    let session = stat.rsplit(')').next().unwrap().split(' ').nth(4).unwrap();
    assert_eq!(session, server);
    // Files private to the starter stay private.
    assert_eq!(
        fs::metadata(&log).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(fs::metadata(&dir).unwrap().uid(), 0);
    // Blocked by the starter, and handled by the server.
    shell(&format!(
        "kill -TERM {server}; while kill -0 {server} 2>/dev/null; do sleep 0.02; done"
    ));
    varve(["info", &image]).expect(0, "clean");
}

/// umount(8) returns while the server is still writing its last checkpoint.
#[test]
fn a_mount_right_after_an_unmount_finds_a_clean_volume() {
    if no_fuse() {
        return;
    }
    for layout in ["log", "vlfs", "ffs"] {
        let scratch = Scratch::new();
        let image = scratch.text("image");
        varve(["mkfs", "--layout", layout, "--size", "64M", &image]).expect(0, "");
        let m = Mount::of(scratch, image);
        for round in 0..30 {
            fs::write(m.path("f"), vec![round; 200_000]).unwrap();
            umount8(&m.dir);
            let mounted = Command::new(VARVE)
                .args(["mount", &m.image, &m.dir])
                .env("VARVE_LOG", "info")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&mounted.stderr);
            assert!(mounted.status.success(), "{layout} {round}: {said}");
            let unclean = ["recovering", "without unmounting", "unmounted cleanly"]
                .iter()
                .any(|word| said.contains(word));
            assert!(!unclean, "{layout} {round}: {said}");
        }
        // A server that did not unmount is reported, as before.
        shell(&format!("kill -KILL {}; umount -l {}", m.server(), m.dir));
        let mounted = Command::new(VARVE)
            .args(["mount", &m.image, &m.dir])
            .env("VARVE_LOG", "info")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&mounted.stderr);
        assert!(
            said.contains("stopped without unmounting"),
            "{layout}: {said}"
        );
        umount(&m.dir);
    }
}

/// Unmounts by umount(8), which does not wait for the server.
fn umount8(dir: &str) {
    shell(&format!(
        "for try in $(seq 500); do umount {dir} 2>/dev/null && exit; sleep 0.02; done; false"
    ));
}

#[test]
fn a_cache_larger_than_memory_is_warned_of() {
    if no_fuse() {
        return;
    }
    let s = Scratch::new();
    let (image, dir) = (s.volume("image", "32M"), s.text("mnt"));
    fs::create_dir(&dir).unwrap();
    let _away = Away(&dir);
    let mount = |cache| varve(["mount", "-o", cache, &image, &dir]);
    let warned = mount("cache=512T");
    warned.expect(0, "WARN the cache of 512 TiB is larger than the ");
    umount(&dir);
    let quiet = mount("cache=32M");
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
    umount(&dir);
}
