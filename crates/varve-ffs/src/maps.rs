//! The maps of all cylinder groups as they stand on the device, and in what is newer.

use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::format::{BITS_PER_SECTOR, SECTOR_BYTES, Sector};
use crate::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What they say.
pub(crate) struct Maps {
    /// Fragments in use.
    pub used: Bits,
    /// The maps of inodes, as `GroupMap` counts them.
    pub inodes: [Bits; 4],
}

/// Reads them, each group's by one request. `bad` is told of a sector that is damaged or
/// cannot be read: its group, and which of the group's it is. Its bits are zeros if that
/// is no error.
///
/// # Errors
/// What `bad` answers.
pub(crate) fn read(
    store: &Store,
    newer: &BTreeMap<u64, Arc<Sector>>,
    bad: &mut dyn FnMut((u64, u64), Error) -> Result<()>,
) -> Result<Maps> {
    let geometry = &store.geometry;
    let mut maps = Maps {
        used: Bits::new(geometry.fragments()),
        inodes: [(); 4].map(|()| Bits::new(geometry.inodes())),
    };
    let each = geometry.inode_map_sectors();
    for group in 0..geometry.groups() {
        let first = geometry.maps_sector(group);
        let read = store.read(first, geometry.map_sectors());
        for nth in 0..geometry.map_sectors() {
            let at = first + nth;
            let found = match (newer.get(&at), &read) {
                (Some(newer), _) => Ok(newer.to_vec()),
                (None, Ok(bytes)) => {
                    let from = nth as usize * SECTOR_BYTES;
                    Ok(bytes[from..from + SECTOR_BYTES].to_vec())
                }
                // Perhaps it is another one that cannot be read.
                (None, Err(_)) => store.read(at, 1),
            };
            let mut sector: Sector = [0; SECTOR_BYTES];
            let sealed = found.and_then(|bytes| {
                sector.copy_from_slice(&bytes);
                Ok(geometry.seal(at, group as u32).check(&sector, "map")?)
            });
            if let Err(error) = sealed {
                bad((group, nth), error)?;
                continue;
            }
            let (bits, every, nth) = match nth.checked_sub(4 * each) {
                None => {
                    let bits = &mut maps.inodes[(nth / each) as usize];
                    (bits, geometry.group_inodes, nth % each)
                }
                Some(nth) => (&mut maps.used, geometry.group_fragments(), nth),
            };
            let begin = group * every;
            bits.load(begin + nth * BITS_PER_SECTOR, begin + every, &sector);
        }
    }
    Ok(maps)
}
