//! Makes everything durable when a mount becomes read-only, or leaves its directory.
//!
//! The kernel writes back its cache when a mount is remounted read-only, and does not
//! notify a FUSE server of it; nor does it when a directory is unmounted while the file
//! system stays in use (by open files, or by another mount). A remount by the program's
//! helper waits for durability itself (`varve_fuse::remount`). A remount by mount(2) is
//! visible in the mount table, which can be polled: earlier writes are durable a moment
//! after it.

use super::mount_table;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::path::Path;
use std::thread::JoinHandle;

/// Watches until it is dropped.
pub struct Watch {
    /// The thread ends when this is closed.
    over: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `make_durable` when the mount at `directory` is no longer writable there.
    ///
    /// # Errors
    /// If there is no mount table, or no thread can be started.
    pub fn start(directory: &Path, make_durable: impl Fn() + Send + 'static) -> io::Result<Self> {
        let entry = mount_table::mount_at(directory).ok_or(Errno::NOENT)?;
        // Changes since the file was opened are reported by poll.
        let table = File::open("/proc/self/mountinfo")?;
        let (is_over, over) = io::pipe()?;
        let device = (entry.major, entry.minor);
        let thread = std::thread::Builder::new()
            .name("varve-remounts".into())
            .spawn(move || watch(&table, &is_over, device, &make_durable))?;
        Ok(Watch {
            over: Some(over),
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(table: &File, is_over: &PipeReader, device: (u32, u32), make_durable: &impl Fn()) {
    let mut was_writable = true;
    loop {
        let is_writable = mount_table::is_writable(device);
        if was_writable && !is_writable {
            make_durable();
        }
        was_writable = is_writable;
        let mut waits = [
            PollFd::new(table, PollFlags::PRI),
            PollFd::new(is_over, PollFlags::IN),
        ];
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::debug!(%error, "remounts are not seen");
                return;
            }
        }
        if !waits[1].revents().is_empty() {
            return;
        }
    }
}
