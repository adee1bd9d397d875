//! The record of what transactions did and saw.
//!
//! Every object is a list of numbers, and every number is appended once, to one object. A
//! read therefore shows which write it saw, and also the order of all writes before that
//! one: the judge never guesses the order of versions (Kingsbury and Alvaro, Elle, VLDB
//! 2020, §3).

/// Number of one of the lists.
pub type Object = u32;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The transaction read a list.
    Read {
        /// The list that was read.
        object: Object,
        /// The whole content of the list.
        values: Vec<u64>,
    },
    /// The transaction appended a number. No other transaction appends the same number to
    /// any list.
    Append {
        /// The list that was changed.
        object: Object,
        /// The number that was appended.
        value: u64,
    },
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The commit succeeded.
    Committed,
    /// The transaction was aborted. No transaction may ever see any part of it.
    Aborted,
    /// The end is unknown. The transaction happened if another transaction saw it.
    Unknown,
}

/// One transaction. A single operation outside of transactions counts as one, too.
#[derive(Clone, Debug)]
pub struct Record {
    /// Time before the begin, on a clock that all transactions share.
    pub begun: u64,
    /// Time after the end was reported, on the same clock.
    pub ended: u64,
    /// The steps in their order, without those of nested transactions that were aborted.
    pub actions: Vec<Action>,
    /// The end of the transaction.
    pub outcome: Outcome,
}

/// An isolation level: what committed transactions must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Each transaction sees the tree at its begin. Of two concurrent transactions that
    /// changed the same object, only the first commits. Write skew may happen, and no
    /// other anomaly.
    Snapshot,
    /// The transactions have the effect of a serial order. A transaction that began after
    /// the end of another comes after it in that order.
    Serializable,
}

/// A forbidden result. The names are those of Adya 1999 and of Berenson et al. 1995.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// Two reads of a transaction disagree, or one of them misses the transaction's own
    /// write.
    Unrepeatable,
    /// G1a, dirty read: a transaction saw a value of an aborted transaction.
    AbortedRead,
    /// G1b: a transaction saw a value that its writer had replaced itself.
    IntermediateRead,
    /// A list contains a value that no transaction wrote, or the same value twice.
    Garbage,
    /// Two reads saw different orders of writes.
    DivergentOrder,
    /// P4: a committed write is missing, or was overwritten by a transaction that had not
    /// seen it.
    LostUpdate,
    /// G0: the writes of transactions interleave.
    DirtyWrite,
    /// G1c: information flows in a cycle.
    CircularFlow,
    /// G-single, read skew: a transaction saw only a part of another's writes.
    ReadSkew,
    /// A cycle with several anti-dependencies, no two of them adjacent.
    LongFork,
    /// G2: a cycle with two adjacent anti-dependencies.
    WriteSkew,
    /// A cycle that exists only because one transaction ended before another began: a
    /// transaction saw old data.
    Stale,
}

/// An anomaly, with the transactions that are part of it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name of the anomaly.
    pub anomaly: Anomaly,
    /// Description for a reader.
    pub told: String,
}

/// Result of the check.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// One example of each forbidden kind that was found.
    pub found: Vec<Found>,
    /// Number of transactions that were committed.
    pub committed: usize,
    /// Number of dependencies between them.
    pub edges: usize,
    /// Number of write skew cycles, if the level allows them.
    pub skews: usize,
}

impl Judgement {
    /// Returns true if this anomaly was found.
    pub fn has(&self, anomaly: Anomaly) -> bool {
        self.found.iter().any(|found| found.anomaly == anomaly)
    }

    pub(super) fn add(&mut self, anomaly: Anomaly, told: impl FnOnce() -> String) {
        if !self.has(anomaly) {
            let told = told();
            self.found.push(Found { anomaly, told });
        }
    }
}
