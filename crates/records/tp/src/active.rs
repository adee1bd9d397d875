//! A transaction that has written and not ended.

use crate::change::Chain;
use crate::log::Lsn;
use varve_device::sync::Mutex;

/// States of a transaction that a restart must distinguish (thesis §5.1.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A restart undoes it.
    Running,
    /// The commit record is appended, but chains of pages may still have to be freed.
    Committed,
    /// Nothing remains to be done for it.
    Ended,
}

/// Records of a transaction in the log, which are chained backward.
#[derive(Debug)]
pub(crate) struct Records {
    pub first: Lsn,
    pub last: Lsn,
    pub state: State,
    /// Before the commit, logged chains that the commit will free; afterwards, chains
    /// still to be freed.
    pub chains: Vec<Chain>,
    /// Bytes of log reserved for undoing it.
    pub promised: u64,
}

#[derive(Debug)]
pub(crate) struct Active {
    pub number: u64,
    /// Lower bound, as an LSN, of its records in the log.
    pub began: u64,
    pub chain: Mutex<Records>,
}

/// A transaction as a checkpoint lists it.
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

    /// Returns the entry for a checkpoint; `None` if the transaction has ended or logged
    /// nothing.
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
