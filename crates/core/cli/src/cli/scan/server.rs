//! What `varve tar` and `varve cp --unordered` ask of a tree
//! (`../snapshot/server.rs` has the protocol).
//!
//! `{"scan": PATH, "at": NAME or null}` is answered with items `{"part": PATH, "offset":
//! N}`, each followed by its bytes, in the order in which they are stored, and an item
//! `{"entry": PATH, ...}` for each file behind its last part and for each directory behind
//! everything in it. `{"tar": PATH, "at": NAME or null}` is answered with the bytes of a
//! tar stream; an item `{"note": TEXT}` names what it leaves out. Paths are below PATH, as
//! strings, or as arrays of bytes if they are not valid UTF-8.

use super::format::{self, Entry};
use crate::cli::snapshot::{Emit, Part};
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;
use varve_fs::{Attr, Caller, Error, FileKind, FileSystem, Scan, ScanError, ScannedFile, Whence};
use varve_lfs::Lfs;

/// Bytes of content in one part of a tar stream.
const PART_BYTES: usize = 1 << 20;
/// Most extents of a file that is stored as sparse; a file with more is stored whole.
const EXTENTS_MAX: usize = 1 << 16;

/// Name and value of an extended attribute.
type Xattr = (Vec<u8>, Vec<u8>);

/// A tree that is read on behalf of a caller.
pub struct Tree<'a> {
    pub fs: &'a Arc<FileSystem<Lfs>>,
    pub caller: &'a Caller,
}

fn shown(error: ScanError) -> String {
    error.to_string()
}

impl Tree<'_> {
    fn begin(&self, path: &str) -> Result<Scan<Lfs>, String> {
        let scan = self.fs.scan(self.caller, path.as_bytes());
        scan.map_err(|error| format!("{path}: {error}"))
    }

    /// Answers `scan`.
    ///
    /// # Errors
    /// The reason for which it ended early.
    pub fn scan(&self, path: &str, emit: Emit<'_>) -> Result<Value, String> {
        let mut scan = self.begin(path)?;
        let (mut files, mut bytes) = (0_u64, 0_u64);
        while let Some(window) = scan.window().map_err(shown)? {
            for part in &window.parts {
                let mut offset = part.bytes.start;
                while offset < part.bytes.end {
                    let read = window.read(part, offset).map_err(shown)?;
                    if read.is_empty() {
                        break;
                    }
                    let path = text(window.files[part.file].path());
                    emit(Part::Item(json!({"part": path, "offset": offset})))?;
                    emit(Part::Bytes(&read))?;
                    offset += read.len() as u64;
                    bytes += read.len() as u64;
                }
            }
            for file in window.files.iter().filter(|file| file.is_last) {
                let item = self.describe(file.path(), file.attr(), file.link.as_deref())?;
                emit(Part::Item(item))?;
                files += 1;
            }
            for (path, attr) in &window.directories {
                emit(Part::Item(self.describe(path, attr, None)?))?;
            }
        }
        Ok(json!({"files": files, "bytes": bytes}))
    }

    fn describe(&self, path: &[u8], attr: &Attr, link: Option<&[u8]>) -> Result<Value, String> {
        let of_path = |error| format!("{}: {error}", String::from_utf8_lossy(path));
        let target = self.target(attr).map_err(of_path)?;
        let xattrs = self.xattrs(attr).map_err(of_path)?;
        let xattrs = xattrs
            .iter()
            .map(|(name, value)| json!([text(name), value]));
        Ok(json!({
            "entry": text(path),
            "mode": attr.mode,
            "uid": attr.uid,
            "gid": attr.gid,
            "size": attr.size,
            "rdev": attr.rdev,
            "accessed": [attr.atime.seconds, attr.atime.nanos],
            "modified": [attr.mtime.seconds, attr.mtime.nanos],
            "link": link.map(text),
            "target": target.as_deref().map(text),
            "xattrs": xattrs.collect::<Vec<Value>>(),
        }))
    }

    fn target(&self, attr: &Attr) -> Result<Option<Vec<u8>>, Error> {
        let is_link = attr.kind == FileKind::Symlink;
        is_link.then(|| self.fs.readlink(attr.ino)).transpose()
    }

    fn xattrs(&self, attr: &Attr) -> Result<Vec<Xattr>, Error> {
        let mut xattrs = Vec::new();
        for name in self.fs.listxattr(self.caller, attr.ino)? {
            match self.fs.getxattr(self.caller, attr.ino, &name) {
                Ok(value) => xattrs.push((name, value)),
                Err(Error::NoAttribute) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(xattrs)
    }

    /// Answers `tar`. Files are in the order of the places at which most of their content
    /// is stored; directories follow their entries, so that their times are kept.
    ///
    /// # Errors
    /// The reason for which it ended early.
    pub fn tar(&self, path: &str, emit: Emit<'_>) -> Result<Value, String> {
        let mut scan = self.begin(path)?;
        let own_name = path.rsplit('/').next().unwrap_or_default().as_bytes();
        let (mut files, mut bytes) = (0_u64, 0_u64);
        while let Some(window) = scan.window().map_err(shown)? {
            let mut longest = vec![(0, None); window.files.len()];
            for part in &window.parts {
                let length = part.bytes.end - part.bytes.start;
                if length > longest[part.file].0 {
                    longest[part.file] = (length, part.place);
                }
            }
            let mut order: Vec<usize> = (0..window.files.len()).collect();
            // A link follows the file that it names.
            order.sort_by_key(|file| (window.files[*file].link.is_some(), longest[*file].1));
            let begun = order.into_iter().map(|file| &window.files[file]);
            for file in begun.filter(|file| file.is_first) {
                bytes += self.file(file, own_name, emit)?;
                files += 1;
            }
            for (path, attr) in &window.directories {
                let name = [path, &b"/"[..]].concat();
                let name = if path.is_empty() { b"./" } else { &name[..] };
                let header = self.entry(name, attr).map_err(|error| of(path, &error))?;
                emit(Part::Bytes(&format::headers(&header)))?;
            }
        }
        emit(Part::Bytes(&format::END))?;
        Ok(json!({"files": files, "bytes": bytes}))
    }

    fn entry<'a>(&self, path: &'a [u8], attr: &'a Attr) -> Result<Entry<'a>, Error> {
        Ok(Entry {
            path,
            attr,
            link: None,
            target: self.target(attr)?,
            xattrs: self.xattrs(attr)?,
            extents: None,
        })
    }

    /// Emits one file, with its content; returns how many bytes that has.
    fn file(
        &self,
        file: &ScannedFile<Lfs>,
        own_name: &[u8],
        emit: Emit<'_>,
    ) -> Result<u64, String> {
        let attr = file.attr();
        let path = match file.path().is_empty() {
            true => own_name,
            false => file.path(),
        };
        if attr.kind == FileKind::Socket {
            let note = format!(
                "{}: a tar stream has no sockets",
                String::from_utf8_lossy(path)
            );
            return emit(Part::Item(json!({ "note": note }))).map(|()| 0);
        }
        let of_path = |error| of(path, &error);
        let mut entry = self.entry(path, attr).map_err(of_path)?;
        entry.link = file.link.as_deref();
        if attr.kind != FileKind::Regular || entry.link.is_some() {
            emit(Part::Bytes(&format::headers(&entry)))?;
            return Ok(0);
        }
        entry.extents = self.extents(attr).map_err(of_path)?;
        emit(Part::Bytes(&format::headers(&entry)))?;
        let whole = 0..attr.size;
        let whole = std::slice::from_ref(&whole);
        let extents = entry.extents.as_deref().unwrap_or(whole);
        let mut written = 0;
        for extent in extents {
            let mut offset = extent.start;
            while offset < extent.end {
                let length = (extent.end - offset).min(PART_BYTES as u64);
                let mut buffer = vec![0; length as usize];
                // A file that was truncated meanwhile has zeros there.
                self.fs
                    .read(attr.ino, offset, &mut buffer)
                    .map_err(of_path)?;
                emit(Part::Bytes(&buffer))?;
                offset += length;
                written += length;
            }
        }
        emit(Part::Bytes(format::padding(written)))?;
        Ok(written)
    }

    /// The parts of a file that are not holes; none if it has no holes.
    fn extents(&self, attr: &Attr) -> Result<Option<Vec<Range<u64>>>, Error> {
        if attr.sectors * 512 >= attr.size {
            return Ok(None);
        }
        let mut extents = Vec::new();
        let mut at = 0;
        while extents.len() < EXTENTS_MAX {
            let start = match self.fs.seek(attr.ino, at, Whence::Data) {
                Ok(start) if start < attr.size => start,
                Ok(_) | Err(Error::NoData) => {
                    let is_whole = extents == std::slice::from_ref(&(0..attr.size));
                    return Ok((!is_whole && attr.size > 0).then_some(extents));
                }
                Err(error) => return Err(error),
            };
            at = self.fs.seek(attr.ino, start, Whence::Hole)?.min(attr.size);
            extents.push(start..at);
            if at == attr.size {
                let is_whole = extents == std::slice::from_ref(&(0..attr.size));
                return Ok((!is_whole).then_some(extents));
            }
        }
        Ok(None)
    }
}

fn of(path: &[u8], error: &Error) -> String {
    format!("{}: {error}", String::from_utf8_lossy(path))
}

/// Bytes as JSON.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.into(),
    }
}
