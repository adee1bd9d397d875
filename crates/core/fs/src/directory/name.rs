//! Names: which are allowed, which are the same, and their cookies.
//!
//! The hash is part of the format: XXH3 (64 bits, seeded per volume) of the
//! name, or of its folded form where case is folded, its 55 highest bits.

use super::Key;
use crate::error::{Error, Result};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Bits of a cookie that tell names of equal hash apart.
pub(super) const SEQUENCE_BITS: u32 = 8;
/// The least cookie: hash 0 is not used.
pub(super) const COOKIE_MIN: u64 = 1 << SEQUENCE_BITS;
/// One more than the greatest cookie.
pub(super) const COOKIE_END: u64 = 1 << 63;

/// The cookies a name may have, by its hash.
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

/// Refuses what no entry may be called.
pub(super) fn allowed(name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::NameTooLong);
    }
    match flaw(name) {
        None => Ok(()),
        Some(what) => Err(Error::Invalid(what)),
    }
}

/// What is wrong with a name, its length apart.
pub(super) fn flaw(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("empty name"),
        b"." | b".." => Some("name is . or .."),
        _ if name.contains(&b'/') => Some("name with a slash"),
        _ if name.contains(&0) => Some("name with a zero byte"),
        _ => None,
    }
}

/// True if a directory cannot hold both.
pub(super) fn same(key: &Key, a: &[u8], b: &[u8]) -> bool {
    a == b || key.case_fold && folded(key, a) == folded(key, b)
}

/// The form in which names are hashed and compared. UTF-8 is put in lower case
/// character by character where that is one character; of other names only
/// ASCII letters are.
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
    /// A test that needs collisions puts its own hash here.
    pub(super) static HASH: std::cell::Cell<Option<NameHash>> =
        const { std::cell::Cell::new(None) };
}
