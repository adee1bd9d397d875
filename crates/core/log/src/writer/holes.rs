//! Copying blocks into holes, and writing their map.

use crate::chain::{ChainItem, map_entry};
use crate::format::map::{self, MapHeader};
use crate::format::{Pointer, SECTOR};
use crate::log::build::PartialBuffer;
use crate::log::holes::Chunk;
use crate::log::item::LogItem;
use crate::segments::{Edition, Holes};
use crate::writer::Writer;

impl Writer {
    /// Copies a chunk's blocks to their holes, and makes the map. Returns the pointers to
    /// the blocks and to the pages of the map.
    pub(super) fn fill_holes(
        &self,
        buffer: &mut PartialBuffer,
        mount: u32,
        chunk: &Chunk,
        items: &[LogItem],
    ) -> (Vec<Pointer>, Vec<Pointer>) {
        let geometry = &self.geometry;
        let Holes {
            segment,
            edition: Edition { incarnation, .. },
            ref free,
            ref lives,
            ..
        } = chunk.holes;
        let first = geometry.byte(segment, 0) / SECTOR;
        buffer.end_run();
        let mut entries = lives.clone();
        let mut blocks = Vec::with_capacity(items.len());
        for (item, &sector) in items.iter().zip(free) {
            let LogItem::Block {
                ino,
                version,
                block,
                data,
                written,
                ..
            } = item
            else {
                unreachable!("only blocks go into holes");
            };
            let pointer = buffer.place_plug(data, sector, incarnation);
            let plug = ChainItem::Block {
                ino: *ino,
                version: *version,
                block: *block,
                pointer,
                written_ns: written.as_ns(),
                source: None,
                kept: false,
                xattrs: false,
                spilled: false,
            };
            entries.extend(map_entry(&plug, first));
            blocks.push(pointer);
        }
        assert_eq!(blocks.len(), items.len(), "more blocks than holes");
        let per_page = map::entries_per_page(geometry.block_bytes);
        let mut pages = Vec::with_capacity(chunk.pages.len());
        for (page, (entries, &sector)) in (0u16..).zip(entries.chunks(per_page).zip(&chunk.pages)) {
            let header = MapHeader {
                crc: 0.into(),
                magic: map::MAGIC.into(),
                volume_tag: self.volume_tag.into(),
                sector: sector.into(),
                serial: buffer.serial.into(),
                segment: segment.into(),
                incarnation: incarnation.into(),
                page: page.into(),
                pages: (chunk.pages.len() as u16).into(),
                entry_count: (entries.len() as u32).into(),
                mount: mount.into(),
                spare: [0; 12],
            };
            let bytes = map::encode(header, entries, geometry.block_bytes);
            pages.push(buffer.place_plug(&bytes, sector, incarnation));
        }
        assert_eq!(pages.len(), chunk.pages.len(), "pages of a map");
        self.reader
            .plugs((segment, incarnation), free, buffer.serial);
        (blocks, pages)
    }
}
