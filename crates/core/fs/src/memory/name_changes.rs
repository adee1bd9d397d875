//! Names that a private tree has changed in a directory of its ground.
//!
//! Each has a cookie among those its hash may have, so that a listing merges them
//! with the ground's by cookie: that of the ground's entry if there is one, which so
//! keeps its place. A directory gives sequence numbers from the least on, and those of
//! new names are given from the greatest: the two meet only where a hundred names
//! share 55 bits of a hash.

use crate::directory::{self, Key};
use crate::error::{Error, Result};
use crate::types::{FileKind, InodeNo};
use std::collections::BTreeMap;

/// Where a name leads.
pub(crate) type Found = (InodeNo, FileKind);

/// An entry of the ground.
#[derive(Clone, Debug)]
pub(crate) struct Below {
    pub name: Box<[u8]>,
    pub leads_to: Found,
    pub cookie: u64,
}

/// What became of a name.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    /// As it is spelled now.
    pub name: Box<[u8]>,
    /// How the ground spells it, where case is folded, if not so.
    pub spelled_below: Option<Box<[u8]>>,
    /// Where it leads in the ground.
    pub before: Option<Found>,
    /// Where it leads here.
    pub after: Option<Found>,
}

impl NameChange {
    /// The name led nowhere and leads nowhere now.
    pub fn is_undone(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }

    /// This change, and then the name leads to `after`.
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

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameChanges {
    by_cookie: BTreeMap<u64, NameChange>,
}

impl NameChanges {
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

    /// A name leads to `after`; `before` is what the ground has of it, if it was not
    /// changed already. One that led somewhere keeps its spelling. One that was made and
    /// removed again is kept, because it was used: a program that makes a file to lock
    /// others out, as git does, conflicts with others that made the same file meanwhile.
    /// Answers its cookie and what was known of it.
    ///
    /// # Errors
    /// `NoSpace` if so many names of this hash were changed that there is no cookie.
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

    /// What was known of a name is known again.
    pub fn restore(&mut self, cookie: u64, former: Option<NameChange>) {
        match former {
            Some(change) => self.by_cookie.insert(cookie, change),
            None => self.by_cookie.remove(&cookie),
        };
    }
}
