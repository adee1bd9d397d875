//! A transaction's view, mounted in this process's own namespace, and the connection
//! whose end aborts the transaction.

use super::below::Below;
use crate::cli::mount_table::{self, Entry};
use crate::cli::output;
use crate::cli::txn_server::{hear, say};
use serde_json::{Value, json};
use std::io::BufReader;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use varve_fuse::MountOptions;

/// Message for a connection that the server has closed.
const GONE: &str = "the server ended, and the transaction with it";

/// Outcome of a commit.
#[derive(Debug)]
pub enum Ended {
    Committed,
    /// Description of the conflict.
    Conflict(String),
    /// It was refused, or another process ended it.
    Failed(String),
}

/// Properties of a new transaction.
pub struct Asked<'a> {
    pub isolation: &'a str,
    /// The command that is going to run in it.
    pub command: &'a str,
    /// Its name, if other commands can join it.
    pub held: Option<&'a str>,
}

/// A mounted view. When it is dropped, the transaction is aborted, and the view
/// unmounted.
pub struct View {
    root: PathBuf,
    connection: UnixStream,
    lines: BufReader<UnixStream>,
    pub id: u64,
    is_mounted: bool,
}

impl View {
    /// Begins a transaction, and mounts its view over the root of its mount, with the
    /// other mounts below. Call it in a namespace of its own.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn begin(
        base: &Entry,
        below: &Below,
        socket: &str,
        asked: &Asked<'_>,
    ) -> Result<Self, String> {
        let root = base.directory.clone();
        let shown = base.directory.display();
        let failed =
            |error: std::io::Error| format!("no connection to the server of {shown}: {error}");
        let address = SocketAddr::from_abstract_name(socket).map_err(failed)?;
        let connection = UnixStream::connect_addr(&address).map_err(|error| {
            format!(
                "no connection to the server of {shown}: {error}; it must be reached in the \
                 same network namespace"
            )
        })?;
        let lines = BufReader::new(connection.try_clone().map_err(failed)?);
        let options = MountOptions {
            source: base.source.clone().into(),
            no_suid: base.has("nosuid"),
            no_dev: base.has("nodev"),
            no_exec: base.has("noexec"),
            no_atime: base.has("noatime"),
            ..MountOptions::default()
        };
        let device = varve_fuse::mount_device(&root, &options)
            .map_err(|error| format!("cannot mount the view on {shown}: {error}"))?;
        let mut view = View {
            root,
            connection,
            lines,
            id: 0,
            is_mounted: true,
        };
        let number = mount_table::mount_at(&view.root).map(|e| format!("{}:{}", e.major, e.minor));
        varve_fuse::handover::send(&view.connection, &device).map_err(failed)?;
        drop(device);
        let Asked {
            isolation,
            command,
            held,
        } = asked;
        let asked = json!({
            "isolation": isolation,
            "device": number,
            "command": command,
            "held": held,
        });
        say(&mut view.connection, &asked).map_err(failed)?;
        let answer = view.answer()?;
        view.id = answer["begun"].as_u64().ok_or("it began nothing")?;
        below.show(&view.root)?;
        Ok(view)
    }

    /// The connection, which becomes readable when another process ends the transaction.
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// The reason for which the transaction has ended, once [`Self::connection`] is
    /// readable.
    pub fn why_ended(&mut self) -> String {
        match self.answer() {
            Err(why) => why,
            Ok(other) => format!("the server said {other}"),
        }
    }

    /// Writes all dirty data back, and commits.
    pub fn commit(mut self) -> Ended {
        if let Err(error) = self.write_back() {
            self.abort("lost_write");
            return Ended::Failed(format!(
                "a write came to nothing: {error}; nothing was changed"
            ));
        }
        if say(&mut self.connection, &json!({"commit": true})).is_err() {
            // The server may have sent the reason before.
            return Ended::Failed(self.why_ended());
        }
        match self.answer() {
            Ok(answer) => match (answer["conflict"].as_str(), answer["undurable"].as_str()) {
                (Some(what), _) => Ended::Conflict(what.into()),
                (_, Some(why)) => Ended::Failed(format!(
                    "it was made, but it is not durable, and the volume takes no more \
                     changes: {why}"
                )),
                _ => Ended::Committed,
            },
            Err(why) if why == GONE => {
                Ended::Failed("the server ended meanwhile; all of it is there, or nothing".into())
            }
            Err(why) => Ended::Failed(format!("{why}; nothing was changed")),
        }
    }

    /// Aborts the transaction and drops its changes.
    pub fn abort(mut self, cause: &str) {
        let _ = say(&mut self.connection, &json!({ "abort": cause }));
        // Its programs only had the number of an error.
        if let Ok(Some(answer)) = hear(&mut self.lines)
            && let Some(note) = answer["note"].as_str()
        {
            output::notes(note);
        }
    }

    fn write_back(&mut self) -> std::io::Result<()> {
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.root, flags, rustix::fs::Mode::empty())?;
        rustix::fs::syncfs(&root)?;
        drop(root);
        self.unmount();
        Ok(())
    }

    /// Unmounts the view: at once if no process uses it, else it is detached.
    fn unmount(&mut self) {
        if !std::mem::take(&mut self.is_mounted) {
            return;
        }
        let flags = rustix::mount::UnmountFlags::NOFOLLOW;
        if rustix::mount::unmount(&self.root, flags).is_err() {
            let _ = varve_fuse::detach(&self.root);
        }
    }

    fn answer(&mut self) -> Result<Value, String> {
        let answer = hear(&mut self.lines);
        // A connection that was reset has ended.
        let answer = answer.unwrap_or(None);
        let answer = answer.ok_or(GONE)?;
        if let Some(why) = answer["refused"].as_str() {
            return Err(why.into());
        }
        match answer["aborted"].as_str() {
            Some(why) => Err(format!("the transaction was ended {why}")),
            None => Ok(answer),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.is_mounted {
            self.is_mounted = false;
            let _ = varve_fuse::detach(&self.root);
        }
    }
}
