//! Routes to leaves: copies of inner pages, so that a search latches the leaf only.
//!
//! Most threads have copies of their own, so searches share nothing above the leaves.
//! Copies are not kept up to date; links and fences correct them. An old copy leads to a
//! page that has split since, whose link leads on, or to one that was freed, which its
//! fences, table or level show, and the search starts again without copies.

use super::Tree;
use super::find::{Step, Wanted};
use crate::buffer::ReadPage;
use crate::error::Result;
use crate::home::home;
use crate::page::Page;
use foldhash::HashMap;

/// Bytes of copies per place.
const MOST_BYTES: usize = 1 << 20;
/// Number of steps after which a search starts again without copies.
const STEPS: usize = 40;

/// Result of a look-up in a copy.
enum Led {
    To(u32),
    NoCopy,
    Astray,
}

/// Result of a search for a leaf by copies.
pub(super) enum Routed<'a> {
    Leaf(ReadPage<'a>),
    /// The key was read without a latch.
    Near,
    /// The leaf must be searched for without copies.
    Lost,
}

fn lead(copies: &HashMap<u32, Box<[u8]>>, table: u32, number: u32, key: &[u8]) -> Led {
    let Some(copy) = copies.get(&number) else {
        return Led::NoCopy;
    };
    let page = Page(copy);
    match Wanted::Key(key).step(page) {
        _ if !page.is_of_tree(table) => Led::Astray,
        Step::Here => Led::To(page.child(page.entry_for(key))),
        Step::Right(right) => Led::To(right),
        Step::Restart => Led::Astray,
    }
}

impl<'a> Tree<'a> {
    /// Latches the leaf of a key for reading, unless `near` makes that unnecessary.
    pub(super) fn leaf_by_routes(
        &self,
        key: &[u8],
        mut near: impl FnMut(u32) -> bool,
    ) -> Result<Routed<'a>> {
        let routes = &self.engine.routes.0;
        let Some(mut copies) = routes[home(routes.len())].0.try_lock() else {
            return Ok(Routed::Lost);
        };
        let (mut number, mut above) = (self.root, None);
        for _ in 0..STEPS {
            match lead(&copies, self.table, number, key) {
                Led::To(next) => {
                    above = Some(number);
                    number = next;
                    continue;
                }
                Led::Astray => break,
                Led::NoCopy => {}
            }
            if near(number) {
                return Ok(Routed::Near);
            }
            let held = self.engine.pool.read(number)?;
            let page = held.page();
            if !page.is_of_tree(self.table) {
                break;
            }
            if page.header().level > 0 {
                if (copies.len() + 1) * page.0.len() > MOST_BYTES {
                    copies.clear();
                }
                copies.insert(number, page.0.into());
                continue;
            }
            match Wanted::Key(key).step(page) {
                Step::Here => return Ok(Routed::Leaf(held)),
                Step::Right(right) => {
                    // The page above has, or will soon have, another entry.
                    if let Some(above) = above {
                        copies.remove(&above);
                    }
                    number = right;
                }
                Step::Restart => break,
            }
        }
        copies.clear();
        Ok(Routed::Lost)
    }

    /// Returns the number of the page to which copies lead: the key's leaf, if they are
    /// right.
    pub(super) fn led_to(&self, key: &[u8]) -> Option<u32> {
        let routes = &self.engine.routes.0;
        let copies = routes[home(routes.len())].0.try_lock()?;
        let mut number = self.root;
        for _ in 0..STEPS {
            match lead(&copies, self.table, number, key) {
                Led::To(next) => number = next,
                Led::NoCopy => return Some(number),
                Led::Astray => return None,
            }
        }
        None
    }
}
