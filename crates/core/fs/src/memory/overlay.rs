//! Holes and reservations that the layout does not have yet.
//!
//! Truncates, punched holes and reservations wait in memory for their group. Until then
//! they hide the layout's blocks. Only their joint effect is kept: disjoint ranges that
//! are holes, or reserved, regardless of the blocks there before.

use crate::layout::Item;
use crate::types::{InodeNo, Version};
use std::collections::BTreeMap;

/// The state of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// No block exists.
    Hole,
    /// Blocks that read as zeros. If `cleared`, the layout may still have older ones,
    /// which have to be punched first.
    Reserved { cleared: bool },
}

#[derive(Clone, Copy, Debug)]
struct Span {
    end: u64,
    cover: Cover,
}

/// Ranges of blocks, by their first; disjoint. An end of `u64::MAX` is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    spans: BTreeMap<u64, Span>,
    /// Number of blocks in the reserved ranges.
    reserved: u64,
}

impl Overlay {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> u64 {
        self.spans.len() as u64
    }

    /// Number of reserved blocks.
    pub fn reserved_blocks(&self) -> u64 {
        self.reserved
    }

    /// The cover of `block`, and the end of its range.
    pub fn at(&self, block: u64) -> Option<(Cover, u64)> {
        if self.spans.is_empty() {
            return None;
        }
        let (_, span) = self.spans.range(..=block).next_back()?;
        (span.end > block).then_some((span.cover, span.end))
    }

    /// Ranges that overlap `from..to`, cut to it.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, Cover)> + '_ {
        let first = self.spans.range(..=from).next_back();
        let first = first.map_or(from, |(start, _)| *start);
        self.spans
            .range(first..to.max(first))
            .map(move |(start, span)| ((*start).max(from), span.end.min(to), span.cover))
            .filter(|(start, end, _)| start < end)
    }

    /// Reserved ranges that overlap `from..to`, cut to it.
    pub fn reserved(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.within(from, to)
            .filter(|(_, _, cover)| *cover != Cover::Hole)
            .map(|(start, end, _)| (start, end))
    }

    /// Makes a span begin at `block` if one extends across it.
    fn split(&mut self, block: u64) {
        if let Some((_, span)) = self.spans.range_mut(..block).next_back()
            && span.end > block
        {
            let rest = *span;
            span.end = block;
            self.spans.insert(block, rest);
        }
    }

    /// Makes `from..to` a hole.
    pub fn clear(&mut self, mut from: u64, mut to: u64) {
        self.split(from);
        self.split(to);
        while let Some((&start, &span)) = self.spans.range(from..to).next() {
            self.spans.remove(&start);
            if span.cover != Cover::Hole {
                self.reserved -= span.end - start;
            }
        }
        if let Some((&start, span)) = self.spans.range(..from).next_back()
            && span.end == from
            && span.cover == Cover::Hole
        {
            from = start;
        }
        if let Some(span) = self.spans.get(&to)
            && span.cover == Cover::Hole
        {
            let end = span.end;
            self.spans.remove(&to);
            to = end;
        }
        self.spans.insert(
            from,
            Span {
                end: to,
                cover: Cover::Hole,
            },
        );
    }

    /// Reserves `from..to`, which was a hole throughout.
    pub fn reserve(&mut self, from: u64, to: u64) {
        self.split(from);
        self.split(to);
        let mut at = from;
        while at < to {
            let next = self
                .spans
                .range(at..to)
                .next()
                .map(|(start, span)| (*start, span.end));
            let (hole, end) = match next {
                Some((start, end)) if start == at => (true, end),
                Some((start, _)) => (false, start),
                None => (false, to),
            };
            let cover = Cover::Reserved { cleared: hole };
            self.spans.insert(at, Span { end, cover });
            self.reserved += end - at;
            at = end;
        }
    }

    /// Adds the records with this effect: first all that remove, then all that reserve.
    pub fn records(&self, ino: InodeNo, version: Version, items: &mut Vec<Item>) {
        let mut cleared: Option<(u64, u64)> = None;
        for (&start, span) in &self.spans {
            if span.cover == (Cover::Reserved { cleared: false }) {
                continue;
            }
            match &mut cleared {
                Some((_, end)) if *end == start => *end = span.end,
                _ => {
                    push_hole(ino, version, cleared, items);
                    cleared = Some((start, span.end));
                }
            }
        }
        push_hole(ino, version, cleared, items);
        for (&from_block, span) in &self.spans {
            if span.cover != Cover::Hole {
                items.push(Item::Reserved {
                    ino,
                    version,
                    from_block,
                    to_block: span.end,
                });
            }
        }
    }
}

fn push_hole(ino: InodeNo, version: Version, range: Option<(u64, u64)>, items: &mut Vec<Item>) {
    match range {
        None => {}
        Some((from_block, u64::MAX)) => items.push(Item::Truncated {
            ino,
            version,
            from_block,
        }),
        Some((from_block, to_block)) => {
            items.push(Item::Punched {
                ino,
                version,
                from_block,
                to_block,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn a_reservation_inside_a_truncated_tail_survives_the_truncate() {
        let mut overlay = Overlay::default();
        overlay.clear(10, u64::MAX);
        overlay.reserve(20, 30);
        let mut items = Vec::new();
        overlay.records(InodeNo(3), 1, &mut items);
        assert!(matches!(items[0], Item::Truncated { from_block: 10, .. }));
        assert!(matches!(
            items[1],
            Item::Reserved {
                from_block: 20,
                to_block: 30,
                ..
            }
        ));
        assert_eq!(items.len(), 2);
        assert_eq!(overlay.at(9), None);
        assert_eq!(overlay.at(15), Some((Cover::Hole, 20)));
        assert_eq!(overlay.at(1 << 40), Some((Cover::Hole, u64::MAX)));
    }

    /// State of a block: 0 as in the layout, 1 hole, 2 reserved over a hole of the
    /// layout, 3 reserved over a cleared one.
    #[test]
    fn any_sequence_equals_a_table_of_blocks() {
        const N: u64 = 24;
        for seed in 0..300 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut overlay = Overlay::default();
            let mut table = [0u8; N as usize];
            for _ in 0..rng.random_range(1..12) {
                let from = rng.random_range(0..N);
                let to = rng.random_range(from + 1..=N);
                if rng.random_bool(0.5) {
                    overlay.clear(from, to);
                    table[from as usize..to as usize].fill(1);
                } else if table[from as usize..to as usize].iter().all(|t| *t < 2) {
                    overlay.reserve(from, to);
                    for t in &mut table[from as usize..to as usize] {
                        *t += 2;
                    }
                }
            }
            for block in 0..N {
                let got = match overlay.at(block).map(|(cover, _)| cover) {
                    None => 0,
                    Some(Cover::Hole) => 1,
                    Some(Cover::Reserved { cleared }) => 2 + u8::from(cleared),
                };
                assert_eq!(got, table[block as usize], "seed {seed} block {block}");
            }
            let reserved = table.iter().filter(|state| **state > 1).count() as u64;
            assert_eq!(overlay.reserved_blocks(), reserved, "seed {seed}");
        }
    }
}
