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
    /// True if it was taken without a name, and gives way when space is needed.
    pub fn is_automatic(&self) -> bool {
        self.name.is_empty()
    }
}
