//! Frees a whole tree. The pages of a level are linked, so a level is a chain like those
//! of large values: one record frees it, however long it is.

use super::{Stored, Tree};
use crate::bundle::{Bundle, is_bundle};
use crate::change::Chain;
use crate::error::{Error, Result};
use crate::page::{Cell, Page, longest_key};

impl Tree<'_> {
    /// Returns the chains of all pages of the tree, including its large values. No other
    /// thread may use the tree meanwhile.
    pub(crate) fn all_chains(&self) -> Result<Vec<Chain>> {
        let mut chains = Vec::new();
        let (mut next, mut above) = (Some(self.root), None);
        while let Some(first) = next.take() {
            let (mut last, mut level) = (first, None);
            let mut steps = 0;
            loop {
                let held = self.engine.pool.read(last)?;
                let page = held.page();
                let here = page.header().level;
                let in_line = match level {
                    Some(level) => level == here,
                    None => above.is_none_or(|above| here + 1 == above),
                };
                if !page.is_of_tree(self.table) || !in_line || steps == u32::MAX {
                    return Err(self.damaged(last, "is not of this tree and level"));
                }
                (level, steps) = (Some(here), steps + 1);
                match here {
                    0 => self.large_values(page, &mut chains)?,
                    _ => next = next.or(Some(page.child(0))),
                }
                match page.header().right.get() {
                    0 => break,
                    right => last = right,
                }
            }
            above = level;
            chains.push(Chain { first, last });
        }
        Ok(chains)
    }

    fn large_values(&self, page: Page<'_>, chains: &mut Vec<Chain>) -> Result<()> {
        let mut chain = |descriptor: &[u8]| {
            let what = "a large value is not where it should be";
            let stored = Stored::parse(descriptor);
            let stored = stored.ok_or_else(|| self.damaged(self.root, what))?;
            chains.push(stored.chain());
            Ok::<(), Error>(())
        };
        for at in 0..page.count() {
            let (key, value) = (page.key(at), page.value(at));
            if value.overflow {
                chain(value.bytes)?;
            }
            if is_bundle(key, longest_key(page.0.len())) {
                let bundle = self.bundle(key, value)?;
                bundle.large_values().try_for_each(&mut chain)?;
            }
        }
        Ok(())
    }

    /// Returns the bundle stored in a leaf.
    pub(crate) fn bundle(&self, key: &[u8], value: Cell<'_>) -> Result<Bundle> {
        let bytes = match value.overflow {
            true => self.load(value.bytes)?,
            false => value.bytes.to_vec(),
        };
        Bundle::read(key, bytes)
    }
}
