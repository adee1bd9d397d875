//! Requests that are answered later, because they make the kernel drop pages and thereby wait
//! for requests of its own, or because they wait for free space or a lock.

use super::file_flags::Setting;
use super::seek::Seek;
use super::{Adapter, Outcome};
use crate::caches::StalePages;
use crate::errno::Errno;
use crate::protocol::Opcode;
use crate::reply::Reply;
use crate::request::Request;
use crate::space::Patience;
use crate::transport::Transport;
use crate::view::HeldLock;
use std::fmt;
use std::time::Duration;
use varve_fs::Layout;

/// Time between two attempts of a request that waits for a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The rest of a request, for a thread that does not serve requests.
#[derive(Debug)]
pub struct Later {
    /// The request's number.
    pub unique: u64,
    /// The node that the request names.
    pub(super) nodeid: u64,
    pub(super) work: Work,
}

/// The part of a request that another thread does.
#[derive(Debug)]
pub(super) enum Work {
    /// A seek that must see the kernel's dirty pages.
    Seek(Seek),
    /// Flags that are set once the kernel has written the file's dirty pages.
    Flags(Setting),
    /// A lock that conflicts with another lock.
    Lock(HeldLock),
    /// A direct write that is done except for pages that the kernel must drop.
    DropPages {
        stale: StalePages,
        answer: Vec<u8>,
        answered: bool,
    },
    /// Another attempt of the whole request. `is_held` is false for a WRITE, whose inode the
    /// kernel may be evicting.
    Retry {
        request: Whole,
        is_held: bool,
        patience: Patience,
    },
}

/// The bytes of a request.
pub(super) struct Whole(Vec<u8>);

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Later {
    /// The rest of `request`.
    pub(super) fn put_off(request: &Request<'_>, work: Work) -> Outcome {
        Outcome::Later(Later {
            unique: request.header.unique,
            nodeid: request.header.nodeid,
            work,
        })
    }

    /// Another step of the same request.
    pub(super) fn again(&self, work: Work) -> Self {
        Later { work, ..*self }
    }

    /// The end of a direct write: `reply` is its answer.
    pub(super) fn drop_pages(request: &Request<'_>, stale: StalePages, reply: &Reply) -> Outcome {
        let work = Work::DropPages {
            stale,
            answer: reply.body().to_vec(),
            answered: false,
        };
        Later::put_off(request, work)
    }

    /// A later attempt of the whole request.
    pub(super) fn retry(request: &Request<'_>, patience: Patience) -> Outcome {
        let work = Work::Retry {
            request: Whole(request.bytes().to_vec()),
            is_held: request.opcode() != Some(Opcode::Write),
            patience,
        };
        Later::put_off(request, work)
    }

    /// A node that the kernel certainly holds, if there is one, for [`crate::ring::Crew::nudge`].
    pub(crate) fn held_node(&self) -> Option<u64> {
        let is_held = !matches!(self.work, Work::Retry { is_held: false, .. });
        is_held.then_some(self.nodeid)
    }

    /// Time to wait before [`Adapter::finish`], if any.
    pub fn pause(&self) -> Option<Duration> {
        match &self.work {
            Work::Retry { patience, .. } => Some(patience.pause()),
            Work::Lock(_) => Some(LOCK_PAUSE),
            _ => None,
        }
    }

    /// Makes the next attempt the last one, because no thread can wait for another.
    pub(crate) fn hurry(&mut self) {
        if let Work::Retry { patience, .. } = &mut self.work {
            patience.end();
        }
    }

    /// True if [`Later::answer_now`] must be called before the rest is done.
    pub fn answers_first(&self) -> bool {
        matches!(&self.work, Work::DropPages { stale, .. } if stale.answer_first())
    }

    /// The answer that is sent before the rest is done. The request then counts as answered.
    ///
    /// # Errors
    /// EAGAIN if the rest must be done first: the client has to try again.
    pub fn answer_now(&mut self) -> Result<&[u8], Errno> {
        match &mut self.work {
            Work::DropPages {
                answer, answered, ..
            } => {
                *answered = true;
                Ok(answer)
            }
            Work::Seek(_) | Work::Retry { .. } | Work::Flags(_) | Work::Lock(_) => {
                Err(Errno(libc::EAGAIN))
            }
        }
    }
}

impl<L: Layout> Adapter<L> {
    /// Does the rest of a request. The outcome says how to answer it, or what is left of it.
    /// Never call it on a thread that serves requests.
    pub fn finish(&self, later: &Later, transport: &dyn Transport, reply: &mut Reply) -> Outcome {
        reply.clear();
        match &later.work {
            Work::Seek(seek) => self.finish_seek(later.nodeid, seek, transport, reply),
            Work::Flags(setting) => self.finish_flags(later.nodeid, setting, transport, reply),
            Work::Lock(wanted) => self.finish_lock(later, *wanted),
            Work::DropPages {
                stale,
                answer,
                answered,
            } => {
                self.direct.drop_pages(later.nodeid, stale, transport);
                if *answered {
                    return Outcome::Silent;
                }
                reply.put_bytes(answer);
                Outcome::Reply
            }
            Work::Retry {
                request, patience, ..
            } => self.try_again(&request.0, *patience, reply),
        }
    }
}
