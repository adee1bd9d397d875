//! The error for bytes that do not form a valid structure.

/// The reason why bytes were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {problem}")]
pub struct Malformed {
    /// Name of the structure.
    pub structure: &'static str,
    /// The rule that was broken.
    pub problem: String,
}

impl Malformed {
    /// Creates an error about a structure.
    pub fn new(structure: &'static str, problem: impl Into<String>) -> Self {
        Malformed {
            structure,
            problem: problem.into(),
        }
    }

    /// Creates the error of a checksum that differs.
    pub fn checksum(structure: &'static str, found: u32, expected: u32) -> Self {
        Self::new(
            structure,
            format!("checksum is {found:#010x}, want {expected:#010x}"),
        )
    }
}
