//! The indirection map: the place of each logical block, in pieces of one record each.

use std::collections::BTreeSet;

use crate::format::{Entry, Layout};

/// The map of logical blocks to places, in memory. A piece without entries needs no
/// memory.
#[derive(Debug, Clone)]
pub struct Map {
    pieces: Vec<Option<Box<[Entry]>>>,
    each: u32,
    logical_blocks: u64,
}

/// Compares entries only: equal maps may use different amounts of memory.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.logical_blocks == other.logical_blocks && self.mapped().eq(other.mapped())
    }
}

impl Eq for Map {}

impl Map {
    /// Creates an empty map.
    pub fn new(layout: &Layout) -> Self {
        Map {
            pieces: vec![None; layout.pieces() as usize],
            each: layout.piece_entries(),
            logical_blocks: layout.logical_blocks,
        }
    }

    /// Returns the piece of a logical block.
    pub fn piece_of(&self, logical: u32) -> u32 {
        logical / self.each
    }

    /// Returns the entry of a logical block.
    pub fn get(&self, logical: u32) -> Entry {
        let piece = self.pieces[self.piece_of(logical) as usize].as_ref();
        piece.map_or(Entry::default(), |piece| {
            piece[(logical % self.each) as usize]
        })
    }

    /// Sets the entry of a logical block; returns the former one.
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

    /// Replaces the entries of a piece.
    pub fn set_piece(&mut self, piece: u32, entries: impl Iterator<Item = Entry>) {
        let entries: Box<[Entry]> = entries.collect();
        debug_assert_eq!(entries.len(), self.length(piece));
        let some = entries.iter().any(|entry| *entry != Entry::default());
        self.pieces[piece as usize] = some.then_some(entries);
    }

    /// Returns the entries of a piece, each with whether its logical block is in
    /// `fresh`.
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

    /// Returns the number of entries of a piece.
    fn length(&self, piece: u32) -> usize {
        let before = u64::from(piece) * u64::from(self.each);
        (self.logical_blocks - before).min(u64::from(self.each)) as usize
    }

    /// Returns every logical block that has a place, with its entry.
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

    /// Returns the number of logical blocks.
    pub fn len(&self) -> u64 {
        self.logical_blocks
    }

    /// Returns true if no block has a place.
    pub fn is_empty(&self) -> bool {
        self.mapped().next().is_none()
    }
}
