//! The maps of all cylinder groups, from the device and from newer sectors in memory.

use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::format::{BITS_PER_SECTOR, CONTENT_BYTES};
use crate::store::Over;

/// The content of the maps.
pub(crate) struct Maps {
    /// The fragments in use.
    pub used: Bits,
    /// The maps of inodes, indexed by `GroupMap`.
    pub inodes: [Bits; 4],
}

/// Reads the maps, those of each group by one request. `bad` is called for each sector
/// that is damaged or cannot be read, with its group and its index among the group's
/// maps. If `bad` returns `Ok`, the sector's bits are zeros.
///
/// # Errors
/// The errors that `bad` returns.
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
