//! Databases with which the thesis measured file systems, as programs on the record
//! store `varve-tp`: the same code runs on a simulated drive (B5, B6, X3) and on a host's
//! directory (`varve bench`).
//!
//! | module | what is in it |
//! |---|---|
//! | [`oo1`] | parts and connections: lookup, traverse, insert |
//! | [`scan`] | the bank of TPC-B, read in the order of its accounts |
//! | [`wisconsin`] | four relations and 32 queries |

pub mod oo1;
pub mod scan;
pub mod wisconsin;

use std::ops::AddAssign;

/// Instructions of a lock, its release included. This and the following: Seltzer 1992,
/// table 4-1.
pub const LOCK: u64 = 1000;
/// Of finding a record, or going on to the next: the table has no other number.
pub const RETRIEVE: u64 = 7000;
/// Of changing one.
pub const UPDATE: u64 = 12_000;
/// Of inserting or deleting one.
pub const INSERT: u64 = 18_000;
/// Of comparing two. Not in the table.
const COMPARE: u64 = 20;

/// What a program asked of its record store, for which a simulated processor pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Searches for a key, and records that came in order behind one.
    pub retrieved: u64,
    /// Pairs of records that a join compared.
    pub compared: u64,
    /// Records whose value was changed.
    pub updated: u64,
    /// Records inserted or deleted, those of indices included.
    pub inserted: u64,
}

impl Work {
    /// Instructions of comparing, which no table has.
    pub fn comparing(self) -> u64 {
        COMPARE * self.compared
    }

    /// Instructions of all of it.
    pub fn instructions(self) -> u64 {
        RETRIEVE * self.retrieved
            + self.comparing()
            + UPDATE * self.updated
            + INSERT * self.inserted
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.retrieved += other.retrieved;
        self.compared += other.compared;
        self.updated += other.updated;
        self.inserted += other.inserted;
    }
}
