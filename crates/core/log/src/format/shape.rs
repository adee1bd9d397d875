//! Places of the parts of a partial segment. Writer and reader share it.

/// Sectors of each part.
#[derive(Clone, Copy, Debug, Default)]
pub struct SummaryParts {
    /// Header and entries.
    pub summary: u64,
    /// Inodes.
    pub inodes: u64,
    /// Blocks of the whole block size.
    pub full: u64,
    /// Other blocks.
    pub short: u64,
}

/// Sectors of the partial segment at which the parts begin, and its end before padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Inodes.
    pub inodes: u64,
    /// Full blocks; where they are not aligned, all blocks.
    pub full: u64,
    /// Shorter blocks; where full ones are not aligned, not used.
    pub short: u64,
    /// End of the last part.
    pub end: u64,
}

impl SummaryParts {
    /// Places the parts; `unit` is the sectors of a write unit if full blocks are aligned
    /// to it.
    pub fn placed(&self, unit: Option<u64>) -> Shape {
        match unit {
            None => {
                let inodes = self.summary + self.full + self.short;
                Shape {
                    inodes,
                    full: self.summary,
                    short: inodes,
                    end: inodes + self.inodes,
                }
            }
            Some(unit) => {
                let short = self.summary + self.inodes;
                let end = short + self.short;
                let full = match self.full {
                    0 => end,
                    _ => end.next_multiple_of(unit),
                };
                Shape {
                    inodes: self.summary,
                    full,
                    short,
                    end: full + self.full,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_blocks_stand_on_units_and_nothing_else_does() {
        let parts = SummaryParts {
            summary: 3,
            inodes: 2,
            full: 16,
            short: 3,
        };
        let plain = parts.placed(None);
        assert_eq!((plain.full, plain.inodes, plain.end), (3, 22, 24));
        let aligned = parts.placed(Some(8));
        assert_eq!((aligned.inodes, aligned.short), (3, 5));
        assert_eq!((aligned.full, aligned.end), (8, 24));
        let none = SummaryParts { full: 0, ..parts }.placed(Some(8));
        assert_eq!((none.inodes, none.short, none.end), (3, 5, 8));
    }
}
