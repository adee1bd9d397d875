//! Where a sector is: zones, cylinders, tracks, skew.
//!
//! Logical sectors run along a track, then down the tracks of a cylinder, then
//! inwards. A *slot* is a place on the circle; a track's first sector lies at
//! its skew, so that a transfer that goes on to the next track finds it under
//! the head when the switch is done. Skew is given for the outermost zone and
//! scaled to the others, as it stands for a time.

/// Bytes in a sector of every mechanical model.
pub const SECTOR_BYTES: u64 = varve_device::SECTOR;

/// Cylinders recorded with one number of sectors to the track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// The outermost cylinder of the zone.
    pub first_cylinder: u32,
    /// Sectors on each of its tracks.
    pub sectors_per_track: u32,
}

/// How far the first sector of a track lies behind its predecessor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skew {
    /// Sectors from one track of a cylinder to the next, in the outermost zone.
    pub track: u32,
    /// Sectors from the last track of a cylinder to the first of the next.
    pub cylinder: u32,
}

/// One track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackId {
    /// From 0, the outermost.
    pub cylinder: u32,
    /// From 0.
    pub head: u32,
}

/// A track's measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// Which one.
    pub id: TrackId,
    /// Its first logical sector.
    pub first_sector: u64,
    /// Sectors on it.
    pub sectors: u32,
    /// The slot of its first sector.
    pub skew: u32,
}

impl Track {
    /// The slot of the track's `nth` sector.
    ///
    /// # Panics
    /// In debug builds, if the track has fewer sectors.
    pub fn slot(&self, nth: u32) -> u32 {
        debug_assert!(nth < self.sectors);
        let slot = nth + self.skew;
        if slot >= self.sectors {
            slot - self.sectors
        } else {
            slot
        }
    }

    /// Which of the track's sectors is in `slot`.
    pub fn nth(&self, slot: u32) -> u32 {
        if slot >= self.skew {
            slot - self.skew
        } else {
            slot + self.sectors - self.skew
        }
    }
}

/// A zone with what follows from those outside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Band {
    first_cylinder: u32,
    first_sector: u64,
    sectors: u32,
    track_skew: u32,
    cylinder_skew: u32,
}

/// A disk's cylinders, heads, zones and skews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskGeometry {
    cylinders: u32,
    heads: u32,
    total_sectors: u64,
    bands: Vec<Band>,
}

impl DiskGeometry {
    /// A disk of the given measures; zones from the outermost inwards.
    ///
    /// # Panics
    /// If there are no cylinders, heads or sectors, if the zones do not begin at
    /// cylinder 0 and ascend, or if a count is 2^20 or more (2^24 cylinders).
    pub fn new(cylinders: u32, heads: u32, zones: &[Zone], skew: Skew) -> Self {
        assert!(
            cylinders > 0 && cylinders < 1 << 24,
            "{cylinders} cylinders"
        );
        assert!(heads > 0 && heads < 1 << 20, "{heads} heads");
        let outermost = zones.first().expect("a zone");
        assert_eq!(outermost.first_cylinder, 0, "the first zone's cylinder");
        let mut bands: Vec<Band> = Vec::with_capacity(zones.len());
        let mut first_sector = 0;
        for (zone, next) in zones
            .iter()
            .zip(zones.iter().skip(1).map(Some).chain([None]))
        {
            let sectors = zone.sectors_per_track;
            assert!(
                sectors > 0 && sectors < 1 << 20,
                "{sectors} sectors to the track"
            );
            let end = next.map_or(cylinders, |next| next.first_cylinder);
            assert!(
                end > zone.first_cylinder && end <= cylinders,
                "zones ascend"
            );
            let scale = |skew: u32| {
                let outer = u64::from(outermost.sectors_per_track);
                let scaled = (u64::from(skew) * u64::from(sectors)).div_ceil(outer);
                (scaled % u64::from(sectors)) as u32
            };
            bands.push(Band {
                first_cylinder: zone.first_cylinder,
                first_sector,
                sectors,
                track_skew: scale(skew.track),
                cylinder_skew: scale(skew.cylinder),
            });
            let tracks = u64::from(end - zone.first_cylinder) * u64::from(heads);
            first_sector += tracks * u64::from(sectors);
        }
        DiskGeometry {
            cylinders,
            heads,
            total_sectors: first_sector,
            bands,
        }
    }

    /// One zone for the whole disk.
    pub fn uniform(cylinders: u32, heads: u32, sectors_per_track: u32, skew: Skew) -> Self {
        let zone = Zone {
            first_cylinder: 0,
            sectors_per_track,
        };
        DiskGeometry::new(cylinders, heads, &[zone], skew)
    }

    /// The outermost `cylinders` of it (all, if it has no more).
    pub fn outermost(&self, cylinders: u32) -> Self {
        let mut part = self.clone();
        let cylinders = cylinders.clamp(1, self.cylinders);
        part.bands.retain(|band| band.first_cylinder < cylinders);
        part.cylinders = cylinders;
        if cylinders < self.cylinders {
            let id = TrackId {
                cylinder: cylinders,
                head: 0,
            };
            part.total_sectors = self.track(id).first_sector;
        }
        part
    }

    /// With so many heads only (all, if it has no more): a smaller disk on which the
    /// arm has as far to go.
    pub fn with_heads(&self, heads: u32) -> Self {
        let (outermost, zones) = (&self.bands[0], self.zones().collect::<Vec<_>>());
        let skew = Skew {
            track: outermost.track_skew,
            cylinder: outermost.cylinder_skew,
        };
        let heads = heads.clamp(1, self.heads);
        DiskGeometry::new(self.cylinders, heads, &zones, skew)
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Tracks in a cylinder.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Sectors on the disk.
    pub fn total_sectors(&self) -> u64 {
        self.total_sectors
    }

    /// Bytes on the disk.
    pub fn bytes(&self) -> u64 {
        self.total_sectors * SECTOR_BYTES
    }

    /// The zones, from the outermost inwards.
    pub fn zones(&self) -> impl Iterator<Item = Zone> {
        self.bands.iter().map(|band| Zone {
            first_cylinder: band.first_cylinder,
            sectors_per_track: band.sectors,
        })
    }

    /// Sectors lost between a zone's track and the next one's, as slots:
    /// within a cylinder, and between cylinders.
    pub fn skews(&self, cylinder: u32) -> (u32, u32) {
        let band = self.band(|band| band.first_cylinder <= cylinder);
        (band.track_skew, band.cylinder_skew)
    }

    fn band(&self, not_beyond: impl Fn(&Band) -> bool) -> &Band {
        match &self.bands[..] {
            [only] => only,
            bands => &bands[bands.partition_point(not_beyond) - 1],
        }
    }

    /// The track that a sector is on, and which of its sectors it is.
    ///
    /// # Panics
    /// In debug builds, if the disk has no such sector.
    pub fn locate(&self, sector: u64) -> (Track, u32) {
        debug_assert!(sector < self.total_sectors, "sector {sector}");
        let band = self.band(|band| band.first_sector <= sector);
        let within = sector - band.first_sector;
        let per_track = u64::from(band.sectors);
        let (track, nth) = (within / per_track, (within % per_track) as u32);
        let heads = u64::from(self.heads);
        let id = TrackId {
            cylinder: band.first_cylinder + (track / heads) as u32,
            head: (track % heads) as u32,
        };
        (self.measure(band, id, sector - u64::from(nth)), nth)
    }

    /// A track's measures.
    ///
    /// # Panics
    /// In debug builds, if the disk has no such track.
    pub fn track(&self, id: TrackId) -> Track {
        debug_assert!(
            id.cylinder < self.cylinders && id.head < self.heads,
            "{id:?}"
        );
        let band = self.band(|band| band.first_cylinder <= id.cylinder);
        let cylinder = u64::from(id.cylinder - band.first_cylinder);
        let tracks = cylinder * u64::from(self.heads) + u64::from(id.head);
        self.measure(
            band,
            id,
            band.first_sector + tracks * u64::from(band.sectors),
        )
    }

    fn measure(&self, band: &Band, id: TrackId, first_sector: u64) -> Track {
        let cylinder = u64::from(id.cylinder - band.first_cylinder);
        let a_cylinder = (u64::from(self.heads) - 1) * u64::from(band.track_skew)
            + u64::from(band.cylinder_skew);
        let slots = cylinder * a_cylinder + u64::from(id.head) * u64::from(band.track_skew);
        Track {
            id,
            first_sector,
            sectors: band.sectors,
            skew: (slots % u64::from(band.sectors)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zoned() -> DiskGeometry {
        let zone = |first_cylinder, sectors_per_track| Zone {
            first_cylinder,
            sectors_per_track,
        };
        let zones = [zone(0, 100), zone(10, 80), zone(15, 61)];
        let skew = Skew {
            track: 7,
            cylinder: 13,
        };
        DiskGeometry::new(20, 3, &zones, skew)
    }

    #[test]
    fn with_fewer_heads_cylinders_are_smaller_and_as_many() {
        let (whole, part) = (zoned().outermost(16), zoned().outermost(16).with_heads(1));
        assert_eq!((part.cylinders(), part.heads()), (16, 1));
        assert_eq!(3 * part.total_sectors(), whole.total_sectors());
        for cylinder in 0..16 {
            let id = TrackId { cylinder, head: 0 };
            assert_eq!(part.track(id).sectors, whole.track(id).sectors);
            assert_eq!(part.skews(cylinder), whole.skews(cylinder));
        }
        assert_eq!(whole.with_heads(9), whole);
    }

    #[test]
    fn every_sector_is_where_its_track_says() {
        let geometry = zoned();
        let mut sector = 0;
        for cylinder in 0..20 {
            for head in 0..3 {
                let track = geometry.track(TrackId { cylinder, head });
                assert_eq!(track.first_sector, sector);
                for nth in 0..track.sectors {
                    assert_eq!(geometry.locate(sector), (track, nth));
                    assert_eq!(track.nth(track.slot(nth)), nth);
                    sector += 1;
                }
            }
        }
        assert_eq!(sector, geometry.total_sectors());
        assert_eq!(sector, 3 * (10 * 100 + 5 * 80 + 5 * 61));
    }

    #[test]
    fn skew_is_that_between_neighbours_and_scales_with_density() {
        let geometry = zoned();
        let at = |cylinder, head| geometry.track(TrackId { cylinder, head });
        assert_eq!(at(0, 0).skew, 0);
        assert_eq!(at(0, 1).skew, 7);
        assert_eq!(at(1, 0).skew, 2 * 7 + 13);
        assert_eq!(geometry.skews(12), (6, 11));
        assert_eq!(at(11, 2).skew, 2 * 6 + 11 + 2 * 6);
    }

    #[test]
    fn a_part_of_a_disk_is_its_outermost_cylinders() {
        let (whole, part) = (zoned(), zoned().outermost(12));
        assert_eq!(part.total_sectors(), 3 * (10 * 100 + 2 * 80));
        assert_eq!(part.zones().count(), 2);
        let last = part.total_sectors() - 1;
        assert_eq!(part.locate(last), whole.locate(last));
        assert_eq!(whole.outermost(99), whole);
    }
}
