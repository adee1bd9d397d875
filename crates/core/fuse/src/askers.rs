//! Processes that ask, and the files that they have open.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A process, which may have ended since.
#[derive(Debug)]
pub(crate) struct Process {
    pub number: u32,
    handle: OwnedFd,
}

impl Process {
    /// That of a thread; none if it is not to be seen from here.
    pub fn of_thread(thread: u32) -> Option<Self> {
        let open = |number: u32| {
            let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
            // Threads that do not lead a process are refused.
            let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            Some(Process { number, handle })
        };
        open(thread).or_else(|| open(process_of(thread)?))
    }

    /// True once all of its threads have ended.
    pub fn has_ended(&self) -> bool {
        let mut polled = [rustix::event::PollFd::new(
            &self.handle,
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::time::Timespec::default();
        matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1))
    }
}

/// The process that a thread is of.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Opens anew, for reading and writing, a file that a thread has open: the inode
/// `ino` of the file system with the device number `device`. Asks no file system but
/// for the open itself.
///
/// # Errors
/// `NotFound` if the thread does not have it open; EACCES if its descriptors are not
/// ours to see; those of open(2).
pub(crate) fn open_anew(thread: u32, ino: u64, device: (u32, u32)) -> io::Result<File> {
    let descriptors = PathBuf::from(format!("/proc/{thread}/fd"));
    for entry in std::fs::read_dir(&descriptors)? {
        let path = descriptors.join(entry?.file_name());
        if identity(&path) != Some((ino, device)) {
            continue;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(&path, flags, Mode::empty())?);
        // It may have become another one's number in between.
        let again = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH | as_known(), StatxFlags::INO);
        if again.is_ok_and(|found| told(&found) == (ino, device)) {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Inode and device number of what is at `path`, as far as the kernel knows them.
pub(crate) fn identity(path: &Path) -> Option<(u64, (u32, u32))> {
    let found = rustix::fs::statx(CWD, path, as_known(), StatxFlags::INO).ok()?;
    Some(told(&found))
}

/// No server is asked.
fn as_known() -> AtFlags {
    AtFlags::STATX_DONT_SYNC
}

fn told(found: &rustix::fs::Statx) -> (u64, (u32, u32)) {
    (found.stx_ino, (found.stx_dev_major, found.stx_dev_minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn an_open_file_is_found_and_opened_anew() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (ino, device) = identity(file.path()).unwrap();
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        std::fs::remove_file(file.path()).unwrap();
        let anew = open_anew(thread, ino, device).unwrap();
        anew.write_all_at(b"x", 0).unwrap();
        assert_eq!(file.as_file().metadata().unwrap().len(), 1);
        let missing = open_anew(thread, ino, (device.0, device.1 + 1));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn threads_lead_to_their_process_and_it_ends() {
        let own = std::process::id();
        let thread = std::thread::spawn(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            (thread, Process::of_thread(thread).map(|found| found.number))
        });
        let (thread, found) = thread.join().unwrap();
        assert_ne!(thread, own);
        assert_eq!(found, Some(own));
        let mut child = std::process::Command::new("sleep").arg("60").spawn();
        let child = child.as_mut().unwrap();
        let process = Process::of_thread(child.id()).unwrap();
        assert!(!process.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.has_ended());
        assert!(Process::of_thread(0).is_none());
    }
}
