//! Segments that the cleaner has read whole and an archive wants as well
//! (`docs/design/archive.md`).

use std::collections::{BTreeMap, VecDeque};
use varve_device::sync::Mutex;

/// Most segments that wait to be archived; the archive reads the rest itself.
const CAUGHT_MAX: usize = 4;

/// Copies of segments, on their path from the cleaner to an archive.
#[derive(Default)]
pub struct Tap(Mutex<State>);

#[derive(Default)]
struct State {
    /// Incarnations of the segments that are wanted.
    wanted: BTreeMap<u32, u32>,
    caught: VecDeque<(u32, Vec<u8>)>,
}

impl Tap {
    /// Replaces the segments that are wanted, given with their incarnations.
    pub fn want(&self, wanted: BTreeMap<u32, u32>) {
        let caught = VecDeque::new();
        *self.0.lock() = State { wanted, caught };
    }

    /// Notes the whole content of a segment that was read.
    pub(crate) fn pass(&self, segment: u32, incarnation: u32, bytes: &[u8]) {
        let mut state = self.0.lock();
        if state.caught.len() < CAUGHT_MAX && state.wanted.get(&segment) == Some(&incarnation) {
            state.wanted.remove(&segment);
            state.caught.push_back((segment, bytes.to_vec()));
        }
    }

    /// The next segment that the cleaner has read; without one, the lowest that it has
    /// not, and no content. None if all were taken.
    pub fn next(&self) -> Option<(u32, Option<Vec<u8>>)> {
        let mut state = self.0.lock();
        match state.caught.pop_front() {
            Some((segment, bytes)) => Some((segment, Some(bytes))),
            None => state.wanted.pop_first().map(|(segment, _)| (segment, None)),
        }
    }
}
