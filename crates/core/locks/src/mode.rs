//! The modes of a lock, which of them are compatible, and the join of two modes.
//!
//! Invariants, which the tests derive from the first table:
//! - Compatibility is symmetric.
//! - The join of two modes conflicts with exactly the modes that either of them
//!   conflicts with. The owner of two locks on one place therefore holds their join,
//!   and joining locks makes no request wait that did not wait before.
//!
//! Source: Gray, Lorie, Putzolu, Traiger 1976, tables 1 and 2: IS, IX, S, SIX, X.
//! `Update` is the U of System R's successors. It is symmetric, because queues are fair
//! and need no help against a stream of readers.

/// The access that a lock gives its owner and denies to other owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Parts of the object will be read, under locks of their own.
    IntentionRead,
    /// Parts of the object will be written, under locks of their own.
    IntentionWrite,
    /// The object is read.
    Read,
    /// The object is read and will be written. Other owners may read it, but not with
    /// the same intention, because one of two such owners would have to abort.
    Update,
    /// The object is read, and parts of it will be written.
    ReadIntentionWrite,
    /// The object is written.
    Write,
}

use Mode::*;

const YES: bool = true;
const NO: bool = false;

/// Compatibility of two modes, in the order of [`Mode::ALL`] in both directions.
#[rustfmt::skip]
const COMPATIBLE: [[bool; 6]; 6] = [
    // IS   IX   S    U    SIX  X
    [YES, YES, YES, YES, YES, NO], // IntentionRead
    [YES, YES, NO,  NO,  NO,  NO], // IntentionWrite
    [YES, NO,  YES, YES, NO,  NO], // Read
    [YES, NO,  YES, NO,  NO,  NO], // Update
    [YES, NO,  NO,  NO,  NO,  NO], // ReadIntentionWrite
    [NO,  NO,  NO,  NO,  NO,  NO], // Write
];

const SIX: Mode = ReadIntentionWrite;

#[rustfmt::skip]
const JOIN: [[Mode; 6]; 6] = [
    [IntentionRead,  IntentionWrite, Read,   Update, SIX,   Write],
    [IntentionWrite, IntentionWrite, SIX,    SIX,    SIX,   Write],
    [Read,           SIX,            Read,   Update, SIX,   Write],
    [Update,         SIX,            Update, Update, SIX,   Write],
    [SIX,            SIX,            SIX,    SIX,    SIX,   Write],
    [Write,          Write,          Write,  Write,  Write, Write],
];

impl Mode {
    /// All modes, each before the modes that are stronger than it.
    pub const ALL: [Mode; 6] = [
        IntentionRead,
        IntentionWrite,
        Read,
        Update,
        ReadIntentionWrite,
        Write,
    ];

    /// Returns true if two owners may hold these modes on the same place.
    #[inline]
    pub const fn compatible(self, other: Mode) -> bool {
        COMPATIBLE[self as usize][other as usize]
    }

    /// Returns the weakest mode that allows all that either mode allows (the supremum).
    #[inline]
    pub const fn join(self, other: Mode) -> Mode {
        JOIN[self as usize][other as usize]
    }

    /// Returns true if this mode allows all that `other` allows.
    #[inline]
    pub const fn covers(self, other: Mode) -> bool {
        self.join(other) as usize == self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflicts(mode: Mode) -> Vec<Mode> {
        let others = Mode::ALL.into_iter();
        others.filter(|other| !mode.compatible(*other)).collect()
    }

    /// Gray and others 1976, table 1, row by row.
    #[test]
    fn the_five_modes_go_together_as_published() {
        let modes = [IntentionRead, IntentionWrite, Read, SIX, Write];
        let published = ["YYYYN", "YYNNN", "YNYNN", "YNNNN", "NNNNN"];
        for (held, row) in modes.iter().zip(published) {
            for (asked, compatible) in modes.iter().zip(row.chars()) {
                assert_eq!(
                    held.compatible(*asked),
                    compatible == 'Y',
                    "{held:?} {asked:?}"
                );
            }
        }
    }

    #[test]
    fn an_update_goes_with_readers_only() {
        assert_eq!(
            conflicts(Update),
            [IntentionWrite, Update, ReadIntentionWrite, Write]
        );
    }

    #[test]
    fn compatibility_is_symmetric() {
        for (a, b) in Mode::ALL.iter().flat_map(|a| Mode::ALL.map(|b| (*a, b))) {
            assert_eq!(a.compatible(b), b.compatible(a), "{a:?} {b:?}");
            assert_eq!(a.join(b), b.join(a), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_join_conflicts_with_what_either_conflicts_with_and_nothing_else() {
        for (a, b) in Mode::ALL.iter().flat_map(|a| Mode::ALL.map(|b| (*a, b))) {
            for c in Mode::ALL {
                let both = a.compatible(c) && b.compatible(c);
                assert_eq!(a.join(b).compatible(c), both, "{a:?} {b:?} {c:?}");
            }
        }
    }

    /// Gray and others 1976, figure 3.
    #[test]
    fn joins_are_those_of_the_lattice() {
        assert_eq!(Read.join(IntentionWrite), ReadIntentionWrite);
        assert_eq!(Read.join(Update), Update);
        assert_eq!(Update.join(IntentionWrite), ReadIntentionWrite);
        assert!(Write.covers(ReadIntentionWrite));
        assert!(ReadIntentionWrite.covers(Update));
        assert!(!Read.covers(IntentionWrite));
        for (a, b, c) in Mode::ALL
            .iter()
            .flat_map(|a| Mode::ALL.map(|b| (*a, b)))
            .flat_map(|(a, b)| Mode::ALL.map(|c| (a, b, c)))
        {
            assert_eq!(a.join(b).join(c), a.join(b.join(c)));
            if c.covers(a) && c.covers(b) {
                assert!(c.covers(a.join(b)), "{a:?} {b:?} {c:?}");
            }
        }
    }
}
