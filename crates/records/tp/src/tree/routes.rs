//! Ways to leaves: copies of inner pages, so that a search latches the leaf only.
//!
//! Each thread has copies of its own, mostly, so searches share nothing above the leaves.
//! Nobody keeps copies up to date. That is what links and fences are for: an old copy
//! leads to a page that has split since, and its link leads on; or to one that has been
//! freed, whose fences, table or level tell it, and the search begins anew without copies.

use super::Tree;
use super::find::{Step, Wanted};
use crate::buffer::ReadPage;
use crate::error::Result;
use crate::home::home;
use crate::page::Page;
use foldhash::HashMap;

/// Bytes of copies in a place.
const MOST_BYTES: usize = 1 << 20;
/// Steps after which a search begins anew, without copies.
const STEPS: usize = 40;

/// Where a copy leads.
enum Led {
    To(u32),
    NoCopy,
    Astray,
}

/// Where the copies led a search for a leaf.
pub(super) enum Routed<'a> {
    Leaf(ReadPage<'a>),
    /// The key was read without a latch.
    Near,
    /// The leaf has to be looked for without copies.
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
    /// The leaf of a key, for reading, unless `near` can do without it.
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
                    // The page above has another entry by now, or soon.
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

    /// The number of the page that copies lead to: the key's leaf, if they are right.
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
