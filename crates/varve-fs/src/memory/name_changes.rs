//! Names that a private tree has changed in a directory of its ground.
//!
//! Each has a cookie among those its hash may have, so that a listing merges them
//! with the ground's by cookie. A directory gives sequence numbers from the least
//! on, and these are given from the greatest: the two meet only where a hundred
//! names share 55 bits of a hash.

use crate::directory::{self, Key};
use crate::error::{Error, Result};
use crate::types::{FileKind, InodeNo};
use std::collections::BTreeMap;

/// Where a name leads.
pub(crate) type Found = (InodeNo, FileKind);

/// What became of a name.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    /// As it is spelled now.
    pub name: Box<[u8]>,
    /// Where it leads in the ground.
    pub before: Option<Found>,
    /// Where it leads here.
    pub after: Option<Found>,
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameChanges {
    by_cookie: BTreeMap<u64, NameChange>,
}

impl NameChanges {
    pub fn is_empty(&self) -> bool {
        self.by_cookie.is_empty()
    }

    /// All, by cookie.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &NameChange)> {
        self.by_cookie
            .iter()
            .map(|(cookie, change)| (*cookie, change))
    }

    /// Those with cookies greater than `after`.
    pub fn behind(&self, after: u64) -> impl Iterator<Item = (u64, &NameChange)> {
        let range = self.by_cookie.range(after.saturating_add(1)..);
        range.map(|(cookie, change)| (*cookie, change))
    }

    /// What became of this name, if anything, and its cookie.
    pub fn get(&self, key: &Key, name: &[u8]) -> Option<(u64, &NameChange)> {
        if self.by_cookie.is_empty() {
            return None;
        }
        let mut run = self.by_cookie.range(directory::cookies(key, name));
        let found = run.find(|(_, change)| directory::is_same(key, &change.name, name));
        found.map(|(cookie, change)| (*cookie, change))
    }

    /// A name that leads to `before` in the ground, if it was not changed already,
    /// leads to `after`. Answers its cookie and what was known of it.
    ///
    /// # Errors
    /// `NoSpace` if so many names of this hash were changed that there is no cookie.
    pub fn set(
        &mut self,
        key: &Key,
        name: &[u8],
        before: Option<Found>,
        after: Option<Found>,
    ) -> Result<(u64, Option<NameChange>)> {
        let known = self.get(key, name).map(|(cookie, _)| cookie);
        let cookie = match known {
            Some(cookie) => cookie,
            None => {
                let free = |cookie: &u64| !self.by_cookie.contains_key(cookie);
                let mut run = directory::cookies(key, name).rev();
                run.find(free).ok_or(Error::NoSpace)?
            }
        };
        let former = self.by_cookie.remove(&cookie);
        let before = former.as_ref().map_or(before, |former| former.before);
        let name = name.into();
        if before.is_some() || after.is_some() {
            let change = NameChange {
                name,
                before,
                after,
            };
            self.by_cookie.insert(cookie, change);
        }
        Ok((cookie, former))
    }

    /// What was known of a name is known again.
    pub fn restore(&mut self, cookie: u64, former: Option<NameChange>) {
        match former {
            Some(change) => self.by_cookie.insert(cookie, change),
            None => self.by_cookie.remove(&cookie),
        };
    }
}
