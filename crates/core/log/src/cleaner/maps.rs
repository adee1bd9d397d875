//! What segments hold, read as cheaply as can be: for whoever moves nothing.

use crate::chain::MapPage;
use crate::cleaner::Cleaner;
use crate::control::contents::SegmentContents;
use crate::error::Result;
use crate::format::SECTOR;
use crate::segments::Edition;

impl Cleaner {
    /// What segments hold, read as cheaply as can be, as no block is moved: of
    /// one that this mount has plugged the map alone, which has all that lives.
    /// None of one that is damaged.
    ///
    /// # Errors
    /// Device errors.
    pub(super) fn read_for_holes(
        &self,
        segments: &[(u32, Edition)],
    ) -> Result<Vec<Option<SegmentContents>>> {
        let geometry = &self.geometry;
        let mapped: Vec<_> = {
            let table = self.segments.lock();
            let entries = segments.iter().map(|(segment, _)| table.get(*segment));
            entries
                .map(|entry| (entry.plugged, entry.mapped.clone()))
                .collect()
        };
        let mut places = Vec::new();
        for ((segment, _), (_, mapped)) in segments.iter().zip(&mapped) {
            let pages = mapped.iter().flat_map(|mapped| &mapped.pages);
            places.extend(pages.map(|offset| geometry.byte(*segment, *offset)));
        }
        let mut pages = self.read_pages(&places)?.into_iter();
        let mut read = Vec::with_capacity(segments.len());
        for (&(segment, edition), (plugged, mapped)) in segments.iter().zip(mapped) {
            let Some(mapped) = mapped else {
                let contents = match plugged {
                    true => self.mechanism.read_whole(segment, edition),
                    false => self.mechanism.survey(segment, edition, 0),
                };
                read.push(match contents {
                    Err(error) if error.is_of_the_medium() => None,
                    contents => Some(contents?.without_bytes()),
                });
                continue;
            };
            let of = (segment, edition.incarnation);
            let parse = |(&offset, page): (&u32, Vec<u8>)| {
                MapPage::parse(&page, geometry, self.volume_tag, of, offset)
            };
            let pages = mapped.pages.iter().zip(&mut pages).filter_map(parse);
            read.push(Some(SegmentContents::told_by(
                geometry,
                (segment, edition),
                mapped.summaries.clone(),
                pages.collect(),
            )));
        }
        Ok(read)
    }

    /// Blocks from several bytes of the device; zeros for what it does not deliver.
    fn read_pages(&self, places: &[u64]) -> Result<Vec<Vec<u8>>> {
        let mut pages = vec![vec![0; self.geometry.block_bytes as usize]; places.len()];
        let sectors = places.iter().map(|byte| byte / SECTOR);
        let into = pages.iter_mut().map(|page| &mut page[..]);
        let mut reads: Vec<(u64, &mut [u8])> = sectors.zip(into).collect();
        match self.mechanism.read_several(&mut reads) {
            Err(error) if error.is_of_the_medium() => {}
            read => read?,
        }
        Ok(pages)
    }
}
