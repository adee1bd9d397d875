//! When to clean and how much: watermarks of clean segments.

/// The number of clean segments, and its watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Number of clean segments.
    pub clean: u32,
    /// Below this many, cleaning begins.
    pub low: u32,
    /// Cleaning continues until there are this many.
    pub high: u32,
}

impl Watermarks {
    /// Number of clean segments wanted now.
    pub fn wanted(&self) -> u32 {
        match self.clean < self.low {
            true => self.high.saturating_sub(self.clean),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaning_begins_below_the_low_mark_and_fills_up_to_the_high() {
        let space = |clean| Watermarks {
            clean,
            low: 3,
            high: 10,
        };
        assert_eq!(space(3).wanted(), 0);
        assert_eq!(space(2).wanted(), 8);
        assert_eq!(space(0).wanted(), 10);
    }
}
