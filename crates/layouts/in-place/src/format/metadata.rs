//! The discipline of metadata writes, chosen at mkfs.

use varve_format::Malformed;

/// The discipline of metadata writes, which determines the state after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metadata {
    /// Metadata is written through a journal: groups are atomic, and no check is needed.
    #[default]
    Journal,
    /// Metadata is written in place, in an order that makes a check sufficient. An
    /// operation on names is durable when it returns, as in FFS (McKusick et al. 1984).
    Synchronous,
    /// Metadata is written in place and in any order, when a caller requests it.
    Asynchronous,
}

impl Metadata {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Metadata; 3] = [
        Metadata::Journal,
        Metadata::Synchronous,
        Metadata::Asynchronous,
    ];

    /// Returns true if there is no journal, so that a volume that was not unmounted
    /// needs a check.
    pub fn is_in_place(self) -> bool {
        self != Metadata::Journal
    }

    /// Returns the name, as options have it.
    pub fn name(self) -> &'static str {
        match self {
            Metadata::Journal => "journal",
            Metadata::Synchronous => "synchronous",
            Metadata::Asynchronous => "async",
        }
    }

    /// Returns the stored number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the kind with this stored number.
    ///
    /// # Errors
    /// If no kind has this number.
    pub fn of(number: u8) -> Result<Self, Malformed> {
        let found = Metadata::ALL.into_iter().find(|m| m.number() == number);
        found.ok_or_else(|| Malformed::new("superblock", format!("metadata kind {number}")))
    }
}
