//! How metadata gets to its place: what mkfs chose.

use varve_format::Malformed;

/// How changes of metadata reach their places, and so what a crash leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metadata {
    /// Through a journal: groups are atomic, and no check is needed.
    #[default]
    Journal,
    /// In place, in the order that makes a check sufficient; names are durable when
    /// they are answered, as in FFS (McKusick et al. 1984).
    Synchronous,
    /// In place and in any order; nothing is written before somebody asks for it.
    Asynchronous,
}

impl Metadata {
    /// All, in the order of their numbers.
    pub const ALL: [Metadata; 3] = [
        Metadata::Journal,
        Metadata::Synchronous,
        Metadata::Asynchronous,
    ];

    /// No journal is written: a volume that was not unmounted needs a check.
    pub fn is_in_place(self) -> bool {
        self != Metadata::Journal
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Metadata::Journal => "journal",
            Metadata::Synchronous => "synchronous",
            Metadata::Asynchronous => "async",
        }
    }

    /// As stored.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// From its stored form.
    ///
    /// # Errors
    /// If no configuration has this number.
    pub fn of(number: u8) -> Result<Self, Malformed> {
        let found = Metadata::ALL.into_iter().find(|m| m.number() == number);
        found.ok_or_else(|| Malformed::new("superblock", format!("metadata kind {number}")))
    }
}
