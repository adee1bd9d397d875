//! Listings.

use super::{Adapter, Done};
use crate::errno::Errno;
use crate::protocol::{Dirent, EntryOut, MAX_PAYLOAD_BYTES, ReadIn};
use crate::reply::Reply;
use crate::request::Request;
use varve_fs::{FileKind, FileSystem, InodeNo, Layout};

/// An entry whose attributes are still to be found.
struct Listed {
    name_end: usize,
    ino: InodeNo,
    kind: FileKind,
    cookie: u64,
}

/// A listing that a request asks for.
pub(super) struct Listing {
    after: u64,
    capacity: usize,
    /// Each name has attributes before it.
    has_attributes: bool,
}

impl Listing {
    /// The listing of a READDIR, or of a READDIRPLUS, which `has_attributes`.
    pub(super) fn of(request: &Request<'_>, has_attributes: bool) -> Result<Self, Errno> {
        let read: ReadIn = request.arguments().take()?;
        if read.size as usize > MAX_PAYLOAD_BYTES {
            return Err(Errno::INVALID);
        }
        Ok(Listing {
            after: read.offset,
            capacity: read.size as usize,
            has_attributes,
        })
    }

    /// The cookie behind which it resumes.
    pub(super) fn after(&self) -> u64 {
        self.after
    }

    fn bytes(&self, name: &[u8]) -> usize {
        let attributes = usize::from(self.has_attributes) * size_of::<EntryOut>();
        attributes + (size_of::<Dirent>() + name.len()).next_multiple_of(8)
    }

    /// Puts a name without attributes. False if it does not fit.
    pub(super) fn put(
        &self,
        reply: &mut Reply,
        (ino, kind): (InodeNo, FileKind),
        cookie: u64,
        name: &[u8],
    ) -> bool {
        let fits = reply.len() + self.bytes(name) <= self.capacity;
        if fits {
            if self.has_attributes {
                // Node 0 gives the kernel the name without attributes.
                reply.put(&EntryOut::default());
            }
            put_dirent(reply, ino, kind, cookie, name);
        }
        fits
    }
}

impl<L: Layout> Adapter<L> {
    pub(super) fn readdir(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let listing = Listing::of(request, false)?;
        self.fs
            .readdir(request.inode(), listing.after, &mut |entry| {
                listing.put(reply, (entry.ino, entry.kind), entry.cookie, entry.name)
            })?;
        Ok(())
    }

    /// A listing with attributes.
    pub(super) fn readdirplus(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let directory = request.inode();
        let mut retained = |ino, name: &[u8], reply: &mut Reply| {
            let is_link_up = name == b"." || name == b"..";
            let found = if is_link_up {
                None
            } else {
                self.note_name(ino, directory, name);
                self.retained_entry(ino, reply)
            };
            Ok((ino, found))
        };
        list_with_attributes(&self.fs, directory, request, reply, &mut retained)
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

/// Gives the number that a listing shows for an inode with this name, and its attributes.
pub(super) type Entry<'a> =
    &'a mut dyn FnMut(InodeNo, &[u8], &mut Reply) -> Result<(InodeNo, Option<EntryOut>), Errno>;

/// A listing of a directory of `tree` with attributes, which `entry` finds after the listing,
/// because that may hold the directory's lock.
pub(super) fn list_with_attributes<L: Layout>(
    tree: &FileSystem<L>,
    directory: InodeNo,
    request: &Request<'_>,
    reply: &mut Reply,
    entry: Entry<'_>,
) -> Done {
    let listing = Listing::of(request, true)?;
    let mut names: Vec<u8> = Vec::new();
    let mut listed: Vec<Listed> = Vec::new();
    let mut used = 0;
    tree.readdir(directory, listing.after, &mut |entry| {
        let bytes = listing.bytes(entry.name);
        if used + bytes > listing.capacity {
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
    if listing.after > 0 {
        // The kernel requests attributes again only if a program looked at some.
        let listed = listed.iter().map(|entry| entry.ino);
        tree.read_inodes_ahead(directory, listing.after, listed);
    }
    let mut name_start = 0;
    for found in listed {
        let name = &names[name_start..found.name_end];
        name_start = found.name_end;
        let (ino, attributes) = entry(found.ino, name, reply)?;
        // Node 0 gives the kernel the name without attributes.
        reply.put(&attributes.unwrap_or_default());
        put_dirent(reply, ino, found.kind, found.cookie, name);
    }
    Ok(())
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
