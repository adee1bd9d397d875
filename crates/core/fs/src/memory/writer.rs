//! State of the thread that captures.

use crate::layout::Usage;

/// State of the thread that captures, protected by the writer lock.
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
