//! Extended attributes.

use super::{Adapter, Done, inode_of};
use crate::errno::Errno;
use crate::protocol::{GetxattrIn, GetxattrOut, SetxattrIn};
use crate::reply::Reply;
use crate::request::Request;
use varve_fs::Layout;

impl<L: Layout> Adapter<L> {
    pub(super) fn getxattr(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let mut arguments = request.arguments();
        let get: GetxattrIn = arguments.take()?;
        let name = arguments.string()?;
        let (caller, ino) = (self.caller(request), inode_of(request));
        let value = self.fs.getxattr(self.view, &caller, ino, name)?;
        sized(&value, get.size, reply)
    }

    pub(super) fn setxattr(&self, request: &Request<'_>) -> Done {
        let mut arguments = request.arguments();
        let set: SetxattrIn = arguments.take()?;
        let name = arguments.string()?;
        let value = arguments.bytes(set.size as usize)?;
        let has = |flag: i32| set.flags & flag as u32 != 0;
        let (create, replace) = (has(libc::XATTR_CREATE), has(libc::XATTR_REPLACE));
        let (caller, ino) = (self.caller(request), inode_of(request));
        Ok(self
            .fs
            .setxattr(self.view, &caller, ino, name, value, create, replace)?)
    }

    pub(super) fn listxattr(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let list: GetxattrIn = request.arguments().take()?;
        let (caller, ino) = (self.caller(request), inode_of(request));
        let mut names = Vec::new();
        for name in self.fs.listxattr(self.view, &caller, ino)? {
            names.extend_from_slice(&name);
            names.push(0);
        }
        sized(&names, list.size, reply)
    }

    pub(super) fn removexattr(&self, request: &Request<'_>) -> Done {
        let name = request.arguments().string()?;
        Ok(self
            .fs
            .removexattr(self.view, &self.caller(request), inode_of(request), name)?)
    }
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
