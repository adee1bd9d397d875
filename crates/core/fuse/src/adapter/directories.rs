//! Listings.

use super::{Adapter, Done};
use crate::errno::Errno;
use crate::protocol::{Dirent, EntryOut, MAX_PAYLOAD_BYTES, ReadIn};
use crate::reply::Reply;
use crate::request::Request;
use varve_fs::{FileKind, InodeNo, Layout};

/// An entry whose attributes are still to be found.
struct Listed {
    name_end: usize,
    ino: InodeNo,
    kind: FileKind,
    cookie: u64,
}

impl<L: Layout> Adapter<L> {
    pub(super) fn readdir(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let (after, capacity) = range(request)?;
        self.fs.readdir(request.inode(), after, &mut |entry| {
            if reply.len() + dirent_bytes(entry.name) > capacity {
                return false;
            }
            put_dirent(reply, entry.ino, entry.kind, entry.cookie, entry.name);
            true
        })?;
        Ok(())
    }

    /// A listing with attributes. They are found after the listing, which may
    /// hold the directory's lock.
    pub(super) fn readdirplus(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let (after, capacity) = range(request)?;
        let mut names: Vec<u8> = Vec::new();
        let mut listed: Vec<Listed> = Vec::new();
        let mut used = 0;
        self.fs.readdir(request.inode(), after, &mut |entry| {
            let bytes = size_of::<EntryOut>() + dirent_bytes(entry.name);
            if used + bytes > capacity {
                return false;
            }
            used += bytes;
            names.extend_from_slice(entry.name);
            let (ino, kind, cookie) = (entry.ino, entry.kind, entry.cookie);
            listed.push(Listed {
                name_end: names.len(),
                ino,
                kind,
                cookie,
            });
            true
        })?;
        if after > 0 {
            // The kernel goes on asking for attributes only if somebody looked at some.
            let listed = listed.iter().map(|entry| entry.ino);
            self.fs.read_inodes_ahead(request.inode(), after, listed);
        }
        let mut name_start = 0;
        for entry in listed {
            let name = &names[name_start..entry.name_end];
            name_start = entry.name_end;
            let is_link_up = name == b"." || name == b"..";
            let found = if is_link_up {
                None
            } else {
                self.note_name(entry.ino, request.inode(), name);
                self.retained_entry(entry.ino, reply)
            };
            // Node 0 gives the kernel the name without attributes.
            reply.put(&found.unwrap_or_default());
            put_dirent(reply, entry.ino, entry.kind, entry.cookie, name);
        }
        Ok(())
    }

    /// Retains `ino` for the kernel; nothing if it cannot be read.
    fn retained_entry(&self, ino: InodeNo, reply: &mut Reply) -> Option<EntryOut> {
        self.fs.retain(ino).ok()?;
        self.direct.note_asked(ino);
        match self.fs.getattr(ino) {
            Ok(attr) => {
                reply.retain(ino);
                Some(self.entry_of(&attr))
            }
            Err(_) => {
                self.fs.release(ino, 1);
                None
            }
        }
    }
}

/// Where a listing resumes, and how many bytes it may fill.
fn range(request: &Request<'_>) -> Result<(u64, usize), Errno> {
    let read: ReadIn = request.arguments().take()?;
    if read.size as usize > MAX_PAYLOAD_BYTES {
        return Err(Errno::INVALID);
    }
    Ok((read.offset, read.size as usize))
}

fn dirent_bytes(name: &[u8]) -> usize {
    (size_of::<Dirent>() + name.len()).next_multiple_of(8)
}

fn put_dirent(reply: &mut Reply, ino: InodeNo, kind: FileKind, cookie: u64, name: &[u8]) {
    reply.put(&Dirent {
        ino: ino.0,
        off: cookie,
        namelen: name.len() as u32,
        kind: kind as u32,
    });
    reply.put_bytes(name);
    reply.pad();
}
