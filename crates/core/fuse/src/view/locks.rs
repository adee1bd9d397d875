//! Locks of files in the view of a transaction: POSIX, of open file descriptions, and flock(2).
//!
//! Each is taken twice. In this table it separates the programs of the transaction from each
//! other, and ends as they end it. On the mount's own file ([`Outside`]) it separates the
//! transaction from the rest of the host, and is kept until the transaction ends.
//!
//! | lock | its owner, as the kernel names it | ends with |
//! |---|---|---|
//! | POSIX | the process's table of descriptors | an unlock; any close of the file by that process (FLUSH) |
//! | of a description | the description | an unlock; its last close (RELEASE) |
//! | flock(2) | the description | an unlock; its last close (RELEASE) |
//!
//! A close names the handle that OPEN gave, so opens are answered, each with its own handle. A
//! process that dies closes its files.
//!
//! A lock that has to wait is tried again periodically, because it may wait for either table.
//! The attempts end when the kernel reports that the process got a signal (INTERRUPT), and with
//! the transaction. INTERRUPT arrives over the device and may overtake its request, which may
//! arrive over io_uring, so the newest ones are remembered.
//!
//! Invariants: no two locks of a file exclude each other; no list in `files` is empty;
//! `interrupted ≤ INTERRUPTS`.

use crate::errno::Errno;
use crate::outside::{Holder, Lock, Outside, Place};
use crate::protocol::{LockIn, LockOut};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use varve_fs::InodeNo;

/// `FUSE_LK_FLOCK`.
const BY_FLOCK: u32 = 1;
/// Number of interrupts that are remembered.
const INTERRUPTS: usize = 256;

/// The lock table of a view, and the connection to the mount on which each lock is taken too.
pub(crate) struct Locks {
    outside: Arc<Outside>,
    table: Mutex<LockTable>,
}

#[derive(Default)]
struct LockTable {
    files: HashMap<InodeNo, Vec<HeldLock>>,
    /// Numbers of interrupted requests, the newest first.
    interrupted: VecDeque<u64>,
    /// The transaction has ended.
    is_over: bool,
}

/// A lock, and the program that holds it or wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    lock: Lock,
    owner: u64,
    handle: u64,
    process: u32,
}

/// The result of an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The lock was taken.
    Taken,
    /// Another lock conflicts with it.
    Blocked,
}

impl Locks {
    /// An empty table over the mount's files.
    pub(crate) fn new(outside: &Arc<Outside>) -> Self {
        Locks {
            outside: Arc::clone(outside),
            table: Mutex::default(),
        }
    }

    /// Takes a lock, in place of its owner's locks of that range. `place` finds the file on
    /// the mount.
    ///
    /// # Errors
    /// ECANCELED after the transaction, ENOLCK if the mount's file cannot be locked, and the
    /// error of `place`.
    pub(crate) fn attempt(
        &self,
        ino: InodeNo,
        wanted: HeldLock,
        place: impl FnOnce() -> Result<Place, Errno>,
    ) -> Result<Attempt, Errno> {
        if self.table.lock().is_over {
            return Err(Errno(libc::ECANCELED));
        }
        // If the attempt failed after that, the lock on the mount's file would still be kept.
        if self.conflicting(ino, &wanted).is_some() {
            return Ok(Attempt::Blocked);
        }
        match self.outside.take(&place()?, wanted.lock) {
            Ok(true) => Ok(self.put(ino, wanted)),
            Ok(false) => Ok(Attempt::Blocked),
            Err(error) => match error.raw_os_error() {
                // A lease conflicts.
                Some(libc::EWOULDBLOCK) => Ok(Attempt::Blocked),
                _ => Err(no_lock(error)),
            },
        }
    }

    /// The answer to GETLK: a lock that conflicts with `wanted`, or `F_UNLCK`.
    ///
    /// # Errors
    /// ENOLCK if the mount's file cannot be tested, and the error of `place`.
    pub(crate) fn conflict(
        &self,
        ino: InodeNo,
        wanted: &HeldLock,
        place: impl FnOnce() -> Result<Place, Errno>,
    ) -> Result<LockOut, Errno> {
        let found = match self.conflicting(ino, wanted) {
            Some(held) => Some((held.lock, held.process as i32)),
            None => {
                let holder = self.outside.holder(&place()?, wanted.lock);
                holder.map_err(no_lock)?
            }
        };
        Ok(answer(found))
    }

    fn conflicting(&self, ino: InodeNo, wanted: &HeldLock) -> Option<HeldLock> {
        let table = self.table.lock();
        let held = table.files.get(&ino)?;
        held.iter().find(|held| held.excludes(wanted)).copied()
    }

    fn put(&self, ino: InodeNo, wanted: HeldLock) -> Attempt {
        let mut table = self.table.lock();
        let held = table.files.entry(ino).or_default();
        if held.iter().any(|held| held.excludes(&wanted)) {
            return Attempt::Blocked;
        }
        take_out(held, &wanted);
        held.push(wanted);
        Attempt::Taken
    }

    /// Ends the owner's locks of a range.
    pub(crate) fn unlock(&self, ino: InodeNo, range: &HeldLock) {
        self.change(ino, |held| take_out(held, range));
    }

    /// Ends the POSIX locks of a process that has closed a file.
    pub(crate) fn end_of_process(&self, ino: InodeNo, owner: u64) {
        let ends = |held: &HeldLock| held.owner == owner && !held.lock.whole;
        self.change(ino, |held| held.retain(|held| !ends(held)));
    }

    /// Ends the locks of an open file that was closed for the last time.
    pub(crate) fn end_of_file(&self, ino: InodeNo, handle: u64) {
        self.change(ino, |held| held.retain(|held| held.handle != handle));
    }

    fn change(&self, ino: InodeNo, change: impl FnOnce(&mut Vec<HeldLock>)) {
        let files = &mut self.table.lock().files;
        if let Some(held) = files.get_mut(&ino) {
            assert!(!held.is_empty(), "a file without locks is listed");
            change(held);
            if held.is_empty() {
                files.remove(&ino);
            }
        }
    }

    /// Notes that the request `unique` was interrupted.
    pub(crate) fn interrupt(&self, unique: u64) {
        let interrupted = &mut self.table.lock().interrupted;
        interrupted.truncate(INTERRUPTS - 1);
        interrupted.push_front(unique);
    }

    /// True if the request `unique` was interrupted.
    pub(crate) fn is_interrupted(&self, unique: u64) -> bool {
        self.table.lock().interrupted.contains(&unique)
    }

    /// Ends the transaction: later attempts fail, and the mount's files are unlocked.
    pub(crate) fn end(&self) {
        self.table.lock().is_over = true;
        self.outside.give_up();
    }
}

impl HeldLock {
    /// The lock of a request.
    ///
    /// # Errors
    /// EINVAL if its range is empty.
    pub(crate) fn wanted(asked: &LockIn) -> Result<Self, Errno> {
        if asked.start > asked.end {
            return Err(Errno::INVALID);
        }
        Ok(HeldLock {
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

    fn is_of(&self, other: &HeldLock) -> bool {
        self.owner == other.owner && self.lock.whole == other.lock.whole
    }

    fn excludes(&self, wanted: &HeldLock) -> bool {
        let (one, other) = (&self.lock, &wanted.lock);
        one.whole == other.whole
            && self.owner != wanted.owner
            && (one.exclusive || other.exclusive)
            && one.first <= other.last
            && other.first <= one.last
    }

    fn part(&self, first: u64, last: u64) -> Option<HeldLock> {
        let lock = Lock {
            first,
            last,
            ..self.lock
        };
        (first <= last).then_some(HeldLock { lock, ..*self })
    }
}

/// Removes a range from its owner's locks.
fn take_out(held: &mut Vec<HeldLock>, range: &HeldLock) {
    let (first, last) = (range.lock.first, range.lock.last);
    let parts = std::mem::take(held).into_iter().flat_map(|one| {
        let is_disjoint = one.lock.last < first || one.lock.first > last;
        match is_disjoint || !one.is_of(range) {
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
        // A lock of an open file description has no process.
        pid: u32::try_from(process).unwrap_or(0),
    }
}

/// The error for a file of the mount that cannot be locked: a lock that excludes no process
/// outside must not be granted.
fn no_lock(error: io::Error) -> Errno {
    tracing::warn!(%error, "a file of the mount cannot be locked for a transaction");
    Errno(libc::ENOLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: u64, first: u64, last: u64, exclusive: bool) -> HeldLock {
        HeldLock {
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
        take_out(&mut all, &held(1, 10, 19, true));
        assert_eq!(all.len(), 3);
        let own = all.iter().filter(|held| held.owner == 1);
        let own: Vec<_> = own.map(|held| (held.lock.first, held.lock.last)).collect();
        assert_eq!(own, [(0, 9), (20, 99)]);
        take_out(&mut all, &held(1, 0, u64::MAX, true));
        assert_eq!(all.len(), 1);
        // A lock of flock(2) is another kind.
        let mut whole = held(2, 0, u64::MAX, true);
        whole.lock.whole = true;
        assert!(!all[0].excludes(&HeldLock { owner: 3, ..whole }));
        take_out(&mut all, &whole);
        assert_eq!(all.len(), 1);
        take_out(&mut all, &held(2, 0, 99, true));
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn owners_end_and_requests_are_interrupted() {
        let outside = Arc::new(Outside::new("/".into(), Box::new(|_, _| false)));
        let locks = Locks::new(&outside);
        let ino = InodeNo(5);
        let place = || {
            Ok(Place {
                ino,
                node: ino.0,
                version: 1,
                path: None,
            })
        };
        let take = |owner| locks.attempt(ino, held(owner, 0, 9, true), place);
        assert_eq!(take(1), Ok(Attempt::Taken));
        assert_eq!(take(2), Ok(Attempt::Blocked));
        let conflict = locks.conflict(ino, &held(2, 5, 5, false), place).unwrap();
        assert_eq!((conflict.start, conflict.end, conflict.pid), (0, 9, 1));
        locks.end_of_file(ino, 7);
        assert_eq!(take(2), Ok(Attempt::Blocked));
        locks.end_of_process(ino, 1);
        assert_eq!(take(2), Ok(Attempt::Taken));
        locks.unlock(ino, &held(2, 0, 9, true));
        let free = locks.conflict(ino, &held(3, 0, 9, true), place).unwrap();
        assert_eq!(free.kind, libc::F_UNLCK as u32);
        for unique in 0..=INTERRUPTS as u64 {
            locks.interrupt(unique);
        }
        assert!(!locks.is_interrupted(0) && locks.is_interrupted(1));
        locks.end();
        assert_eq!(take(3), Err(Errno(libc::ECANCELED)));
    }
}
