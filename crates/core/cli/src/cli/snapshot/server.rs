//! What the commands about snapshots ask, and the answers: of the server of a mount, or of
//! a volume that the command has opened itself.
//!
//! Over the ioctl of the other commands: `{"snapshots": {"socket": true}}`; the answer is
//! `{"socket": "..."}`, the abstract name of a socket. There, one connection a question,
//! a line of JSON. Lines `{"item": ...}` follow, and lines `{"bytes": N}` with so many
//! bytes behind them; at last `{"done": ...}` or `{"refused": "..."}`.
//!
//! | question | items | done |
//! |---|---|---|
//! | `{"list": true}` | snapshots | |
//! | `{"create": NAME}` | | the snapshot |
//! | `{"delete": [NAME, ...]}` | | |
//! | `{"rename": [NAME, NEW]}` | | |
//! | `{"show": NAME}` | | the snapshot and its `statfs` |
//! | `{"keep": {"hourly": 24, "daily": 7, "weekly": 4}}`, or `{}` to ask | | the schedule |
//! | `{"diff": [NAME, NAME or null]}` | changes | |
//! | `{"removed": PATH}` | names | |
//! | `{"versions": PATH}` | versions | |
//! | `{"content": PATH, "at": NAME}` | bytes | |
//! | `{"archive": ...}` | `../archive/source.rs` | the manifest |
//! | `{"scan": PATH, "at": NAME or null}`, `"tar"` | `../scan/server.rs` | counts |
//! | `{"send": NAME, "since": NAME or null, "resume": ITEM}` | bytes | what was sent |
//! | `{"restore": PATH, "at": NAME or null}` | | what was done; null is the newest with it |

use crate::cli::scan::server::Tree;
use crate::cli::size;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use varve_fs::{
    Attr, Caller, Change, ChangeKind, Error, FileKind, FileSystem, InodeNo, Schedule, Timestamp,
    Transaction, TransactionOptions, VolumeSnapshot, show_time,
};
use varve_lfs::Lfs;

/// Bytes of content in one part.
const PART_BYTES: usize = 1 << 20;

/// A part of an answer.
pub enum Part<'a> {
    Item(Value),
    Bytes(&'a [u8]),
}

/// Takes the parts of an answer. Its error ends the answer.
pub type Emit<'a> = &'a mut dyn FnMut(Part<'_>) -> Result<(), String>;

/// A directory, a name in it, and the inode that it leads to.
pub type Named = (InodeNo, Vec<u8>, InodeNo);

/// The volume that is asked.
pub struct Asked<'a> {
    pub fs: &'a Arc<FileSystem<Lfs>>,
    /// On whose behalf.
    pub caller: Caller,
    /// Commits a restoration that looked at these names.
    pub commit: &'a dyn Fn(Transaction<Lfs>, Vec<Named>) -> Result<(), String>,
}

/// Writes bytes as parts of an answer.
struct Parts<'a>(Emit<'a>);

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(Part::Bytes(bytes)).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn told(error: Error) -> String {
    error.to_string()
}

/// A time as people and scripts read it, in UTC.
fn shown(time: Timestamp) -> String {
    show_time(time)[1..].to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Asked<'_> {
    /// Answers a question.
    ///
    /// # Errors
    /// Says why it is refused.
    pub fn answer(&self, question: &Value, emit: Emit<'_>) -> Result<Value, String> {
        let word = |name: &str| question[name].as_str();
        let fs = self.fs;
        if question["list"] == true {
            let bytes = fs.snapshot_bytes().map_err(told)?;
            for snapshot in fs.snapshots().map_err(told)? {
                let own = bytes.iter().find(|(number, _)| *number == snapshot.number);
                let mut item = describe(&snapshot);
                item["bytes"] = own.map(|(_, bytes)| *bytes).into();
                emit(Part::Item(item))?;
            }
            return Ok(Value::Null);
        }
        if let Some(name) = word("create") {
            let created = fs.create_snapshot(name);
            return Ok(describe(&created.map_err(|error| self.refused(&error))?));
        }
        if let Some(names) = question["delete"].as_array() {
            let named = names.iter().map(|name| self.named(name));
            let numbers: Vec<u32> = named
                .map(|found| found.map(|snapshot| snapshot.number))
                .collect::<Result<_, _>>()?;
            fs.delete_snapshots(&numbers).map_err(told)?;
            return Ok(Value::Null);
        }
        if let Some([name, Value::String(new)]) = question["rename"].as_array().map(|all| &all[..])
        {
            let number = self.named(name)?.number;
            fs.rename_snapshot(number, new).map_err(told)?;
            return Ok(Value::Null);
        }
        if let Some(name) = question.get("show") {
            return self.show(&self.named(name)?);
        }
        if let Some(wanted) = question["keep"].as_object() {
            return self.keep(wanted);
        }
        if let Some([from, to]) = question["diff"].as_array().map(|all| &all[..]) {
            let from = self.named(from)?.number;
            let to = match to {
                Value::Null => None,
                name => Some(self.named(name)?.number),
            };
            for change in fs.diff(from, to).map_err(told)? {
                emit(Part::Item(describe_change(&change)))?;
            }
            return Ok(Value::Null);
        }
        if let Some(path) = word("removed") {
            let names = fs.removed_names(&self.caller, path.as_bytes());
            for removed in names.map_err(told)? {
                let mut item = describe_file(&removed.attr);
                item["name"] = text(&removed.name).into();
                item["snapshot"] = describe(&removed.snapshot);
                emit(Part::Item(item))?;
            }
            return Ok(Value::Null);
        }
        if let Some(path) = word("versions") {
            let versions = fs.versions(&self.caller, path.as_bytes()).map_err(told)?;
            for version in versions {
                let mut item = describe_file(&version.attr);
                item["snapshot"] = version.snapshot.as_ref().map(describe).into();
                emit(Part::Item(item))?;
            }
            return Ok(Value::Null);
        }
        if let Some(path) = word("content") {
            return self.content(path.as_bytes(), &question["at"], emit);
        }
        if let Some(name) = word("send") {
            // The stream has every file, whatever its permissions are.
            if self.caller.uid != 0 {
                return Err("only root may send a volume that is mounted".to_owned());
            }
            let first = question["resume"].as_u64().unwrap_or(0);
            let (since, origin) = (word("since"), fs.layout().volume_tag());
            let mut parts = BufWriter::with_capacity(PART_BYTES, Parts(emit));
            let sent = fs.send(origin, name, since, first, &mut parts, &mut |_| {});
            let sent = sent.map_err(|error| error.to_string())?;
            parts.flush().map_err(|error| error.to_string())?;
            return Ok(json!({"items": sent.items, "bytes": sent.bytes}));
        }
        if let Some(path) = word("restore") {
            return self.restore(path.as_bytes(), &question["at"]);
        }
        if let Some(asked) = question.get("archive") {
            return crate::cli::archive::source::answer(self.fs, asked, emit);
        }
        if let Some(path) = word("scan") {
            return self.read_tree(&question["at"], |tree| tree.scan(path, emit));
        }
        if let Some(path) = word("tar") {
            return self.read_tree(&question["at"], |tree| tree.tar(path, emit));
        }
        Err("the server does not know this question: it is of another version".to_owned())
    }

    /// An error of taking a snapshot. For lack of space it says what can be deleted.
    fn refused(&self, error: &Error) -> String {
        let Error::NoSpace = error else {
            return error.to_string();
        };
        let advice = || {
            let bytes = self.fs.snapshot_bytes().ok()?;
            let (number, bytes) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
            let all = self.fs.snapshots().ok()?;
            let most = all.iter().find(|snapshot| snapshot.number == number)?;
            let (name, bytes) = (title(most), size::show(bytes));
            Some(format!("delete files, or `{name}`, which frees {bytes}"))
        };
        let advice = advice().unwrap_or_else(|| "delete files".to_owned());
        format!("no space for the changes that a snapshot may have to list; {advice}")
    }

    fn named(&self, name: &Value) -> Result<VolumeSnapshot, String> {
        let name = name.as_str().unwrap_or_default();
        let found = self.fs.snapshot_named(name);
        found.map_err(|error| format!("`{name}`: {error}"))
    }

    fn show(&self, snapshot: &VolumeSnapshot) -> Result<Value, String> {
        let bytes = self.fs.snapshot_bytes().map_err(told)?;
        let own = bytes.iter().find(|(number, _)| *number == snapshot.number);
        let changes = self.fs.diff(snapshot.number, None).map_err(told)?;
        let mut shown = describe(snapshot);
        shown["bytes"] = own.map(|(_, bytes)| *bytes).into();
        shown["changes"] = changes.len().into();
        shown["changed_bytes"] = changes.iter().map(Change::bytes).sum::<u64>().into();
        Ok(shown)
    }

    fn keep(&self, wanted: &serde_json::Map<String, Value>) -> Result<Value, String> {
        if !wanted.is_empty() {
            let count = |name: &str| {
                let count = wanted.get(name).and_then(Value::as_u64).unwrap_or(0);
                u16::try_from(count).map_err(|_| format!("{name} is at most {}", u16::MAX))
            };
            let schedule = Schedule {
                hourly: count("hourly")?,
                daily: count("daily")?,
                weekly: count("weekly")?,
            };
            self.fs.set_snapshot_schedule(schedule).map_err(told)?;
        }
        let schedule = self.fs.snapshot_schedule().map_err(told)?;
        Ok(json!({
            "hourly": schedule.hourly,
            "daily": schedule.daily,
            "weekly": schedule.weekly,
        }))
    }

    fn content(&self, path: &[u8], at: &Value, emit: Emit<'_>) -> Result<Value, String> {
        let tree = self.fs.at(self.named(at)?.number).map_err(told)?;
        let attr = tree.lookup_path(&self.caller, path).map_err(told)?;
        tree.access(&self.caller, attr.ino, 4).map_err(told)?;
        let mut buffer = vec![0; PART_BYTES];
        let mut offset = 0;
        loop {
            let read = tree.read(attr.ino, offset, &mut buffer).map_err(told)?;
            if read == 0 {
                return Ok(json!({ "bytes": offset }));
            }
            emit(Part::Bytes(&buffer[..read]))?;
            offset += read as u64;
        }
    }

    /// Reads a tree as a snapshot has it, or as it is.
    fn read_tree(
        &self,
        at: &Value,
        read: impl FnOnce(&Tree<'_>) -> Result<Value, String>,
    ) -> Result<Value, String> {
        let at = match at {
            Value::Null => None,
            name => Some(self.fs.at(self.named(name)?.number).map_err(told)?),
        };
        read(&Tree {
            fs: at.as_ref().map_or(self.fs, |at| at.tree()),
            caller: &self.caller,
        })
    }

    fn restore(&self, path: &[u8], at: &Value) -> Result<Value, String> {
        let (fs, caller) = (self.fs, &self.caller);
        let snapshot = match at {
            Value::Null => fs.newest_with(caller, path).map_err(|error| match error {
                Error::NotFound => "no snapshot has this path".to_owned(),
                error => error.to_string(),
            })?,
            name => self.named(name)?,
        };
        let is_there = fs.lookup_path(caller, path).is_ok();
        let before = is_there.then(|| fs.create_snapshot("").map_err(told));
        let before = before.transpose()?;
        let transaction = fs.begin_transaction(&TransactionOptions::default());
        let transaction = transaction.map_err(told)?;
        let mut names: Vec<Named> = Vec::new();
        let done = {
            let from = transaction.snapshot(snapshot.number).map_err(told)?;
            let mut note = |parent, name: &[u8], ino| names.push((parent, name.to_vec(), ino));
            let done = transaction.restore_noting(caller, &from, path, &mut note);
            done.map_err(|error| match error {
                Error::NotFound => format!("the snapshot {} has no such path", title(&snapshot)),
                error => error.to_string(),
            })?
        };
        (self.commit)(transaction, names)?;
        Ok(json!({
            "snapshot": describe(&snapshot),
            "before": before.as_ref().map(describe),
            "restored": done.restored,
            "removed": done.removed,
            "bytes": done.bytes,
        }))
    }
}

/// By what a user can name it.
fn title(snapshot: &VolumeSnapshot) -> String {
    match snapshot.is_automatic() {
        true => show_time(snapshot.taken),
        false => snapshot.name.clone(),
    }
}

fn describe(snapshot: &VolumeSnapshot) -> Value {
    json!({
        "number": snapshot.number,
        "name": title(snapshot),
        "automatic": snapshot.is_automatic(),
        "taken": shown(snapshot.taken),
    })
}

fn describe_kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice | FileKind::BlockDevice => "device",
    }
}

fn describe_file(attr: &Attr) -> Value {
    json!({
        "type": describe_kind(attr.kind),
        "bytes": attr.size,
        "modified": shown(attr.mtime),
    })
}

fn describe_change(change: &Change) -> Value {
    let kind = match change.kind {
        ChangeKind::Created => "created",
        ChangeKind::Removed => "removed",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Modified => "modified",
        ChangeKind::Attributes => "attributes",
    };
    let ranges = change
        .ranges
        .iter()
        .map(|part| json!([part.start, part.end]));
    json!({
        "change": kind,
        "path": text(&change.path),
        "from": change.from.as_deref().map(text),
        "type": describe_kind(change.file),
        "bytes": change.bytes(),
        "ranges": ranges.collect::<Vec<Value>>(),
    })
}
