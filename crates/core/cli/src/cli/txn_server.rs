//! The server's side of `varve txn` (`docs/design/transactions.md`, "For any program").
//!
//! Questions, over the ioctl of the other commands:
//!
//! | question | answer |
//! |---|---|
//! | `{"transactions": {"socket": true}}` | `{"socket": "..."}`: the abstract name of the socket below |
//! | `{"transactions": {}}` | `{"open": [{"id": 3, ...}]}` |
//! | `{"transactions": {"abort": 3}}` | `{"aborted": 3}`; `{"refused": "..."}` |
//!
//! Over the socket, one connection for each transaction, lines of JSON except for the
//! first byte, which carries the descriptor of a mounted `/dev/fuse`:
//!
//! | line | answer |
//! |---|---|
//! | `{"isolation": "snapshot", "device": "0:52", "command": "make"}`, with `"held": NAME` if others may join | `{"begun": 3}`; `{"refused": "..."}` |
//! | `{"commit": true}`, the view has been unmounted or detached | `{"committed": {"files": 2, "names": 7}}`, `{"conflict": "..."}`, `{"refused": "..."}`; `{"undurable": "..."}` if it is committed and its flush failed |
//! | `{"abort": "command"}`, also `timeout`, `idle`, `told`, `lost_write` | `{"aborted": "..."}`, with a `"note"` if it was too large |
//!
//! The end of a connection is an abort. `{"aborted": "..."}` is also sent without a
//! request, when another process ended the transaction.

use super::reception::{self, Peer};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use varve_fs::{Error, FileSystem, Isolation, Transaction, TransactionOptions};
use varve_fuse::{
    Adapter, Errno, InUse, IoctlHandler, IoctlRequest, Kernel, MountOptions, Outside, Session,
};
use varve_lfs::Lfs;

/// Most transactions of other programs at a time: each has threads of its own.
const OPEN_MAX: usize = 64;
/// Most connections at a time: some of them are only refused because there are
/// [`OPEN_MAX`].
const CONNECTED_MAX: usize = 2 * OPEN_MAX;
/// Longest time for receiving a client's request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait until the kernel has released a view that was unmounted.
const UNMOUNTED: Duration = Duration::from_secs(1);
/// Longest line, in bytes.
const LINE_BYTES: u64 = 4096;

/// Causes that end a transaction without a commit.
const CAUSES: [&str; 7] = [
    "command",
    "timeout",
    "idle",
    "told",
    "operator",
    "lost_client",
    "lost_write",
];

/// The transactions of other programs on a mount.
pub struct Transactions {
    fs: Arc<FileSystem<Lfs>>,
    /// The mount's properties that they need, once it is mounted.
    mount: OnceLock<(Kernel<Lfs>, MountOptions)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The name of the socket, once it was requested.
    socket: Option<String>,
    last: u64,
    open: BTreeMap<u64, Arc<Open>>,
    aborts: BTreeMap<&'static str, u64>,
}

/// An open transaction.
struct Open {
    tree: Weak<FileSystem<Lfs>>,
    process: i32,
    user: u32,
    command: String,
    /// Its name, if other commands can join it.
    held: Option<String>,
    isolation: String,
    begun: Instant,
    connection: UnixStream,
    is_aborted: AtomicBool,
    /// Its locks on the mount's files.
    outside: Option<Arc<Outside>>,
}

/// A transaction, and the session that serves its view.
struct View {
    transaction: Transaction<Lfs>,
    adapter: Arc<Adapter<Lfs>>,
    kernel: Kernel<Lfs>,
    ended: Receiver<()>,
    outside: Option<Arc<Outside>>,
}

type Refusal = String;

impl Transactions {
    /// The transactions of this volume; none begins before [`Self::mounted`].
    pub fn new(fs: Arc<FileSystem<Lfs>>) -> Arc<Self> {
        Arc::new(Transactions {
            fs,
            mount: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    /// Notes that the volume is mounted, with these options.
    pub fn mounted(&self, kernel: Kernel<Lfs>, options: MountOptions) {
        let _ = self.mount.set((kernel, options));
    }

    /// Number of transactions that ended without a commit, by cause.
    pub fn aborts(&self) -> Map<String, Value> {
        let aborts = &self.state.lock().aborts;
        let of = |cause: &&'static str| aborts.get(*cause).copied().unwrap_or(0);
        let all = CAUSES.iter();
        all.map(|cause| ((*cause).into(), of(cause).into()))
            .collect()
    }

    /// Answers a request.
    ///
    /// # Errors
    /// EINVAL for an invalid request.
    pub fn answer(self: &Arc<Self>, asked: &Value) -> Result<Value, Errno> {
        let invalid = Errno(rustix::io::Errno::INVAL.raw_os_error());
        let asked = asked.as_object().ok_or(invalid)?;
        if asked.is_empty() {
            return Ok(self.list());
        }
        let socket = asked.get("socket").and_then(Value::as_bool);
        let id = asked.get("abort").and_then(Value::as_u64);
        match (socket, id) {
            (Some(true), None) => Ok(match self.socket() {
                Ok(name) => json!({ "socket": name }),
                Err(error) => json!({"refused": format!("no socket: {error}")}),
            }),
            (None, Some(id)) => Ok(match self.abort(id) {
                true => json!({ "aborted": id }),
                false => json!({"refused": format!("there is no transaction {id}")}),
            }),
            _ => Err(invalid),
        }
    }

    fn list(&self) -> Value {
        let open: Vec<(u64, Arc<Open>)> = {
            let state = self.state.lock();
            let open = state.open.iter();
            open.map(|(id, open)| (*id, Arc::clone(open))).collect()
        };
        let describe = |(id, open): &(u64, Arc<Open>)| {
            let tree = open.tree.upgrade();
            json!({
                "id": id,
                "isolation": open.isolation,
                "age_ms": open.begun.elapsed().as_millis() as u64,
                "pid": open.process,
                "uid": open.user,
                "command": open.command,
                "held": open.held,
                "locks": open.outside.as_ref().is_some_and(|outside| outside.has_files()),
                "files": tree.as_ref().map_or(0, |tree| tree.changed_inodes().len()),
                "bytes": tree.as_ref().map_or(0, |tree| tree.statistics().dirty_bytes),
            })
        };
        // An answer is bounded, but these fit.
        json!({"open": open.iter().map(describe).collect::<Vec<Value>>()})
    }

    fn abort(&self, id: u64) -> bool {
        let open = self.state.lock().open.get(&id).cloned();
        let Some(open) = open else { return false };
        open.is_aborted.store(true, Relaxed);
        // Its thread wakes, and can still answer.
        let _ = open.connection.shutdown(Shutdown::Read);
        true
    }

    /// The name of the socket, which a thread listens on then.
    fn socket(self: &Arc<Self>) -> io::Result<String> {
        let mut state = self.state.lock();
        if let Some(name) = &state.socket {
            return Ok(name.clone());
        }
        let all = Arc::clone(self);
        let name = reception::listen("varve-txn", CONNECTED_MAX, move |connection, peer| {
            all.serve(connection, peer)
        })?;
        state.socket = Some(name.clone());
        Ok(name)
    }

    /// Serves one connection, from beginning to end.
    fn serve(&self, mut connection: UnixStream, peer: Peer) -> io::Result<()> {
        connection.set_read_timeout(Some(PATIENCE))?;
        let device = varve_fuse::handover::receive(&connection)?;
        let mut lines = BufReader::new(connection.try_clone()?);
        let (Some(device), Some(asked)) = (device, hear(&mut lines)?) else {
            return Ok(());
        };
        connection.set_read_timeout(None)?;
        let view = match self.begin(device, &asked) {
            Ok(view) => view,
            Err(why) => return say(&mut connection, &json!({ "refused": why })),
        };
        let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
        let open = Arc::new(Open {
            tree: Arc::downgrade(view.transaction.tree()),
            process: peer.process,
            user: peer.user,
            isolation: text("isolation"),
            command: text("command").chars().take(40).collect(),
            held: asked["held"]
                .as_str()
                .map(|id| id.chars().take(16).collect()),
            begun: Instant::now(),
            connection: connection.try_clone()?,
            is_aborted: AtomicBool::new(false),
            outside: view.outside.clone(),
        });
        let Some(id) = self.enter(&open) else {
            let why = format!("{OPEN_MAX} transactions are open already");
            return say(&mut connection, &json!({ "refused": why }));
        };
        let ended = say(&mut connection, &json!({ "begun": id }))
            .and_then(|()| self.follow(view, &open, &mut lines, &mut connection));
        self.state.lock().open.remove(&id);
        ended
    }

    fn enter(&self, open: &Arc<Open>) -> Option<u64> {
        let mut state = self.state.lock();
        if state.open.len() >= OPEN_MAX {
            return None;
        }
        state.last += 1;
        let id = state.last;
        state.open.insert(id, Arc::clone(open));
        Some(id)
    }

    fn begin(&self, device: std::os::fd::OwnedFd, asked: &Value) -> Result<View, Refusal> {
        let (base, options) = self.mount.get().ok_or("it is not mounted yet")?;
        let isolation = match asked["isolation"].as_str() {
            Some("snapshot") => Isolation::Snapshot,
            Some("serializable") => Isolation::Serializable,
            other => return Err(format!("no isolation {}", other.unwrap_or("is named"))),
        };
        // The kernel's dirty data is part of the snapshot.
        let synced = base.sync();
        synced.map_err(|error| format!("the mount cannot be synced: {error}"))?;
        let begun = self.fs.begin_transaction(&TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        });
        let transaction = begun.map_err(|error| error.to_string())?;
        let outside = base.outside().map(Arc::new);
        let options = MountOptions {
            note_names: true,
            statistics: None,
            ioctl: Some(no_answers()),
            // Snapshots do not belong to what a transaction isolates.
            snapshot_directory: false,
            outside: outside.clone(),
            ..options.clone()
        };
        let tree = Arc::clone(transaction.tree());
        let number = asked["device"].as_str().unwrap_or_default();
        let number = match number.bytes().all(|c| c.is_ascii_digit() || c == b':') {
            true => number,
            false => return Err("no device number".into()),
        };
        let session = Session::on(tree, device, number, options);
        let session = session.map_err(|error| format!("the view cannot be served: {error}"))?;
        let (adapter, kernel) = (session.adapter(), session.kernel());
        let (say_ended, ended) = channel();
        std::thread::Builder::new()
            .name("varve-view".into())
            .spawn(move || {
                if let Err(error) = session.serve() {
                    tracing::warn!(%error, "a transaction's view is not served any more");
                }
                let _ = say_ended.send(());
            })
            .map_err(|error| format!("no thread for the view: {error}"))?;
        Ok(View {
            transaction,
            adapter,
            kernel,
            ended,
            outside,
        })
    }

    /// Waits for the end of a transaction.
    fn follow(
        &self,
        view: View,
        open: &Open,
        lines: &mut impl BufRead,
        connection: &mut UnixStream,
    ) -> io::Result<()> {
        let asked = hear(lines);
        let asked = asked.as_ref().ok().and_then(Option::as_ref);
        let cause = match asked {
            Some(asked) if asked["commit"] == true => {
                let adapter = Arc::clone(&view.adapter);
                let answer = self.commit(view);
                adapter.end_locks();
                return say(connection, &answer);
            }
            Some(asked) => {
                let named = asked["abort"].as_str();
                let known = CAUSES.iter().find(|cause| Some(**cause) == named);
                known.copied().unwrap_or("command")
            }
            None if open.is_aborted.load(Relaxed) => "operator",
            None => "lost_client",
        };
        let too_large = view.transaction.was_too_large();
        view.transaction.abort();
        view.adapter.end_locks();
        self.count_abort(cause);
        let why = match cause {
            "operator" => "by `varve txn abort`",
            _ => cause,
        };
        let note = too_large.then(|| Error::TransactionTooLarge.to_string());
        say(connection, &json!({ "aborted": why, "note": note }))
    }

    fn count_abort(&self, cause: &'static str) {
        *self.state.lock().aborts.entry(cause).or_default() += 1;
    }

    /// Commits by the steps of `docs/design/transactions.md`.
    fn commit(&self, view: View) -> Value {
        let View {
            transaction,
            adapter,
            kernel,
            ended,
            outside: _,
        } = view;
        if ended.recv_timeout(UNMOUNTED).is_err() {
            // A process still uses the view. Data written until now is part of it.
            kernel.write_back(&transaction.tree().changed_inodes());
        }
        if let Some(errno) = adapter.lost() {
            self.count_abort("lost_write");
            let why = match transaction.was_too_large() {
                true => Error::TransactionTooLarge.to_string(),
                false => io::Error::from_raw_os_error(errno.0).to_string(),
            };
            return json!({"refused": format!("a write came to nothing: {why}")});
        }
        match self.commit_shown(transaction, &adapter) {
            Ok(answer) | Err(answer) => answer,
        }
    }

    /// Commits a transaction that was not made through the mount, and shows the kernel
    /// its changes; `adapter` knows their names. The answer as in the table above.
    ///
    /// # Errors
    /// The answer that says why nothing was changed.
    pub fn commit_shown(
        &self,
        transaction: Transaction<Lfs>,
        adapter: &Adapter<Lfs>,
    ) -> Result<Value, Value> {
        let mount = self.mount.get();
        let (base, _) = mount.ok_or_else(|| json!({"refused": "it is not mounted yet"}))?;
        let changed = transaction.changed();
        let kept = base.keep_from_execution(&changed.content, adapter);
        let kept = kept.map_err(|(ino, in_use)| {
            let path = adapter.path_of(ino).unwrap_or_default();
            let path = path.display();
            json!({"conflict": match in_use {
                InUse::Executed => format!("{path} is a running program"),
                InUse::Leased => format!("another process has a lease of {path}"),
            }})
        })?;
        let prepared = base.prepare(&changed, adapter);
        let ticket = transaction.commit_async().map_err(|error| match error {
            Error::Conflict(conflict) => {
                let path = adapter.path_of(conflict.ino);
                let path = path.map_or(String::new(), |path| format!(" ({})", path.display()));
                json!({"conflict": format!("{conflict}{path}")})
            }
            error => json!({"refused": error.to_string()}),
        })?;
        prepared.reveal(ticket.changed());
        drop(kept);
        let (files, names) = (ticket.changed().files.len(), ticket.changed().names.len());
        Ok(match ticket.wait() {
            Ok(()) => json!({"committed": {"files": files, "names": names}}),
            Err(error) => json!({"undurable": error.to_string()}),
        })
    }

    /// Has the kernel write back what it has of the mount.
    ///
    /// # Errors
    /// Says why not.
    pub fn sync(&self) -> Result<(), String> {
        let (base, _) = self.mount.get().ok_or("it is not mounted yet")?;
        let synced = base.sync();
        synced.map_err(|error| format!("the mount cannot be synced: {error}"))
    }
}

/// The answers of the root of a transaction's view to the other commands: a refusal.
fn no_answers() -> IoctlHandler {
    Arc::new(|request: &IoctlRequest<'_>| refuse(request, "this is the view of a transaction"))
}

/// Refuses every request, for a reason.
///
/// # Errors
/// ENOTTY for an ioctl that is no request.
pub fn refuse(request: &IoctlRequest<'_>, why: &str) -> Result<Vec<u8>, Errno> {
    if request.command != varve_fuse::VARVE_IOC_ASK {
        return Err(Errno(rustix::io::Errno::NOTTY.raw_os_error()));
    }
    let answer = json!({ "refused": why });
    Ok(varve_fuse::answer(&answer.to_string()))
}

/// Sends a line.
///
/// # Errors
/// Errors of the connection.
pub fn say(connection: &mut UnixStream, value: &Value) -> io::Result<()> {
    // If the other side has closed, there is no signal: std ignores SIGPIPE.
    connection.write_all(format!("{value}\n").as_bytes())
}

/// Receives a line; `None` at the end.
///
/// # Errors
/// Errors of the connection; `InvalidData` for bytes that are no JSON.
pub fn hear(lines: &mut impl BufRead) -> io::Result<Option<Value>> {
    let mut line = String::new();
    lines.by_ref().take(LINE_BYTES).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Ok(None);
    }
    serde_json::from_str(&line)
        .map(Some)
        .map_err(io::Error::other)
}
