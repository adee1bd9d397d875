//! What a mount knows of its volume's size: it changes when the volume grows, and
//! is read everywhere, without a lock.
//!
//! Values are added and never taken away. Whoever asks gets the newest one; what he
//! was given before stays what it was. So a value must be put before anybody can
//! meet what it speaks of first (`docs/design/resize.md`).

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Values that there may be: a mount grows one time less.
const MOST: usize = 64;

/// See the module's head.
pub struct Newest<T> {
    values: [OnceLock<T>; MOST],
    newest: AtomicUsize,
}

impl<T> Newest<T> {
    /// The first value.
    pub fn new(value: T) -> Self {
        let values = [const { OnceLock::new() }; MOST];
        let _ = values[0].set(value);
        Newest {
            values,
            newest: AtomicUsize::new(0),
        }
    }

    /// True if there is room for another one.
    pub fn has_room(&self) -> bool {
        self.newest.load(Ordering::Acquire) + 1 < MOST
    }

    /// Puts another value. Nobody else does at the same time.
    ///
    /// # Panics
    /// If there is no room.
    pub fn put(&self, value: T) {
        let next = self.newest.load(Ordering::Acquire) + 1;
        assert!(self.values[next].set(value).is_ok(), "put by two at once");
        self.newest.store(next, Ordering::Release);
    }
}

impl<T> Deref for Newest<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        let newest = self.newest.load(Ordering::Acquire);
        self.values[newest].get().expect("set before it is named")
    }
}

impl<T: fmt::Debug> fmt::Debug for Newest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A number for each segment, of which there come to be more.
#[derive(Debug)]
pub struct PerSegment {
    parts: [OnceLock<Vec<AtomicU32>>; MOST],
}

impl PerSegment {
    /// Of no segment.
    pub fn none() -> Self {
        PerSegment {
            parts: [const { OnceLock::new() }; MOST],
        }
    }

    /// That of a segment, if it has one.
    pub fn get(&self, segment: u32) -> Option<&AtomicU32> {
        let mut left = segment as usize;
        for part in self.parts.iter().map_while(OnceLock::get) {
            match part.get(left) {
                Some(number) => return Some(number),
                None => left -= part.len(),
            }
        }
        None
    }

    /// Zeros for so many segments more. Nobody else adds some at the same time; what
    /// there is no room for has none.
    pub fn add(&self, count: u32) {
        let zeros = || (0..count).map(|_| AtomicU32::new(0)).collect();
        if let Some(part) = self.parts.iter().find(|part| part.get().is_none()) {
            part.get_or_init(zeros);
        }
    }

    /// True if any segment has a number.
    pub fn is_kept(&self) -> bool {
        self.parts[0].get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_stays_and_who_asks_gets_the_newest() {
        let newest = Newest::new(1);
        let old: &i32 = &newest;
        let mut last = 1;
        while newest.has_room() {
            last += 1;
            newest.put(last);
            assert_eq!(*newest, last);
        }
        assert_eq!((*old, last), (1, MOST as i32));
    }

    #[test]
    fn segments_that_come_later_have_numbers_of_their_own() {
        let numbers = PerSegment::none();
        assert!(numbers.get(0).is_none() && !numbers.is_kept());
        numbers.add(3);
        numbers.add(0);
        numbers.add(2);
        for segment in 0..5 {
            numbers
                .get(segment)
                .unwrap()
                .store(segment + 10, Ordering::Relaxed);
        }
        let all = (0..6).map(|s| numbers.get(s).map(|n| n.load(Ordering::Relaxed)));
        let want = [Some(10), Some(11), Some(12), Some(13), Some(14), None];
        assert!(all.eq(want));
    }
}
