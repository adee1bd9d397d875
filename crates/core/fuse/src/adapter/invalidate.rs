//! Invalidation of the attributes that a request changes and its answer does not carry. The
//! rules are in `caches/attributes.rs`.

use super::{Adapter, Outcome};
use crate::caches::{Refreshed, Watched};
use crate::errno::Errno;
use crate::nodes;
use crate::protocol::{CopyFileRangeIn, Opcode, WRITE_CACHE, WRITE_LOCKOWNER};
use crate::reply::Reply;
use crate::request::Request;
use crate::transport::{Transport, invalidate_attributes};
use std::time::Duration;
use varve_fs::Layout;

/// Longest time for which `st_blocks` of a file in the kernel may differ from the server's.
pub const BLOCK_COUNT_LAG: Duration = Duration::from_secs(1);

impl<L: Layout> Adapter<L> {
    /// Serves a request, and has `reply` name the nodes whose attributes are stale.
    pub(super) fn serve(
        &self,
        opcode: Option<Opcode>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Errno> {
        self.keep_name(opcode, request);
        let watched = self.watch(opcode, request);
        let mut outcome = self.dispatch(opcode, request, reply);
        if matches!(outcome, Ok(Outcome::Reply))
            && let Err(errno) = self.make_change_durable(opcode)
        {
            outcome = Err(errno);
        }
        for watched in watched.iter().flatten() {
            self.compare(request, watched, outcome.is_ok(), reply);
        }
        if opcode == Some(Opcode::Fsync) && self.block_counts.forget(request.inode()) {
            reply.mark_stale(request.header.nodeid);
        }
        outcome
    }

    /// The inodes that a request may change and whose attributes its answer does not carry.
    fn watch(&self, opcode: Option<Opcode>, request: &Request<'_>) -> [Option<Watched>; 2] {
        let watch = |ino, refreshed| Some(Watched::new(self.fs.getattr(ino).ok()?, refreshed));
        let ino = request.inode();
        match opcode {
            Some(Opcode::Write | Opcode::Fallocate) => [watch(ino, Refreshed::Content), None],
            Some(Opcode::Setxattr | Opcode::Removexattr) => {
                [watch(ino, Refreshed::ChangeTime), None]
            }
            Some(Opcode::CopyFileRange | Opcode::CopyFileRange64) => {
                let Ok(copy) = request.arguments().take::<CopyFileRangeIn>() else {
                    return [None, None];
                };
                let target = nodes::inode(copy.nodeid_out);
                let source = (target != ino).then(|| watch(ino, Refreshed::Nothing));
                [watch(target, Refreshed::Content), source.flatten()]
            }
            _ => [None, None],
        }
    }

    fn compare(&self, request: &Request<'_>, watched: &Watched, done: bool, reply: &mut Reply) {
        let ino = watched.ino();
        let Ok(after) = self.fs.getattr(ino) else {
            return;
        };
        let flags = request.write_flags();
        if self.write_back() && flags & WRITE_CACHE != 0 {
            if watched.has_other_blocks(&after) && self.block_counts.note(ino) {
                reply.schedule_block_counts();
            }
            return;
        }
        // An asynchronous direct write refreshes before the data is stored, not afterwards.
        let was_asked = flags & WRITE_LOCKOWNER != 0 && self.direct.was_asked(ino);
        if watched.is_stale(&after, done && !was_asked, self.write_back()) {
            reply.mark_stale(nodes::node(ino));
        }
    }

    /// Invalidates the attributes of all files whose number of blocks changed while no client
    /// waited. Never call it on a thread that serves requests: the kernel may be evicting some
    /// of these inodes.
    pub fn invalidate_block_counts(&self, transport: &dyn Transport) {
        for ino in self.block_counts.take() {
            self.invalidate_attributes(nodes::node(ino), transport);
        }
    }

    /// Invalidates the attributes of `nodeid` in the kernel, which requests them when they are
    /// next wanted, by a write at the latest. Unless a waiting client holds the inode, never
    /// call it on a thread that serves requests.
    pub fn invalidate_attributes(&self, nodeid: u64, transport: &dyn Transport) {
        // ENOENT: the kernel does not hold the inode any more.
        let _ = invalidate_attributes(transport, nodeid);
    }
}
