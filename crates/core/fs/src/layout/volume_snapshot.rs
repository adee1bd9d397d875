//! What a snapshot of a volume is called, and when it was taken.

use crate::types::Timestamp;

/// A snapshot of the volume, kept until it is deleted (`docs/design/snapshots.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSnapshot {
    /// Ascends with time and is never given twice. Not 0.
    pub number: u32,
    /// Empty for an automatic snapshot.
    pub name: String,
    /// When it was taken.
    pub taken: Timestamp,
}

impl VolumeSnapshot {
    /// True for a snapshot without a name: the layout deletes it when space is needed.
    pub fn is_automatic(&self) -> bool {
        self.name.is_empty()
    }
}
