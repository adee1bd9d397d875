//! Locks of files in the view of a transaction: POSIX, of open file descriptions, and
//! of flock(2).
//!
//! Each is taken twice. Here it separates the programs of the transaction from each
//! other, and ends as they end it. On the mount's own file ([`Outside`]) it separates
//! the transaction from the rest of the host, and is kept until the transaction ends.
//!
//! | lock | its owner, as the kernel names it | ends with |
//! |---|---|---|
//! | POSIX | the process's table of descriptors | an unlock; any close of the file by that process (FLUSH) |
//! | of a description | the description | an unlock; its last close (RELEASE) |
//! | flock(2) | the description | an unlock; its last close (RELEASE) |
//!
//! A close names the handle that OPEN gave, so opens are answered here, one handle each.
//! A process that dies closes its files.
//!
//! A lock that has to wait is tried again and again, because it may have to wait for
//! either table. The attempts end when the kernel says that the process got a signal
//! (INTERRUPT), and with the transaction. An INTERRUPT comes over the device and may
//! overtake its request, which may come over io_uring, so the last ones are remembered.

use super::later::{Later, Work};
use super::{Adapter, Done, Outcome};
use crate::errno::Errno;
use crate::nodes;
use crate::outside::{Holder, Lock, Outside, Place};
use crate::protocol::{FlushIn, InterruptIn, LockIn, LockOut, Opcode, ReleaseIn};
use crate::reply::Reply;
use crate::request::Request;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_fs::{InodeNo, Layout};

/// `FUSE_LK_FLOCK`.
const BY_FLOCK: u32 = 1;
/// Interrupts that are remembered.
const INTERRUPTS: usize = 256;

/// The lock table of one view, and the connection to the mount on which each lock is
/// taken again.
pub(super) struct Locks {
    outside: Arc<Outside>,
    handles: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<InodeNo, Vec<Held>>,
    /// Numbers of requests, the oldest first.
    interrupted: VecDeque<u64>,
    /// The transaction has ended.
    is_over: bool,
}

/// A lock, and the program that has it or wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    lock: Lock,
    owner: u64,
    handle: u64,
    process: u32,
}

/// What became of an attempt.
enum Attempt {
    Taken,
    /// Another lock conflicts.
    Blocked,
}

impl Locks {
    pub fn new(outside: &Arc<Outside>) -> Self {
        Locks {
            outside: Arc::clone(outside),
            handles: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// A handle that no other open file has.
    pub fn handle(&self) -> u64 {
        self.handles.fetch_add(1, Relaxed) + 1
    }

    fn in_the_way(&self, ino: InodeNo, wanted: &Held) -> Option<Held> {
        let state = self.state.lock();
        let held = state.files.get(&ino)?;
        held.iter().find(|held| held.excludes(wanted)).copied()
    }

    /// Gives it to its owner, in place of what the owner has of that range.
    fn put(&self, ino: InodeNo, wanted: Held) -> Attempt {
        let mut state = self.state.lock();
        let held = state.files.entry(ino).or_default();
        if held.iter().any(|held| held.excludes(&wanted)) {
            return Attempt::Blocked;
        }
        let _ = take_out(held, &wanted);
        held.push(wanted);
        Attempt::Taken
    }

    fn remove(&self, ino: InodeNo, goes: impl Fn(&Held) -> bool) {
        let mut state = self.state.lock();
        if let Some(held) = state.files.get_mut(&ino) {
            held.retain(|held| !goes(held));
            if held.is_empty() {
                state.files.remove(&ino);
            }
        }
    }

    fn unlock(&self, ino: InodeNo, what: &Held) {
        let mut state = self.state.lock();
        if let Some(held) = state.files.get_mut(&ino)
            && take_out(held, what) == 0
        {
            state.files.remove(&ino);
        }
    }
}

impl Held {
    fn is_of(&self, other: &Held) -> bool {
        self.owner == other.owner && self.lock.whole == other.lock.whole
    }

    fn excludes(&self, wanted: &Held) -> bool {
        let (one, other) = (&self.lock, &wanted.lock);
        one.whole == other.whole
            && self.owner != wanted.owner
            && (one.exclusive || other.exclusive)
            && one.first <= other.last
            && other.first <= one.last
    }

    fn part(&self, first: u64, last: u64) -> Option<Held> {
        let lock = Lock {
            first,
            last,
            ..self.lock
        };
        (first <= last).then_some(Held { lock, ..*self })
    }
}

/// Takes a range out of what its owner has; answers how many locks are left.
fn take_out(held: &mut Vec<Held>, what: &Held) -> usize {
    let (first, last) = (what.lock.first, what.lock.last);
    let parts = std::mem::take(held).into_iter().flat_map(|one| {
        let apart = one.lock.last < first || one.lock.first > last;
        match apart || !one.is_of(what) {
            true => [Some(one), None],
            false => [
                first
                    .checked_sub(1)
                    .and_then(|end| one.part(one.lock.first, end)),
                one.part(last.saturating_add(1), one.lock.last),
            ],
        }
    });
    *held = parts.flatten().collect();
    held.len()
}

impl<L: Layout> Adapter<L> {
    /// GETLK, SETLK and SETLKW.
    pub(super) fn lock(
        &self,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Errno> {
        let locks = self.locks.as_ref().ok_or(Errno::NOT_IMPLEMENTED)?;
        let asked: LockIn = request.arguments().take()?;
        let (ino, wanted) = (request.inode(), wanted(&asked)?);
        let unlocks = asked.kind == libc::F_UNLCK as u32;
        if opcode == Opcode::Getlk {
            let found = match locks.in_the_way(ino, &wanted) {
                Some(held) => Some((held.lock, held.process as i32)),
                None => {
                    let holder = locks.outside.holder(&self.place(ino)?, wanted.lock);
                    holder.map_err(refused)?
                }
            };
            reply.put(&answer(found));
            return Ok(Outcome::Reply);
        }
        if unlocks {
            locks.unlock(ino, &wanted);
            return Ok(Outcome::Reply);
        }
        match (self.attempt_lock(locks, ino, wanted)?, opcode) {
            (Attempt::Taken, _) => Ok(Outcome::Reply),
            (Attempt::Blocked, Opcode::Setlkw) => Ok(Later::new(request, Work::Lock(wanted))),
            (Attempt::Blocked, _) => Err(Errno(libc::EAGAIN)),
        }
    }

    fn attempt_lock(&self, locks: &Locks, ino: InodeNo, wanted: Held) -> Result<Attempt, Errno> {
        if locks.state.lock().is_over {
            return Err(Errno(libc::ECANCELED));
        }
        // A lock on the mount's file would be kept, although this attempt fails.
        if locks.in_the_way(ino, &wanted).is_some() {
            return Ok(Attempt::Blocked);
        }
        match locks.outside.take(&self.place(ino)?, wanted.lock) {
            Ok(true) => Ok(locks.put(ino, wanted)),
            Ok(false) => Ok(Attempt::Blocked),
            Err(error) => match error.raw_os_error() {
                // A lease conflicts.
                Some(libc::EWOULDBLOCK) => Ok(Attempt::Blocked),
                _ => Err(refused(error)),
            },
        }
    }

    /// Tries again to take a lock, or ends the attempts.
    pub(super) fn finish_lock(&self, later: &Later, wanted: Held) -> Outcome {
        let Some(locks) = &self.locks else {
            return Outcome::Error(Errno::NOT_IMPLEMENTED);
        };
        if locks.state.lock().interrupted.contains(&later.unique) {
            return Outcome::Error(Errno(libc::EINTR));
        }
        match self.attempt_lock(locks, nodes::inode(later.nodeid), wanted) {
            Ok(Attempt::Taken) => Outcome::Reply,
            Ok(Attempt::Blocked) => Outcome::Later(later.again(Work::Lock(wanted))),
            Err(errno) => Outcome::Error(errno),
        }
    }

    /// FLUSH: a process closes a file, and with it ends its POSIX locks.
    pub(super) fn end_process_locks(&self, request: &Request<'_>) -> Done {
        let asked: FlushIn = request.arguments().take()?;
        if let Some(locks) = &self.locks {
            let goes = |held: &Held| held.owner == asked.lock_owner && !held.lock.whole;
            locks.remove(request.inode(), goes);
        }
        Ok(())
    }

    /// RELEASE: the last descriptor of an open file is closed.
    pub(super) fn end_file_locks(&self, request: &Request<'_>) -> Done {
        if let Some(locks) = &self.locks {
            let asked: ReleaseIn = request.arguments().take()?;
            locks.remove(request.inode(), |held| held.handle == asked.fh);
        }
        Ok(())
    }

    /// INTERRUPT: the process that waits for the answer of a request got a signal.
    pub(super) fn interrupt(&self, request: &Request<'_>) -> Done {
        let asked: InterruptIn = request.arguments().take()?;
        if let Some(locks) = &self.locks {
            let interrupted = &mut locks.state.lock().interrupted;
            interrupted.truncate(INTERRUPTS - 1);
            interrupted.push_front(asked.unique);
        }
        Ok(())
    }

    /// The transaction has ended: no attempt to lock is made any more, and the locks on
    /// the mount's files end.
    pub fn end_locks(&self) {
        if let Some(locks) = &self.locks {
            locks.state.lock().is_over = true;
            locks.outside.give_up();
        }
    }

    fn place(&self, ino: InodeNo) -> Result<Place, Errno> {
        Ok(Place {
            ino,
            node: nodes::node(ino),
            version: self.fs.getattr(ino)?.version,
            path: self.path_of(ino),
        })
    }
}

fn wanted(asked: &LockIn) -> Result<Held, Errno> {
    if asked.start > asked.end {
        return Err(Errno::INVALID);
    }
    Ok(Held {
        lock: Lock {
            exclusive: asked.kind == libc::F_WRLCK as u32,
            whole: asked.lock_flags & BY_FLOCK != 0,
            first: asked.start,
            last: asked.end,
        },
        owner: asked.owner,
        handle: asked.fh,
        process: asked.pid,
    })
}

fn answer(found: Option<Holder>) -> LockOut {
    let Some((lock, process)) = found else {
        return LockOut {
            kind: libc::F_UNLCK as u32,
            ..LockOut::default()
        };
    };
    let kind = match lock.exclusive {
        true => libc::F_WRLCK,
        false => libc::F_RDLCK,
    };
    LockOut {
        start: lock.first,
        end: lock.last,
        kind: kind as u32,
        // That of a description has none.
        pid: u32::try_from(process).unwrap_or(0),
    }
}

/// The mount's file cannot be locked, and a lock that others do not meet is none.
fn refused(error: io::Error) -> Errno {
    tracing::warn!(%error, "a file of the mount cannot be locked for a transaction");
    Errno(libc::ENOLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: u64, first: u64, last: u64, exclusive: bool) -> Held {
        Held {
            lock: Lock {
                exclusive,
                whole: false,
                first,
                last,
            },
            owner,
            handle: owner,
            process: owner as u32,
        }
    }

    #[test]
    fn an_owner_replaces_what_it_has_and_excludes_others() {
        let mut all = vec![held(1, 0, 99, false), held(2, 0, 99, false)];
        assert!(all[0].excludes(&held(3, 99, 200, true)));
        assert!(!all[0].excludes(&held(3, 100, 200, true)));
        assert!(!all[0].excludes(&held(1, 0, 9, true)) && !all[0].excludes(&all[1]));
        assert_eq!(take_out(&mut all, &held(1, 10, 19, true)), 3);
        let own = all.iter().filter(|held| held.owner == 1);
        let own: Vec<_> = own.map(|held| (held.lock.first, held.lock.last)).collect();
        assert_eq!(own, [(0, 9), (20, 99)]);
        assert_eq!(take_out(&mut all, &held(1, 0, u64::MAX, true)), 1);
        // A lock of flock(2) is another kind.
        let mut whole = held(2, 0, u64::MAX, true);
        whole.lock.whole = true;
        assert!(!all[0].excludes(&Held { owner: 3, ..whole }));
        assert_eq!(take_out(&mut all, &whole), 1);
        assert_eq!(take_out(&mut all, &held(2, 0, 99, true)), 0);
    }
}
