//! Parts of objects in memory.

use crate::format::ObjectId;
use crate::stored::PART;
use std::collections::HashMap;
use std::sync::Arc;
use varve_device::sync::Mutex;

/// A part, and the use that was its last.
type Part = (Arc<Vec<u8>>, u64);

/// The parts that were used last. They never change, as objects do not.
#[derive(Debug)]
pub(crate) struct Parts {
    most: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    parts: HashMap<(ObjectId, u64), Part>,
    uses: u64,
}

impl Parts {
    /// Keeps at most so many bytes, and at least two parts.
    pub fn new(bytes: u64) -> Self {
        Parts {
            most: (bytes / PART).max(2) as usize,
            known: Mutex::default(),
        }
    }

    pub fn get(&self, id: ObjectId, part: u64) -> Option<Arc<Vec<u8>>> {
        let mut known = self.known.lock();
        known.uses += 1;
        let uses = known.uses;
        let (bytes, used) = known.parts.get_mut(&(id, part))?;
        *used = uses;
        Some(Arc::clone(bytes))
    }

    pub fn insert(&self, id: ObjectId, part: u64, bytes: &Arc<Vec<u8>>) {
        let mut known = self.known.lock();
        if known.parts.len() >= self.most {
            let oldest = known.parts.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                known.parts.remove(&oldest);
            }
        }
        known.uses += 1;
        let uses = known.uses;
        known.parts.insert((id, part), (Arc::clone(bytes), uses));
    }
}
