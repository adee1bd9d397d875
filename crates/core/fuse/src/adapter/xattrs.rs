//! Extended attributes.
//!
//! Access lists are attributes whose names the kernel knows. They are shown
//! and taken only while they are in force, as a list that is not checked
//! would promise what nobody keeps.

use super::{Adapter, Done};
use crate::errno::Errno;
use crate::protocol::{
    GetxattrIn, GetxattrOut, SETXATTR_ACL_KILL_SGID, SetxattrExtIn, SetxattrIn, capability,
};
use crate::reply::Reply;
use crate::request::{Arguments, Request};
use varve_fs::{FileSystem, InodeNo, Layout, SetAttr};

/// How the names of access lists begin.
const ACL: &[u8] = b"system.posix_acl_";

impl<L: Layout> Adapter<L> {
    pub(super) fn getxattr(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        self.getxattr_of(&self.fs, request.inode(), request, reply)
    }

    /// GETXATTR of an inode of `tree`.
    pub(super) fn getxattr_of(
        &self,
        tree: &FileSystem<L>,
        ino: InodeNo,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Done {
        let mut arguments = request.arguments();
        let get: GetxattrIn = arguments.take()?;
        let name = self.attribute(&mut arguments)?;
        let value = tree.getxattr(&self.asker(request), ino, name)?;
        sized(&value, get.size, reply)
    }

    pub(super) fn setxattr(&self, request: &Request<'_>) -> Done {
        let mut arguments = request.arguments();
        let set: SetxattrIn = arguments.take()?;
        let mut extended = SetxattrExtIn::default();
        if self.has(capability::SETXATTR_EXT) {
            extended = arguments.take()?;
        }
        let name = self.attribute(&mut arguments)?;
        let value = arguments.bytes(set.size as usize)?;
        let has = |flag: i32| set.flags & flag as u32 != 0;
        let (create, replace) = (has(libc::XATTR_CREATE), has(libc::XATTR_REPLACE));
        let (caller, ino) = (self.asker(request), request.inode());
        self.fs
            .setxattr(&caller, ino, name, value, create, replace)?;
        if extended.setxattr_flags & SETXATTR_ACL_KILL_SGID != 0 {
            let mode = self.fs.getattr(ino)?.mode & 0o7777 & !libc::S_ISGID;
            let set = SetAttr {
                mode: Some(mode),
                ..SetAttr::default()
            };
            self.fs.setattr(&caller, ino, &set)?;
        }
        Ok(())
    }

    pub(super) fn listxattr(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        self.listxattr_of(&self.fs, request.inode(), request, reply)
    }

    /// LISTXATTR of an inode of `tree`.
    pub(super) fn listxattr_of(
        &self,
        tree: &FileSystem<L>,
        ino: InodeNo,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Done {
        let mut names = Vec::new();
        for name in tree.listxattr(&self.asker(request), ino)? {
            if self.is_shown(&name) {
                names.extend_from_slice(&name);
                names.push(0);
            }
        }
        put_names(&names, request, reply)
    }

    pub(super) fn removexattr(&self, request: &Request<'_>) -> Done {
        let name = self.attribute(&mut request.arguments())?;
        let (caller, ino) = (self.asker(request), request.inode());
        Ok(self.fs.removexattr(&caller, ino, name)?)
    }

    /// The next string, as the name of an attribute.
    fn attribute<'a>(&self, arguments: &mut Arguments<'a>) -> Result<&'a [u8], Errno> {
        let name = arguments.string()?;
        if self.is_shown(name) {
            Ok(name)
        } else {
            Err(Errno::NOT_SUPPORTED)
        }
    }

    fn is_shown(&self, name: &[u8]) -> bool {
        !name.starts_with(ACL) || self.has(capability::POSIX_ACL)
    }
}

/// Replies to LISTXATTR with names that each end in a zero.
pub(super) fn put_names(names: &[u8], request: &Request<'_>, reply: &mut Reply) -> Done {
    let list: GetxattrIn = request.arguments().take()?;
    sized(names, list.size, reply)
}

/// Replies with `value`, or with its size if the caller has no room and asks
/// for that.
fn sized(value: &[u8], room: u32, reply: &mut Reply) -> Done {
    if room == 0 {
        reply.put(&GetxattrOut {
            size: value.len() as u32,
            padding: 0,
        });
    } else if value.len() > room as usize {
        return Err(Errno::RANGE);
    } else {
        reply.put_bytes(value);
    }
    Ok(())
}
