//! The locks that are held on one object.
//!
//! Most objects have one holder, of the whole object. The locks are therefore a list
//! with one inline element, and are searched linearly.
//!
//! Invariant: the spans of one owner are disjoint. Where several requests of an owner
//! were granted, it holds their join as one lock, so that this lock alone says what the
//! owner may do there.

use crate::mode::Mode;
use crate::owner::OwnerId;
use crate::span::Span;
use smallvec::SmallVec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub owner: OwnerId,
    pub span: Span,
    pub mode: Mode,
}

#[derive(Debug, Default)]
pub(crate) struct Holds(SmallVec<[Hold; 1]>);

impl Holds {
    pub(crate) fn of(hold: Hold) -> Holds {
        Holds(smallvec::smallvec![hold])
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Hold> {
        self.0.iter()
    }

    /// Returns true if the owner already has all that is wanted.
    #[inline]
    pub(crate) fn covers(&self, wanted: &Hold) -> bool {
        let mut missing = wanted.span.len();
        for hold in &self.0 {
            if hold.owner != wanted.owner {
                continue;
            }
            if let Some(common) = hold.span.common(wanted.span) {
                if !hold.mode.covers(wanted.mode) {
                    return false;
                }
                missing -= common.len();
            }
        }
        missing == 0
    }

    pub(crate) fn has(&self, owner: OwnerId) -> bool {
        self.0.iter().any(|hold| hold.owner == owner)
    }

    /// Adds a lock that does not conflict. Returns true if it is the owner's first one
    /// here.
    pub(crate) fn add(&mut self, new: Hold) -> bool {
        let first = !self.has(new.owner);
        let mut its = self.0.iter_mut().filter(|hold| hold.owner == new.owner);
        match its.find(|hold| hold.span == new.span) {
            Some(same) => same.mode = same.mode.join(new.mode),
            None if first => self.0.push(new),
            None => self.lay_over(new),
        }
        first
    }

    /// Adds a lock over other locks of its owner, and joins them where they overlap.
    fn lay_over(&mut self, new: Hold) {
        let mut met = Vec::new();
        self.0.retain(|hold| {
            let meets = hold.owner == new.owner && hold.span.touches(new.span);
            if meets {
                met.push(*hold);
            }
            !meets
        });
        met.sort_unstable_by_key(|hold| hold.span.start);
        let (mut pieces, mut bare) = (Vec::new(), Some(new.span));
        for hold in met {
            pieces.extend(
                hold.span
                    .without(new.span)
                    .map(|span| Hold { span, ..hold }),
            );
            let Some(common) = hold.span.common(new.span) else {
                continue;
            };
            let mode = hold.mode.join(new.mode);
            pieces.push(Hold {
                span: common,
                mode,
                ..hold
            });
            let (before, after) = bare.map_or((None, None), |bare| bare.around(common));
            pieces.extend(before.map(|span| Hold { span, ..new }));
            bare = after;
        }
        pieces.extend(bare.map(|span| Hold { span, ..new }));
        pieces.sort_unstable_by_key(|hold| hold.span.start);
        pieces.dedup_by(|next, last| {
            let one = next.mode == last.mode && next.span.touches(last.span);
            if one {
                last.span = last.span.hull(next.span);
            }
            one
        });
        self.0.extend(pieces);
    }

    /// Removes all locks of an owner.
    pub(crate) fn drop_all(&mut self, owner: OwnerId) {
        if let [only] = &self.0[..] {
            if only.owner == owner {
                self.0.clear();
            }
        } else {
            self.0.retain(|hold| hold.owner != owner);
        }
    }

    /// Weakens the locks of an owner within the span: a mode stronger than `to` becomes
    /// `to`. If `to` is `None`, the locks are removed.
    pub(crate) fn weaken(&mut self, owner: OwnerId, span: Span, to: Option<Mode>) {
        let more = |hold: &Hold| {
            to.is_none_or(|to| hold.mode != to && hold.mode.covers(to))
                && hold.owner == owner
                && hold.span.overlaps(span)
        };
        let (mut kept, mut changed) = (SmallVec::<[Hold; 1]>::new(), Vec::new());
        for hold in self.0.drain(..) {
            match more(&hold) {
                true => changed.push(hold),
                false => kept.push(hold),
            }
        }
        self.0 = kept;
        for hold in changed {
            for span in hold.span.without(span) {
                self.add(Hold { span, ..hold });
            }
            let inside = hold.span.common(span);
            if let (Some(span), Some(mode)) = (inside, to) {
                self.add(Hold { span, mode, ..hold });
            }
        }
    }

    /// Moves a child's locks to its parent. Returns true if they are the parent's first
    /// ones here.
    pub(crate) fn hand(&mut self, child: OwnerId, parent: OwnerId) -> bool {
        let first = self.has(child) && !self.has(parent);
        while let Some(at) = self.0.iter().position(|hold| hold.owner == child) {
            let hold = self.0.swap_remove(at);
            self.add(Hold {
                owner: parent,
                ..hold
            });
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::*;

    const ONE: OwnerId = OwnerId(1);

    fn hold(range: std::ops::Range<u32>, mode: Mode) -> Hold {
        Hold {
            owner: ONE,
            span: Span::new(range),
            mode,
        }
    }

    fn holds(list: &[Hold]) -> Holds {
        let mut holds = Holds::default();
        for hold in list {
            holds.add(*hold);
        }
        holds
    }

    #[test]
    fn neighbours_of_one_mode_are_one_hold() {
        let mut holds = Holds::default();
        assert!(holds.add(hold(0..1, Read)));
        for at in 1..100 {
            assert!(!holds.add(hold(at..at + 1, Read)));
        }
        assert_eq!(holds.0[..], [hold(0..100, Read)]);
        holds.add(hold(0..100, IntentionWrite));
        assert_eq!(holds.0[..], [hold(0..100, ReadIntentionWrite)]);
    }

    #[test]
    fn what_meets_is_joined_where_it_meets() {
        let some = holds(&[
            hold(2..4, Read),
            hold(6..8, Update),
            hold(3..9, IntentionWrite),
        ]);
        let wanted = [
            hold(2..3, Read),
            hold(3..4, ReadIntentionWrite),
            hold(4..6, IntentionWrite),
            hold(6..8, ReadIntentionWrite),
            hold(8..9, IntentionWrite),
        ];
        assert_eq!(some.0[..], wanted);
        let all = holds(&[hold(0..9, Read), hold(3..4, Write), hold(0..20, Write)]);
        assert_eq!(all.0[..], [hold(0..20, Write)]);
    }

    #[test]
    fn several_cover_what_none_covers() {
        let some = holds(&[
            hold(0..9, Read),
            hold(4..6, IntentionWrite),
            hold(9..12, Write),
        ]);
        let covers = |range, mode| some.covers(&hold(range, mode));
        assert!(covers(2..12, Read));
        assert!(covers(4..6, ReadIntentionWrite));
        assert!(!covers(4..7, ReadIntentionWrite));
        assert!(!covers(2..13, Read));
        assert!(!covers(20..21, IntentionRead));
    }

    #[test]
    fn weaker_inside_of_a_span_only() {
        let mut some = holds(&[hold(0..9, Write)]);
        some.weaken(ONE, Span::new(3..5), Some(Read));
        let wanted = [hold(0..3, Write), hold(3..5, Read), hold(5..9, Write)];
        some.0.sort_by_key(|hold| hold.span.start);
        assert_eq!(some.0[..], wanted);
        some.weaken(ONE, Span::new(4..6), None);
        assert!(!some.iter().any(|held| held.span.overlaps(Span::new(4..6))));
        some.weaken(ONE, Span::WHOLE, Some(Read));
        assert!(some.iter().all(|held| held.mode == Read));
        some.weaken(ONE, Span::WHOLE, Some(IntentionWrite));
        assert!(some.iter().all(|held| held.mode == Read), "is not less");
        some.weaken(ONE, Span::WHOLE, None);
        assert!(some.is_empty());
    }

    #[test]
    fn a_parent_gets_the_join() {
        let parent = OwnerId(0);
        let mut both = holds(&[hold(0..9, Read)]);
        both.add(Hold {
            owner: parent,
            ..hold(0..9, IntentionWrite)
        });
        assert!(!both.hand(ONE, parent));
        let joined = Hold {
            owner: parent,
            ..hold(0..9, ReadIntentionWrite)
        };
        assert_eq!(both.0[..], [joined]);
        assert!(holds(&[hold(0..9, Read)]).hand(ONE, parent));
    }
}
