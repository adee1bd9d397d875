//! The sectors that a group is about to change, over those that readers see.

use crate::error::Result;
use crate::format::{Geometry, Sector};
use crate::store::{Sectors, Store, Tables};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use varve_device::sync::RwLock;

/// The sectors that a group changes.
pub(crate) struct Stage<'a> {
    store: &'a Store,
    tables: &'a RwLock<Tables>,
    /// Each changed sector, with its owner if it still needs its seal.
    changed: HashMap<u64, (Arc<Sector>, Option<u32>)>,
}

impl<'a> Stage<'a> {
    pub fn new(store: &'a Store, tables: &'a RwLock<Tables>) -> Self {
        Stage {
            store,
            tables,
            changed: HashMap::new(),
        }
    }

    /// Adds a sector in its stored form.
    pub fn put(&mut self, sector: u64, bytes: Sector) {
        self.changed.insert(sector, (Arc::new(bytes), None));
    }

    /// Adds a sector that is sealed at the end.
    pub fn put_open(&mut self, sector: u64, bytes: Sector, owner: u32) {
        self.changed.insert(sector, (Arc::new(bytes), Some(owner)));
    }

    /// Removes a sector that is no longer needed.
    pub fn forget(&mut self, sector: u64) {
        self.changed.remove(&sector);
    }

    /// Returns a sealed sector to be changed.
    pub fn change(
        &mut self,
        sector: u64,
        owner: u32,
        structure: &'static str,
    ) -> Result<&mut Sector> {
        let bytes = match self.changed.get(&sector) {
            Some(_) => None,
            None => Some(self.sealed(sector, owner, structure)?),
        };
        let (bytes, open) = match bytes {
            None => self.changed.get_mut(&sector).expect("just seen"),
            Some(bytes) => self.changed.entry(sector).or_insert((bytes, Some(owner))),
        };
        *open = Some(owner);
        Ok(Arc::make_mut(bytes))
    }

    /// Seals the sectors that need it, and returns all of them.
    pub fn finish(self) -> BTreeMap<u64, Arc<Sector>> {
        let geometry = &self.store.geometry;
        let seal = |(sector, (mut bytes, open)): (u64, (Arc<Sector>, Option<u32>))| {
            if let Some(owner) = open {
                geometry
                    .seal(sector, owner)
                    .close(Arc::make_mut(&mut bytes));
            }
            (sector, bytes)
        };
        self.changed.into_iter().map(seal).collect()
    }
}

impl Sectors for Stage<'_> {
    fn geometry(&self) -> &Geometry {
        &self.store.geometry
    }

    fn sector(&self, sector: u64) -> Result<(Arc<Sector>, bool)> {
        match self.changed.get(&sector) {
            Some((bytes, open)) => Ok((Arc::clone(bytes), open.is_none())),
            None => crate::store::Newest {
                store: self.store,
                tables: &self.tables.read(),
            }
            .sector(sector),
        }
    }
}
