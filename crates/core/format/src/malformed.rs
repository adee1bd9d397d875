//! Bytes that are not what they should be.

/// Why bytes were refused: the structure, and what about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {problem}")]
pub struct Malformed {
    /// Which structure.
    pub structure: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Malformed {
    /// Refuses bytes of a structure.
    pub fn new(structure: &'static str, problem: impl Into<String>) -> Self {
        Malformed {
            structure,
            problem: problem.into(),
        }
    }

    /// A checksum that differs.
    pub fn checksum(structure: &'static str, found: u32, expected: u32) -> Self {
        Self::new(
            structure,
            format!("checksum is {found:#010x}, want {expected:#010x}"),
        )
    }
}
