//! Names: which are allowed, which are equal, and their cookies.
//!
//! The hash is part of the format: XXH3 (64 bits, seeded per volume) of the name, or of
//! its folded form where case is folded; its 55 highest bits.

use super::Key;
use crate::error::{Error, Result};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Most bytes in a name.
pub const MAX_NAME_BYTES: usize = 255;

/// Bits of a cookie that distinguish names of equal hash.
pub(super) const SEQUENCE_BITS: u32 = 8;
/// The least cookie: hash 0 is not used.
pub(super) const COOKIE_MIN: u64 = 1 << SEQUENCE_BITS;
/// One more than the greatest cookie.
pub(super) const COOKIE_END: u64 = 1 << 63;

/// The cookies that a name may have, by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The least of them.
    pub first: u64,
    /// The greatest of them.
    pub last: u64,
}

impl Run {
    pub fn of(key: &Key, name: &[u8]) -> Run {
        let hash = hash(key.hash_seed, &folded(key, name)) >> (64 - 63 + SEQUENCE_BITS);
        let first = hash.max(1) << SEQUENCE_BITS;
        Run {
            first,
            last: first | (COOKIE_MIN - 1),
        }
    }

    pub fn contains(self, cookie: u64) -> bool {
        (self.first..=self.last).contains(&cookie)
    }
}

/// Checks that an entry may have this name.
///
/// # Errors
/// `NameTooLong`, `Invalid`.
pub(super) fn allowed(name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::NameTooLong);
    }
    match flaw(name) {
        None => Ok(()),
        Some(what) => Err(Error::Invalid(what)),
    }
}

/// The flaw of a name, if it has one; its length is not checked.
pub(super) fn flaw(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("empty name"),
        b"." | b".." => Some("name is . or .."),
        _ if name.contains(&b'/') => Some("name with a slash"),
        _ if name.contains(&0) => Some("name with a zero byte"),
        _ => None,
    }
}

/// True if a directory cannot have both names.
pub(super) fn same(key: &Key, a: &[u8], b: &[u8]) -> bool {
    a == b || key.case_fold && folded(key, a) == folded(key, b)
}

/// The form in which names are hashed and compared. UTF-8 is converted to lower case
/// character by character, where the result is one character; of other names only ASCII
/// letters are.
fn folded<'a>(key: &Key, name: &'a [u8]) -> Cow<'a, [u8]> {
    if !key.case_fold {
        return Cow::Borrowed(name);
    }
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_ascii() => {
            let lower: String = text.chars().map(lower).collect();
            Cow::Owned(lower.into_bytes())
        }
        _ => Cow::Owned(name.to_ascii_lowercase()),
    }
}

fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

#[cfg(not(test))]
fn hash(seed: u64, name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, seed)
}

#[cfg(test)]
fn hash(seed: u64, name: &[u8]) -> u64 {
    match HASH.get() {
        Some(weak) => weak(name),
        None => xxh3_64_with_seed(name, seed),
    }
}

#[cfg(test)]
pub(super) type NameHash = fn(&[u8]) -> u64;

#[cfg(test)]
thread_local! {
    /// Replacement of the hash in a test that needs collisions.
    pub(super) static HASH: std::cell::Cell<Option<NameHash>> =
        const { std::cell::Cell::new(None) };
}
