//! Names that a private tree has changed in a directory of the tree below.
//!
//! Each has a cookie among those that its hash may have, so that a listing merges them
//! with the names below by cookie. If there is an entry below, its cookie is used, so it
//! keeps its place. A directory allocates sequence numbers from the least on, and new
//! names here get them from the greatest: the two meet only where a hundred names share
//! 55 bits of a hash.

use crate::directory::{self, Key};
use crate::error::{Error, Result};
use crate::types::{FileKind, InodeNo};
use std::collections::BTreeMap;

/// The inode to which a name refers, and its kind.
pub(crate) type Found = (InodeNo, FileKind);

/// An entry of the directory below.
#[derive(Clone, Debug)]
pub(crate) struct Below {
    pub name: Box<[u8]>,
    pub leads_to: Found,
    pub cookie: u64,
}

/// The change of a name.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    /// The present spelling.
    pub name: Box<[u8]>,
    /// Spelling of the entry below, where case is folded, if it differs.
    pub spelled_below: Option<Box<[u8]>>,
    /// The inode to which the name refers below.
    pub before: Option<Found>,
    /// The inode to which the name refers here.
    pub after: Option<Found>,
}

impl NameChange {
    /// True if the name did not exist and does not exist now.
    pub fn is_undone(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }

    /// This change, followed by one that makes the name refer to `after`.
    fn followed_by(&self, name: &[u8], after: Option<Found>) -> NameChange {
        let below = self.spelled_below.as_ref().unwrap_or(&self.name);
        let name = match self.after {
            Some(_) => &self.name,
            None => name,
        };
        let respelled = self.before.is_some() && **below != *name;
        NameChange {
            name: name.into(),
            spelled_below: respelled.then(|| below.clone()),
            before: self.before,
            after,
        }
    }
}

/// The changed names of one directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameChanges {
    by_cookie: BTreeMap<u64, NameChange>,
}

impl NameChanges {
    /// All changes, by cookie.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &NameChange)> {
        self.by_cookie
            .iter()
            .map(|(cookie, change)| (*cookie, change))
    }

    /// The changes with cookies greater than `after`.
    pub fn behind(&self, after: u64) -> impl Iterator<Item = (u64, &NameChange)> {
        let range = self.by_cookie.range(after.saturating_add(1)..);
        range.map(|(cookie, change)| (*cookie, change))
    }

    /// The change of this name, if there is one, and its cookie.
    pub fn get(&self, key: &Key, name: &[u8]) -> Option<(u64, &NameChange)> {
        if self.by_cookie.is_empty() {
            return None;
        }
        let mut run = self.by_cookie.range(directory::cookies(key, name));
        let found = run.find(|(_, change)| directory::is_same(key, &change.name, name));
        found.map(|(cookie, change)| (*cookie, change))
    }

    /// Records that a name refers to `after`; `before` is the entry below, if the name
    /// was not changed already. An existing name keeps its spelling. A name that was made
    /// and removed again stays recorded, because it was used: a program that makes a lock
    /// file, as git does, conflicts with other transactions that made the same file
    /// meanwhile. Returns the cookie and the earlier change of the name.
    ///
    /// # Errors
    /// `NoSpace` if so many names of this hash were changed that no cookie is free.
    pub fn set(
        &mut self,
        key: &Key,
        name: &[u8],
        before: Option<Below>,
        after: Option<Found>,
    ) -> Result<(u64, Option<NameChange>)> {
        let known = self.get(key, name).map(|(cookie, _)| cookie);
        let cookie = match (known, &before) {
            (Some(cookie), _) => cookie,
            (None, Some(before)) => before.cookie,
            (None, None) => {
                let free = |cookie: &u64| !self.by_cookie.contains_key(cookie);
                let mut run = directory::cookies(key, name).rev();
                run.find(free).ok_or(Error::NoSpace)?
            }
        };
        let former = self.by_cookie.remove(&cookie);
        let change = match &former {
            Some(former) => former.followed_by(name, after),
            None => {
                let (name, before) = match before {
                    Some(below) => (below.name, Some(below.leads_to)),
                    None => (name.into(), None),
                };
                NameChange {
                    name,
                    spelled_below: None,
                    before,
                    after,
                }
            }
        };
        self.by_cookie.insert(cookie, change);
        Ok((cookie, former))
    }

    /// Restores the earlier change of a name.
    pub fn restore(&mut self, cookie: u64, former: Option<NameChange>) {
        match former {
            Some(change) => self.by_cookie.insert(cookie, change),
            None => self.by_cookie.remove(&cookie),
        };
    }
}
