//! The directory `.snapshots` in the root of a mount: `-o snapdir`.
//!
//! A node in it is a number of 63 bits: [`MARK`], the snapshot's number and the inode's. So a
//! node and its `st_ino` are the same for as long as the snapshot exists, and differ from those
//! of every other snapshot and of the mount itself. The directory has the number 0.
//!
//! A snapshot does not change, so its inodes are not counted for the kernel, and a tree is
//! closed and opened again as needed. The kernel trusts what it has seen within a snapshot, but
//! requests the directory and the names of snapshots each time: a deleted or renamed one is not
//! found any more, and the kernel then drops what it has of it. A listing is cached by the kernel
//! until the directory's time changes, which is therefore set whenever the list differs.
//!
//! The kernel would accept writes into its cache if it did not ask before it opens a file, so
//! such mounts ask.

use super::directories::{Listing, list_with_attributes};
use super::{Adapter, Done, convert};
use crate::errno::Errno;
use crate::protocol::{
    AttrOut, CopyFileRangeIn, EntryOut, LinkIn, LseekIn, LseekOut, MAX_PAYLOAD_BYTES, Opcode,
    OpenIn, ReadIn,
};
use crate::reply::Reply;
use crate::request::Request;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use varve_fs::{
    Attr, Error, FileKind, FileSystem, InodeNo, Layout, SnapshotTree, Timestamp, show_time,
};

/// The name of the directory.
pub const SNAPSHOTS: &str = ".snapshots";

/// The bit that every node in the directory has.
const MARK: u64 = 1 << 62;
/// Bits of an inode's number, below those of the snapshot's.
const INODE_BITS: u32 = 40;
/// Most trees that are open at the same time.
const OPEN_MAX: usize = 8;

const READ_ONLY: Errno = Errno(libc::EROFS);
const OTHER_DEVICE: Errno = Errno(libc::EXDEV);
const STALE: Errno = Errno(libc::ESTALE);

/// A node of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    /// The directory itself.
    Directory,
    /// An inode of a snapshot.
    Within(u32, InodeNo),
}

impl Node {
    /// The node with this number, unless it is one of the mount itself.
    fn of(number: u64) -> Option<Self> {
        let rest = number.checked_sub(MARK)?;
        let snapshot = u32::try_from(rest >> INODE_BITS).ok()?;
        Some(match snapshot {
            0 => Node::Directory,
            _ => Node::Within(snapshot, InodeNo(rest & ((1 << INODE_BITS) - 1))),
        })
    }

    /// # Errors
    /// EOVERFLOW for a snapshot or an inode whose number is too large.
    fn number(self) -> Result<u64, Errno> {
        let Node::Within(snapshot, ino) = self else {
            return Ok(MARK);
        };
        let is_short = u64::from(snapshot) < MARK >> INODE_BITS && ino.0 >> INODE_BITS == 0;
        match is_short {
            true => Ok(MARK | u64::from(snapshot) << INODE_BITS | ino.0),
            false => Err(Errno(libc::EOVERFLOW)),
        }
    }
}

/// True for a node in the directory of snapshots.
pub(super) fn has(node: u64) -> bool {
    Node::of(node).is_some()
}

/// The state of the directory.
pub(super) struct Snapshots<L: Layout> {
    /// Open trees, the one used last behind the others.
    open: Mutex<Vec<(u32, Arc<SnapshotTree<L>>)>>,
    listed: Mutex<Listed>,
}

/// The snapshots as they were listed last.
struct Listed {
    /// Numbers and names, in order.
    names: Vec<(u32, String)>,
    /// When that changed.
    changed: Timestamp,
}

impl<L: Layout> Default for Snapshots<L> {
    fn default() -> Self {
        let listed = Listed {
            names: Vec::new(),
            changed: now(),
        };
        Snapshots {
            open: Mutex::default(),
            listed: Mutex::new(listed),
        }
    }
}

impl<L: Layout> Snapshots<L> {
    /// The names that the directory has now, with the snapshots' numbers, and when that changed.
    /// Of automatic ones with the same time it has the newest.
    fn list(&self, fs: &FileSystem<L>) -> Result<(Vec<(u32, String)>, Timestamp), Errno> {
        let mut names: Vec<(u32, String)> = Vec::new();
        for one in fs.snapshots()? {
            let name = match one.is_automatic() {
                true => show_time(one.taken),
                false => one.name,
            };
            names.retain(|(_, other)| *other != name);
            names.push((one.number, name));
        }
        let mut listed = self.listed.lock();
        if listed.names != names {
            let exists = |number: &u32| names.iter().any(|(other, _)| other == number);
            self.open.lock().retain(|(number, _)| exists(number));
            listed.changed = now();
            listed.names.clone_from(&names);
        }
        Ok((names, listed.changed))
    }

    /// The tree of a snapshot.
    ///
    /// # Errors
    /// ESTALE if it has been deleted.
    fn tree(&self, fs: &Arc<FileSystem<L>>, number: u32) -> Result<Arc<SnapshotTree<L>>, Errno> {
        let mut open = self.open.lock();
        let found = open.iter().position(|(other, _)| *other == number);
        let tree = match found {
            Some(at) => open.remove(at).1,
            None => Arc::new(fs.at(number).map_err(stale)?),
        };
        if open.len() == OPEN_MAX {
            open.remove(0);
        }
        open.push((number, Arc::clone(&tree)));
        Ok(tree)
    }

    fn close(&self, number: u32) {
        self.open.lock().retain(|(other, _)| *other != number);
    }
}

/// The host's time.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    Timestamp {
        seconds: since.as_secs() as i64,
        nanos: since.subsec_nanos(),
    }
}

/// An error of a snapshot's tree.
fn stale(error: Error) -> Errno {
    match error {
        Error::Aborted | Error::NoSuchSnapshot => STALE,
        other => other.into(),
    }
}

impl<L: Layout> Adapter<L> {
    /// Answers a request that concerns the directory of snapshots or a node in it. Nothing for
    /// others.
    pub(super) fn in_snapshots(
        &self,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Option<Done> {
        let snapshots = self.snapshots.as_ref()?;
        match Node::of(request.header.nodeid) {
            None => self
                .at_snapshots(snapshots, opcode, request, reply)
                .transpose(),
            Some(_) if is_change(opcode) => Some(Err(READ_ONLY)),
            Some(Node::Directory) => self.in_directory(snapshots, opcode, request, reply),
            Some(Node::Within(number, ino)) => {
                let tree = match snapshots.tree(&self.fs, number) {
                    Ok(tree) => tree,
                    Err(errno) => return Some(Err(errno)),
                };
                let done = self.in_tree(&tree, (number, ino), opcode, request, reply)?;
                Some(done.map_err(|error| match error.0 {
                    libc::ECANCELED => {
                        snapshots.close(number);
                        STALE
                    }
                    _ => error,
                }))
            }
        }
    }

    /// A request for a node of the mount itself. It may name the directory, or a node in it as
    /// the other file.
    fn at_snapshots(
        &self,
        snapshots: &Snapshots<L>,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Option<()>, Errno> {
        let is_directory =
            |parent, name: &[u8]| parent == InodeNo::ROOT && name == SNAPSHOTS.as_bytes();
        let parent = request.inode();
        match opcode {
            Opcode::Lookup if is_directory(parent, request.arguments().name()?) => {
                self.put_entry(&self.directory(snapshots)?, reply)?;
                Ok(Some(()))
            }
            Opcode::Unlink | Opcode::Rmdir if is_directory(parent, request.arguments().name()?) => {
                Err(READ_ONLY)
            }
            Opcode::Rename | Opcode::Rename2 => {
                let asked = super::names::renamed(opcode, request)?;
                let to = asked.new_parent;
                match is_directory(parent, asked.old) || is_directory(to, asked.new) || has(to.0) {
                    true => Err(READ_ONLY),
                    false => Ok(None),
                }
            }
            Opcode::Link if has(request.arguments().take::<LinkIn>()?.oldnodeid) => {
                Err(OTHER_DEVICE)
            }
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
                let copy: CopyFileRangeIn = request.arguments().take()?;
                match has(copy.nodeid_out) {
                    true => Err(READ_ONLY),
                    false => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// The attributes of the directory.
    fn directory(&self, snapshots: &Snapshots<L>) -> Result<Attr, Errno> {
        let (names, changed) = snapshots.list(&self.fs)?;
        Ok(Attr {
            ino: InodeNo(MARK),
            version: 0,
            kind: FileKind::Directory,
            mode: FileKind::Directory.mode_bits() | 0o555,
            nlink: 2 + names.len() as u32,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            sectors: 0,
            atime: changed,
            mtime: changed,
            ctime: changed,
            btime: changed,
            block_bytes: self.fs.layout().geometry().block_bytes,
        })
    }

    /// Puts the directory, or a snapshot in it, which the kernel requests at each use. The
    /// attributes of the directory may change, those of a snapshot do not.
    fn put_entry(&self, attr: &Attr, reply: &mut Reply) -> Done {
        let is_directory = attr.ino.0 == MARK;
        reply.put(&EntryOut {
            entry_valid: 0,
            attr_valid: if is_directory { 0 } else { self.attr_valid_s },
            ..self.entry_of(attr)
        });
        Ok(())
    }

    /// A request for the directory.
    fn in_directory(
        &self,
        snapshots: &Snapshots<L>,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Option<Done> {
        let mut serve = || match opcode {
            Opcode::Lookup => {
                let name = request.arguments().name()?;
                let (names, _) = snapshots.list(&self.fs)?;
                let found = names.iter().find(|(_, other)| other.as_bytes() == name);
                let number = found.ok_or(Errno::NOT_FOUND)?.0;
                let tree = snapshots.tree(&self.fs, number)?;
                let root = tree.getattr(InodeNo::ROOT).map_err(stale)?;
                self.put_entry(&within(number, root)?, reply)
            }
            Opcode::Getattr => {
                reply.put(&AttrOut {
                    attr: convert::attributes(&self.directory(snapshots)?),
                    ..AttrOut::default()
                });
                Ok(())
            }
            Opcode::Statx if self.birth_times => {
                reply.put(&convert::statx(&self.directory(snapshots)?, 0));
                Ok(())
            }
            Opcode::Readdir | Opcode::Readdirplus => {
                let (names, _) = snapshots.list(&self.fs)?;
                let listing = Listing::of(request, opcode == Opcode::Readdirplus)?;
                // Cookies: 1 and 2, then the snapshots' numbers behind them.
                let links = [(1, InodeNo(MARK), "."), (2, InodeNo::ROOT, "..")];
                let named = names.iter().map(|(number, name)| {
                    let node = Node::Within(*number, InodeNo::ROOT).number();
                    node.map(|node| (u64::from(*number) + 2, InodeNo(node), name.as_str()))
                });
                for entry in links.into_iter().map(Ok).chain(named) {
                    let (cookie, ino, name) = entry?;
                    if cookie > listing.after()
                        && !listing.put(reply, (ino, FileKind::Directory), cookie, name.as_bytes())
                    {
                        break;
                    }
                }
                Ok(())
            }
            Opcode::Getxattr if self.extended_attributes => Err(Errno::NO_DATA),
            Opcode::Listxattr if self.extended_attributes => {
                super::xattrs::put_names(&[], request, reply)
            }
            Opcode::Read | Opcode::Readlink | Opcode::Lseek => Err(Errno::INVALID),
            Opcode::Ioctl => Err(Errno::NOT_A_TTY),
            Opcode::Fsyncdir => Ok(()),
            _ => Err(Errno::NOT_IMPLEMENTED),
        };
        is_answered(opcode).then(&mut serve)
    }

    /// A request for an inode of a snapshot.
    fn in_tree(
        &self,
        tree: &SnapshotTree<L>,
        (number, ino): (u32, InodeNo),
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Option<Done> {
        let attr_of = |ino| within(number, tree.getattr(ino)?);
        let mut serve = || match opcode {
            Opcode::Lookup => {
                let name = request.arguments().name()?;
                match tree.lookup(&self.caller(request), ino, name) {
                    Ok(attr) => reply.put(&self.entry_of(&within(number, attr)?)),
                    Err(Error::NotFound) if self.entry_valid_s > 0 => reply.put(&EntryOut {
                        entry_valid: self.entry_valid_s,
                        ..EntryOut::default()
                    }),
                    Err(error) => return Err(error.into()),
                }
                Ok(())
            }
            Opcode::Getattr => {
                reply.put(&AttrOut {
                    attr_valid: self.attr_valid_s,
                    attr: convert::attributes(&attr_of(ino)?),
                    ..AttrOut::default()
                });
                Ok(())
            }
            Opcode::Statx if self.birth_times => {
                reply.put(&convert::statx(&attr_of(ino)?, self.attr_valid_s));
                Ok(())
            }
            Opcode::Readlink => {
                reply.put_bytes(&tree.readlink(ino)?);
                Ok(())
            }
            Opcode::Open => {
                let flags = request.arguments().take::<OpenIn>()?.flags as i32;
                let reads = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & libc::O_TRUNC == 0;
                match reads {
                    true => reply.put(&self.opens.file(false)),
                    false => return Err(READ_ONLY),
                }
                Ok(())
            }
            Opcode::Read => {
                let read: ReadIn = request.arguments().take()?;
                let size = read.size as usize;
                if size > MAX_PAYLOAD_BYTES {
                    return Err(Errno::INVALID);
                }
                let got = tree.read(ino, read.offset, reply.space(size))?;
                reply.extend(got);
                self.counters.read(got);
                Ok(())
            }
            Opcode::Lseek => {
                let asked: LseekIn = request.arguments().take()?;
                let whence = super::seek::whence(asked.whence)?;
                let offset = tree.seek(ino, asked.offset, whence)?;
                reply.put(&LseekOut { offset });
                Ok(())
            }
            Opcode::Readdir => {
                let listing = Listing::of(request, false)?;
                let mut flaw = Ok(());
                tree.readdir(ino, listing.after(), &mut |entry| match shown(
                    number, ino, entry.name, entry.ino,
                ) {
                    Ok(node) => listing.put(reply, (node, entry.kind), entry.cookie, entry.name),
                    Err(errno) => {
                        flaw = Err(errno);
                        false
                    }
                })?;
                flaw
            }
            Opcode::Readdirplus => {
                let mut entry = |inode, name: &[u8], _: &mut Reply| {
                    let found = match name {
                        b"." | b".." => None,
                        _ => attr_of(inode).ok().map(|attr| self.entry_of(&attr)),
                    };
                    Ok((shown(number, ino, name, inode)?, found))
                };
                list_with_attributes(tree, ino, request, reply, &mut entry)
            }
            Opcode::Getxattr if self.extended_attributes => {
                self.getxattr_of(tree, ino, request, reply)
            }
            Opcode::Listxattr if self.extended_attributes => {
                self.listxattr_of(tree, ino, request, reply)
            }
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => Err(OTHER_DEVICE),
            Opcode::Ioctl => Err(Errno::NOT_A_TTY),
            Opcode::Fsync | Opcode::Fsyncdir => Ok(()),
            _ => Err(Errno::NOT_IMPLEMENTED),
        };
        is_answered(opcode).then(&mut serve)
    }
}

/// Attributes of an inode of a snapshot, with the number that it has in the mount.
fn within(snapshot: u32, attr: Attr) -> Result<Attr, Errno> {
    let number = Node::Within(snapshot, attr.ino).number()?;
    Ok(Attr {
        ino: InodeNo(number),
        ..attr
    })
}

/// The number that a listing of directory `of` shows for a name.
fn shown(snapshot: u32, of: InodeNo, name: &[u8], ino: InodeNo) -> Result<InodeNo, Errno> {
    let node = match name == b".." && of == InodeNo::ROOT {
        true => Node::Directory,
        false => Node::Within(snapshot, ino),
    };
    node.number().map(InodeNo)
}

/// True for a request that would change its node.
fn is_change(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Setattr
            | Opcode::Symlink
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Create
            | Opcode::Tmpfile
            | Opcode::Link
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Write
            | Opcode::Fallocate
            | Opcode::Setxattr
            | Opcode::Removexattr
    )
}

/// True for a request whose answer depends on its node.
fn is_answered(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Lookup
            | Opcode::Getattr
            | Opcode::Statx
            | Opcode::Readlink
            | Opcode::Open
            | Opcode::Read
            | Opcode::Lseek
            | Opcode::Readdir
            | Opcode::Readdirplus
            | Opcode::Getxattr
            | Opcode::Listxattr
            | Opcode::CopyFileRange
            | Opcode::CopyFileRange64
            | Opcode::Ioctl
            | Opcode::Fsync
            | Opcode::Fsyncdir
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_differ_and_are_found_again() {
        let within = |snapshot, ino| Node::Within(snapshot, InodeNo(ino));
        let nodes = [
            Node::Directory,
            within(1, 0),
            within(1, 2),
            within(2, 2),
            within((1 << 22) - 1, (1 << 40) - 1),
        ];
        let numbers = nodes.map(|node| node.number().unwrap());
        assert!(numbers.is_sorted_by(|a, b| a < b));
        assert_eq!(numbers.map(|number| Node::of(number).unwrap()), nodes);
        for own in [1, 2, 1 << 40, MARK - 1] {
            assert_eq!(Node::of(own), None);
        }
        assert!(within(1 << 22, 2).number().is_err());
        assert!(within(1, 1 << 40).number().is_err());
    }
}
