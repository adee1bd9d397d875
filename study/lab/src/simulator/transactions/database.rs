//! The database: a data file and B-trees over it, as numbers of pages (§4.3).

use super::Parameters;
use varve_prove::random::Random;

/// A run of pages that are drawn from together: a file, or a level of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    /// Number of its first page.
    pub(super) first: u32,
    /// Pages.
    pub(super) pages: u32,
    /// The first so many are hot.
    pub(super) hot: u32,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) data: Level,
    /// Levels of each index, the root first.
    pub(super) indices: Vec<Vec<Level>>,
    pub(super) pages: u32,
    /// Percent of accesses that go to hot pages.
    skew: u64,
}

impl Database {
    pub(super) fn new(parameters: &Parameters) -> Self {
        let p = parameters;
        let mut first = 0;
        let mut level = |pages: f64| {
            let pages = pages.ceil().max(1.0) as u32;
            let hot = (f64::from(pages) * f64::from(100 - p.skew) / 100.0).ceil();
            let level = Level {
                first,
                pages,
                hot: (hot as u32).clamp(1, pages),
            };
            first += pages;
            level
        };
        let data = level(p.data_bytes as f64 / p.page_bytes as f64);
        let share = match p.assumed.records_by_fill {
            true => p.fill,
            false => 1.0,
        };
        let records = p.data_bytes as f64 * share / p.record_bytes as f64;
        let fan_out = p.fill * p.page_bytes as f64 / p.key_bytes as f64;
        let mut sizes = vec![(records / fan_out).ceil()];
        while sizes[sizes.len() - 1] > 1.0 {
            sizes.push((sizes[sizes.len() - 1] / fan_out).ceil());
        }
        let index = |_| sizes.iter().rev().map(|pages| level(*pages)).collect();
        let indices: Vec<Vec<Level>> = (0..p.indices).map(index).collect();
        Database {
            data,
            indices,
            pages: first,
            skew: u64::from(p.skew),
        }
    }

    /// Levels of an index.
    pub(super) fn depth(&self) -> usize {
        self.indices[0].len()
    }

    /// Pages of the buffer pool.
    pub(super) fn frames(&self, parameters: &Parameters) -> u32 {
        (f64::from(self.pages) * parameters.pool_share) as u32
    }

    /// A page of a level: hot with the skew's chance, and then any of them.
    pub(super) fn draw(&self, level: Level, random: &mut Random) -> u32 {
        let within = match level.hot == level.pages {
            true => random.below(u64::from(level.pages)),
            false if random.below(100) < self.skew => random.below(u64::from(level.hot)),
            false => u64::from(level.hot) + random.below(u64::from(level.pages - level.hot)),
        };
        level.first + within as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "A one gigabyte data file with 1.2 gigabytes of index information" in
    /// trees that are no deeper with pages of 2 KB (§4.5).
    #[test]
    fn the_database_is_the_thesis_s() {
        let database = Database::new(&Parameters::default());
        let gigabytes = |pages: u32| f64::from(pages) * 4096.0 / f64::from(1 << 30);
        assert_eq!(gigabytes(database.data.pages), 1.0);
        let indices = gigabytes(database.pages - database.data.pages);
        assert!((1.1..1.3).contains(&indices), "{indices}");
        let depth = |page_bytes| {
            let parameters = Parameters {
                page_bytes,
                ..Parameters::default()
            };
            Database::new(&parameters).depth()
        };
        assert_eq!((depth(4096), depth(2048)), (4, 4));
        assert!(depth(128) > depth(512) && depth(512) > 4);
    }

    #[test]
    fn hot_pages_get_their_share() {
        let parameters = Parameters {
            skew: 90,
            ..Parameters::default()
        };
        let database = Database::new(&parameters);
        let mut random = Random::new(1);
        let level = database.indices[2][3];
        assert_eq!(level.hot, level.pages.div_ceil(10));
        let mut hot = 0;
        for _ in 0..10_000 {
            let page = database.draw(level, &mut random) - level.first;
            assert!(page < level.pages);
            hot += u32::from(page < level.hot);
        }
        assert!((8800..9200).contains(&hot), "{hot}");
        // Of two pages one is hot, of one that one.
        let root = database.indices[0][0];
        assert_eq!((root.pages, root.hot), (1, 1));
    }
}
