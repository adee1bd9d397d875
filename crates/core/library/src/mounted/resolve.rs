//! Resolves a path to an inode.
//!
//! The file system caches walks of plain names to directories; the rest of a path is
//! walked in place, without copying a component. The target of a symbolic link is walked
//! by recursion from the link's directory, with at most 40 links in all, as in Linux.
//!
//! Each inode that a walk reaches is pinned from the moment its name was found until the
//! operation ends. If this is omitted, another thread can remove the file, its number can
//! be reused, and the operation would reach the wrong file.

use super::Mounted;
use std::ops::Deref;
use varve_fs::{Attr, Error, FileKind, InodeNo, Result};

/// Largest number of links followed in one walk.
const LINKS_MAX: u32 = 40;

/// Treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// The link is followed.
    Follow,
    /// The link itself is the result, unless a slash follows.
    Keep,
}

/// A pin on an inode: its number is not reused while this exists. The root needs no pin.
pub(crate) struct Hold<'m> {
    mounted: &'m Mounted,
    pub ino: InodeNo,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if self.ino != InodeNo::ROOT {
            self.mounted.release(self.ino);
        }
    }
}

/// The inode at the end of a path, pinned.
pub(crate) struct Found<'m> {
    attr: Attr,
    hold: Hold<'m>,
}

impl Found<'_> {
    /// Leaves the pin to the caller, who must release it.
    pub fn keep(self) -> Result<Attr> {
        if self.hold.ino == InodeNo::ROOT {
            self.hold.mounted.retain(InodeNo::ROOT)?;
        }
        std::mem::forget(self.hold);
        Ok(self.attr)
    }
}

impl Found<'_> {
    /// Returns the attributes, including the size, as a transaction may rely on them.
    ///
    /// # Errors
    /// A conflict with another transaction.
    pub fn attr(&self) -> Result<Attr> {
        match self.hold.mounted.is_private() {
            true => self.hold.mounted.getattr(self.attr.ino),
            false => Ok(self.attr),
        }
    }

    /// Checks that the inode is a directory.
    ///
    /// # Errors
    /// `NotDirectory` if it is not.
    pub fn directory(&self) -> Result<()> {
        directory(&self.attr)
    }
}

impl Deref for Found<'_> {
    type Target = Attr;

    fn deref(&self) -> &Attr {
        &self.attr
    }
}

/// Returns true if slashes follow the last name, which then must be a directory.
pub(crate) fn ends_in_slash(path: &[u8]) -> bool {
    path.last() == Some(&b'/')
}

/// Splits off the first component; the rest may begin with slashes.
fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    let start = path.iter().position(|&b| b != b'/').unwrap_or(path.len());
    let path = &path[start..];
    let end = path.iter().position(|&b| b == b'/').unwrap_or(path.len());
    path.split_at(end)
}

/// Splits off the last component and the slashes behind it. `None` if the path has no
/// components or ends in `.` or `..`.
fn split_last(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|&b| b != b'/')? + 1;
    let start = path[..end].iter().rposition(|&b| b == b'/');
    let name = &path[start.map_or(0, |slash| slash + 1)..end];
    if name == b"." || name == b".." {
        return None;
    }
    Some((&path[..start.unwrap_or(0)], name))
}

impl Mounted {
    /// Returns the inode to which `path` leads.
    pub fn resolve(&self, path: &[u8], last: Last) -> Result<Found<'_>> {
        let mut links = 0;
        let found = if let Some((parent, _)) = split_last(path)
            && let Some(parent_hold) = self.enter(parent)?
        {
            self.walk_from(parent_hold, &path[parent.len()..], last, &mut links)?
        } else {
            self.walk(InodeNo::ROOT, path, last, &mut links)?
        };
        self.note(found.ino, path);
        Ok(found)
    }

    /// Returns the directory that contains the last name of `path`, and that name.
    ///
    /// # Errors
    /// `nameless` if the path exists but has no last name: the root, `.`, `..`.
    pub fn resolve_parent<'p>(
        &self,
        path: &'p [u8],
        nameless: Error,
    ) -> Result<(Hold<'_>, &'p [u8])> {
        let Some((parent, name)) = split_last(path) else {
            self.resolve(path, Last::Follow)?;
            return Err(nameless);
        };
        let directory = self.walk_directory(InodeNo::ROOT, parent, &mut 0)?;
        self.note(directory.ino, parent);
        Ok((directory, name))
    }

    /// Returns the directory at `path` from the root if the file system can walk it by
    /// plain names.
    fn enter(&self, path: &[u8]) -> Result<Option<Hold<'_>>> {
        let entered = self.directory_at(path)?;
        Ok(entered.map(|ino| Hold { mounted: self, ino }))
    }

    /// Does the same as [`Self::resolve_parent`], but follows a symbolic link at the end
    /// to the name that it contains, which need not exist. Returns the directory, the
    /// name, and the existing inode.
    pub fn resolve_for_create(
        &self,
        path: &[u8],
    ) -> Result<(Hold<'_>, Vec<u8>, Option<Found<'_>>)> {
        let mut links = 0;
        let mut start = self.root();
        let mut path = path.to_vec();
        loop {
            let Some((parent, name)) = split_last(&path) else {
                self.walk(start.ino, &path, Last::Follow, &mut links)?;
                return Err(Error::IsDirectory);
            };
            let way = parent;
            let parent = self.walk_directory(start.ino, parent, &mut links)?;
            if start.ino == InodeNo::ROOT {
                self.note(parent.ino, way);
            }
            if ends_in_slash(&path) {
                return Err(Error::IsDirectory);
            }
            let found = match self.find(parent.ino, name) {
                Ok(found) => found,
                Err(Error::NotFound) => return Ok((parent, name.to_vec(), None)),
                Err(error) => return Err(error),
            };
            if found.kind != FileKind::Symlink {
                return Ok((parent, name.to_vec(), Some(found)));
            }
            path = self.target(&found, &mut links)?;
            start = parent;
        }
    }

    /// Takes over a pin that the file system has set for the caller.
    pub fn held(&self, attr: Attr) -> Found<'_> {
        if attr.ino == InodeNo::ROOT {
            self.release(InodeNo::ROOT);
        }
        let hold = Hold {
            mounted: self,
            ino: attr.ino,
        };
        Found { attr, hold }
    }

    fn root(&self) -> Hold<'_> {
        Hold {
            mounted: self,
            ino: InodeNo::ROOT,
        }
    }

    /// Adds a pin to a directory that is already pinned.
    fn hold_again(&self, ino: InodeNo) -> Result<Hold<'_>> {
        if ino != InodeNo::ROOT {
            self.retain(ino)?;
        }
        Ok(Hold { mounted: self, ino })
    }

    /// Looks up `name` in a pinned directory.
    pub fn find(&self, directory: InodeNo, name: &[u8]) -> Result<Found<'_>> {
        Ok(self.held(self.lookup_held(directory, name)?))
    }

    fn walk_directory(&self, start: InodeNo, path: &[u8], links: &mut u32) -> Result<Hold<'_>> {
        if split_first(path).0.is_empty() {
            return self.hold_again(start_of(path, start));
        }
        if start_of(path, start) == InodeNo::ROOT
            && let Some(entered) = self.enter(path)?
        {
            return Ok(entered);
        }
        let found = self.walk(start, path, Last::Follow, links)?;
        found.directory()?;
        Ok(found.hold)
    }

    /// Walks `path` from `start`, which must be pinned.
    fn walk(&self, start: InodeNo, path: &[u8], last: Last, links: &mut u32) -> Result<Found<'_>> {
        self.walk_from(self.hold_again(start_of(path, start))?, path, last, links)
    }

    /// Walks `path` from a pinned inode. Leading slashes are ignored.
    fn walk_from<'m>(
        &'m self,
        mut at: Hold<'m>,
        path: &[u8],
        last: Last,
        links: &mut u32,
    ) -> Result<Found<'m>> {
        let mut attr: Option<Attr> = None;
        let mut rest = path;
        loop {
            let (name, after) = split_first(rest);
            if name.is_empty() {
                let attr = match attr {
                    Some(attr) => attr,
                    None => self.getattr(at.ino)?,
                };
                // A slash at the end requires a directory.
                if !rest.is_empty() {
                    directory(&attr)?;
                }
                return Ok(Found { attr, hold: at });
            }
            if let Some(attr) = &attr {
                directory(attr)?;
            }
            match name {
                b"." => {}
                _ => {
                    let mut found = self.find(at.ino, name)?;
                    let follow = last == Last::Follow || !after.is_empty();
                    if found.kind == FileKind::Symlink && follow {
                        let target = self.target(&found, links)?;
                        found = self.walk(at.ino, &target, Last::Follow, links)?;
                    }
                    attr = Some(found.attr);
                    at = found.hold;
                }
            }
            rest = after;
        }
    }

    fn target(&self, link: &Attr, links: &mut u32) -> Result<Vec<u8>> {
        *links += 1;
        if *links > LINKS_MAX {
            return Err(Error::TooManySymlinks);
        }
        let target = self.readlink(link.ino)?;
        match target.is_empty() {
            true => Err(Error::NotFound),
            false => Ok(target),
        }
    }
}

fn start_of(path: &[u8], relative_to: InodeNo) -> InodeNo {
    match path.first() {
        Some(b'/') => InodeNo::ROOT,
        _ => relative_to,
    }
}

fn directory(attr: &Attr) -> Result<()> {
    match attr.kind {
        FileKind::Directory => Ok(()),
        _ => Err(Error::NotDirectory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_split_at_any_number_of_slashes() {
        assert_eq!(split_first(b"//a//b/"), (&b"a"[..], &b"//b/"[..]));
        assert_eq!(split_first(b"a"), (&b"a"[..], &b""[..]));
        assert_eq!(split_first(b"//"), (&b""[..], &b""[..]));
    }

    #[test]
    fn last_name_is_found_before_trailing_slashes() {
        assert_eq!(split_last(b"/a/b//"), Some((&b"/a"[..], &b"b"[..])));
        assert_eq!(split_last(b"a"), Some((&b""[..], &b"a"[..])));
        assert_eq!(split_last(b"/a"), Some((&b""[..], &b"a"[..])));
        assert_eq!(split_last(b"a/.."), None);
        assert_eq!(split_last(b"/"), None);
        assert_eq!(split_last(b""), None);
    }
}
