//! `varve txn run` and `varve txn shell`: run a program in a transaction.

use super::below::Below;
use super::held::Joined;
use super::view::{Asked, Ended, View};
use super::{ask, mount_of};
use crate::cli::mount_table::Entry;
use crate::cli::output::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use varve_fuse::MountOptions;

/// EX_TEMPFAIL of sysexits.h.
pub const CONFLICT: u8 = 75;
/// Exit codes of env(1) and timeout(1).
const TIMED_OUT: u8 = 124;
pub const FAILED: u8 = 125;
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Longest time until killed processes have ended.
const KILLING: Duration = Duration::from_secs(10);
/// The longest time limit: a clock cannot represent every number.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// The first pause before another attempt, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Run a command in a transaction: all changes on the volume by the command and its
/// children are made when it succeeds, and none otherwise.
///
/// They see the volume as it was at the beginning, with their own changes; no other
/// process sees these before the end. If other programs changed the same data meanwhile,
/// nothing is done, and the exit code is 75. Otherwise it is the command's; 124 after the
/// time limit, 125 if the transaction failed, 126 and 127 if the command could not be
/// started.
///
/// With `--id` it runs in a transaction of `varve txn begin`, which continues when the
/// command has ended, with any exit code.
#[derive(clap::Args)]
pub struct Run {
    /// The directory on which a volume is mounted, or one below.
    #[arg(required_unless_present = "id")]
    directory: Option<PathBuf>,
    /// Run it in the transaction of this name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["directory", "isolation", "retries"])]
    id: Option<String>,
    /// The uses that conflict with changes of other programs: the command's writes, or
    /// also its reads.
    #[arg(long, value_parser = ["snapshot", "serializable"], default_value = "snapshot")]
    isolation: String,
    /// After a conflict run the command again, up to this many times.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Kill the command after this many seconds in all.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// The command, and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Run a shell in a transaction: `exit` commits, `exit 1` does not; with `--id` neither
/// does.
#[derive(clap::Args)]
pub struct Shell {
    /// The directory on which a volume is mounted, or one below.
    #[arg(required_unless_present = "id")]
    directory: Option<PathBuf>,
    /// Run it in the transaction of this name.
    #[arg(long, value_name = "NAME", conflicts_with = "directory")]
    id: Option<String>,
}

impl Shell {
    pub fn run(self) -> Outcome {
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        let run = Run {
            directory: self.directory,
            id: self.id,
            isolation: "snapshot".into(),
            retries: 0,
            timeout: None,
            command: vec![shell],
        };
        run.run()
    }
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds")?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero() && *time <= LONGEST)
        .ok_or_else(|| "it is a number of seconds above 0, and of a year at most".into())
}

/// Outcome of the command in one attempt.
enum Left {
    Ended(ExitStatus),
    TimedOut,
    /// Another process ended the transaction.
    Lost,
}

impl Run {
    pub fn run(self) -> Outcome {
        let failed = Failure::with(FAILED);
        if let Some(id) = &self.id {
            return self.run_within(id);
        }
        let directory = self.directory.as_deref().expect("there is one, or a name");
        let base = mount_of(directory).map_err(&failed)?;
        Self::check(directory, &base).map_err(&failed)?;
        let working = std::env::current_dir().ok();
        let socket = ask(&base.directory, &json!({"socket": true})).map_err(&failed)?;
        let socket = socket["socket"].as_str().unwrap_or_default().to_owned();
        let below = leave(&base).map_err(&failed)?;
        let told = Told::watch().map_err(Failure::with(FAILED))?;
        let end = self.timeout.map(|time| Instant::now() + time);
        let mut pause = PAUSES[0];
        let mut left = self.retries;
        loop {
            let asked = Asked {
                isolation: &self.isolation,
                command: &self.shown(),
                held: None,
            };
            let view = View::begin(&base, &below, &socket, &asked);
            let view = view.map_err(&failed)?;
            let what = match self.attempt(view, working.as_deref(), &told, end)? {
                Ok(code) => return Ok(code),
                Err(what) => what,
            };
            let over = end.is_some_and(|end| Instant::now() + pause >= end);
            if left == 0 || over || told.signal() != 0 {
                let text = format_args!("conflict: {what}; nothing was changed");
                return Err(Failure::new(CONFLICT, text));
            }
            left -= 1;
            tracing::info!(what, "a conflict; once more");
            std::thread::sleep(pause.mul_f64(rand::random_range(0.5..1.0)));
            pause = (2 * pause).min(PAUSES[1]);
        }
    }

    /// Runs the command in a held transaction.
    fn run_within(&self, id: &str) -> Outcome {
        let failed = Failure::with(FAILED);
        let working = std::env::current_dir().ok();
        let joined = Joined::join(id, &self.shown()).map_err(&failed)?;
        reap_all();
        let told = Told::watch().map_err(Failure::with(FAILED))?;
        let end = self.timeout.map(|time| Instant::now() + time);
        let child = self.spawn(working.as_deref(), id)?;
        let connection = std::os::fd::AsFd::as_fd(&joined.connection);
        match watch(child, connection, &told, end).map_err(unwatched)? {
            Left::Ended(status) => Ok(code_of(status)),
            Left::TimedOut => Err(Failure::new(
                TIMED_OUT,
                "the time was over; the transaction goes on",
            )),
            Left::Lost => Err(Failure::new(FAILED, joined.why_ended())),
        }
    }

    /// Checks that a transaction on the mount at `directory` is possible.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn check(directory: &Path, base: &Entry) -> Result<(), String> {
        let shown = directory.display();
        if base.has("ro") {
            return Err(format!("{shown} is mounted read-only"));
        }
        let real = directory.canonicalize();
        let real = real.map_err(|error| format!("cannot look at {shown}: {error}"))?;
        if !real.starts_with(&base.directory) {
            let root = base.directory.display();
            return Err(format!(
                "{shown} is another mount of what is on {root}; name a directory there"
            ));
        }
        Ok(())
    }

    fn shown(&self) -> String {
        let name = Path::new(&self.command[0]).file_name();
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Starts the command.
    fn spawn(&self, working: Option<&Path>, id: &str) -> Result<Child, Failure> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.env("VARVE_TRANSACTION", id);
        if let Some(working) = working {
            command.current_dir(working);
        }
        command.spawn().map_err(|error| {
            let code = match error.kind() {
                ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_STARTED,
            };
            let shown = self.command[0].display();
            Failure::new(code, format_args!("cannot run {shown}: {error}"))
        })
    }

    /// Makes one attempt. Returns the exit code, or the description of a conflict.
    fn attempt(
        &self,
        mut view: View,
        working: Option<&Path>,
        told: &Told,
        end: Option<Instant>,
    ) -> Result<Result<u8, String>, Failure> {
        let child = match self.spawn(working, &view.id.to_string()) {
            Ok(child) => child,
            Err(failure) => {
                view.abort("command");
                return Err(failure);
            }
        };
        let status = match watch(child, view.connection(), told, end).map_err(unwatched)? {
            Left::Ended(status) => status,
            Left::TimedOut => {
                view.abort("timeout");
                let text = "the time was over; nothing was changed";
                return Err(Failure::new(TIMED_OUT, text));
            }
            Left::Lost => {
                let why = view.why_ended();
                let text = format_args!("{why}; nothing was changed");
                return Err(Failure::new(FAILED, text));
            }
        };
        if !status.success() {
            view.abort(if told.signal() != 0 {
                "told"
            } else {
                "command"
            });
            return Ok(Ok(code_of(status)));
        }
        match view.commit() {
            Ended::Committed => Ok(Ok(0)),
            Ended::Conflict(what) => Ok(Err(what)),
            Ended::Failed(why) => {
                let text = format_args!("not committed: {why}");
                Err(Failure::new(FAILED, text))
            }
        }
    }
}

/// The exit code for a command's end, as in a shell.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(FAILED)
}

fn unwatched(error: std::io::Error) -> Failure {
    Failure::new(FAILED, format_args!("cannot watch it: {error}"))
}

/// Prepares this process for a view: it gets a mount namespace of its own, and orphaned
/// descendants become its children. A mount that answers no request is left at the place
/// of the view: a process that still runs when the view is unmounted finds that
/// (ENOTCONN), and not the directory beneath. Returns the other mounts below `base`.
pub fn leave(base: &Entry) -> Result<Below, String> {
    let root = base.directory.display();
    let made = match rustix::process::geteuid().is_root() {
        true => varve_fuse::own_mounts(false).or_else(|_| varve_fuse::own_mounts(true)),
        false => varve_fuse::own_mounts(true),
    };
    made.map_err(|error| {
        format!(
            "cannot show a view of {root} to one command only: {error}; that needs mount \
             namespaces, and for others than root user namespaces (see user.max_user_namespaces \
             and what the system restricts them by)"
        )
    })?;
    let below = Below::of(base)?;
    // This process must not keep others from unmounting. The mounts that a user namespace
    // inherits cannot be removed in it.
    std::env::set_current_dir("/").map_err(|error| error.to_string())?;
    if let Err(error) = varve_fuse::detach(&base.directory) {
        tracing::debug!(%error, "the mount stays below its view");
    }
    // No server opens its device, so it is dead from the start.
    let dead = MountOptions {
        source: "ended transaction".into(),
        ..MountOptions::default()
    };
    varve_fuse::mount_device(&base.directory, &dead)
        .map_err(|error| format!("cannot mount anything on {root}: {error}"))?;
    reap_all();
    Ok(below)
}

/// Makes all orphaned descendants children of this process. If this is omitted, killed
/// processes may leave children of their own.
fn reap_all() {
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::debug!(%error, "not the reaper of what is run");
    }
}

/// Signals: passed on to the command, and recorded if they ask for the end.
struct Told {
    /// The command, if it runs.
    child: Arc<AtomicI32>,
    signal: Arc<AtomicI32>,
}

impl Told {
    fn watch() -> std::io::Result<Self> {
        // Signals ignored here, as under nohup(1), are ignored by the command, too.
        let ignored = ignored();
        let signals = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];
        let signals = signals
            .into_iter()
            .filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = signal_hook::iterator::Signals::new(signals)?;
        let told = Told {
            child: Arc::default(),
            signal: Arc::default(),
        };
        let (child, noted) = (Arc::clone(&told.child), Arc::clone(&told.signal));
        std::thread::Builder::new()
            .name("varve-signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    if ![SIGUSR1, SIGUSR2].contains(&signal) {
                        noted.store(signal, SeqCst);
                    }
                    // A terminal sends these to all processes in the foreground.
                    if [SIGINT, SIGQUIT].contains(&signal) && in_front() {
                        continue;
                    }
                    let child = Pid::from_raw(child.load(SeqCst));
                    if let (Some(child), Some(signal)) = (child, Signal::from_named_raw(signal)) {
                        let _ = rustix::process::kill_process(child, signal);
                    }
                }
            })?;
        Ok(told)
    }

    /// The last signal that asked for the end, or 0.
    fn signal(&self) -> i32 {
        self.signal.load(SeqCst)
    }
}

/// The signals that this process ignores, a bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// True if this process is in the terminal's foreground.
fn in_front() -> bool {
    let group = rustix::termios::tcgetpgrp(std::io::stdin());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Waits until the command has ended, or has to be ended.
fn watch(
    mut child: Child,
    connection: BorrowedFd<'_>,
    told: &Told,
    end: Option<Instant>,
) -> std::io::Result<Left> {
    let pid = Pid::from_child(&child);
    told.child.store(pid.as_raw_nonzero().get(), SeqCst);
    // A signal received before the command was started.
    if let Some(signal) = Signal::from_named_raw(told.signal()) {
        let _ = rustix::process::kill_process(pid, signal);
    }
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let left = loop {
        let rest = end.map(|end| end.saturating_duration_since(Instant::now()));
        if rest.is_some_and(|rest| rest.is_zero()) {
            break Left::TimedOut;
        }
        let rest = rest.and_then(|rest| Timespec::try_from(rest).ok());
        let mut waits = [
            PollFd::new(&connection, PollFlags::IN),
            PollFd::new(&descriptor, PollFlags::IN),
        ];
        match poll(&mut waits, rest.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [lost, ended] = waits.map(|wait| !wait.revents().is_empty());
        if lost {
            break Left::Lost;
        }
        if ended {
            told.child.store(0, SeqCst);
            return Ok(Left::Ended(child.wait()?));
        }
    };
    told.child.store(0, SeqCst);
    kill_all(&mut child);
    Ok(left)
}

/// Kills the command, and all processes that it has started.
fn kill_all(child: &mut Child) {
    let _ = child.kill();
    let end = Instant::now() + KILLING;
    while Instant::now() < end {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let lists = threads.flatten().map(|thread| {
        let list = std::fs::read_to_string(thread.path().join("children"));
        list.unwrap_or_default()
    });
    let numbers = lists.flat_map(|list| {
        let numbers = list.split_whitespace().filter_map(|word| word.parse().ok());
        numbers.collect::<Vec<i32>>()
    });
    numbers.filter_map(Pid::from_raw).collect()
}
