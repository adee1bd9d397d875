//! The processor and the disks: first come, first served, one at a time.

use super::locks::Txn;
use std::collections::VecDeque;

/// What a server works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// Instructions of a transaction.
    Burst(Txn),
    /// A page that somebody waits for.
    Read(u32),
    /// A page that somebody wants the frame of, who then reads another.
    Evict {
        /// The page that is read then, if that is waited for.
        then: Option<u32>,
    },
    /// A page of a checkpoint.
    Write,
    /// A part of a force: of the log, or of pages in a log.
    Force {
        /// Time that is the transactions' log's.
        log_ns: u64,
    },
}

/// Not busy.
const NEVER: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Server {
    /// Waiting, and how long each takes; the second is served when the first
    /// is empty.
    queues: [VecDeque<(Job, u64)>; 2],
    served: Option<(Job, u64)>,
}

/// The processor (number 0) and the disks (from 1 on).
#[derive(Debug)]
pub(super) struct Servers {
    servers: Vec<Server>,
    ends_ns: Vec<u64>,
    reads_first: bool,
}

impl Servers {
    pub(super) fn new(disks: usize, reads_first: bool) -> Self {
        let servers = (0..=disks).map(|_| Server::default());
        Servers {
            servers: servers.collect(),
            ends_ns: vec![NEVER; disks + 1],
            reads_first,
        }
    }

    /// Gives a server a job that takes so long.
    pub(super) fn push(&mut self, now_ns: u64, server: usize, job: Job, work_ns: u64) {
        if self.servers[server].served.is_none() {
            self.servers[server].served = Some((job, work_ns));
            self.ends_ns[server] = now_ns + work_ns;
            return;
        }
        let later = self.reads_first && matches!(job, Job::Write | Job::Evict { then: None });
        self.servers[server].queues[usize::from(later)].push_back((job, work_ns));
    }

    /// The server that ends next, and when.
    pub(super) fn next(&self) -> (usize, u64) {
        let mut first = (0, self.ends_ns[0]);
        for (server, &end_ns) in self.ends_ns.iter().enumerate().skip(1) {
            if end_ns < first.1 {
                first = (server, end_ns);
            }
        }
        first
    }

    /// A server ends what it does, which took so long, and takes the next.
    pub(super) fn end(&mut self, server: usize) -> (Job, u64) {
        let now_ns = self.ends_ns[server];
        let at = &mut self.servers[server];
        let done = at.served.take().expect("it was at work");
        let [first, second] = &mut at.queues;
        at.served = first.pop_front().or_else(|| second.pop_front());
        self.ends_ns[server] = at.served.map_or(NEVER, |(_, work_ns)| now_ns + work_ns);
        done
    }
}
