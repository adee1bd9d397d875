//! The socket at which the server of a mount answers questions about snapshots.

use super::mounts;
use super::server::{Asked, Named, Part};
use crate::cli::reception::{self, Peer};
use crate::cli::txn_server::{Transactions, say};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use varve_fs::{Caller, FileSystem, Transaction};
use varve_fuse::{Adapter, Errno, MountOptions};
use varve_lfs::Lfs;

/// Most questions at a time: each has a thread.
const CONNECTED_MAX: usize = 16;
/// Most snapshots that are mounted at a time.
const MOUNTS_MAX: usize = 64;
/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest question: two paths and some words.
const QUESTION_BYTES: u64 = 64 << 10;

/// Answers questions about the snapshots of a mount.
pub struct Snapshots {
    fs: Arc<FileSystem<Lfs>>,
    transactions: Arc<Transactions>,
    /// The names of the sockets for questions and for mounts, once a client has asked.
    sockets: Mutex<[Option<String>; 2]>,
}

impl Snapshots {
    /// Of this volume; restorations are committed by `transactions`.
    pub fn new(fs: Arc<FileSystem<Lfs>>, transactions: Arc<Transactions>) -> Arc<Self> {
        Arc::new(Snapshots {
            fs,
            transactions,
            sockets: Mutex::default(),
        })
    }

    /// Answers the question that came by ioctl: where the sockets are.
    ///
    /// # Errors
    /// EINVAL for any other question.
    pub fn answer(self: &Arc<Self>, asked: &Value) -> Result<Value, Errno> {
        let listening = match asked {
            _ if asked == &json!({"socket": true}) => self.listen(),
            _ if asked == &json!({"mounts": true}) => self.listen_for_mounts(),
            _ => return Err(Errno(rustix::io::Errno::INVAL.raw_os_error())),
        };
        Ok(match listening {
            Ok(name) => json!({ "socket": name }),
            Err(error) => json!({"refused": format!("no socket: {error}")}),
        })
    }

    fn listen(self: &Arc<Self>) -> io::Result<String> {
        let [socket, _] = &mut *self.sockets.lock();
        if let Some(name) = socket {
            return Ok(name.clone());
        }
        let all = Arc::clone(self);
        let name = reception::listen("varve-snapshots", CONNECTED_MAX, move |connection, peer| {
            all.serve(&connection, peer)
        })?;
        Ok(socket.insert(name).clone())
    }

    fn listen_for_mounts(self: &Arc<Self>) -> io::Result<String> {
        let [_, socket] = &mut *self.sockets.lock();
        if let Some(name) = socket {
            return Ok(name.clone());
        }
        let fs = Arc::clone(&self.fs);
        let name = reception::listen("varve-past", MOUNTS_MAX, move |connection, _| {
            connection.set_read_timeout(Some(PATIENCE))?;
            mounts::serve(&fs, connection)
        })?;
        Ok(socket.insert(name).clone())
    }

    fn serve(&self, connection: &UnixStream, peer: Peer) -> io::Result<()> {
        connection.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        let mut lines = BufReader::new(connection).take(QUESTION_BYTES);
        lines.read_line(&mut line)?;
        let question: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
        let mut output = BufWriter::with_capacity(64 << 10, connection);
        let answer = self.ask(&question, peer, &mut output);
        output.flush()?;
        drop(output);
        let answer = match answer {
            Ok(done) => json!({ "done": done }),
            Err(why) => json!({ "refused": why }),
        };
        say(&mut connection.try_clone()?, &answer)
    }

    fn ask(&self, question: &Value, peer: Peer, output: &mut impl Write) -> Result<Value, String> {
        // What the kernel has dirty was written before.
        self.transactions.sync()?;
        let commit = |transaction, names| self.commit(transaction, names);
        let asked = Asked {
            fs: &self.fs,
            caller: caller(peer),
            commit: &commit,
        };
        asked.answer(question, &mut |part| {
            let written = match part {
                Part::Item(item) => writeln!(output, "{}", json!({ "item": item })),
                Part::Bytes(bytes) => writeln!(output, "{}", json!({"bytes": bytes.len()}))
                    .and_then(|()| output.write_all(bytes)),
            };
            written.map_err(|error| error.to_string())
        })
    }

    /// Commits a restoration, and shows it to the kernel.
    fn commit(&self, transaction: Transaction<Lfs>, names: Vec<Named>) -> Result<(), String> {
        let options = MountOptions {
            note_names: true,
            ..MountOptions::default()
        };
        let adapter = Adapter::new(Arc::clone(transaction.tree()), &options);
        for (parent, name, ino) in &names {
            adapter.note_name(*ino, *parent, name);
        }
        let answer = self.transactions.commit_shown(transaction, &adapter);
        let answer = answer.unwrap_or_else(|refused| refused);
        let why = |name: &str| answer[name].as_str();
        match (why("conflict"), why("refused").or(why("undurable"))) {
            (Some(met), _) => Err(format!(
                "a change of another program came first: {met}; nothing was restored, try again"
            )),
            (None, Some(why)) => Err(why.to_owned()),
            (None, None) => Ok(()),
        }
    }
}

/// Root, or the user that runs this process, with the groups of that.
fn caller(peer: Peer) -> Caller {
    let mut caller = Caller::root();
    if peer.user != 0 {
        caller.uid = peer.user;
        caller.gid = rustix::process::getegid().as_raw();
        let groups = rustix::process::getgroups().unwrap_or_default();
        caller.groups = groups.iter().map(|group| group.as_raw()).collect();
    }
    caller
}
