//! `varve umount`: unmounts, and waits until the volume is closed.
//!
//! umount(2) returns when the kernel has let go; the server still writes its
//! last checkpoint then. Waiting for the image's lock makes what follows sure
//! to find the volume closed.

use super::mount_table;
use super::output::{Failure, Outcome};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
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
    /// Flags that umount(8) hands to its helpers; they change nothing here.
    #[arg(short = 'f', hide = true)]
    force: bool,
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
        varve_fuse::unmount(&entry.directory).map_err(|error| {
            let advice = match error.raw_os_error() {
                Some(code) if code == Errno::BUSY.raw_os_error() => {
                    "; files are open or somebody's working directory is inside"
                }
                _ => "",
            };
            Failure::new(
                FAILED,
                format_args!("cannot unmount {shown}: {error}{advice}"),
            )
        })?;
        match wait_until_closed(&entry.source, Duration::from_secs(self.timeout)) {
            true => Ok(0),
            false => Err(Failure::new(
                FAILED,
                format_args!(
                    "{shown} is unmounted, but its server has not closed {} after {} s; wait \
                     before you use it",
                    entry.source.display(),
                    self.timeout
                ),
            )),
        }
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
