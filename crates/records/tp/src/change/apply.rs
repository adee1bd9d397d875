//! Applies a change to each of its pages.

use super::{Allocation, Change};
use crate::page::{META_PAGE, Page, PageMut};

/// A change does not fit a page, so the log or the page is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misfit;

fn fits(done: bool) -> Result<(), Misfit> {
    done.then_some(()).ok_or(Misfit)
}

impl Change<'_> {
    /// Applies the change to one of its pages.
    pub(crate) fn apply(&self, number: u32, page: &mut PageMut<'_>) -> Result<(), Misfit> {
        match *self {
            Change::Insert { at, key, value, .. } => {
                fits(is_tree(page.page()) && page.insert(at.into(), key, value))
            }
            Change::Delete { at, key, .. } => {
                fits(has_key(page.page(), at, key) && page.remove(at.into()))
            }
            Change::Patch {
                at,
                key,
                offset,
                new,
                ..
            } => {
                let there = has_key(page.page(), at, key);
                fits(there && page.patch(at.into(), offset as usize, new))
            }
            Change::Replace { at, key, new, .. } => {
                let there = has_key(page.page(), at, key);
                fits(there && page.replace(at.into(), key, new))
            }
            Change::Post { at, key, child, .. } => {
                fits(is_tree(page.page()) && page.insert_child(at.into(), key, child))
            }
            _ => self.apply_structure(number, page),
        }
    }

    fn apply_structure(&self, number: u32, page: &mut PageMut<'_>) -> Result<(), Misfit> {
        match *self {
            Change::Split { meta, .. }
            | Change::Grow { meta, .. }
            | Change::Overflow { meta, .. }
            | Change::Tree { meta, .. }
                if number == META_PAGE =>
            {
                allocate(page, meta)
            }
            Change::Merge { right, .. } if number == META_PAGE => head(page, right),
            Change::Collapse { child, .. } if number == META_PAGE => head(page, child),
            Change::Free { chain, .. } if number == META_PAGE => head(page, chain.first),
            Change::Split {
                left,
                right,
                at,
                fence,
                ..
            } if number == left => {
                let keeps = at > 0 || page.page().header().level == 0;
                fits(is_tree(page.page()) && keeps && page.cut(at.into(), fence, right))
            }
            Change::Split { image, .. } => fits(image.restore(page.0)),
            Change::Grow {
                root, child, image, ..
            } if number == root => {
                let header = Page(image_header(image.front)?).header();
                let (table, level) = (header.table.get(), header.level);
                fits(level < 30)?;
                page.format(table, level + 1);
                fits(page.set_low(&[]) && page.insert_child(0, &[], child))
            }
            Change::Grow { image, .. } => fits(image.restore(page.0)),
            Change::Merge {
                parent, at, right, ..
            } if number == parent => {
                let entry = usize::from(at);
                let there = is_tree(page.page()) && entry < page.page().count();
                fits(there && page.page().header().level > 0 && page.page().count() > 1)?;
                fits(page.page().child(entry) == right && page.remove(entry))
            }
            Change::Merge { left, image, .. } if number == left => merge(page, image),
            Change::Merge { free, .. } => {
                page.format_free(free);
                Ok(())
            }
            Change::Collapse { root, image, .. } if number == root => fits(image.restore(page.0)),
            Change::Collapse { free, .. } => {
                page.format_free(free);
                Ok(())
            }
            Change::Overflow { next, bytes, .. } => fits(page.format_overflow(bytes, next)),
            Change::Tree { table, .. } => {
                page.format(table, 0);
                fits(page.set_low(&[]))
            }
            Change::Free { free, .. } => {
                page.format_free(free);
                Ok(())
            }
            _ => Err(Misfit),
        }
    }
}

fn is_tree(page: Page<'_>) -> bool {
    page.is_of_tree(page.header().table.get())
}

fn has_key(page: Page<'_>, at: u16, key: &[u8]) -> bool {
    let leaf = is_tree(page) && page.header().level == 0;
    leaf && usize::from(at) < page.count() && page.key(at.into()) == key
}

fn allocate(page: &mut PageMut<'_>, meta: Allocation) -> Result<(), Misfit> {
    page.set_meta(meta.count, meta.free);
    Ok(())
}

fn head(page: &mut PageMut<'_>, first: u32) -> Result<(), Misfit> {
    let (count, _) = page.page().meta();
    page.set_meta(count, first);
    Ok(())
}

fn image_header(front: &[u8]) -> Result<&[u8], Misfit> {
    front.get(..crate::page::PAGE_HEADER).ok_or(Misfit)
}

fn merge(page: &mut PageMut<'_>, image: crate::page::Image<'_>) -> Result<(), Misfit> {
    let mut other = vec![0; page.0.len()];
    fits(image.restore(&mut other))?;
    let other = Page(&other);
    fits(is_tree(page.page()) && other.header().level == page.page().header().level)?;
    fits(page.append_from(other, 0) && page.set_high(other.high()))?;
    page.header().right = other.header().right;
    Ok(())
}
