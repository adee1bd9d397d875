//! The maps of all cylinder groups as they stand on the device, and in what is newer.

use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::format::{BITS_PER_SECTOR, CONTENT_BYTES};
use crate::store::Over;

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
    source: &Over<'_>,
    bad: &mut dyn FnMut((u64, u64), Error) -> Result<()>,
) -> Result<Maps> {
    let geometry = &source.store.geometry;
    let mut maps = Maps {
        used: Bits::new(geometry.fragments()),
        inodes: [(); 4].map(|()| Bits::new(geometry.inodes())),
    };
    let each = geometry.inode_map_sectors();
    for group in 0..geometry.groups() {
        let first = geometry.maps_sector(group);
        let sectors = source.sectors(first, geometry.map_sectors());
        for (nth, sector) in (0..).zip(sectors) {
            let seal = geometry.seal(first + nth, group as u32);
            let sealed = sector.and_then(|sector| {
                seal.check(&sector, "map")?;
                Ok(sector)
            });
            let sector = match sealed {
                Ok(sector) => sector,
                Err(error) => {
                    bad((group, nth), error)?;
                    continue;
                }
            };
            let (bits, every, nth) = match nth.checked_sub(4 * each) {
                None => {
                    let bits = &mut maps.inodes[(nth / each) as usize];
                    (bits, geometry.group_inodes, nth % each)
                }
                Some(nth) => (&mut maps.used, geometry.group_fragments(), nth),
            };
            let begin = group * every;
            let content = &sector[..CONTENT_BYTES];
            bits.load(begin + nth * BITS_PER_SECTOR, begin + every, content);
        }
    }
    Ok(maps)
}
