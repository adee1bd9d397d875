//! The buffer pool: frames in the order of their last use.

/// No frame, or no page.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Frame {
    page: u32,
    older: u32,
    newer: u32,
    dirty: bool,
    reading: bool,
}

/// What became of a request for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// It is there.
    Hit,
    /// Somebody else is reading it.
    Coming,
    /// It must be read, into the frame of a page that may have to be written.
    Miss {
        /// The page that was there, if it is dirty.
        dirty: Option<u32>,
    },
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Pool {
    frames: Vec<Frame>,
    /// Frame of each page.
    frame_of: Vec<u32>,
    oldest: u32,
    newest: u32,
    /// Pages that became dirty since they were last taken; some are not any more.
    dirtied: Vec<u32>,
}

impl Pool {
    /// Empty frames for the pages of a database.
    ///
    /// # Panics
    /// If there is no frame.
    pub(super) fn new(pages: u32, frames: u32) -> Self {
        assert!(frames > 0, "a pool without frames");
        let frame = |at: u32| Frame {
            page: NONE,
            older: if at == 0 { NONE } else { at - 1 },
            newer: if at + 1 == frames { NONE } else { at + 1 },
            dirty: false,
            reading: false,
        };
        Pool {
            frames: (0..frames).map(frame).collect(),
            frame_of: vec![NONE; pages as usize],
            oldest: 0,
            newest: frames - 1,
            dirtied: Vec::new(),
        }
    }

    /// Asks for a page, which is the most recently used now. On a miss it has a
    /// frame, and is being read.
    pub(super) fn fetch(&mut self, page: u32) -> Fetch {
        let at = self.frame_of[page as usize];
        if at != NONE {
            self.renew(at);
            return match self.frames[at as usize].reading {
                true => Fetch::Coming,
                false => Fetch::Hit,
            };
        }
        let mut at = self.oldest;
        while self.frames[at as usize].reading {
            at = self.frames[at as usize].newer;
            assert!(at != NONE, "more frames than readers");
        }
        let frame = &mut self.frames[at as usize];
        let dirty = frame.dirty.then_some(frame.page);
        let evicted = frame.page;
        (frame.page, frame.dirty, frame.reading) = (page, false, true);
        if evicted != NONE {
            self.frame_of[evicted as usize] = NONE;
        }
        self.frame_of[page as usize] = at;
        self.renew(at);
        Fetch::Miss { dirty }
    }

    fn renew(&mut self, at: u32) {
        if at == self.newest {
            return;
        }
        let Frame { older, newer, .. } = self.frames[at as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.frames[older as usize].newer = newer,
        }
        self.frames[newer as usize].older = older;
        self.frames[self.newest as usize].newer = at;
        let frame = &mut self.frames[at as usize];
        (frame.older, frame.newer) = (self.newest, NONE);
        self.newest = at;
    }

    /// A page has been read.
    pub(super) fn arrived(&mut self, page: u32) {
        let at = self.frame_of[page as usize];
        self.frames[at as usize].reading = false;
    }

    /// A page is changed, if it is still there.
    pub(super) fn change(&mut self, page: u32) {
        let at = self.frame_of[page as usize];
        if at != NONE && !self.frames[at as usize].dirty {
            self.frames[at as usize].dirty = true;
            self.dirtied.push(page);
        }
    }

    /// The dirty pages, which are clean from now on.
    pub(super) fn take_dirty(&mut self, into: &mut Vec<u32>) {
        for page in self.dirtied.drain(..) {
            let at = self.frame_of[page as usize];
            if at != NONE && std::mem::take(&mut self.frames[at as usize].dirty) {
                into.push(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_and_dirty_pages_are_told() {
        let mut pool = Pool::new(10, 3);
        let miss = Fetch::Miss { dirty: None };
        for page in 0..3 {
            assert_eq!(pool.fetch(page), miss);
            assert_eq!(pool.fetch(page), Fetch::Coming);
            pool.arrived(page);
        }
        pool.change(1);
        pool.change(9);
        assert_eq!(pool.fetch(0), Fetch::Hit);
        let evicted = pool.fetch(3);
        assert_eq!(evicted, Fetch::Miss { dirty: Some(1) });
        assert_eq!(pool.fetch(4), miss, "2, as 0 was used");
        // 3 and 4 are being read.
        assert_eq!(pool.fetch(5), miss);
        pool.arrived(5);
        pool.change(5);
        pool.change(5);
        let mut dirty = Vec::new();
        pool.take_dirty(&mut dirty);
        assert_eq!(dirty, [5], "1 is not there any more");
        pool.take_dirty(&mut dirty);
        assert_eq!(dirty, [5], "it is clean");
    }
}
