//! Rules that can be left out, to show their purpose.

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// A copy that the cleaner moved and that is displaced in the same delta is kept.
    MovedThenDisplaced,
    /// Such a copy is also kept when the delta of a failed checkpoint is merged with the
    /// next.
    MergedThenDisplaced,
    /// An image that only a fold rewrote keeps its epoch.
    EpochKept,
    /// An entry that is moved keeps the newest snapshot that has it.
    LastKept,
    /// A reader looks in the deltas for the new place of a block that was moved.
    PlaceAsked,
    /// A block that a delta displaces, and a snapshot has, is not overwritten.
    DisplacedJudged,
    /// A block in the history is not overwritten.
    HistoryJudged,
    /// A deletion takes effect when both records have it.
    DeletionWaits,
    /// A commit places no block that was spilled before the newest snapshot.
    SpilledAgain,
    /// A move of a live copy that a snapshot may have is marked as well, because a user
    /// may displace the copy before the move is appended.
    StaleKept,
    /// The log records that a copy was moved for a snapshot.
    KeptMarked,
    /// A block that a running checkpoint folds, and that is displaced meanwhile, is kept
    /// for its snapshot.
    FrozenJudged,
}

impl Missing {
    /// All rules.
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
