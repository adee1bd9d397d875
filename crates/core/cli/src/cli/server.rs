//! The process that serves a mount. It is found without a request to it, because it may
//! be stopped.
//!
//! The kernel writes the number of the connection into `fdinfo` of each descriptor of
//! `/dev/fuse` (Linux 6.16), and a lock into that of the descriptor that has it: so the
//! image is found although it was renamed since it was mounted. On older kernels no
//! server is found, and callers use the path in the mount table.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The server of one mount.
pub struct Server {
    pid: Pid,
    /// Ensures that the number does not refer to another process.
    handle: OwnedFd,
    /// The descriptor of the image, under `/proc`.
    image: Option<PathBuf>,
    /// The connection is that of a transaction's view: the process serves a mount, too.
    pub is_of_view: bool,
}

impl Server {
    /// The server of the connection `number`, the minor number of its mount's device.
    pub fn of(number: u32) -> Option<Self> {
        all().remove(&number)
    }

    /// `None` if the process has ended.
    fn new(pid: i32, image: Option<PathBuf>, is_of_view: bool) -> Option<Self> {
        let pid = Pid::from_raw(pid)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Server {
            pid,
            handle,
            image,
            is_of_view,
        })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The present path of the image. If it has no name any more, a path under `/proc`
    /// that refers to it while the server runs.
    pub fn image(&self) -> Option<PathBuf> {
        let descriptor = self.image.as_ref()?;
        let named = fs::read_link(descriptor).ok()?;
        match is_same(&named, descriptor) {
            true => Some(named),
            false => Some(descriptor.clone()),
        }
    }

    /// Opens the image for reading, even if it was renamed.
    pub fn open_image(&self) -> Option<File> {
        File::open(self.image.as_ref()?).ok()
    }

    /// True if `volume` is the image that it serves.
    pub fn serves(&self, volume: &Path) -> bool {
        self.image.as_ref().is_some_and(|own| is_same(volume, own))
    }

    /// True if a signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        let state = fs::read(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        // The state follows the name, which may contain any byte but ends with the last
        // `)`.
        let after = state.iter().rposition(|byte| *byte == b')');
        let state = after.and_then(|at| state.get(at + 2));
        state.is_some_and(|state| matches!(state, b'T' | b't'))
    }

    /// Kills it, with the same effect as a power cut.
    ///
    /// # Errors
    /// EPERM for a process of another user; ESRCH if it has ended.
    pub fn kill(&self) -> rustix::io::Result<()> {
        pidfd_send_signal(&self.handle, Signal::KILL)
    }
}

/// The servers of all connections that this user may see.
pub fn all() -> HashMap<u32, Server> {
    let mut found = HashMap::new();
    for pid in processes() {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
        let descriptors = descriptors.into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = descriptors.map(|entry| entry.path()).collect();
        paths.sort_by_key(|path| number_of(path));
        // Views of transactions are connections of the same server. It opens that of its
        // mount first, and later ones have higher numbers.
        let connections: Vec<u32> = paths
            .iter()
            .filter(|path| fs::read_link(path).is_ok_and(|to| to == Path::new("/dev/fuse")))
            .filter_map(|path| connection_of(&about(path)?))
            .collect();
        let locked = |path: &&PathBuf| about(path).is_some_and(|text| has_lock(&text));
        let image = match connections.is_empty() {
            true => continue,
            false => paths.iter().find(locked),
        };
        for (nth, number) in connections.into_iter().enumerate() {
            // A process that only passes the descriptor on has no image.
            if image.is_none() && found.contains_key(&number) {
                continue;
            }
            if let Some(server) = Server::new(pid, image.cloned(), nth > 0) {
                found.insert(number, server);
            }
        }
    }
    found
}

/// The numbers of all processes.
pub fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The name of a process, for messages.
pub fn name_of(pid: i32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    name.trim_end().escape_debug().to_string()
}

/// The number of a descriptor.
fn number_of(descriptor: &Path) -> u32 {
    let name = descriptor.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or(u32::MAX)
}

/// The kernel's description of a descriptor.
fn about(descriptor: &Path) -> Option<String> {
    let process = descriptor.parent()?.parent()?;
    let path = process.join("fdinfo").join(descriptor.file_name()?);
    let text = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn connection_of(about: &str) -> Option<u32> {
    let mut lines = about.lines();
    let number = lines.find_map(|line| line.strip_prefix("fuse_connection:"))?;
    number.trim().parse().ok()
}

fn has_lock(about: &str) -> bool {
    let mut lines = about.lines();
    lines.any(|line| line.starts_with("lock:") && line.contains(" FLOCK "))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let [Ok(one), Ok(other)] = [one, other].map(fs::metadata) else {
        return false;
    };
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_known_by_what_the_kernel_tells() {
        let device = "pos:\t0\nflags:\t02100002\nmnt_id:\t24\nfuse_connection:\t39\n";
        let image = "pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 7 fe:00:10 0 EOF\n";
        assert_eq!((connection_of(device), has_lock(device)), (Some(39), false));
        assert_eq!((connection_of(image), has_lock(image)), (None, true));
    }

    #[test]
    fn this_process_serves_nothing_and_has_a_name() {
        let pid = std::process::id();
        assert!(processes().any(|one| one.unsigned_abs() == pid));
        assert!(all().values().all(|server| server.pid() != pid));
        assert!(!name_of(pid as i32).is_empty());
    }
}
