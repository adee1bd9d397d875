//! Transactions that other commands can join: `varve txn begin` and `commit`, and the
//! requests with which `run`, `shell`, `abort` and `list` reach one by its name.

use super::holder::{self, Holder, Limits};
use super::run::{CONFLICT, FAILED, Run, leave, seconds};
use super::view::{Asked, View};
use super::{ask, mount_of};
use crate::cli::daemon;
use crate::cli::output::{self, Failure, Outcome};
use crate::cli::txn_server::{hear, say};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest time for an answer of the holder process.
const PATIENCE: Duration = Duration::from_secs(5);

/// Begin a transaction that commands can join, and print its name.
///
/// `varve txn run --id NAME -- COMMAND` runs a command in it, from any process of the
/// same user, one after the other or at the same time; `varve txn commit NAME` or `varve
/// txn abort NAME` ends it. A process of its own keeps it open until then.
#[derive(clap::Args)]
pub struct Begin {
    /// The directory on which a volume is mounted, or one below.
    directory: PathBuf,
    /// The uses that conflict with changes of other programs: writes, or also reads.
    #[arg(long, value_parser = ["snapshot", "serializable"], default_value = "snapshot")]
    isolation: String,
    /// Abort it when no command has been in it for this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3600")]
    idle: Duration,
    /// Abort it after this many seconds in all.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// This process is the holder.
    #[arg(long, hide = true)]
    hold: bool,
}

impl Begin {
    pub fn run(self) -> Outcome {
        match self.hold {
            true => self.hold(),
            false => self.start(),
        }
    }

    /// Starts the holder process.
    fn start(self) -> Outcome {
        let mut arguments: Vec<OsString> = ["txn", "begin", "--hold"].map(Into::into).into();
        arguments.extend(["--isolation".into(), self.isolation.into()]);
        arguments.extend(["--idle".into(), self.idle.as_secs_f64().to_string().into()]);
        if let Some(time) = self.timeout {
            arguments.extend(["--timeout".into(), time.as_secs_f64().to_string().into()]);
        }
        arguments.extend(["--".into(), self.directory.into_os_string()]);
        let failed = |error: std::io::Error| {
            Failure::new(FAILED, format_args!("cannot start the holder: {error}"))
        };
        let (said, mut child) = daemon::launch(&arguments).map_err(failed)?;
        let said = String::from_utf8_lossy(&said);
        if let Some(id) = said.strip_suffix('\n') {
            output::line(id);
            return Ok(0);
        }
        // The child has printed the reason.
        let status = child.wait().map_err(failed)?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.filter(|code| *code != 0).unwrap_or(FAILED))
    }

    fn hold(self) -> Outcome {
        daemon::detach();
        let failed = Failure::with(FAILED);
        let base = mount_of(&self.directory).map_err(&failed)?;
        Run::check(&self.directory, &base).map_err(&failed)?;
        let socket = ask(&base.directory, &json!({"socket": true})).map_err(&failed)?;
        let socket = socket["socket"].as_str().unwrap_or_default().to_owned();
        let below = leave(&base).map_err(&failed)?;
        let system = |error: std::io::Error| Failure::new(FAILED, error);
        let (id, listener) = listen().map_err(system)?;
        let asked = Asked {
            isolation: &self.isolation,
            command: "held",
            held: Some(&id),
        };
        let view = View::begin(&base, &below, &socket, &asked).map_err(&failed)?;
        let limits = Limits {
            idle: self.idle,
            end: self.timeout.map(|time| Instant::now() + time),
        };
        daemon::say(format!("{id}\n").as_bytes(), None).map_err(system)?;
        let held = Holder::new(view, listener, limits).hold();
        held.map(|()| 0).map_err(system)
    }
}

/// An unused name, and its socket.
fn listen() -> std::io::Result<(String, UnixListener)> {
    loop {
        let id = format!("{:08x}", rand::random::<u32>());
        match UnixListener::bind_addr(&holder::address(&id)?) {
            Ok(listener) => return Ok((id, listener)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// Make the changes of a held transaction part of the volume, durably.
///
/// If other programs changed the same data meanwhile, nothing is done, the transaction is
/// over, and the exit code is 75. While commands are in it, it is refused.
#[derive(clap::Args)]
pub struct Commit {
    /// Its name, as `varve txn begin` printed it.
    id: String,
}

impl Commit {
    pub fn run(self) -> Outcome {
        let answer = question(&self.id, &json!({"commit": true}), None);
        let answer = answer.map_err(Failure::with(FAILED))?;
        match (answer["conflict"].as_str(), answer["failed"].as_str()) {
            (Some(what), _) => {
                let text = format_args!("conflict: {what}; nothing was changed");
                Err(Failure::new(CONFLICT, text))
            }
            (_, Some(why)) => Err(Failure::new(FAILED, format_args!("not committed: {why}"))),
            _ => Ok(0),
        }
    }
}

/// Aborts a held transaction.
///
/// # Errors
/// The reason of the refusal.
pub fn abort(id: &str) -> Result<(), String> {
    question(id, &json!({"abort": true}), None).map(drop)
}

/// The holder's description of a transaction; `None` if it does not answer.
pub fn state(id: &str) -> Option<Value> {
    question(id, &json!({}), Some(PATIENCE)).ok()
}

fn question(id: &str, asked: &Value, patience: Option<Duration>) -> Result<Value, String> {
    let mut connection = connect(id)?;
    let failed = |error: std::io::Error| format!("transaction {id}: {error}");
    connection.set_read_timeout(patience).map_err(failed)?;
    say(&mut connection, asked).map_err(failed)?;
    let mut lines = BufReader::new(connection);
    answer(id, hear(&mut lines))
}

fn answer(id: &str, heard: std::io::Result<Option<Value>>) -> Result<Value, String> {
    let gone = || format!("transaction {id}: it ended meanwhile");
    let answer = heard.unwrap_or(None).ok_or_else(gone)?;
    match answer["refused"].as_str() {
        Some(why) => Err(format!("transaction {id}: {why}")),
        None => Ok(answer),
    }
}

/// Connects to the holder process, after checking that it belongs to this user.
fn connect(id: &str) -> Result<UnixStream, String> {
    let connected = holder::address(id).and_then(|address| UnixStream::connect_addr(&address));
    let connection = connected.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!(
            "there is no transaction {id}: it has ended, or is held in another network namespace"
        ),
        _ => format!("no connection to the holder of transaction {id}: {error}"),
    })?;
    let peer = varve_fuse::handover::peer(&connection);
    let (user, _) = peer.map_err(|error| format!("transaction {id}: {error}"))?;
    if user != rustix::process::geteuid().as_raw() {
        return Err(format!("transaction {id} is another user's"));
    }
    Ok(connection)
}

/// Membership in a held transaction, until it is dropped.
pub struct Joined {
    pub connection: UnixStream,
    id: String,
}

impl Joined {
    /// Enters the namespaces of a held transaction; this process has one thread.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn join(id: &str, command: &str) -> Result<Self, String> {
        let mut connection = connect(id)?;
        let failed = |error: std::io::Error| format!("cannot join transaction {id}: {error}");
        say(&mut connection, &json!({ "join": command })).map_err(failed)?;
        let receive = || varve_fuse::handover::receive(&connection).map_err(failed);
        let user = receive()?;
        let mounts = match user {
            Some(_) => receive()?,
            None => None,
        };
        answer(id, hear(&mut BufReader::new(&connection)))?;
        let (Some(user), Some(mounts)) = (user, mounts) else {
            return Err(format!("transaction {id}: its holder has another version"));
        };
        varve_fuse::join_mounts(&user.into(), &mounts.into()).map_err(failed)?;
        Ok(Joined {
            connection,
            id: id.to_owned(),
        })
    }

    /// The reason for which the transaction has ended, once the connection is readable.
    pub fn why_ended(&self) -> String {
        let id = &self.id;
        let heard = hear(&mut BufReader::new(&self.connection));
        let heard = heard.unwrap_or(None).unwrap_or_default();
        let why = heard["ended"].as_str().unwrap_or("its holder ended");
        format!("transaction {id} was ended: {why}")
    }
}
