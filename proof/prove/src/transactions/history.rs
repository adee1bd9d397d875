//! What transactions did and saw, as it was recorded.
//!
//! Every object is a list of numbers, and every number is appended once, to one
//! object. So a read tells not only which write it saw, but in which order all
//! writes before that one came: nothing about the order of versions has to be
//! guessed (Kingsbury and Alvaro, Elle, VLDB 2020, §3).

/// One of the lists.
pub type Object = u32;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It saw this list.
    Read {
        /// Which.
        object: Object,
        /// All of it.
        values: Vec<u64>,
    },
    /// It added this number, which nobody else adds to anything.
    Append {
        /// To which.
        object: Object,
        /// The number.
        value: u64,
    },
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its commit was answered.
    Committed,
    /// Nothing of it may ever be seen.
    Aborted,
    /// Nobody knows: it happened if somebody saw it.
    Unknown,
}

/// One transaction. A single operation outside of any is one, too.
#[derive(Clone, Debug)]
pub struct Record {
    /// A moment before its begin, on a clock that all share.
    pub begun: u64,
    /// A moment after its end was answered.
    pub ended: u64,
    /// Its steps, in their order; without those of nested ones that were aborted.
    pub actions: Vec<Action>,
    /// How it ended.
    pub outcome: Outcome,
}

/// What committed transactions must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As if each saw the tree at its begin, and the first of two that changed
    /// the same committed: write skew, and no other anomaly, may happen.
    Snapshot,
    /// As if they ran one after the other, in an order in which whoever began
    /// after another had ended comes behind it.
    Serializable,
}

/// What must not be. Names as in Adya 1999 and in Berenson et al. 1995.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// Two reads of a transaction disagree, or one misses its own write.
    Unrepeatable,
    /// G1a: a value of a transaction that was aborted was seen: a dirty read.
    AbortedRead,
    /// G1b: a value was seen that its transaction had replaced itself.
    IntermediateRead,
    /// A value that nobody wrote, or one twice in a list.
    Garbage,
    /// Two reads saw different orders of writes.
    DivergentOrder,
    /// P4: a committed write is gone, or written over by who had not seen it.
    LostUpdate,
    /// G0: writes of transactions interleave.
    DirtyWrite,
    /// G1c: information flows in a circle.
    CircularFlow,
    /// G-single: one saw another's writes in part: read skew.
    ReadSkew,
    /// A circle with several anti-dependencies of which no two are neighbours.
    LongFork,
    /// G2: a circle with two anti-dependencies next to each other.
    WriteSkew,
    /// Of these, one that closes only because one ended before another began:
    /// something old was seen.
    Stale,
}

/// An anomaly, with the transactions that are in it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub anomaly: Anomaly,
    /// For people.
    pub told: String,
}

/// What was checked.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// One of each kind that was found and is not allowed.
    pub found: Vec<Found>,
    /// Transactions that were committed.
    pub committed: usize,
    /// Dependencies between them.
    pub edges: usize,
    /// Circles of write skew, where the level allows them.
    pub skews: usize,
}

impl Judgement {
    /// True if this anomaly is among those found.
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
