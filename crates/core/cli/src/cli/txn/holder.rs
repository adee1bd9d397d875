//! The process that keeps a transaction open for others to join
//! (`docs/design/transactions.md`, "Handed over").
//!
//! Over its socket, one connection for each client, lines of JSON:
//!
//! | line | answer |
//! |---|---|
//! | `{"join": "make"}` | two descriptors, each with a byte of zero: a user and a mount namespace; then `{"joined": true}`. The client is in it until the connection ends; `{"ended": "..."}` is sent if the transaction ends |
//! | `{"commit": true}` | `{"committed": true}`, `{"conflict": "..."}`, `{"failed": "..."}` |
//! | `{"abort": true}` | `{"aborted": true}` |
//! | `{}` | `{"inside": ["make"], "left_s": 3580}`: the commands in it; seconds until it ends by itself, none if no time is set |
//!
//! `{"refused": "..."}` for any of them, for the first after one byte of zero without a
//! descriptor.

use super::view::{Ended, View};
use crate::cli::txn_server::{hear, say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::io::{self, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Longest time for receiving a client's request, and for sending the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after an accept that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// Most commands in one transaction at a time.
const INSIDE_MAX: usize = 256;

/// The address of a held transaction.
///
/// # Errors
/// If the name is too long for one.
pub fn address(id: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("varve-txn-held-{id}"))
}

/// Time limits of a transaction.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Longest time without a command in it.
    pub idle: Duration,
    /// Time at which it is aborted; `None` for no limit.
    pub end: Option<Instant>,
}

/// A command in the transaction.
struct Inside {
    connection: UnixStream,
    command: String,
}

/// The event that ends the transaction.
enum Finish {
    /// A client asked for the commit, and waits for the answer.
    Commit(UnixStream),
    Abort(UnixStream),
    Over(&'static str),
    /// The transaction is over already, for this reason.
    Lost(String),
}

/// An open transaction, its socket, and the commands in it.
pub struct Holder {
    view: View,
    listener: UnixListener,
    limits: Limits,
    inside: Vec<Inside>,
    /// Time at which the last command left.
    idle_since: Instant,
}

impl Holder {
    pub fn new(view: View, listener: UnixListener, limits: Limits) -> Self {
        Holder {
            view,
            listener,
            limits,
            inside: Vec::new(),
            idle_since: Instant::now(),
        }
    }

    /// Serves clients until the transaction ends.
    ///
    /// # Errors
    /// If the system cannot wait for events; the transaction is aborted then.
    pub fn hold(mut self) -> io::Result<()> {
        let finish = loop {
            if let Some(finish) = self.step()? {
                break finish;
            }
        };
        let Holder { view, inside, .. } = self;
        let tell = |why: &str| {
            for mut one in inside {
                let _ = say(&mut one.connection, &json!({ "ended": why }));
            }
        };
        match finish {
            Finish::Commit(mut asker) => {
                let answer = match view.commit() {
                    Ended::Committed => json!({"committed": true}),
                    Ended::Conflict(what) => json!({ "conflict": what }),
                    Ended::Failed(why) => json!({ "failed": why }),
                };
                let _ = say(&mut asker, &answer);
            }
            Finish::Abort(mut asker) => {
                tell("it was aborted");
                view.abort("command");
                let _ = say(&mut asker, &json!({"aborted": true}));
            }
            Finish::Over(cause) => {
                tell("its time was over");
                view.abort(cause);
            }
            Finish::Lost(why) => tell(&why),
        }
        Ok(())
    }

    /// The time at which it ends by itself in the present state, and the reason.
    fn end(&self) -> Option<(Instant, &'static str)> {
        let idle = self.idle_since + self.limits.idle;
        let idle = self.inside.is_empty().then_some((idle, "idle"));
        let end = self.limits.end.map(|end| (end, "timeout"));
        idle.into_iter().chain(end).min_by_key(|(end, _)| *end)
    }

    /// Waits for an event, and handles it.
    fn step(&mut self) -> io::Result<Option<Finish>> {
        let end = self.end();
        let rest = end.map(|(end, _)| end.saturating_duration_since(Instant::now()));
        if let (Some(Duration::ZERO), Some((_, cause))) = (rest, end) {
            return Ok(Some(Finish::Over(cause)));
        }
        let rest = rest.and_then(|rest| Timespec::try_from(rest).ok());
        let ready: Vec<bool> = {
            let transaction = self.view.connection();
            let mut waits = vec![
                PollFd::new(&transaction, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            let inside = self.inside.iter();
            waits.extend(inside.map(|one| PollFd::new(&one.connection, PollFlags::IN)));
            match poll(&mut waits, rest.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            waits
                .iter()
                .map(|wait| !wait.revents().is_empty())
                .collect()
        };
        if ready[0] {
            return Ok(Some(Finish::Lost(self.view.why_ended())));
        }
        // Any event on the connection of a command in it means that the connection has
        // ended.
        let mut gone = ready[2..].iter();
        let before = self.inside.len();
        self.inside.retain(|_| gone.next() == Some(&false));
        if before > 0 && self.inside.is_empty() {
            self.idle_since = Instant::now();
        }
        if !ready[1] {
            return Ok(None);
        }
        let served = match self.listener.accept() {
            Ok((connection, _)) => self.serve(connection),
            Err(error) => {
                // There is no free descriptor: the next attempt is made after a pause.
                std::thread::sleep(PAUSE);
                Err(error)
            }
        };
        match served {
            Ok(finish) => Ok(finish),
            Err(error) => {
                tracing::debug!(%error, "somebody who asked went away");
                Ok(None)
            }
        }
    }

    /// Serves one client.
    fn serve(&mut self, mut connection: UnixStream) -> io::Result<Option<Finish>> {
        let (user, _) = varve_fuse::handover::peer(&connection)?;
        if user != rustix::process::geteuid().as_raw() {
            return Ok(None);
        }
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        let Some(asked) = hear(&mut BufReader::new(&connection))? else {
            return Ok(None);
        };
        if let Some(command) = asked["join"].as_str() {
            self.join(connection, command)?;
            return Ok(None);
        }
        match (asked["commit"] == true, asked["abort"] == true) {
            (true, _) if !self.inside.is_empty() => {
                let why = format!("still in it: {}", self.names().join(", "));
                say(&mut connection, &json!({ "refused": why }))?;
                Ok(None)
            }
            (true, _) => Ok(Some(Finish::Commit(connection))),
            (_, true) => Ok(Some(Finish::Abort(connection))),
            _ => say(&mut connection, &self.state()).map(|()| None),
        }
    }

    fn join(&mut self, mut connection: UnixStream, command: &str) -> io::Result<()> {
        if self.inside.len() >= INSIDE_MAX {
            connection.write_all(&[0])?;
            let why = format!("{INSIDE_MAX} commands are in it already");
            return say(&mut connection, &json!({ "refused": why }));
        }
        for namespace in varve_fuse::held_mounts()? {
            varve_fuse::handover::send(&connection, &namespace)?;
        }
        say(&mut connection, &json!({"joined": true}))?;
        self.inside.push(Inside {
            connection,
            command: command.chars().take(100).collect(),
        });
        Ok(())
    }

    fn names(&self) -> Vec<&str> {
        self.inside.iter().map(|one| &*one.command).collect()
    }

    fn state(&self) -> Value {
        let left = self.end().map(|(end, _)| {
            let left = end.saturating_duration_since(Instant::now());
            left.as_secs()
        });
        json!({"inside": self.names(), "left_s": left})
    }
}
