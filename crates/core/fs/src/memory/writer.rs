//! What the one who captures knows.

use crate::layout::Usage;

/// State of the one who captures, behind the writer lock.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The usage announced with the last group.
    pub usage: Usage,
}

impl Writer {
    pub fn new(usage: Usage) -> Self {
        Writer { usage }
    }
}
