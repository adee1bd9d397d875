//! A real mount, served by the built command.

use super::{Scratch, varve};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use varve_prove::random::scale;

/// True if the test must be skipped because something is missing; fails in CI.
pub fn lacks(what: &str, present: bool) -> bool {
    if !present {
        assert!(std::env::var_os("CI").is_none(), "CI must have {what}");
        eprintln!("SKIPPED: no {what}");
    }
    !present
}

/// True if a program that `varve` runs was not built next to it
/// (`cargo build --workspace --bins`).
pub fn no_program(name: &str) -> bool {
    let path = Path::new(super::VARVE).with_file_name(name);
    lacks(&format!("{name} next to varve"), path.exists())
}

/// True if one of the programs that `varve` runs is missing.
pub fn no_programs() -> bool {
    ["varve-bench", "varve-lab", "varve-prove"]
        .into_iter()
        .any(no_program)
}

/// True if mounting is impossible here.
pub fn no_fuse() -> bool {
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    lacks("/dev/fuse", device.is_ok())
}

/// Time after which a test's server is killed, so that processes that wait for it get an
/// error instead of waiting for ever.
const PATIENCE: Duration = Duration::from_secs(150);

/// A mounted volume, unmounted and checked at the end.
pub struct Mount {
    pub image: String,
    pub dir: String,
    pub scratch: Scratch,
    /// Options of `-o`.
    options: String,
    /// Dropped when the test is over.
    over: Option<Sender<()>>,
}

impl Mount {
    pub fn new(size: &str) -> Self {
        let scratch = Scratch::new();
        let image = scratch.volume("image", size);
        Mount::of(scratch, image)
    }

    /// Mounts a volume that has been made.
    pub fn of(scratch: Scratch, image: String) -> Self {
        Mount::with_options(scratch, image, "cache=64M")
    }

    /// Mounts it with these options of `-o`, each time.
    pub fn with_options(scratch: Scratch, image: String, options: &str) -> Self {
        let mut mount = Mount::unmounted(scratch, image);
        options.clone_into(&mut mount.options);
        mount.mount();
        mount
    }

    /// A volume that the caller mounts with other options.
    pub fn unmounted(scratch: Scratch, image: String) -> Self {
        fs::create_dir(scratch.path("mnt")).unwrap();
        let (over, is_over) = channel();
        let mount = Mount {
            image,
            dir: scratch.text("mnt"),
            scratch,
            options: String::new(),
            over: Some(over),
        };
        let (image, dir) = (mount.image.clone(), mount.dir.clone());
        std::thread::spawn(move || watch(&is_over, &image, &dir));
        mount
    }

    pub fn mount(&self) {
        self.mount_with(&["-o", &self.options]);
    }

    /// Mounts it with these options. The server's log is shown if the test fails.
    pub fn mount_with(&self, options: &[&str]) {
        let log = self.scratch.text("log");
        let whole = ["mount", &self.image, &self.dir, "--log", &log];
        varve([&whole, options].concat()).expect(0, "");
    }

    pub fn umount(&self) {
        super::umount(&self.dir);
    }

    /// Unmounts, checks everything, mounts again, so that no cache is used.
    pub fn remount_checked(&self) {
        self.umount();
        varve(["fsck", "--data", &self.image]).expect(0, ": clean");
        self.mount();
    }

    /// Unmounts and checks everything.
    pub fn finish(self) {
        self.umount();
        varve(["fsck", "--data", &self.image]).expect(0, ": clean");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.dir).join(name)
    }

    pub fn server(&self) -> String {
        let info = varve(["info", "--json", &self.dir]).expect(0, "").json();
        info["holder"]["pid"].to_string()
    }
}

/// Kills the server of a test that takes too long.
fn watch(is_over: &Receiver<()>, image: &str, dir: &str) {
    let patience = PATIENCE.mul_f64(scale().max(1.0));
    if is_over.recv_timeout(patience) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let info = varve(["info", "--json", image]).json();
    let server = info["holder"]["pid"].to_string();
    eprintln!("{dir}: no end after {patience:?}: killing server {server}");
    let _ = Command::new("kill").args(["-KILL", &server]).status();
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.over.take());
        if std::thread::panicking() {
            let log = fs::read_to_string(self.scratch.path("log")).unwrap_or_default();
            eprintln!("the server's log:\n{log}");
            let _ = Command::new("umount").args(["-l", &self.dir]).status();
        }
    }
}
