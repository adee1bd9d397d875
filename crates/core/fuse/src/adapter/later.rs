//! What is answered later: what makes the kernel give up pages, and so wait for
//! requests of its own, and what waits for room or for a lock.

use super::direct::Outdated;
use super::file_flags::Setting;
use super::locks::Held;
use super::{Adapter, Outcome, Seek};
use crate::errno::Errno;
use crate::protocol::Opcode;
use crate::reply::Reply;
use crate::request::{Patience, Request};
use crate::transport::Transport;
use std::fmt;
use std::time::{Duration, Instant};
use varve_fs::Layout;

/// Time between two attempts of a request that waits for a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The rest of a request, to be done on a thread that others can do without.
#[derive(Debug)]
pub struct Later {
    /// The request's number.
    pub unique: u64,
    /// The inode that it is about.
    nodeid: u64,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// A seek that must see the kernel's dirty pages.
    Seek(Seek),
    /// Flags that want the file's dirty pages to have come in.
    Flags(Setting),
    /// A lock that conflicts with another one.
    Lock(Held),
    /// A direct write is done but for pages that it has outdated.
    DropPages {
        outdated: Outdated,
        answer: Vec<u8>,
        answered: bool,
    },
    /// Refused for want of space, which may come back: all of the request, and how it
    /// waits. A page's inode may be on its way out of the kernel, and is then not held.
    Room {
        request: Whole,
        is_held: bool,
        patience: Patience,
    },
}

/// The bytes of a request.
struct Whole(Vec<u8>);

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Later {
    pub(super) fn seek(unique: u64, nodeid: u64, seek: Seek) -> Self {
        Later {
            unique,
            nodeid,
            work: Work::Seek(seek),
        }
    }

    pub(super) fn flags(unique: u64, nodeid: u64, setting: Setting) -> Self {
        Later {
            unique,
            nodeid,
            work: Work::Flags(setting),
        }
    }

    pub(super) fn lock(unique: u64, nodeid: u64, wanted: Held) -> Self {
        Later {
            unique,
            nodeid,
            work: Work::Lock(wanted),
        }
    }

    pub(super) fn drop_pages(unique: u64, nodeid: u64, outdated: Outdated, reply: &Reply) -> Self {
        let work = Work::DropPages {
            outdated,
            answer: reply.body().to_vec(),
            answered: false,
        };
        Later {
            unique,
            nodeid,
            work,
        }
    }

    /// A request to be tried again.
    pub(super) fn room(request: &Request<'_>, patience: Patience) -> Self {
        let work = Work::Room {
            request: Whole(request.bytes().to_vec()),
            is_held: request.opcode() != Some(Opcode::Write),
            patience,
        };
        Later {
            unique: request.header.unique,
            nodeid: request.header.nodeid,
            work,
        }
    }

    /// An inode that the kernel certainly holds, if there is one: to have it go
    /// through what has queued up. It does so with files only, and of who waits for
    /// room in a directory no file is known.
    pub(crate) fn held_node(&self) -> Option<u64> {
        let is_held = !matches!(self.work, Work::Room { is_held: false, .. });
        is_held.then_some(self.nodeid)
    }

    /// How long to wait before it is finished, if it is.
    pub fn pause(&self) -> Option<Duration> {
        match &self.work {
            Work::Room { patience, .. } => Some(patience.pause),
            Work::Lock(_) => Some(LOCK_PAUSE),
            _ => None,
        }
    }

    /// Makes the next attempt the last one: nobody can wait for it.
    pub(crate) fn hurry(&mut self) {
        if let Work::Room { patience, .. } = &mut self.work {
            patience.until = Instant::now();
        }
    }

    /// True if the request should be answered at once, before the rest is done:
    /// see [`Later::answer_now`].
    pub fn answers_first(&self) -> bool {
        matches!(&self.work, Work::DropPages { outdated, .. } if outdated.answer_first)
    }

    /// What to answer the request with before the rest is done; from now on it
    /// counts as answered.
    ///
    /// # Errors
    /// EAGAIN if it cannot be answered yet: it is to be asked again.
    pub fn answer_now(&mut self) -> Result<&[u8], Errno> {
        match &mut self.work {
            Work::DropPages {
                answer, answered, ..
            } => {
                *answered = true;
                Ok(answer)
            }
            Work::Seek(_) | Work::Room { .. } | Work::Flags(_) | Work::Lock(_) => {
                Err(Errno(libc::EAGAIN))
            }
        }
    }
}

impl<L: Layout> Adapter<L> {
    /// Does the rest of a request, and says how to answer it, or what is still
    /// left of it. Never call it on a thread that serves requests.
    pub fn finish(&self, later: &Later, transport: &dyn Transport, reply: &mut Reply) -> Outcome {
        reply.clear();
        match &later.work {
            Work::Seek(seek) => self.finish_seek(later.nodeid, seek, transport, reply),
            Work::Flags(setting) => self.finish_flags(later.nodeid, setting, transport, reply),
            Work::Lock(wanted) => self.finish_lock(later.unique, later.nodeid, *wanted),
            Work::DropPages {
                outdated,
                answer,
                answered,
            } => {
                self.drop_pages(later.nodeid, outdated, transport);
                if *answered {
                    return Outcome::Silent;
                }
                reply.put_bytes(answer);
                Outcome::Reply
            }
            Work::Room {
                request, patience, ..
            } => self.try_again(&request.0, *patience, reply),
        }
    }
}
