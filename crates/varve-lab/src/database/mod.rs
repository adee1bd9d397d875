//! Databases with which the thesis measured file systems, as programs on the record
//! store `varve-tp`: the same code runs on a simulated drive (B5, B6) and on a host's
//! directory (`varve bench`).
//!
//! | module | what is in it |
//! |---|---|
//! | [`oo1`] | parts and connections: lookup, traverse, insert |
//! | [`wisconsin`] | four relations and 32 queries |

pub mod oo1;
pub mod wisconsin;

use std::ops::AddAssign;

/// What a program asked of its record store, for which a simulated processor pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Searches for a key.
    pub retrieved: u64,
    /// Further records that came in order behind one.
    pub scanned: u64,
    /// Pairs of records that a join compared.
    pub compared: u64,
    /// Records whose value was changed.
    pub updated: u64,
    /// Records inserted or deleted, those of indices included.
    pub inserted: u64,
}

impl Work {
    /// Instructions of all of it, by table 4-1 of Seltzer 1992. Two are not in the
    /// table and assumed: 200 for a record of a scan, 20 for a pair.
    pub fn instructions(self) -> u64 {
        7000 * self.retrieved
            + 200 * self.scanned
            + 20 * self.compared
            + 12_000 * self.updated
            + 18_000 * self.inserted
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.retrieved += other.retrieved;
        self.scanned += other.scanned;
        self.compared += other.compared;
        self.updated += other.updated;
        self.inserted += other.inserted;
    }
}
