//! `varve umount`: unmounts, and waits until the volume is closed.
//!
//! umount(2) returns when the kernel has released the mount, while the server still
//! writes its last checkpoint. Waiting for the image's lock ensures that the next program
//! finds the volume closed.
//!
//! umount(2), and statfs(2) on a busy mount, wait for a server that does not answer, and
//! a process in that wait cannot always be killed. So a second process makes these calls.
//! This process continues when that one has ended, or when the mount has left the tree,
//! which happens first, or when the time is over.
//!
//! `--force` sends the server no request: it cuts the connection first. A stopped server
//! can release neither earlier requests nor the volume: it is killed then, as is one that
//! has not closed the volume in time.

use super::mount;
use super::mount_table::{self, Entry};
use super::output::{self, Failure, Outcome, Spinner};
use super::server::Server;
use super::{txn, users};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FAILED: u8 = 32;
/// Exit code of the unmounting process if the mount is in use.
const BUSY: u8 = 16;
const PAUSE: Duration = Duration::from_millis(10);
/// Pause before another attempt on a mount that is in use.
const RETRY: Duration = Duration::from_millis(100);
/// Least time that the unmounting process gets.
const LEAST: Duration = Duration::from_secs(2);
/// Longest wait until the volume's last server has closed it.
pub const RELEASE: Duration = Duration::from_secs(5);
/// Longest wait until a killed server has ended: the disk may still have its requests.
const LAST: Duration = Duration::from_secs(10);

/// Unmount a directory, and wait until the volume is closed.
///
/// While files in it are open, or it is a working directory, the attempt is repeated
/// until the time is over; the message names the processes.
#[derive(clap::Args)]
pub struct Umount {
    /// The directory on which a volume is mounted.
    directory: PathBuf,
    /// Most seconds to wait until the mount is not in use and the volume is closed.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Remove the mount even if it is in use or its server does not answer.
    ///
    /// Cuts the connection to the server: programs that use the mount get errors, and
    /// data that they wrote and did not sync is lost, as if the server had been killed.
    /// It is killed if it is stopped, or has not closed the volume after --timeout.
    #[arg(short, long)]
    force: bool,
    /// Try once, in this process.
    #[arg(long, hide = true)]
    once: bool,
    /// Called by umount(8): a mount in use is an error at once, and one that another
    /// mount namespace keeps is none.
    #[arg(long, hide = true)]
    helper: bool,
    /// Detach the mount although it is in use, and wait for nothing.
    #[arg(short, hide = true)]
    lazy: bool,
    /// The mount namespace of the directory.
    #[arg(short = 'N', hide = true)]
    namespace: Option<PathBuf>,
    /// Flags that umount(8) passes to its helpers; they have no effect here.
    #[arg(short = 't', hide = true)]
    kind: Option<String>,
    #[arg(short = 'n', hide = true)]
    no_table: bool,
    #[arg(short = 'v', hide = true)]
    verbose: bool,
    #[arg(short = 'r', hide = true)]
    read_only: bool,
}

/// The facts about a mount that are needed after it was removed.
struct Mounted {
    entry: Entry,
    server: Option<Server>,
    /// The image; `None` if it may not be examined.
    image: Option<File>,
}

/// Outcome of a process that unmounts.
enum Tried {
    Unmounted,
    Busy,
    /// It does not return.
    Stuck,
    Failed(String),
}

impl Umount {
    pub fn run(self) -> Outcome {
        if let Some(namespace) = &self.namespace {
            mount::enter(namespace)?;
        }
        let shown = self.directory.display();
        let found = mount_table::varve_at(&self.directory);
        let entry = found.map_err(|why| {
            let advice = match mount_table::mount_at(&self.directory) {
                Some(_) => "; use umount(8)",
                None => "",
            };
            Failure::new(FAILED, format_args!("{why}{advice}"))
        })?;
        if self.once {
            return self.try_here(&entry);
        }
        let until = Instant::now() + Duration::from_secs(self.timeout);
        let server = Server::of(entry.minor);
        let image = server.as_ref().and_then(Server::open_image);
        let mounted = Mounted {
            image: image.or_else(|| File::open(&entry.source).ok()),
            server,
            entry,
        };
        let busy = Spinner::new("waiting for those who use it");
        loop {
            match self.try_elsewhere(&mounted.entry, until) {
                Tried::Unmounted => break,
                Tried::Busy if Instant::now() < until && !self.helper => {
                    busy.say(users::of_mount(&mounted.entry, Vec::new()));
                    std::thread::sleep(RETRY);
                }
                Tried::Busy => return Err(self.still_used(&mounted)),
                Tried::Stuck => return Err(self.no_answer(&mounted)),
                Tried::Failed(why) => {
                    let text = match why.is_empty() {
                        true => format!("cannot unmount {shown}"),
                        false => why,
                    };
                    return Err(Failure::new(FAILED, text));
                }
            }
        }
        busy.finish();
        match self.lazy {
            true => Ok(0),
            false => self.await_server(&mounted, until),
        }
    }

    /// Unmounts, in the unmounting process.
    fn try_here(&self, entry: &Entry) -> Outcome {
        let outcome = match (self.force, self.lazy) {
            (true, _) => varve_fuse::force_unmount(&entry.directory, entry.minor),
            (_, true) => varve_fuse::detach(&entry.directory),
            _ => varve_fuse::unmount(&entry.directory),
        };
        let Err(error) = outcome else { return Ok(0) };
        if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) {
            return Ok(BUSY);
        }
        // A running server releases a mount that is cut off, too.
        if self.force && mount_table::mount_at(&entry.directory).as_ref() != Some(entry) {
            return Ok(0);
        }
        let shown = self.directory.display();
        let text = format_args!("cannot unmount {shown}: {error}");
        Err(Failure::new(FAILED, text))
    }

    /// Unmounts in a process of its own. None of this process's streams may be blocked
    /// with it.
    fn try_elsewhere(&self, entry: &Entry, until: Instant) -> Tried {
        let failed = |error: std::io::Error| Tried::Failed(format!("cannot unmount: {error}"));
        let until = until.max(Instant::now() + LEAST);
        // By this name it is also found from another mount namespace.
        let mut command = Command::new("/proc/self/exe");
        command.args(["umount", "--once"]);
        let flags = [(self.force, "--force"), (self.lazy, "-l")];
        command.args(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag));
        command.arg("--").arg(&entry.directory);
        let streams = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = match streams.stderr(Stdio::piped()).spawn() {
            Ok(process) => process,
            Err(error) => return failed(error),
        };
        loop {
            match process.try_wait() {
                Err(error) => return failed(error),
                Ok(Some(status)) if status.success() => return Tried::Unmounted,
                Ok(Some(status)) if status.code() == Some(BUSY.into()) => return Tried::Busy,
                Ok(Some(_)) => {
                    let mut said = String::new();
                    if let Some(mut errors) = process.stderr.take() {
                        let _ = errors.read_to_string(&mut said);
                    }
                    let said = said.trim();
                    return Tried::Failed(said.strip_prefix("varve: ").unwrap_or(said).into());
                }
                Ok(None) => {}
            }
            if mount_table::mount_at(&entry.directory).as_ref() != Some(entry) {
                return Tried::Unmounted;
            }
            if Instant::now() >= until {
                // It may have to wait until the server continues, and then end.
                let _ = process.kill();
                return Tried::Stuck;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until the server of the unmounted volume has closed it.
    fn await_server(&self, mounted: &Mounted, until: Instant) -> Outcome {
        if !self.force
            && let Some(other) = mount_table::also_at(&mounted.entry)
        {
            let (shown, other) = (self.directory.display(), other.directory.display());
            output::notes(format_args!(
                "{shown} is unmounted; the volume is still mounted on {other}"
            ));
            return Ok(0);
        }
        if self.helper && !users::of_other_namespaces(&mounted.entry).is_empty() {
            return Ok(0);
        }
        // The server of a view continues to serve its mount.
        let is_of_view = mounted.server.as_ref().is_some_and(|s| s.is_of_view);
        let Some(image) = mounted.image.as_ref().filter(|_| !is_of_view) else {
            return Ok(0);
        };
        let is_stopped = || mounted.server.as_ref().is_some_and(Server::is_stopped);
        let hopeless = || self.force && is_stopped();
        if wait_until_closed(image, until, hopeless) {
            return Ok(0);
        }
        if self.force
            && let Some(server) = &mounted.server
        {
            let pid = server.pid();
            tracing::info!(pid, "the server is killed");
            // ESRCH: it has just ended.
            let killed = server.kill();
            let until = Instant::now() + LAST;
            if killed != Err(Errno::PERM) && wait_until_closed(image, until, || false) {
                return Ok(0);
            }
        }
        Err(self.still_open(mounted))
    }

    fn still_used(&self, mounted: &Mounted) -> Failure {
        let shown = self.directory.display();
        let entry = &mounted.entry;
        // A server that has just answered statfs(2) answers this as well.
        let is_stopped = mounted.server.as_ref().is_some_and(Server::is_stopped);
        let transactions = match is_stopped {
            true => Vec::new(),
            false => txn::locking(&entry.directory),
        };
        let users = match users::of_mount(entry, transactions) {
            found if found.is_empty() => String::new(),
            found => format!(": {found}"),
        };
        let text = format_args!(
            "{shown} is in use: files are open or a directory in it is in use{users}; end what \
             uses it, or take the mount away with --force"
        );
        Failure::new(FAILED, text)
    }

    fn no_answer(&self, mounted: &Mounted) -> Failure {
        let shown = self.directory.display();
        let server = describe(mounted.server.as_ref());
        let text = format_args!(
            "{shown} is still mounted: its server{server} has not answered within {} s; --force \
             takes the mount away",
            self.timeout
        );
        Failure::new(FAILED, text)
    }

    /// The failure that the mount was removed, and its server still runs.
    fn still_open(&self, mounted: &Mounted) -> Failure {
        let (shown, source) = (self.directory.display(), mounted.entry.source.display());
        let elsewhere = users::of_other_namespaces(&mounted.entry);
        let server = describe(mounted.server.as_ref());
        let why = match elsewhere.is_empty() {
            true => "wait before you use it, or end the server, which `varve info` names".into(),
            false => format!("it is still mounted in another mount namespace: {elsewhere}"),
        };
        let text = format_args!(
            "{shown} is unmounted, but its server{server} has not closed {source} after {} s; {why}",
            self.timeout
        );
        Failure::new(FAILED, text)
    }
}

/// The server's process, as far as it is known.
fn describe(server: Option<&Server>) -> String {
    match server {
        Some(server) if server.is_stopped() => {
            let pid = server.pid();
            format!(" (process {pid}, which is stopped: `kill -CONT {pid}`)")
        }
        Some(server) => format!(" (process {})", server.pid()),
        None => String::new(),
    }
}

/// Waits until no process has the volume locked, or until waiting is of no use.
fn wait_until_closed(image: &File, until: Instant, is_hopeless: impl Fn() -> bool) -> bool {
    loop {
        match rustix::fs::flock(image, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) if Instant::now() >= until || is_hopeless() => return false,
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            _ => {
                // Another descriptor of this process may lock it next.
                let _ = rustix::fs::flock(image, FlockOperation::Unlock);
                return true;
            }
        }
    }
}

/// Waits for a volume that is in use, but not mounted: umount(8) returns while the server
/// may still be writing its last checkpoint.
pub fn await_release(volume: &Path, most: Duration) {
    if let Ok(image) = File::open(volume) {
        let is_mounted = || mount_table::mount_of(volume).is_some();
        wait_until_closed(&image, Instant::now() + most, is_mounted);
    }
}
