//! The state of an open volume, without the end of its log.

use crate::error::{Error, Result};
use crate::format::{ObjectId, PART, Root, data_name};
use crate::layers::Layers;
use crate::parallel::in_parallel;
use crate::parts::{Parts, cache};
use crate::request::Requester;
use crate::settings::{Opening, Settings};
use crate::stored::Place;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use varve_device::sync::{Mutex, MutexGuard};
use varve_device::{Clock, crc32c};

/// An open volume.
#[derive(Debug)]
pub(crate) struct Volume {
    root: Root,
    settings: Settings,
    requester: Requester,
    clock: Arc<dyn Clock>,
    layers: Mutex<Layers>,
    parts: Parts,
    /// The size that the next log object has, in bytes.
    size: AtomicU64,
}

impl Volume {
    pub fn new(root: Root, opening: &Opening, requester: Requester, layers: Layers) -> Self {
        Volume {
            root,
            settings: opening.settings.clone(),
            requester,
            clock: Arc::clone(&opening.clock),
            size: AtomicU64::new(layers.size),
            layers: Mutex::new(layers),
            parts: cache(opening.settings.cache_bytes),
        }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn requester(&self) -> &Requester {
        &self.requester
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The identity in the names of the objects.
    pub fn volume(&self) -> u128 {
        self.root.volume
    }

    pub fn extent_bytes(&self) -> u64 {
        self.root.extent_bytes
    }

    pub fn wanted_size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Sets the size that the next log object has, and returns the present one.
    pub fn set_wanted_size(&self, size: u64) -> u64 {
        self.size.swap(size, Ordering::Relaxed)
    }

    pub fn layers(&self) -> MutexGuard<'_, Layers> {
        self.layers.lock()
    }

    /// A part of an object, from memory or from the store.
    fn part(&self, id: ObjectId, part: u64) -> Result<Arc<Vec<u8>>> {
        if let Some(found) = self.parts.get(&(id, part)) {
            return Ok(found);
        }
        let name = data_name(self.volume(), id);
        let (bytes, sum) = {
            let layers = self.layers();
            let object = layers.stored.objects.get(&id);
            let sum = object.and_then(|object| object.sums.get(part as usize).copied());
            match (object, sum) {
                (Some(object), Some(sum)) => ((object.bytes - part * PART).min(PART), sum),
                // Its last byte was overwritten after the caller looked it up.
                _ => return Err(self.missing(name)),
            }
        };
        let mut buffer = vec![0; bytes as usize];
        self.requester.get_range(&name, part * PART, &mut buffer)?;
        if crc32c(&buffer) != sum {
            return Err(Error::Damaged {
                store: self.requester.name(),
                object: name,
                flaw: crate::format::Flaw::Checksum,
            });
        }
        let found = Arc::new(buffer);
        self.parts.insert((id, part), Arc::clone(&found));
        Ok(found)
    }

    fn missing(&self, object: String) -> Error {
        Error::Missing {
            store: self.requester.name(),
            object,
        }
    }

    /// Reads bytes of a place, and compares them with their checksums.
    pub fn read_place(&self, place: Place, buffer: &mut [u8]) -> Result<()> {
        let end = place.at + buffer.len() as u64;
        let first = place.at / PART;
        let parts: Vec<u64> = (first..end.div_ceil(PART)).collect();
        let found: Vec<_> = parts.iter().map(|_| std::sync::OnceLock::new()).collect();
        in_parallel(self.settings().parallel, &parts, |part| {
            let bytes = self.part(place.object, *part)?;
            let _ = found[(part - first) as usize].set(bytes);
            Ok(())
        })?;
        for (part, bytes) in parts.iter().zip(found) {
            let bytes = bytes.into_inner().expect("each was read");
            let begin = (part * PART).max(place.at);
            let until = ((part + 1) * PART).min(end);
            let from = (begin - part * PART) as usize;
            let length = (until - begin) as usize;
            let to = (begin - place.at) as usize;
            buffer[to..to + length].copy_from_slice(&bytes[from..from + length]);
        }
        Ok(())
    }
}
