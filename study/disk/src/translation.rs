//! A flash translation layer, page by page: what flash writes beneath what it
//! is told to write.
//!
//! Every page may stand in every erase block. Pages are appended to the open
//! block of their stream; a page that is written again, or discarded, is dead
//! where it was. When blocks run short, the one with the fewest live pages (of
//! equals the one that has had so few for longest) is collected: what lives is
//! appended to a block of its own, and the block is erased. Nothing is known of
//! time or bytes here, so a simulator can have many of them beneath one log.
//!
//! Invariants:
//! - A logical page has one place or none, and that place is its own.
//! - One block is free before a collection begins; a collection takes one at
//!   most and gives one back.
//!
//! Source: greedy collection as in Desnoyers, "Analytic modeling of SSD write
//! performance" (SYSTOR 2012).

/// No page, place or block.
const NONE: u32 = u32::MAX;

/// What a translation layer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslationParameters {
    /// Pages that can be written.
    pub pages: u32,
    /// Pages of an erase block: of all that is erased together (a superblock).
    pub block_pages: u32,
    /// Flash beyond those pages, in percent of them. Three blocks come on top:
    /// the one that is written, the one that is moved to, and the free one.
    pub spare_percent: u32,
    /// Streams that writers tell apart, each with an open block of its own.
    pub streams: u32,
}

impl TranslationParameters {
    /// Erase blocks, all in all.
    ///
    /// # Panics
    /// If they have no pages.
    fn blocks(&self) -> u64 {
        let flash = u64::from(self.pages) * (100 + u64::from(self.spare_percent));
        flash.div_ceil(100 * u64::from(self.block_pages)) + 3
    }

    /// Whether collecting can always gain something: all but the open blocks and
    /// the free one hold more than can live.
    pub fn is_possible(&self) -> bool {
        if self.block_pages == 0 || self.streams == 0 {
            return false;
        }
        let unknown = u64::from(self.streams) + 2;
        let closed = self.blocks().saturating_sub(unknown) * u64::from(self.block_pages);
        let places = self.blocks() * u64::from(self.block_pages);
        closed > u64::from(self.pages) && places < u64::from(NONE)
    }
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Programmed {
    /// Pages written from outside.
    pub written: u64,
    /// Live pages that collections moved.
    pub moved: u64,
    /// Blocks erased.
    pub erased: u64,
}

impl Programmed {
    /// Pages written to flash for each that was written from outside; 1 is the
    /// best there is, and what is said where nothing was written.
    pub fn amplification(&self) -> f64 {
        (self.written + self.moved) as f64 / self.written.max(1) as f64
    }
}

/// An open block, and how much of it is written.
#[derive(Debug, Clone, Copy)]
struct Open {
    block: u32,
    filled: u32,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Translation {
    block_pages: u32,
    /// Where each page stands.
    places: Vec<u32>,
    /// Which page stands, or stood, at each place.
    owners: Vec<u32>,
    live: Vec<u32>,
    closed: Vec<bool>,
    free: Vec<u32>,
    /// One for each stream, and the last for what is moved.
    open: Vec<Open>,
    victims: Victims,
    counted: Programmed,
}

impl Translation {
    /// New flash; nothing is written.
    ///
    /// # Panics
    /// If that [is not possible](TranslationParameters::is_possible).
    pub fn new(parameters: TranslationParameters) -> Self {
        assert!(parameters.is_possible(), "{parameters:?}");
        let TranslationParameters {
            pages,
            block_pages,
            streams,
            ..
        } = parameters;
        let blocks = parameters.blocks() as u32;
        let none = Open {
            block: NONE,
            filled: block_pages,
        };
        Translation {
            block_pages,
            places: vec![NONE; pages as usize],
            owners: vec![NONE; blocks as usize * block_pages as usize],
            live: vec![0; blocks as usize],
            closed: vec![false; blocks as usize],
            free: (0..blocks).rev().collect(),
            open: vec![none; streams as usize + 1],
            victims: Victims::new(blocks, block_pages),
            counted: Programmed::default(),
        }
    }

    /// Writes a page.
    ///
    /// # Panics
    /// If there is no such page or stream.
    #[inline]
    pub fn write(&mut self, page: u32, stream: usize) {
        let moves = self.open.len() - 1;
        assert!(stream < moves, "stream {stream} of {moves}");
        self.discard(page);
        if self.open[stream].filled == self.block_pages {
            while self.free.len() < 2 {
                self.collect();
            }
        }
        self.counted.written += 1;
        self.append(page, stream);
    }

    /// Nobody wants what a page holds any more.
    ///
    /// # Panics
    /// If there is no such page.
    #[inline]
    pub fn discard(&mut self, page: u32) {
        let place = std::mem::replace(&mut self.places[page as usize], NONE);
        if place == NONE {
            return;
        }
        let block = place / self.block_pages;
        let live = self.live[block as usize];
        self.live[block as usize] = live - 1;
        if self.closed[block as usize] {
            self.victims.leave(block, live);
            self.victims.enter(block, live - 1);
        }
    }

    /// What was counted since the last reset.
    pub fn counted(&self) -> Programmed {
        self.counted
    }

    /// Counts from zero.
    pub fn reset(&mut self) {
        self.counted = Programmed::default();
    }

    /// Pages that hold something.
    pub fn live_pages(&self) -> u64 {
        self.live.iter().map(|live| u64::from(*live)).sum()
    }

    fn append(&mut self, page: u32, stream: usize) {
        if self.open[stream].filled == self.block_pages {
            let block = self.free.pop().expect("one is kept free");
            self.open[stream] = Open { block, filled: 0 };
        }
        let Open { block, filled } = &mut self.open[stream];
        let (number, place) = (*block, *block * self.block_pages + *filled);
        *filled += 1;
        let full = *filled == self.block_pages;
        self.owners[place as usize] = page;
        self.places[page as usize] = place;
        self.live[number as usize] += 1;
        if full {
            self.closed[number as usize] = true;
            self.victims.enter(number, self.live[number as usize]);
        }
    }

    /// Moves what lives in the emptiest closed block, and erases it.
    fn collect(&mut self) {
        let victim = self.victims.emptiest();
        let live = self.live[victim as usize];
        assert!(live < self.block_pages, "more lives than there is room for");
        self.victims.leave(victim, live);
        self.closed[victim as usize] = false;
        let moves = self.open.len() - 1;
        let first = victim * self.block_pages;
        for place in first..first + self.block_pages {
            let page = self.owners[place as usize];
            if page != NONE && self.places[page as usize] == place {
                self.append(page, moves);
            }
            self.owners[place as usize] = NONE;
        }
        self.counted.moved += u64::from(live);
        self.counted.erased += 1;
        self.live[victim as usize] = 0;
        self.free.push(victim);
    }
}

/// Closed blocks by what lives in them: for each count a line of blocks, who
/// came first in front.
#[derive(Debug, Clone)]
struct Victims {
    first: Vec<u32>,
    last: Vec<u32>,
    before: Vec<u32>,
    behind: Vec<u32>,
    /// No block has less.
    least: u32,
}

impl Victims {
    fn new(blocks: u32, block_pages: u32) -> Self {
        Victims {
            first: vec![NONE; block_pages as usize + 1],
            last: vec![NONE; block_pages as usize + 1],
            before: vec![NONE; blocks as usize],
            behind: vec![NONE; blocks as usize],
            least: block_pages,
        }
    }

    fn enter(&mut self, block: u32, live: u32) {
        let last = std::mem::replace(&mut self.last[live as usize], block);
        self.before[block as usize] = last;
        self.behind[block as usize] = NONE;
        match last {
            NONE => self.first[live as usize] = block,
            last => self.behind[last as usize] = block,
        }
        self.least = self.least.min(live);
    }

    fn leave(&mut self, block: u32, live: u32) {
        let (before, behind) = (self.before[block as usize], self.behind[block as usize]);
        match before {
            NONE => self.first[live as usize] = behind,
            before => self.behind[before as usize] = behind,
        }
        match behind {
            NONE => self.last[live as usize] = before,
            behind => self.before[behind as usize] = before,
        }
    }

    /// # Panics
    /// If there is none.
    fn emptiest(&mut self) -> u32 {
        while self.first[self.least as usize] == NONE {
            self.least += 1;
        }
        self.first[self.least as usize]
    }
}

#[cfg(test)]
mod tests;
