//! The index of a file: a root of a few pointers, and below it nodes with a fixed
//! number of pointers each. A node of height 1 points to blocks, a node of height h to
//! nodes of height h-1. A node is identified by its height and its number within the
//! height.
//!
//! The reach of an index and the paths through it are the same in both layouts. The
//! layouts differ in the form of pointers and nodes (`format/node.rs` of each), and in
//! where nodes are found: on the device, or in memory over it.

use std::ops::Range;
use varve_fs::BlockPointer;

/// Number of pointers in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout(pub u64);

impl Fanout {
    /// Returns the number of blocks below one pointer at `height`.
    pub fn span(self, height: u8) -> u64 {
        self.0.saturating_pow(height.into())
    }

    /// Returns the number of blocks that a root of `slots` pointers at `height` can
    /// index.
    pub fn capacity(self, slots: usize, height: u8) -> u64 {
        self.span(height).saturating_mul(slots as u64)
    }

    /// Returns the number of the node of `height` on the path to `block`; at height 0
    /// the number of the block itself.
    pub fn number(self, height: u8, block: u64) -> u64 {
        block / self.span(height)
    }

    /// Returns the slot on the path to `block` in the node of `height` (at least 1) on
    /// that path.
    pub fn slot(self, height: u8, block: u64) -> usize {
        (self.number(height - 1, block) % self.0) as usize
    }

    /// Returns the spot that `slot` of this node leads to.
    pub fn below(self, node: Spot, slot: usize) -> Spot {
        Spot {
            height: node.height - 1,
            index: node
                .index
                .saturating_mul(self.0)
                .saturating_add(slot as u64),
        }
    }

    /// Returns the range of slots that lead to any of `blocks`, among `slots` slots
    /// that begin at block `first` and lead to spots of height `height`.
    pub fn slots_of(
        self,
        first: u64,
        height: u8,
        blocks: &Range<u64>,
        slots: usize,
    ) -> Range<usize> {
        let (from, to) = (
            blocks.start.saturating_sub(first) / self.span(height),
            blocks.end.saturating_sub(first).div_ceil(self.span(height)),
        );
        let within = |slot: u64| slot.min(slots as u64) as usize;
        within(from)..within(to)
    }
}

/// A position in an index: of a node, or at height 0 of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Height; 0 for a block.
    pub height: u8,
    /// Number within the height.
    pub index: u64,
}

/// The index of a file, and access to its nodes.
pub trait Index {
    /// The pointers in the slots.
    type Pointer: BlockPointer;
    /// A node that was found.
    type Node;
    /// The error when a node cannot be read.
    type Error;

    /// Returns the number of pointers in a node.
    fn fanout(&self) -> Fanout;

    /// Returns the height and the pointers of the root; at height 0 they lead to
    /// blocks.
    fn root(&self) -> (u8, &[Self::Pointer]);

    /// Returns the node at a spot, to which `pointer` leads; `None` if there is none.
    ///
    /// # Errors
    /// If the node cannot be read.
    fn node(&self, at: Spot, pointer: &Self::Pointer) -> Result<Option<Self::Node>, Self::Error>;

    /// Returns all slots of a node.
    fn slots(node: &Self::Node) -> &[Self::Pointer];

    /// Visits the existing blocks of `from..to` in ascending order, until `visit`
    /// returns false.
    ///
    /// # Errors
    /// If a node on the path cannot be read.
    fn blocks(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, Self::Pointer) -> bool,
    ) -> Result<(), Self::Error> {
        let (height, slots) = self.root();
        for slot in self.fanout().slots_of(0, height, &(from..to), slots.len()) {
            let index = slot as u64;
            if !blocks_at(
                self,
                Spot { height, index },
                &slots[slot],
                &(from..to),
                visit,
            )? {
                break;
            }
        }
        Ok(())
    }

    /// Visits every spot of the index that is not entirely before block `from`, parents
    /// first. The spots below a node for which `visit` returns false are skipped.
    ///
    /// # Errors
    /// If a node cannot be read, or the error of `visit`.
    fn places(
        &self,
        from: u64,
        visit: &mut dyn FnMut(Spot, Self::Pointer) -> Result<bool, Self::Error>,
    ) -> Result<(), Self::Error> {
        let (height, slots) = self.root();
        for (index, pointer) in (0..).zip(slots) {
            places_at(self, Spot { height, index }, pointer, from, visit)?;
        }
        Ok(())
    }

    /// Returns the pointer that leads to a spot, if there is one.
    ///
    /// # Errors
    /// If a node on the path cannot be read.
    fn find(&self, at: Spot) -> Result<Option<Self::Pointer>, Self::Error> {
        let (mut height, slots) = self.root();
        if at.height > height {
            return Ok(None);
        }
        let fanout = self.fanout();
        let number = |height| fanout.number(height - at.height, at.index);
        let slot = usize::try_from(number(height)).unwrap_or(usize::MAX);
        let Some(&(mut pointer)) = slots.get(slot) else {
            return Ok(None);
        };
        while height > at.height {
            let index = number(height);
            let Some(node) = self.node(Spot { height, index }, &pointer)? else {
                return Ok(None);
            };
            height -= 1;
            pointer = Self::slots(&node)[(number(height) % fanout.0) as usize];
        }
        Ok((pointer.sectors() > 0).then_some(pointer))
    }
}

/// The part of [`Index::blocks`] at and below one spot; returns false once `visit` did.
fn blocks_at<I: Index + ?Sized>(
    index: &I,
    at: Spot,
    pointer: &I::Pointer,
    blocks: &Range<u64>,
    visit: &mut dyn FnMut(u64, I::Pointer) -> bool,
) -> Result<bool, I::Error> {
    if at.height == 0 {
        return Ok(pointer.sectors() == 0 || visit(at.index, *pointer));
    }
    let Some(node) = index.node(at, pointer)? else {
        return Ok(true);
    };
    let (fanout, slots) = (index.fanout(), I::slots(&node));
    let first = at.index.saturating_mul(fanout.span(at.height));
    for slot in fanout.slots_of(first, at.height - 1, blocks, slots.len()) {
        if !blocks_at(index, fanout.below(at, slot), &slots[slot], blocks, visit)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The part of [`Index::places`] at and below one spot.
fn places_at<I: Index + ?Sized>(
    index: &I,
    at: Spot,
    pointer: &I::Pointer,
    from: u64,
    visit: &mut dyn FnMut(Spot, I::Pointer) -> Result<bool, I::Error>,
) -> Result<(), I::Error> {
    let fanout = index.fanout();
    let span = fanout.span(at.height);
    if at.index.saturating_mul(span).saturating_add(span) <= from {
        return Ok(());
    }
    // A node that was never written has no address, and may be in memory.
    if (pointer.sectors() > 0 && !visit(at, *pointer)?) || at.height == 0 {
        return Ok(());
    }
    let Some(node) = index.node(at, pointer)? else {
        return Ok(());
    };
    for (slot, pointer) in I::slots(&node).iter().enumerate() {
        places_at(index, fanout.below(at, slot), pointer, from, visit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FANOUT: Fanout = Fanout(126);
    const F: u64 = FANOUT.0;

    #[test]
    fn slots_that_lead_to_some_of_the_blocks_are_those_that_overlap_them() {
        let cases = [(0, 0), (0, 1), (5 * F * F, 1), (7 * F, 0)];
        for (first, height) in cases {
            let edges = [0, 1, F - 1, F, F + 1, 3 * F, 1 << 40];
            let blocks: Vec<u64> = (edges.iter())
                .flat_map(|edge| [*edge, first + edge, (first + edge).saturating_sub(2)])
                .collect();
            for (&from, &to) in blocks
                .iter()
                .flat_map(|a| blocks.iter().map(move |b| (a, b)))
            {
                let leads = |slot: &usize| {
                    let begin = first + *slot as u64 * FANOUT.span(height);
                    begin < to && from < begin + FANOUT.span(height) && from < to
                };
                let expected: Vec<usize> = (0..F as usize).filter(leads).collect();
                let found = FANOUT.slots_of(first, height, &(from..to), F as usize);
                if from < to {
                    assert_eq!(
                        found.collect::<Vec<_>>(),
                        expected,
                        "{first} {height} {from} {to}"
                    );
                } else {
                    assert!(found.len() <= 1, "{from}..{to} is empty");
                }
            }
        }
        let far = u64::MAX - 5;
        assert_eq!(FANOUT.slots_of(far, 9, &(0..1 << 48), 128), 0..0);
    }
}
