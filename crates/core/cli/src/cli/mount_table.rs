//! The host's mount table: who is mounted where.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where.
    pub directory: PathBuf,
    /// The file system's type.
    pub kind: String,
    /// What is mounted: for a Varve volume its path.
    pub source: PathBuf,
    /// The numbers of its device; the second is that of a FUSE connection.
    pub major: u32,
    pub minor: u32,
    /// Options of the mount, such as `rw,noatime`.
    pub options: String,
    /// What of the file system is seen there: `/`, or less of it.
    pub part: PathBuf,
}

impl Entry {
    /// True for a mount of ours.
    pub fn is_varve(&self) -> bool {
        self.kind == "fuse.varve"
    }

    /// True if it is mounted with this option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|word| word == option)
    }
}

/// The topmost mount exactly at `directory`, if there is one. The directory is
/// not looked into: a dead server would not answer.
pub fn mount_at(directory: &Path) -> Option<Entry> {
    let directory = std::path::absolute(directory).ok()?;
    let real = resolve_parent(&directory);
    let entries = read();
    let found = entries.iter().rev();
    let mut matching =
        found.filter(|e| e.directory == directory || Some(&e.directory) == real.as_ref());
    matching.next().cloned()
}

/// The first mount of a volume of ours that `source` names.
pub fn mount_of(source: &Path) -> Option<Entry> {
    let source = source.canonicalize().ok()?;
    read()
        .into_iter()
        .find(|entry| entry.is_varve() && entry.source == source)
}

/// A mount of ours, whole, that shows what has the device number `device`; that
/// is also found for a path that lies on a bind mount of a part of it.
pub fn mount_on(device: u64) -> Option<Entry> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    read().into_iter().find(|entry| {
        let whole = entry.part == Path::new("/");
        entry.is_varve() && whole && (entry.major, entry.minor) == (major, minor)
    })
}

/// What is mounted below `directory`, from the top down.
pub fn below(directory: &Path) -> Vec<Entry> {
    let mut below = read();
    below.retain(|e| e.directory.starts_with(directory) && e.directory != directory);
    below.sort_by_key(|entry| entry.directory.components().count());
    below
}

/// The path with symbolic links resolved in all but the last component.
fn resolve_parent(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?.canonicalize().ok()?;
    Some(parent.join(path.file_name()?))
}

fn read() -> Vec<Entry> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

/// One line of mountinfo; see proc(5).
fn parse(line: &str) -> Option<Entry> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (major, minor) = left.next()?.split_once(':')?;
    let (part, directory) = (left.next()?, left.next()?);
    let options = left.next()?.to_owned();
    let mut right = right.split(' ');
    Some(Entry {
        directory: unescape(directory),
        kind: right.next()?.to_owned(),
        source: unescape(right.next()?),
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        options,
        part: unescape(part),
    })
}

/// Blanks and the like stand as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
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

    #[test]
    fn lines_are_parsed_and_unescaped() {
        let line = r"36 35 98:17 / /mnt/a\040b rw,noatime - fuse.varve /im\134age rw";
        let entry = parse(line).unwrap();
        assert_eq!(entry.directory, Path::new("/mnt/a b"));
        assert_eq!(entry.source, Path::new(r"/im\age"));
        assert!(entry.is_varve());
        assert_eq!((entry.major, entry.minor), (98, 17));
        assert_eq!(entry.part, Path::new("/"));
        assert!(entry.has("noatime") && !entry.has("atime"));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(mount_at(Path::new("/")).is_some_and(|entry| !entry.is_varve()));
        assert_eq!(mount_at(Path::new("/no/such/directory")), None);
    }
}
