//! The part of an object that a lock covers.

use std::fmt;
use std::ops::Range;

/// A range of units of an object. The unit is chosen by the users of the object. Never
/// empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub(crate) const WHOLE: Span = Span {
        start: 0,
        end: u32::MAX,
    };

    /// Creates a span.
    ///
    /// # Panics
    /// If the range is empty.
    #[inline]
    pub(crate) fn new(range: Range<u32>) -> Span {
        assert!(range.start < range.end, "a lock on nothing: {range:?}");
        Span {
            start: range.start,
            end: range.end,
        }
    }

    #[inline]
    pub(crate) fn overlaps(self, other: Span) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Returns true if the two spans together are one span.
    pub(crate) fn touches(self, other: Span) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    #[inline]
    pub(crate) fn len(self) -> u32 {
        self.end - self.start
    }

    /// Returns the smallest span that contains both.
    pub(crate) fn hull(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Returns the intersection of both, if they overlap.
    #[inline]
    pub(crate) fn common(self, other: Span) -> Option<Span> {
        self.overlaps(other).then(|| Span {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        })
    }

    /// Returns the parts before and after `other`, which overlaps this span.
    pub(crate) fn around(self, other: Span) -> (Option<Span>, Option<Span>) {
        let piece = |start, end| (start < end).then_some(Span { start, end });
        (piece(self.start, other.start), piece(other.end, self.end))
    }

    /// Returns the parts outside of `other`: none, one or two.
    pub(crate) fn without(self, other: Span) -> impl Iterator<Item = Span> {
        let (before, after) = match self.overlaps(other) {
            true => self.around(other),
            false => (Some(self), None),
        };
        before.into_iter().chain(after)
    }

    pub(crate) fn range(self) -> Range<u32> {
        self.start..self.end
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range().fmt(f)
    }
}
