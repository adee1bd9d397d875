//! What makes the kernel give up pages, and so wait for requests of its own.

use super::direct::Outdated;
use super::file_flags::Setting;
use super::{Adapter, Outcome, Seek};
use crate::reply::Reply;
use crate::transport::Transport;
use varve_fs::Layout;

/// The rest of a request, to be done on a thread that others can do without.
#[derive(Debug)]
pub struct Later {
    /// The request's number.
    pub unique: u64,
    pub(crate) nodeid: u64,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// A seek that must see the kernel's dirty pages.
    Seek(Seek),
    /// Flags that want the file's dirty pages to have come in.
    Flags(Setting),
    /// A direct write is done but for pages that it has outdated.
    DropPages {
        outdated: Outdated,
        answer: Vec<u8>,
        answered: bool,
    },
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

    /// True if the request should be answered at once, before the rest is done:
    /// see [`Later::answer_now`].
    pub fn answers_first(&self) -> bool {
        matches!(&self.work, Work::DropPages { outdated, .. } if outdated.answer_first)
    }

    /// What to answer the request with before the rest is done; from now on it
    /// counts as answered. Nothing if it cannot be answered yet.
    pub fn answer_now(&mut self) -> Option<&[u8]> {
        match &mut self.work {
            Work::DropPages {
                answer, answered, ..
            } => {
                *answered = true;
                Some(answer)
            }
            Work::Seek(_) | Work::Flags(_) => None,
        }
    }
}

impl<L: Layout> Adapter<L> {
    /// Does the rest of a request, and says how to answer it. Never call it on
    /// a thread that serves requests.
    pub fn finish(&self, later: &Later, transport: &dyn Transport, reply: &mut Reply) -> Outcome {
        reply.clear();
        match &later.work {
            Work::Seek(seek) => self.finish_seek(later.nodeid, seek, transport, reply),
            Work::Flags(setting) => self.finish_flags(later.nodeid, setting, transport, reply),
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
        }
    }
}
