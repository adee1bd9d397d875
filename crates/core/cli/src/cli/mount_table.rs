//! The host's mount table.

use super::server::{self, Server};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, which descriptors refer to as `mnt_id`.
    pub id: u32,
    /// The directory on which it is mounted.
    pub directory: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// The source of the mount: for a Varve volume its path.
    pub source: PathBuf,
    /// The numbers of its device; the minor one identifies a FUSE connection.
    pub major: u32,
    pub minor: u32,
    /// Options of the mount, such as `rw,noatime`.
    pub options: String,
    /// The part of the file system that is visible there: `/`, or a directory.
    pub part: PathBuf,
}

impl Entry {
    /// True for a Varve mount.
    pub fn is_varve(&self) -> bool {
        self.kind == "fuse.varve"
    }

    /// True if it is mounted with this option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|word| word == option)
    }
}

/// The topmost mount exactly at `directory`, if there is one. The directory is not
/// opened, because a dead server would not answer.
pub fn mount_at(directory: &Path) -> Option<Entry> {
    let directory = std::path::absolute(directory).ok()?;
    let real = resolve_parent(&directory);
    let entries = read();
    let found = entries.iter().rev();
    let mut matching =
        found.filter(|e| e.directory == directory || Some(&e.directory) == real.as_ref());
    matching.next().cloned()
}

/// The present path of a mounted volume: the table has the path by which it was mounted.
pub fn volume_of(entry: &Entry) -> PathBuf {
    let server = Server::of(entry.minor);
    let found = server.and_then(|server| server.image());
    found.unwrap_or_else(|| entry.source.clone())
}

/// The first Varve mount of the volume at `source`.
pub fn mount_of(source: &Path) -> Option<Entry> {
    let source = source.canonicalize().ok()?;
    let servers = server::all();
    let is_of = |entry: &Entry| match servers.get(&entry.minor) {
        Some(server) => server.serves(&source),
        None => entry.source == source,
    };
    let mut mounts = read().into_iter().filter(Entry::is_varve);
    mounts.find(is_of)
}

/// The Varve mount exactly at `directory`.
///
/// # Errors
/// Describes the mount or directory found there instead.
pub fn varve_at(directory: &Path) -> Result<Entry, String> {
    use std::os::unix::fs::MetadataExt;
    let shown = directory.display();
    if let Some(entry) = mount_at(directory) {
        let kind = &entry.kind;
        return match entry.is_varve() {
            true => Ok(entry),
            false => Err(format!(
                "{shown} is a mount of type {kind}, not of a Varve volume"
            )),
        };
    }
    let device = std::fs::metadata(directory).map(|found| found.dev());
    match device.ok().and_then(mount_on) {
        Some(entry) => Err(format!(
            "{shown} is inside of a mounted volume; name the directory that it is mounted on, {}",
            entry.directory.display()
        )),
        None => Err(format!("nothing is mounted on {shown}")),
    }
}

/// Why the server of a mount gave no answer, in words: nothing of ours may be mounted at
/// `directory`.
pub fn no_answer(directory: &Path, error: &impl std::fmt::Display) -> String {
    let shown = directory.display();
    let asked = |_| format!("cannot ask {shown}: {error}");
    varve_at(directory).map_or_else(|why| why, asked)
}

/// The mount of ours, whole, that `path` is on.
///
/// # Errors
/// Says that there is none.
pub fn containing(path: &Path) -> Result<Entry, String> {
    use std::os::unix::fs::MetadataExt;
    let shown = path.display();
    let device = std::fs::metadata(path).map(|found| found.dev());
    let device = device.map_err(|error| format!("cannot look at {shown}: {error}"))?;
    mount_on(device).ok_or_else(|| format!("{shown} is not on a mounted Varve volume"))
}

/// The Varve mount at `directory` that shows a whole volume; `what` names the operation
/// on it.
///
/// # Errors
/// Describes the mount or directory found there instead.
pub fn whole_mount(directory: &Path, what: &str) -> Result<Entry, String> {
    let entry = varve_at(directory)?;
    match Server::of(entry.minor).is_some_and(|server| server.is_of_view) {
        true => Err(format!(
            "{} is seen through a transaction here, and {what} concerns the whole volume: end \
             the transaction, or run the command outside of it",
            directory.display()
        )),
        false => Ok(entry),
    }
}

/// A Varve mount of a whole file system with the device number `device`. It is found also
/// for a path on a bind mount of a part of it.
fn mount_on(device: u64) -> Option<Entry> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    read().into_iter().find(|entry| {
        let whole = entry.part == Path::new("/");
        entry.is_varve() && whole && (entry.major, entry.minor) == (major, minor)
    })
}

/// Another mount of the same file system in this mount namespace.
pub fn also_at(entry: &Entry) -> Option<Entry> {
    let device = (entry.major, entry.minor);
    read().into_iter().find(|e| (e.major, e.minor) == device)
}

/// The mounts below `directory`, from the top down.
pub fn below(directory: &Path) -> Vec<Entry> {
    let mut below = read();
    below.retain(|e| e.directory.starts_with(directory) && e.directory != directory);
    below.sort_by_key(|entry| entry.directory.components().count());
    below
}

/// True if the file system with this device number is mounted writable at any place in
/// this mount namespace.
pub fn is_writable(device: (u32, u32)) -> bool {
    let of_device = |e: &Entry| (e.major, e.minor) == device;
    read()
        .iter()
        .any(|entry| of_device(entry) && entry.has("rw"))
}

/// The path with symbolic links resolved in all but the last component.
fn resolve_parent(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?.canonicalize().ok()?;
    Some(parent.join(path.file_name()?))
}

/// The mounts that a process sees; empty if it may not be examined.
pub fn of_process(pid: i32) -> Vec<Entry> {
    parse_all(&format!("/proc/{pid}/mountinfo"))
}

fn read() -> Vec<Entry> {
    parse_all("/proc/self/mountinfo")
}

fn parse_all(table: &str) -> Vec<Entry> {
    let table = std::fs::read(table).unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(parse).collect()
}

/// Parses one line of mountinfo; see proc(5). Names are bytes and need not be UTF-8.
fn parse(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: &[u8]| std::str::from_utf8(field).ok().map(str::to_owned);
    let id = text(fields.next()?)?.parse().ok()?;
    let device = text(fields.nth(1)?)?;
    let (major, minor) = device.split_once(':')?;
    let (part, directory) = (fields.next()?, fields.next()?);
    let options = text(fields.next()?)?;
    // Optional fields end with a dash.
    fields.find(|field| *field == b"-")?;
    Some(Entry {
        id,
        directory: unescape(directory),
        kind: String::from_utf8_lossy(fields.next()?).into_owned(),
        source: unescape(fields.next()?),
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        options,
        part: unescape(part),
    })
}

/// Decodes blanks and similar characters, which are escaped as three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let code = match (first, after.get(..3)) {
            (b'\\', Some(digits)) => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 8).ok()),
            _ => None,
        };
        bytes.push(code.unwrap_or(first));
        rest = &after[if code.is_some() { 3 } else { 0 }..];
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn lines_are_parsed_and_unescaped() {
        let line = br"36 35 98:17 / /mnt/a\040b rw,noatime shared:1 - fuse.varve /im\134age rw";
        let entry = parse(line).unwrap();
        assert_eq!(entry.id, 36);
        assert_eq!(entry.directory, Path::new("/mnt/a b"));
        assert_eq!(entry.source, Path::new(r"/im\age"));
        assert!(entry.is_varve());
        assert_eq!((entry.major, entry.minor), (98, 17));
        assert_eq!(entry.part, Path::new("/"));
        assert!(entry.has("noatime") && !entry.has("atime"));
        assert_eq!(parse(b"nonsense"), None);
    }

    #[test]
    fn names_are_bytes() {
        let entry = parse(b"1 2 0:9 / /m\xff rw - fuse.varve /i\xfe rw").unwrap();
        assert_eq!(entry.directory.as_os_str().as_bytes(), b"/m\xff");
        assert_eq!(entry.source.as_os_str().as_bytes(), b"/i\xfe");
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(mount_at(Path::new("/")).is_some_and(|entry| !entry.is_varve()));
        assert_eq!(mount_at(Path::new("/no/such/directory")), None);
    }
}
