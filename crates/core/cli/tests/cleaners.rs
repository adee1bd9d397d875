//! Cleaners of several processes on one mount: in parallel, with changing policies,
//! killed in the middle, on a full volume. Contents are compared with a model, and at the
//! end everything is checked, the usage table by a recount.
//!
//! Without /dev/fuse the tests are skipped loudly, but fail in CI.

mod support;

use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::mounted::{Mount, no_fuse};
use support::{VARVE, varve};

const BLOCK: usize = 4096;

/// Pseudo-random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// A block's content: its file, number and version.
fn block(file: usize, number: u64, version: u32) -> Vec<u8> {
    let word = (file as u64) << 56 | number << 24 | u64::from(version);
    word.to_le_bytes().repeat(BLOCK / 8)
}

fn cleaner(m: &Mount, arguments: &[&str]) -> Child {
    Command::new(VARVE)
        .args(["cleaner", &m.dir, "--json"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends a cleaner by a signal, and returns its report.
fn end(cleaner: Child) -> Value {
    let pid = cleaner.id().to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(told.unwrap().success());
    let output = cleaner.wait_with_output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

fn status(m: &Mount) -> Value {
    varve(["cleaner", &m.dir, "--json"]).expect(0, "").json()
}

fn set(m: &Mount, word: &str) {
    varve(["cleaner", &m.dir, "--set", word]).expect(0, "the mount's own cleaner");
}

/// Waits until a condition is true.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A file of some blocks, and the expected content of each.
struct Model {
    file: usize,
    versions: Vec<u32>,
}

impl Model {
    fn path(&self, m: &Mount) -> std::path::PathBuf {
        m.path(&format!("file{}", self.file))
    }

    /// Overwrites blocks at random until `ending` is set, syncing now and then.
    fn churn(&mut self, m: &Mount, ending: &AtomicBool) {
        let handle = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.path(m))
            .unwrap();
        let mut random = Random(0x9e37_79b9 + self.file as u64);
        let blocks = self.versions.len() as u64;
        let mut writes = 0;
        while !ending.load(Relaxed) {
            let number = random.below(blocks);
            let version = &mut self.versions[number as usize];
            *version += 1;
            let data = block(self.file, number, *version);
            handle.write_all_at(&data, number * BLOCK as u64).unwrap();
            writes += 1;
            if writes % 64 == 0 {
                handle.sync_data().unwrap();
            }
        }
    }

    #[track_caller]
    fn compare(&self, m: &Mount) {
        let found = fs::read(self.path(m)).unwrap();
        for (number, &version) in self.versions.iter().enumerate() {
            let at = number * BLOCK;
            let Some(held) = found.get(at..at + BLOCK) else {
                assert_eq!(version, 0, "file {}, block {number} is missing", self.file);
                continue;
            };
            let want = match version {
                0 => vec![0; BLOCK],
                _ => block(self.file, number as u64, version),
            };
            assert!(held == want, "file {}, block {number}", self.file);
        }
    }
}

#[test]
fn cleaners_work_side_by_side_and_may_be_killed() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("128M");
    let ending = AtomicBool::new(false);
    let mut models: Vec<Model> = (0..3)
        .map(|file| Model {
            file,
            versions: vec![0; 7000],
        })
        .collect();
    std::thread::scope(|scope| {
        let writers: Vec<_> = models
            .iter_mut()
            .map(|model| scope.spawn(|| model.churn(&m, &ending)))
            .collect();
        let marks = ["--low", "40", "--high", "60"];
        let greedy = cleaner(&m, &[&["--policy", "greedy"], &marks[..]].concat());
        let mut doomed = cleaner(&m, &[&["--policy", "cost-benefit"], &marks[..]].concat());
        let work_of = |pid: u32| {
            let status = status(&m);
            let others = status["cleaners"].as_array().unwrap().clone();
            let own = others.into_iter().find(|other| other["pid"] == pid);
            own.map_or(0, |other| other["cleaned"].as_u64().unwrap())
        };
        until("both clean", || {
            work_of(greedy.id()) > 3 && work_of(doomed.id()) > 3
        });
        for policy in ["cost-benefit", "life-classes", "off", "greedy", "on"] {
            set(&m, policy);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(status(&m)["mount"]["policy"], "greedy");
        // At any point of its work.
        doomed.kill().unwrap();
        let dead = doomed.id();
        doomed.wait().unwrap();
        let heir = cleaner(&m, &[&["--policy", "life-classes"], &marks[..]].concat());
        until("the heir cleans", || work_of(heir.id()) > 3);
        set(&m, "off");
        let before = work_of(heir.id()) + work_of(greedy.id());
        until("they do it alone", || {
            work_of(heir.id()) + work_of(greedy.id()) > before + 5
        });
        until("the dead one's claims expire", || {
            let others = status(&m)["cleaners"].clone();
            let others = others.as_array().unwrap();
            !others.iter().any(|other| other["pid"] == dead)
        });
        assert!(end(heir)["segments"].as_u64().unwrap() > 3);
        assert!(end(greedy)["segments"].as_u64().unwrap() > 8);
        assert_eq!(status(&m)["cleaners"].as_array().unwrap().len(), 0);
        set(&m, "on");
        ending.store(true, Relaxed);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
    });
    models.iter().for_each(|model| model.compare(&m));
    m.remount_checked();
    models.iter().for_each(|model| model.compare(&m));
    m.finish();
}

#[test]
fn a_volume_is_filled_and_emptied_with_cleaners_at_work() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    m.umount();
    // Every write is answered by the server, over the device.
    let options = "nouring,order=strict,cleaner-idle=1";
    m.mount_with(&["-o", options, "--cache", "16M"]);
    let cleaners = ["greedy", "cost-benefit"]
        .map(|policy| cleaner(&m, &["--policy", policy, "--low", "20", "--high", "30"]));
    let mut random = Random(42);
    let mut kept: Vec<(u64, u64)> = Vec::new();
    let path = |number: u64| m.path(&format!("f{number}"));
    let data = |number: u64, blocks: u64| -> Vec<u8> {
        (0..blocks)
            .flat_map(|n| block(1, number * 256 + n, 1))
            .collect()
    };
    let mut number = 0;
    for cycle in 0..6 {
        // Until the volume is full.
        loop {
            let blocks = 1 + random.below(60);
            number += 1;
            match fs::write(path(number), data(number, blocks)) {
                Ok(()) => kept.push((number, blocks)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                    // It may not even have been made.
                    let _ = fs::remove_file(path(number));
                    break;
                }
            }
        }
        // Overwriting existing data needs no further space.
        for _ in 0..20 {
            let (number, blocks) = kept[random.below(kept.len() as u64) as usize];
            let file = fs::OpenOptions::new()
                .write(true)
                .open(path(number))
                .unwrap();
            match file.write_all_at(&data(number, blocks), 0) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}"),
            }
        }
        // A fifth is deleted, at random places, which frees space.
        let mut gone = 0;
        kept.retain(|&(number, blocks)| {
            let stays = random.below(5) > 0;
            if !stays {
                fs::remove_file(path(number)).unwrap();
                gone += blocks;
            }
            stays
        });
        let free = rustix::fs::statvfs(&m.dir).unwrap().f_bavail;
        assert!(free * 100 >= gone * 95, "cycle {cycle}: {free} of {gone}");
        for &(number, blocks) in kept.iter().step_by(7) {
            assert!(fs::read(path(number)).unwrap() == data(number, blocks));
        }
        if cycle == 2 {
            set(&m, "off");
        }
        if cycle == 4 {
            set(&m, "life-classes");
            set(&m, "on");
        }
    }
    let stats = varve(["stats", "--json", &m.dir]).expect(0, "").json();
    assert!(stats["layout"]["segments_cleaned"].as_u64().unwrap() > 0);
    cleaners.into_iter().for_each(|cleaner| {
        end(cleaner);
    });
    m.remount_checked();
    for &(number, blocks) in &kept {
        assert!(fs::read(path(number)).unwrap() == data(number, blocks));
    }
    m.finish();
}

#[test]
fn the_command_says_how_cleaning_stands_and_changes_it() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    let said = varve(["cleaner", &m.dir]).expect(0, "the mount's own cleaner: on, greedy");
    assert!(said.out.contains("clean segments: "), "{}", said.out);
    varve(["cleaner", &m.dir, "--policy", "greedy", "--once"]).expect(0, "0 segments cleaned");
    let said = varve(["cleaner", &m.dir, "--set", "off", "--idle", "7"]);
    said.expect(0, "off, greedy, also after 7 s");
    varve(["cleaner", &m.dir, "--set", "cost-benefit", "--low", "10"]).expect(0, "off, cost");
    let now = status(&m);
    assert_eq!(now["mount"]["low_percent"], 10);
    assert_eq!(now["mount"]["idle_seconds"], 7);
    // As mount(8) passes it.
    let remount = "remount,cleaner=on,cleaner=life-classes,cleaner-idle=0,cleaner-low=0";
    varve(["mount", "-o", remount, &m.image, &m.dir]).expect(0, "");
    varve(["cleaner", &m.dir]).expect(0, "on, life-classes\n");
    for (arguments, code, said) in [
        (
            &["--policy", "hole-plugging"][..],
            2,
            "no cleaning policy `hole-plugging`",
        ),
        (
            &["--set", "hole-plugging"],
            1,
            "no cleaning policy `hole-plugging`",
        ),
        (&["--set", "on", "--high", "91"], 2, "91"),
        (
            &["--policy", "greedy", "--set", "off"],
            2,
            "cannot be used with",
        ),
        (&["--once"], 2, "--policy"),
        (&["--low", "20", "--high", "20"], 2, "not below"),
    ] {
        varve([&["cleaner", &m.dir], arguments].concat()).expect(code, said);
    }
    varve(["cleaner", &m.image]).expect(1, "is no directory");
    // Other users may read files, not clean.
    fs::set_permissions(m.scratch.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let stranger = Command::new(VARVE)
        .args(["cleaner", &m.dir])
        .uid(65534)
        .output();
    if let Ok(output) = stranger {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(err.contains("only root and whoever mounted it"), "{err}");
    }
    m.finish();
}
