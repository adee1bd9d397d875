//! The layer beside a reference that looks for everything, and beside what is
//! known of greedy collection.

use super::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Every place in a list, and nothing but lists: slow, and plainly right.
struct Reference {
    parameters: TranslationParameters,
    /// The pages of each block in order; `None` is dead.
    blocks: Vec<Vec<Option<u32>>>,
    /// When something last lived or died in each, once it was full.
    changed: Vec<u64>,
    clock: u64,
    free: Vec<usize>,
    /// Of the streams, and of what is moved.
    open: Vec<Option<usize>>,
    counted: Programmed,
}

impl Reference {
    fn new(parameters: TranslationParameters) -> Self {
        let blocks = parameters.blocks() as usize;
        Reference {
            parameters,
            blocks: vec![Vec::new(); blocks],
            changed: vec![0; blocks],
            clock: 0,
            free: (0..blocks).rev().collect(),
            open: vec![None; parameters.streams as usize + 1],
            counted: Programmed::default(),
        }
    }

    fn is_full(&self, block: usize) -> bool {
        self.blocks[block].len() == self.parameters.block_pages as usize
    }

    fn live(&self, block: usize) -> usize {
        self.blocks[block].iter().flatten().count()
    }

    fn discard(&mut self, page: u32) {
        for block in 0..self.blocks.len() {
            for place in 0..self.blocks[block].len() {
                if self.blocks[block][place] == Some(page) {
                    self.blocks[block][place] = None;
                    self.clock += 1;
                    self.changed[block] = self.clock;
                }
            }
        }
    }

    fn append(&mut self, page: u32, stream: usize) {
        let block = self.open[stream].take();
        let block = block.unwrap_or_else(|| self.free.pop().unwrap());
        self.blocks[block].push(Some(page));
        self.clock += 1;
        self.changed[block] = self.clock;
        self.open[stream] = (!self.is_full(block)).then_some(block);
    }

    fn write(&mut self, page: u32, stream: usize) {
        self.discard(page);
        while self.open[stream].is_none() && self.free.len() < 2 {
            self.collect();
        }
        self.counted.written += 1;
        self.append(page, stream);
    }

    fn collect(&mut self) {
        let full = (0..self.blocks.len()).filter(|block| self.is_full(*block));
        let victim = full.min_by_key(|block| (self.live(*block), self.changed[*block]));
        let victim = victim.unwrap();
        let pages = std::mem::take(&mut self.blocks[victim]);
        for page in pages.into_iter().flatten() {
            self.append(page, self.open.len() - 1);
            self.counted.moved += 1;
        }
        self.counted.erased += 1;
        self.free.push(victim);
    }

    /// Block and place of each page.
    fn places(&self) -> Vec<u32> {
        let mut places = vec![NONE; self.parameters.pages as usize];
        for (block, pages) in self.blocks.iter().enumerate() {
            for (place, page) in pages.iter().enumerate() {
                if let Some(page) = page {
                    let first = block as u32 * self.parameters.block_pages;
                    let twice =
                        std::mem::replace(&mut places[*page as usize], first + place as u32);
                    assert_eq!(twice, NONE, "page {page} stands twice");
                }
            }
        }
        places
    }
}

#[test]
fn it_does_what_a_plain_reference_does() {
    for seed in 0..40 {
        eprintln!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = |bound: u32| (random.next_u64() % u64::from(bound)) as u32;
        let parameters = TranslationParameters {
            pages: 20 + below(60),
            block_pages: 1 + below(9),
            spare_percent: [7, 28, 60][below(3) as usize],
            streams: 1 + below(3),
        };
        if !parameters.is_possible() {
            continue;
        }
        let mut layer = Translation::new(parameters);
        let mut reference = Reference::new(parameters);
        for _ in 0..2000 {
            // Half of the writes go to a few pages.
            let among = [parameters.pages, parameters.pages / 8 + 1][below(2) as usize];
            let page = below(among);
            if below(10) == 0 {
                layer.discard(page);
                reference.discard(page);
            } else {
                let stream = below(parameters.streams) as usize;
                layer.write(page, stream);
                reference.write(page, stream);
            }
            assert_eq!(layer.places, reference.places(), "seed {seed}");
            assert_eq!(layer.counted(), reference.counted, "seed {seed}");
        }
        let live = layer.places.iter().filter(|place| **place != NONE).count();
        assert_eq!(layer.live_pages(), live as u64);
    }
}

/// Amplification, and what can be written of all places.
fn uniform(spare_percent: u32, discarded: u32) -> (f64, f64) {
    let pages = 20_000;
    let parameters = TranslationParameters {
        pages,
        block_pages: 64,
        spare_percent,
        streams: 1,
    };
    let mut layer = Translation::new(parameters);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    (0..pages).for_each(|page| layer.write(page, 0));
    (pages - discarded..pages).for_each(|page| layer.discard(page));
    for round in 0..2 {
        layer.reset();
        for _ in 0..(2 - round) * 5 * pages {
            let page = random.next_u64() % u64::from(pages - discarded);
            layer.write(page as u32, 0);
        }
    }
    let places = parameters.blocks() * 64;
    let full = f64::from(pages - discarded) / places as f64;
    (layer.counted().amplification(), full)
}

#[test]
fn uniform_writes_cost_what_greedy_collection_is_known_to_cost() {
    for spare in [7, 28] {
        // (1 - u) / -ln u = what lives, of all flash.
        let (found, full) = uniform(spare, 0);
        let mut u: f64 = full;
        for _ in 0..200 {
            u = (-(1.0 - u) / full).exp();
        }
        let bound = 1.0 / (1.0 - u);
        assert!(
            (0.85..1.05).contains(&(found / bound)),
            "{found} for {bound}"
        );
    }
}

#[test]
fn what_is_discarded_is_room() {
    // So that as much of the flash is spare.
    let ((told, less), (spare, more)) = (uniform(7, 3226), uniform(28, 0));
    assert!((less - more).abs() < 0.002, "{less} and {more} full");
    assert!((told / spare - 1.0).abs() < 0.05, "{told} for {spare}");
}

#[test]
fn what_is_written_in_order_is_never_moved() {
    let mut layer = Translation::new(TranslationParameters {
        pages: 1000,
        block_pages: 16,
        spare_percent: 7,
        streams: 1,
    });
    for _ in 0..10 {
        (0..1000).for_each(|page| layer.write(page, 0));
    }
    let counted = layer.counted();
    assert_eq!((counted.moved, counted.amplification()), (0, 1.0));
    assert!(counted.erased > 500);
}

#[test]
fn streams_keep_apart_what_lives_differently() {
    let amplification = |streams| {
        let mut layer = Translation::new(TranslationParameters {
            pages: 4000,
            block_pages: 16,
            spare_percent: 28,
            streams,
        });
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        (0..4000).for_each(|page| layer.write(page, 0));
        for nth in 0..80_000u32 {
            // In order to a half, at random to a hundredth.
            match nth % 2 {
                0 => layer.write(2000 + nth / 2 % 2000, 0),
                _ => layer.write((random.next_u64() % 40) as u32, streams as usize - 1),
            }
        }
        layer.counted().amplification()
    };
    let (one, two) = (amplification(1), amplification(2));
    assert!(two < one, "{two} for {one}");
}

#[test]
fn what_could_never_collect_is_refused() {
    let parameters = |pages, block_pages, spare_percent, streams| TranslationParameters {
        pages,
        block_pages,
        spare_percent,
        streams,
    };
    for possible in [(1000, 16, 7, 4), (100, 16, 28, 1), (100, 1, 7, 3)] {
        let (pages, block_pages, spare, streams) = possible;
        assert!(parameters(pages, block_pages, spare, streams).is_possible());
    }
    for impossible in [(100, 16, 7, 4), (100, 0, 7, 1), (100, 16, 7, 0)] {
        let (pages, block_pages, spare, streams) = impossible;
        assert!(!parameters(pages, block_pages, spare, streams).is_possible());
    }
}
