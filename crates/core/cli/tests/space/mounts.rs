//! Volumes that are made, mounted and checked by the commands.

use crate::host::Host;
use crate::support::mounted::Mount;
use crate::support::{Scratch, varve};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use varve_fs::{InodeNo, Result};
use varve_lfs::policy::PolicyKind;
use varve_prove::mounted::Tree;
use varve_prove::space::{Case, Served, Service, Volume, Volumes, Wrong};

/// Longest time for background work that is due.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// Volumes of one layout.
pub struct Mounts {
    /// Its name in `mkfs`.
    pub layout: &'static str,
}

impl Volumes for Mounts {
    fn name(&self) -> &'static str {
        self.layout
    }

    fn make(&self, case: &Case) -> std::result::Result<Box<dyn Volume>, Wrong> {
        let scratch = Scratch::new();
        let image = scratch.text("image");
        let size = case.shape.device_bytes.to_string();
        let block = case.shape.block_bytes.to_string();
        let made = varve([
            "mkfs",
            "--layout",
            self.layout,
            "--size",
            &size,
            "--block-size",
            &block,
            &image,
        ]);
        if made.code != 0 {
            return Err(format!("mkfs: {made:?}"));
        }
        Ok(Box::new(Image {
            mount: Mount::unmounted(scratch, image),
            is_log: self.layout == "log",
        }))
    }
}

struct Image {
    mount: Mount,
    is_log: bool,
}

impl Volume for Image {
    fn serve(&self, service: Service, _nth: u64) -> std::result::Result<Box<dyn Served>, Wrong> {
        let mut options = "cache=16M".to_owned();
        if self.is_log {
            let all = PolicyKind::ALL;
            let policy = all[service.policy % all.len()].name();
            options += &format!(",cleaner={policy}");
        }
        self.mount.mount_with(&["-o", &options]);
        let dir = self.mount.dir.clone();
        Ok(Box::new(Server {
            host: Host::new(&dir),
            pid: self.mount.server(),
            dir,
            block_bytes: 4096,
            is_over: false,
        }))
    }

    fn check(&self) -> Vec<String> {
        let found = varve(["fsck", "--data", &self.mount.image]);
        match found.code == 0 && found.out.contains(": clean") {
            true => Vec::new(),
            false => vec![format!("{found:?}")],
        }
    }
}

/// A server in a process of its own.
struct Server {
    host: Host,
    dir: String,
    pid: String,
    block_bytes: u32,
    is_over: bool,
}

impl Served for Server {
    fn tree(&self) -> &dyn Tree {
        &self.host
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn attribute_bytes(&self) -> usize {
        8000
    }

    fn step(&self) -> Result<()> {
        Ok(()) // the server has threads for that
    }

    fn pause(&self, which: u64) -> (&'static str, Result<()>) {
        match which % 3 {
            0 => ("sync", self.host.sync()),
            1 => {
                sleep(Duration::from_millis(1));
                ("a moment", Ok(()))
            }
            _ => {
                let listed = self.host.readdir(InodeNo::ROOT, 0, 64);
                ("listing", listed.map(drop))
            }
        }
    }

    /// Waits until no more space becomes free.
    fn settle(&self) -> std::result::Result<bool, Wrong> {
        let begun = Instant::now();
        let (mut before, mut same) = (None, 0);
        while same < 4 && begun.elapsed() < PATIENCE {
            let synced = self.host.sync();
            synced.map_err(|error| format!("sync: {error}"))?;
            let now = Some(self.host.statfs());
            same = if now == before { same + 1 } else { 0 };
            before = now;
            sleep(PAUSE);
        }
        Ok(false)
    }

    fn unmount(mut self: Box<Self>) -> std::result::Result<(), Wrong> {
        self.is_over = true;
        crate::support::umount(&self.dir);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let _ = Command::new("kill").args(["-KILL", &self.pid]).status();
        let _ = Command::new("umount").args(["-l", &self.dir]).status();
    }
}
