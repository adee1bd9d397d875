//! The indirection map: where each logical block is, in pieces of one record.

use std::collections::BTreeSet;

use crate::format::{Entry, Layout};

/// Logical blocks to blocks, in memory. A piece of nothing takes no room.
#[derive(Debug, Clone)]
pub struct Map {
    pieces: Vec<Option<Box<[Entry]>>>,
    each: u32,
    logical_blocks: u64,
}

/// Maps are equal that say the same of every block, whatever room they take.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.logical_blocks == other.logical_blocks && self.mapped().eq(other.mapped())
    }
}

impl Eq for Map {}

impl Map {
    /// A map of nothing.
    pub fn new(layout: &Layout) -> Self {
        Map {
            pieces: vec![None; layout.pieces() as usize],
            each: layout.piece_entries(),
            logical_blocks: layout.logical_blocks,
        }
    }

    /// The piece of a logical block.
    pub fn piece_of(&self, logical: u32) -> u32 {
        logical / self.each
    }

    /// Where a logical block is.
    pub fn get(&self, logical: u32) -> Entry {
        let piece = self.pieces[self.piece_of(logical) as usize].as_ref();
        piece.map_or(Entry::default(), |piece| {
            piece[(logical % self.each) as usize]
        })
    }

    /// Changes where a logical block is; returns where it was.
    pub fn set(&mut self, logical: u32, entry: Entry) -> Entry {
        let at = self.piece_of(logical);
        let length = self.length(at);
        let piece = &mut self.pieces[at as usize];
        if piece.is_none() && entry == Entry::default() {
            return entry;
        }
        let piece = piece.get_or_insert_with(|| vec![Entry::default(); length].into());
        std::mem::replace(&mut piece[(logical % self.each) as usize], entry)
    }

    /// Replaces a piece.
    pub fn set_piece(&mut self, piece: u32, entries: impl Iterator<Item = Entry>) {
        let entries: Box<[Entry]> = entries.collect();
        debug_assert_eq!(entries.len(), self.length(piece));
        let some = entries.iter().any(|entry| *entry != Entry::default());
        self.pieces[piece as usize] = some.then_some(entries);
    }

    /// A piece's entries, each with whether it is among `fresh`.
    pub fn piece(&self, piece: u32, fresh: &BTreeSet<u32>) -> Vec<(Entry, bool)> {
        let (first, length) = (piece * self.each, self.length(piece));
        let mut entries = match &self.pieces[piece as usize] {
            Some(entries) => entries.iter().map(|&entry| (entry, false)).collect(),
            None => vec![(Entry::default(), false); length],
        };
        for logical in fresh.range(first..first + length as u32) {
            entries[(logical - first) as usize].1 = true;
        }
        entries
    }

    /// Entries of a piece.
    fn length(&self, piece: u32) -> usize {
        let before = u64::from(piece) * u64::from(self.each);
        (self.logical_blocks - before).min(u64::from(self.each)) as usize
    }

    /// Every logical block that is somewhere, and where.
    pub fn mapped(&self) -> impl Iterator<Item = (u32, Entry)> {
        let pieces = self.pieces.iter().enumerate();
        let some = pieces.filter_map(|(nth, piece)| Some((nth, piece.as_ref()?)));
        some.flat_map(|(nth, piece)| {
            let first = nth as u32 * self.each;
            let entries = piece.iter().enumerate();
            entries.map(move |(at, &entry)| (first + at as u32, entry))
        })
        .filter(|(_, entry)| entry.place != 0)
    }

    /// Logical blocks.
    pub fn len(&self) -> u64 {
        self.logical_blocks
    }

    /// True if nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.mapped().next().is_none()
    }
}
