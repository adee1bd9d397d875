//! A transaction that has written something and has not ended.

use crate::change::Chain;
use crate::log::Lsn;
use varve_device::sync::Mutex;

/// The states of the thesis (§5.1.4.5) that a restart has to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Undone by a restart.
    Running,
    /// Its commit record is appended; chains of it are freed yet.
    Committed,
    /// Nothing of it is left to do.
    Ended,
}

/// Its records in the log, chained backward.
#[derive(Debug)]
pub(crate) struct Records {
    pub first: Lsn,
    pub last: Lsn,
    pub state: State,
    /// What is to be freed when it commits, as far as it is logged; then what is to be
    /// freed yet.
    pub chains: Vec<Chain>,
    /// Bytes of log kept back for undoing it.
    pub promised: u64,
}

#[derive(Debug)]
pub(crate) struct Active {
    pub number: u64,
    /// It has logged nothing below this.
    pub began: u64,
    pub chain: Mutex<Records>,
}

/// One as a checkpoint lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub number: u64,
    pub first: Lsn,
    pub last: Lsn,
    pub committed: bool,
    pub chains: Vec<Chain>,
}

impl Active {
    pub(crate) fn new(number: u64, began: u64) -> Self {
        Active {
            number,
            began,
            chain: Mutex::new(Records {
                first: Lsn::NONE,
                last: Lsn::NONE,
                state: State::Running,
                chains: Vec::new(),
                promised: 0,
            }),
        }
    }

    pub(crate) fn resumed(listed: &Listed) -> Self {
        let active = Active::new(listed.number, u64::MAX);
        {
            let mut records = active.chain.lock();
            (records.first, records.last) = (listed.first, listed.last);
            records.chains = listed.chains.clone();
            if listed.committed {
                records.state = State::Committed;
            }
        }
        active
    }

    /// `None` if it has ended or logged nothing.
    pub(crate) fn listed(&self) -> Option<Listed> {
        let records = self.chain.lock();
        let listed = records.state != State::Ended && records.first != Lsn::NONE;
        listed.then(|| Listed {
            number: self.number,
            first: records.first,
            last: records.last,
            committed: records.state == State::Committed,
            chains: records.chains.clone(),
        })
    }
}
