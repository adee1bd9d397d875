//! Serving a mount in the background.
//!
//! The parent starts this program again, with a pipe for its output. It returns once the
//! child writes that the mount is live, or has ended. Up to that moment the child's
//! errors appear on the parent's standard error.
//!
//! The child inherits the environment, the standard error up to that moment, and nothing
//! else. No descriptor (a lock of the caller's would last as long as the mount), no
//! terminal, no blocked signal, no working directory, no umask.

use super::output::Failure;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Text that the child writes once the mount is live.
const LIVE: &[u8] = b"live\n";
/// mount(8): system error.
const SYSTEM: u8 = 2;

/// Starts this program with `arguments` (the program's name left out) and waits until it
/// is live. Returns the exit code for the parent.
///
/// # Errors
/// If the program cannot be started or awaited.
pub fn start(arguments: &[OsString]) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(SYSTEM, format_args!("cannot start the server: {error}"))
    };
    let (said, mut child) = launch(arguments).map_err(failed)?;
    if said == LIVE {
        return Ok(0);
    }
    let status = child.wait().map_err(failed)?;
    match status.code() {
        Some(code) if code != 0 => Ok(u8::try_from(code).unwrap_or(SYSTEM)),
        _ => Err(Failure::new(
            SYSTEM,
            format_args!("the server ended before the mount was live: {status}"),
        )),
    }
}

/// Starts this program with `arguments`, to run on when this process has ended. Returns
/// its output before [`say`] or its end.
///
/// # Errors
/// If the program cannot be started or its output cannot be read.
pub fn launch(arguments: &[OsString]) -> std::io::Result<(Vec<u8>, Child)> {
    if let Err(error) = varve_fuse::pass_on_no_descriptors() {
        tracing::warn!(%error, "the server keeps the descriptors that it is started with");
    }
    let mut server = Command::new(std::env::current_exe()?);
    super::allocator::settle(&mut server);
    let mut child = server
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = Vec::new();
    let mut pipe = child.stdout.take().expect("it was asked for");
    pipe.read_to_end(&mut said)?;
    Ok((said, child))
}

/// In the child, first: leaves the terminal's session, and unblocks the signals that its
/// parent had blocked.
pub fn detach() {
    // Fails only if this process leads a session already.
    let _ = rustix::process::setsid();
    if let Err(error) = varve_fuse::signals::unblock() {
        tracing::warn!(%error, "signals stay blocked");
    }
}

/// In the child: reports to the parent that the mount is live, and releases the terminal,
/// the working directory and, once the log is open, the umask. Messages are appended to
/// `log` if it is given.
///
/// # Errors
/// If the null device or the log cannot be opened.
pub fn say_live(log: Option<&Path>) -> std::io::Result<()> {
    say(LIVE, log)
}

/// [`say_live`] with another text.
///
/// # Errors
/// As [`say_live`].
pub fn say(text: &[u8], log: Option<&Path>) -> std::io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    match log {
        Some(path) => rustix::stdio::dup2_stderr(open_log(path)?)?,
        None => rustix::stdio::dup2_stderr(&null)?,
    }
    std::env::set_current_dir("/")?;
    rustix::process::umask(Mode::empty());
    let mut out = std::io::stdout();
    // The parent may have ended.
    let _ = out.write_all(text).and_then(|()| out.flush());
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

fn open_log(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
}

/// A path that remains valid when the working directory changes. A URL is one.
///
/// # Errors
/// If it does not exist.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    match varve::admin::is_url(path) {
        true => Ok(path.to_owned()),
        false => path.canonicalize(),
    }
}
