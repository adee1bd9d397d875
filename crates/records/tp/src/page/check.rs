//! Validation of bytes as a page, so that no later code needs to check them.

use super::cells::{LEAF_CELL, OVERFLOW};
use super::{PAGE_HEADER, Page, kind};

/// Checks everything in a page except for the checksum, which the caller compares.
///
/// # Errors
/// The fault of the page.
pub fn check(bytes: &[u8]) -> Result<(), &'static str> {
    if bytes.len() < 512 || bytes.len() > 1 << 15 {
        return Err("not the size of a page");
    }
    let page = Page(bytes);
    match page.header().kind {
        kind::META => Ok(()),
        kind::FREE | kind::MAP => Ok(()),
        kind::OVERFLOW => overflow(bytes),
        kind::LEAF | kind::INNER => tree(page),
        0 => Err("the page was never made"),
        _ => Err("a page of unknown kind"),
    }
}

fn overflow(bytes: &[u8]) -> Result<(), &'static str> {
    let length = Page(bytes).overflow_length();
    match length <= super::overflow_room(bytes.len()) {
        true => Ok(()),
        false => Err("more bytes of a value than fit"),
    }
}

fn tree(page: Page<'_>) -> Result<(), &'static str> {
    let header = page.header();
    let size = page.0.len();
    let cells = usize::from(header.cells.get());
    let within = |at: usize, length: usize| at >= cells && at + length <= size;
    if (header.kind == kind::LEAF) != (header.level == 0) || header.level > 30 {
        return Err("a level that does not fit the kind");
    }
    if cells > size || PAGE_HEADER + 2 * page.count() > cells {
        return Err("cells begin within their offsets");
    }
    if !within(header.low.get().into(), header.low_length.get().into()) {
        return Err("the low fence lies outside");
    }
    if header.high.get() != 0 && !within(header.high.get().into(), header.high_length.get().into())
    {
        return Err("the high fence lies outside");
    }
    let mut used = usize::from(header.low_length.get()) + page.high().map_or(0, <[u8]>::len);
    let mut last: Option<&[u8]> = None;
    for at in 0..page.count() {
        let cell = page.slot(at);
        if !within(cell, LEAF_CELL) {
            return Err("a cell lies outside");
        }
        let key = u16::from_le_bytes([page.0[cell], page.0[cell + 1]]);
        let mut length = LEAF_CELL + usize::from(key);
        if header.level == 0 {
            let value: [u8; 4] = page.0[cell + 2..cell + 6].try_into().expect("4 bytes");
            length += (u32::from_le_bytes(value) & !OVERFLOW) as usize;
        }
        if !within(cell, length) {
            return Err("a cell is longer than the page");
        }
        used += length;
        if last.is_some_and(|last| last >= page.key(at)) {
            return Err("keys are not in order");
        }
        last = Some(page.key(at));
    }
    let below = page.count() > 0 && page.key(0) < page.low();
    if below || last.is_some_and(|last| page.high().is_some_and(|high| last >= high)) {
        return Err("a key lies outside the fences");
    }
    if used + usize::from(header.garbage.get()) != size - cells {
        return Err("bytes of cells do not add up");
    }
    if header.level > 0 && page.count() == 0 {
        return Err("an inner page without entries");
    }
    Ok(())
}
