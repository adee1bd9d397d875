//! Rules that can be left out, to see what each is for.

/// A rule that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// A copy that the cleaner moved and that is displaced in the same delta is kept.
    MovedThenDisplaced,
    /// Likewise when the delta of a failed checkpoint is merged with the next.
    MergedThenDisplaced,
    /// An image that only a fold rewrote keeps its epoch.
    EpochKept,
    /// An entry that is moved keeps the newest snapshot that has it.
    LastKept,
    /// A reader asks the deltas where a block has been moved to.
    PlaceAsked,
    /// What a delta displaces, and a snapshot has, is not written over.
    DisplacedJudged,
    /// What the history has is not written over.
    HistoryJudged,
    /// A deletion counts once both records have it.
    DeletionWaits,
    /// A commit places no block that was spilled before the newest snapshot.
    SpilledAgain,
    /// A move of a live copy that a snapshot may have says so, too: a user may displace
    /// the copy before the move is appended.
    StaleKept,
    /// The log says that a copy was moved for a snapshot.
    KeptMarked,
    /// What a running checkpoint folds, displaced meanwhile, is kept for its snapshot.
    FrozenJudged,
}

impl Missing {
    /// All of them.
    pub const ALL: [Missing; 12] = [
        Missing::MovedThenDisplaced,
        Missing::MergedThenDisplaced,
        Missing::EpochKept,
        Missing::LastKept,
        Missing::PlaceAsked,
        Missing::DisplacedJudged,
        Missing::HistoryJudged,
        Missing::DeletionWaits,
        Missing::SpilledAgain,
        Missing::StaleKept,
        Missing::KeptMarked,
        Missing::FrozenJudged,
    ];
}
