//! Headers of a tar stream, of POSIX with the extensions of GNU tar: any bytes in names, names and
//! targets of any length (types `L` and `K`), and an extended header of POSIX (type `x`)
//! for fractions of seconds, extended attributes and the map of a sparse file
//! (format 1.0).

use std::ops::Range;
use varve_fs::{Attr, FileKind};

/// Bytes of a block.
const BLOCK: usize = 512;
/// Bytes of a name, or target, in a header.
const NAME: usize = 100;

/// The end of a stream.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// A file or directory in a stream.
pub struct Entry<'a> {
    pub path: &'a [u8],
    pub attr: &'a Attr,
    /// An earlier path in the stream of the same file.
    pub link: Option<&'a [u8]>,
    /// The target of a symbolic link.
    pub target: Option<Vec<u8>>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The parts of a sparse file that are in the stream.
    pub extents: Option<Vec<Range<u64>>>,
}

/// The zeros behind content of this length.
pub fn padding(bytes: u64) -> &'static [u8] {
    &END[..(bytes.wrapping_neg() % BLOCK as u64) as usize]
}

/// All bytes of an entry before its content.
pub fn headers(entry: &Entry<'_>) -> Vec<u8> {
    let attr = entry.attr;
    let map = entry
        .extents
        .as_deref()
        .map(|extents| sparse_map(extents, attr.size));
    let mut bytes = Vec::new();
    let records = records(entry);
    if !records.is_empty() {
        let header = Header {
            name: b"././@PaxHeader",
            kind: b'x',
            size: records.len() as u64,
            ..Header::default()
        };
        header.write(&mut bytes);
        append(&mut bytes, &records);
    }
    let link = entry.link.or(entry.target.as_deref()).unwrap_or_default();
    for (kind, name) in [(b'K', link), (b'L', entry.path)] {
        if name.len() > NAME {
            let header = Header {
                name: b"././@LongLink",
                kind,
                size: name.len() as u64 + 1,
                ..Header::default()
            };
            header.write(&mut bytes);
            append(&mut bytes, &[name, &[0]].concat());
        }
    }
    let kind = match attr.kind {
        _ if entry.link.is_some() => b'1',
        FileKind::Regular | FileKind::Socket => b'0',
        FileKind::Symlink => b'2',
        FileKind::CharDevice => b'3',
        FileKind::BlockDevice => b'4',
        FileKind::Directory => b'5',
        FileKind::Fifo => b'6',
    };
    let size = match (&entry.extents, &map) {
        _ if kind != b'0' => 0,
        (Some(extents), Some(map)) => {
            let stored: u64 = extents.iter().map(|part| part.end - part.start).sum();
            map.len() as u64 + stored
        }
        _ => attr.size,
    };
    let header = Header {
        name: entry.path,
        link,
        kind,
        size,
        mode: attr.mode & 0o7777,
        owner: (attr.uid, attr.gid),
        modified: attr.mtime.seconds,
        device: (rustix::fs::major(attr.rdev), rustix::fs::minor(attr.rdev)),
    };
    header.write(&mut bytes);
    bytes.extend(map.unwrap_or_default());
    bytes
}

/// The records of the extended header.
fn records(entry: &Entry<'_>) -> Vec<u8> {
    let mut records = Vec::new();
    let time = entry.attr.mtime;
    if time.nanos != 0 && time.seconds >= 0 {
        let text = format!("{}.{:09}", time.seconds, time.nanos);
        record(&mut records, b"mtime", text.as_bytes());
    }
    for (name, value) in entry.xattrs.iter().filter(|_| entry.link.is_none()) {
        record(&mut records, &[b"SCHILY.xattr.", &name[..]].concat(), value);
    }
    if entry.extents.is_some() {
        record(&mut records, b"GNU.sparse.major", b"1");
        record(&mut records, b"GNU.sparse.minor", b"0");
        record(&mut records, b"GNU.sparse.name", entry.path);
        let size = entry.attr.size.to_string();
        record(&mut records, b"GNU.sparse.realsize", size.as_bytes());
    }
    records
}

/// Adds a record, which begins with its own length.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(length.to_string().as_bytes());
    for part in [b" ", key, b"=", value, b"\n"] {
        records.extend_from_slice(part);
    }
}

/// The map of a sparse file; its last entry is the end of the file.
fn sparse_map(extents: &[Range<u64>], size: u64) -> Vec<u8> {
    let mut map = Vec::new();
    let all = extents.iter().cloned().chain(std::iter::once(size..size));
    let mut text = format!("{}\n", extents.len() + 1);
    for part in all {
        text += &format!("{}\n{}\n", part.start, part.end - part.start);
    }
    append(&mut map, text.as_bytes());
    map
}

/// Adds content and its padding.
fn append(to: &mut Vec<u8>, content: &[u8]) {
    to.extend_from_slice(content);
    to.extend_from_slice(padding(content.len() as u64));
}

#[derive(Default)]
struct Header<'a> {
    name: &'a [u8],
    link: &'a [u8],
    kind: u8,
    size: u64,
    mode: u32,
    owner: (u32, u32),
    modified: i64,
    device: (u32, u32),
}

impl Header<'_> {
    fn write(&self, to: &mut Vec<u8>) {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(NAME)]);
        put(100, &number::<8>(self.mode.into()));
        put(108, &number::<8>(self.owner.0.into()));
        put(116, &number::<8>(self.owner.1.into()));
        put(124, &number::<12>(self.size as i64));
        put(136, &number::<12>(self.modified));
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(NAME)]);
        put(257, b"ustar\x0000");
        put(329, &number::<8>(self.device.0.into()));
        put(337, &number::<8>(self.device.1.into()));
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        to.extend_from_slice(&block);
    }
}

/// A number in octal digits and a zero, or, if it does not fit, in binary.
fn number<const N: usize>(value: i64) -> [u8; N] {
    let digits = N - 1;
    let mut bytes = [0; N];
    if value >= 0 && value.checked_ilog2().unwrap_or(0) < 3 * digits as u32 {
        bytes[..digits].copy_from_slice(format!("{value:0digits$o}").as_bytes());
        return bytes;
    }
    let all = value.to_be_bytes();
    let sign = if value < 0 { 0xff } else { 0 };
    bytes.fill(sign);
    let from = N.saturating_sub(all.len());
    bytes[from..].copy_from_slice(&all[all.len() - (N - from)..]);
    bytes[0] |= 0x80;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_binary() {
        assert_eq!(number::<8>(0o644), *b"0000644\0");
        assert_eq!(number::<8>(0o777_7777), *b"7777777\0");
        assert_eq!(number::<8>(0o1000_0000), [0x80, 0, 0, 0, 0, 0x20, 0, 0]);
        let large = number::<12>(1 << 40);
        assert_eq!(large, [0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(number::<12>(-1), [0xff; 12]);
    }

    #[test]
    fn a_record_counts_its_own_length() {
        let mut records = Vec::new();
        record(&mut records, b"a", b"b");
        record(&mut records, b"k", &[b'v'; 94]);
        assert!(records.starts_with(b"6 a=b\n101 k="), "{records:?}");
        assert_eq!(records.len(), 107);
    }
}
