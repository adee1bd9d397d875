//! The write buffer before the log: overwrites that meet in it cost nothing,
//! and reordering buffers sort what it holds.

use super::volume::NONE;
use crate::policy::{Heat, Reordering, Waiting};

/// Dirty blocks older than this are flushed (WOLF §2.1).
pub const FLUSH_AFTER_NS: i64 = 30_000_000_000;

/// A block that waits.
#[derive(Debug, Clone, Copy)]
pub struct Buffered {
    /// Which.
    pub block: u32,
    /// The user write it carries, the last of it.
    pub arrival: u64,
    /// The reordering buffer it goes to.
    pub part: usize,
}

/// See the module's head.
#[derive(Debug)]
pub struct Buffer {
    capacity: usize,
    waiting: Vec<Buffered>,
    /// Where each block waits, or [`NONE`].
    places: Vec<u32>,
    oldest_ns: i64,
    reordering: Option<(Reordering, Vec<Heat>)>,
    sorted: Vec<Waiting>,
}

impl Buffer {
    /// For so many blocks; the block numbers lie below `blocks`.
    pub fn new(capacity: usize, blocks: u32, reordering: Option<Reordering>) -> Self {
        let heat = || vec![Heat::default(); blocks as usize];
        Buffer {
            capacity: capacity.max(1),
            waiting: Vec::with_capacity(capacity),
            places: vec![NONE; blocks as usize],
            oldest_ns: 0,
            reordering: reordering.map(|r| (r, heat())),
            sorted: Vec::new(),
        }
    }

    /// The block is read or written.
    pub fn touch(&mut self, block: u32, now_ns: i64) {
        if let Some((reordering, heat)) = &mut self.reordering {
            reordering.touch(&mut heat[block as usize], now_ns);
        }
    }

    /// Takes a block in. False if it waits already.
    pub fn put(&mut self, block: u32, arrival: u64, now_ns: i64) -> bool {
        let place = self.places[block as usize];
        if place != NONE {
            self.waiting[place as usize].arrival = arrival;
            return false;
        }
        if self.waiting.is_empty() {
            self.oldest_ns = now_ns;
        }
        self.places[block as usize] = self.waiting.len() as u32;
        self.waiting.push(Buffered {
            block,
            arrival,
            part: 0,
        });
        true
    }

    /// The block is removed before it was flushed. False if it is not here.
    pub fn remove(&mut self, block: u32) -> bool {
        let place = std::mem::replace(&mut self.places[block as usize], NONE);
        if place == NONE {
            return false;
        }
        self.waiting.swap_remove(place as usize);
        if let Some(moved) = self.waiting.get(place as usize) {
            self.places[moved.block as usize] = place;
        }
        true
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether it must be flushed now.
    pub fn is_due(&self, now_ns: i64) -> bool {
        self.waiting.len() >= self.capacity
            || (!self.waiting.is_empty() && now_ns - self.oldest_ns > FLUSH_AFTER_NS)
    }

    /// Takes everything out, in the order in which it goes to the log.
    /// `locality` names file and directory of a block.
    pub fn flush(&mut self, locality: impl Fn(u32) -> (u32, u32), out: &mut Vec<Buffered>) {
        out.clear();
        for waiting in &self.waiting {
            self.places[waiting.block as usize] = NONE;
        }
        match &mut self.reordering {
            None => out.append(&mut self.waiting),
            Some((reordering, heat)) => {
                self.sorted.clear();
                self.sorted
                    .extend(self.waiting.iter().enumerate().map(|(at, w)| {
                        let (file, directory) = locality(w.block);
                        Waiting {
                            arrival: at as u32,
                            references: heat[w.block as usize].references,
                            file,
                            directory,
                        }
                    }));
                let part = reordering.divide(&mut self.sorted);
                out.extend(self.sorted.iter().enumerate().map(|(at, w)| Buffered {
                    part: at / part,
                    ..self.waiting[w.arrival as usize]
                }));
                self.waiting.clear();
            }
        }
    }
}
