//! Verification of an environment: every page of every tree, chains, the free list, and
//! that each page belongs to one of them.

use crate::bundle::is_bundle;
use crate::catalog;
use crate::change::Chain;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::page::{CATALOG_ROOT, META_PAGE, Page, kind, longest_key};
use crate::tree::{Stored, Tree};
use std::collections::BTreeMap;

/// Counts of a verified environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Tables, including the catalog.
    pub tables: usize,
    /// Records, including those of the catalog.
    pub records: u64,
    /// Entries of indices; each belongs to a record, and every record has its entries.
    pub index_entries: u64,
    /// Pages of trees.
    pub tree_pages: u32,
    /// Pages of large values.
    pub overflow_pages: u32,
    /// Free pages.
    pub free_pages: u32,
    /// Pages that are freed as soon as no snapshot needs them.
    pub kept_pages: u32,
    /// Pages that belong to nothing; they remain lost until the environment is loaded
    /// again.
    pub lost_pages: u32,
}

struct Look<'a> {
    engine: &'a Engine,
    /// Owner of each page.
    owners: BTreeMap<u32, u32>,
    found: Verified,
}

impl Environment {
    /// Reads every page and verifies that the pages form trees. No writer may run
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first fault.
    pub fn verify(&self) -> Result<Verified> {
        let engine = &self.shared().engine;
        crate::transaction::finish(engine)?;
        let mut look = Look {
            engine,
            owners: BTreeMap::new(),
            found: Verified::default(),
        };
        look.owns(META_PAGE, 0)?;
        look.tree(0, CATALOG_ROOT)?;
        for (_, entry) in catalog::entries(engine)? {
            look.tree(entry.id.table, entry.id.root)?;
        }
        for committed in engine.listed() {
            let chains = committed.chains.iter().filter(|_| committed.committed);
            chains.copied().try_for_each(|chain| look.kept(chain))?;
        }
        look.found.index_entries = self.compare_indices()?;
        let (count, free) = engine.pool.read(META_PAGE)?.page().meta();
        look.free(free)?;
        let owned = look.owners.len() as u32;
        let lost = count.checked_sub(owned);
        look.found.lost_pages =
            lost.ok_or_else(|| wrong(META_PAGE, format!("{count} pages, {owned} are in use")))?;
        Ok(look.found)
    }
}

impl Environment {
    /// Verifies all indices whose functions are known. Returns the number of entries.
    fn compare_indices(&self) -> Result<u64> {
        let (shared, mut count) = (self.shared(), 0);
        let tree = |name: &str| {
            let id = shared.table(name, None, |entry| entry.id)?;
            Some(Tree {
                engine: &shared.engine,
                table: id.table,
                root: id.root,
            })
        };
        for index in &shared.options.indices {
            if let (Some(table), Some(entries)) = (tree(&index.table), tree(&index.name)) {
                count += crate::index::compare(table, entries, index)?;
            }
        }
        Ok(count)
    }
}

fn wrong(page: u32, what: impl Into<String>) -> Error {
    Error::damaged("pages", 0, format!("page {page}: {}", what.into()))
}

impl Look<'_> {
    fn owns(&mut self, page: u32, owner: u32) -> Result<()> {
        match self.owners.insert(page, owner) {
            None => Ok(()),
            Some(other) => Err(wrong(page, format!("belongs to {other} and to {owner}"))),
        }
    }

    fn tree(&mut self, table: u32, root: u32) -> Result<()> {
        self.found.tables += 1;
        let mut leftmost = Some(root);
        while let Some(first) = leftmost.take() {
            leftmost = self.level(table, first)?;
        }
        Ok(())
    }

    /// Follows a level by its links, and compares it with the entries above. Returns the
    /// first page of the next level.
    fn level(&mut self, table: u32, first: u32) -> Result<Option<u32>> {
        let (mut number, mut fence) = (first, Vec::new());
        let (mut below, mut level) = (None, None);
        loop {
            self.owns(number, table)?;
            self.found.tree_pages += 1;
            let held = self.engine.pool.read(number)?;
            let page = held.page();
            crate::page::check(page.0).map_err(|what| wrong(number, what))?;
            let header = page.header();
            if !page.is_of_tree(table) || level.is_some_and(|level| level != header.level) {
                return Err(wrong(number, "is not of this tree and level"));
            }
            level = Some(header.level);
            if page.low() != fence {
                return Err(wrong(number, "does not begin where its neighbour ends"));
            }
            if header.level > 0 {
                below = below.or(Some(page.child(0)));
                self.entries(number, &page)?;
            } else {
                self.leaf(table, &page)?;
            }
            match (page.high(), header.right.get()) {
                (Some(high), right) if right != 0 => {
                    fence = high.to_vec();
                    number = right;
                }
                (None, 0) => return Ok(below),
                _ => return Err(wrong(number, "fence and neighbour disagree")),
            }
        }
    }

    fn entries(&self, number: u32, page: &Page<'_>) -> Result<()> {
        if page.key(0) != page.low() {
            return Err(wrong(number, "the first entry is not the low fence"));
        }
        for at in 0..page.count() {
            let child = self.engine.pool.read(page.child(at))?;
            let below = child.page().header().level + 1 == page.header().level;
            if !below || child.page().low() != page.key(at) {
                return Err(wrong(number, format!("entry {at} leads to another page")));
            }
        }
        Ok(())
    }

    fn leaf(&mut self, table: u32, page: &Page<'_>) -> Result<()> {
        let (engine, root) = (self.engine, 0);
        let tree = Tree {
            engine,
            table,
            root,
        };
        for at in 0..page.count() {
            let (key, value) = (page.key(at), page.value(at));
            if value.overflow {
                self.large_value(table, value.bytes)?;
            }
            if !is_bundle(key, longest_key(page.0.len())) {
                self.found.records += 1;
                continue;
            }
            let bundle = tree.bundle(key, value)?;
            self.found.records += bundle.len() as u64;
            for descriptor in bundle.large_values() {
                self.large_value(table, descriptor)?;
            }
        }
        Ok(())
    }

    fn large_value(&mut self, table: u32, descriptor: &[u8]) -> Result<()> {
        let stored = Stored::parse(descriptor);
        let stored = stored.ok_or_else(|| wrong(0, "a descriptor of a large value"))?;
        let mut number = stored.first;
        for _ in 0..stored.pages {
            self.owns(number, table)?;
            self.found.overflow_pages += 1;
            let held = self.engine.pool.read(number)?;
            if held.page().header().kind != kind::OVERFLOW {
                return Err(wrong(number, "is not of a large value"));
            }
            number = held.page().header().right.get();
        }
        Ok(())
    }

    fn kept(&mut self, chain: Chain) -> Result<()> {
        let mut number = chain.first;
        loop {
            self.owns(number, u32::MAX)?;
            self.found.kept_pages += 1;
            if number == chain.last {
                return Ok(());
            }
            number = self.engine.pool.read(number)?.page().header().right.get();
        }
    }

    fn free(&mut self, mut next: u32) -> Result<()> {
        while next != 0 {
            self.owns(next, u32::MAX)?;
            self.found.free_pages += 1;
            next = self.engine.pool.read(next)?.page().header().right.get();
        }
        Ok(())
    }
}
