//! `varve umount`: unmounts, and waits until the volume is closed.
//!
//! umount(2) returns when the kernel has let go; the server still writes its
//! last checkpoint then. Waiting for the image's lock makes what follows sure
//! to find the volume closed.
//!
//! umount(2) itself waits for a server that does not answer. `--force` asks it
//! nothing: it cuts the connection first. Even so the kernel may wait for the
//! server, if that was stopped in the middle of a request: whoever lets go of
//! the mount last cannot be killed then. So another process lets go of it, and
//! we go on when the mount has left the tree, which comes first.

use super::mount_table::{self, Entry};
use super::output::{Failure, Outcome};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FAILED: u8 = 32;
const PAUSE: Duration = Duration::from_millis(10);

/// Unmount a directory, and wait until the volume is closed.
#[derive(clap::Args)]
pub struct Umount {
    /// The directory a volume is mounted on.
    directory: PathBuf,
    /// Most seconds to wait until the volume is closed.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Take the mount away even if it is in use or its server does not answer.
    ///
    /// Cuts the connection to the server: programs that use the mount get
    /// errors, and what they wrote and did not sync is lost, as if the server
    /// had been killed.
    #[arg(short, long)]
    force: bool,
    /// The process that does it.
    #[arg(long, hide = true)]
    force_here: bool,
    /// Flags that umount(8) hands to its helpers; they change nothing here.
    #[arg(short = 'n', hide = true)]
    no_table: bool,
    #[arg(short = 'v', hide = true)]
    verbose: bool,
    #[arg(short = 'r', hide = true)]
    read_only: bool,
}

impl Umount {
    pub fn run(self) -> Outcome {
        let shown = self.directory.display();
        let entry = mount_table::mount_at(&self.directory)
            .ok_or_else(|| Failure::new(FAILED, format_args!("nothing is mounted on {shown}")))?;
        if !entry.is_varve() {
            let text = format!(
                "{shown} is a mount of type {}, not of a Varve volume; use umount(8)",
                entry.kind
            );
            return Err(Failure::new(FAILED, text));
        }
        if self.force_here {
            return match varve_fuse::force_unmount(&entry.directory, entry.minor) {
                // A server that lives lets go of a mount that is cut off, too.
                Err(error) if mount_table::mount_at(&entry.directory).as_ref() == Some(&entry) => {
                    let text = format_args!("cannot unmount {shown}: {error}");
                    Err(Failure::new(FAILED, text))
                }
                _ => Ok(0),
            };
        }
        if self.force {
            let code = force_elsewhere(&entry).map_err(Failure::with(FAILED))?;
            if code != 0 {
                return Ok(code);
            }
            return self.await_server(&entry.source);
        }
        varve_fuse::unmount(&entry.directory).map_err(|error| {
            let advice = match error.raw_os_error() {
                Some(code) if code == Errno::BUSY.raw_os_error() => {
                    "; files are open or somebody's working directory is inside"
                }
                _ => "",
            };
            let text = format_args!("cannot unmount {shown}: {error}{advice}");
            Failure::new(FAILED, text)
        })?;
        self.await_server(&entry.source)
    }

    /// Waits until the server of what was unmounted has closed the volume.
    fn await_server(&self, source: &Path) -> Outcome {
        match wait_until_closed(source, Duration::from_secs(self.timeout)) {
            true => Ok(0),
            false => Err(self.still_open(source)),
        }
    }

    /// The mount is gone, its server is not.
    fn still_open(&self, source: &Path) -> Failure {
        let (shown, source) = (self.directory.display(), source.display());
        let advice = match self.force {
            true => "if it never does, end its process, which `varve info` names",
            false => "wait before you use it",
        };
        let text = format_args!(
            "{shown} is unmounted, but its server has not closed {source} after {} s; {advice}",
            self.timeout
        );
        Failure::new(FAILED, text)
    }
}

/// Has a process of its own take the mount away by force. Answers its exit code,
/// or 0 once the mount is gone: the process may have to wait for longer, and none
/// of our streams may wait with it.
fn force_elsewhere(entry: &Entry) -> std::io::Result<u8> {
    let mut process = Command::new(std::env::current_exe()?)
        .args(["umount", "--force-here", "--"])
        .arg(&entry.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    loop {
        if let Some(status) = process.try_wait()? {
            if let Some(mut said) = process.stderr.take() {
                std::io::copy(&mut said, &mut std::io::stderr())?;
            }
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.unwrap_or(FAILED));
        }
        if mount_table::mount_at(&entry.directory).as_ref() != Some(entry) {
            return Ok(0);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until nobody has the volume locked. A volume that we may not even
/// look at counts as closed.
fn wait_until_closed(source: &Path, timeout: Duration) -> bool {
    let Ok(file) = std::fs::File::open(source) else {
        return true;
    };
    let deadline = Instant::now() + timeout;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return false,
            _ => return true,
        }
    }
}
