//! Blocks of open transactions in a segment where a write has failed.

use crate::chain::ChainItem;
use crate::error::Result;
use crate::format::{Pointer, SECTOR};
use crate::log::{GroupKind, LogItem, Placed};
use crate::relocate::Relocation;
use std::collections::HashMap;
use varve_fs::Timestamp;

impl Relocation {
    /// Writes spilled blocks that stand in a segment where a write has failed to another
    /// place. What of them is part of files by now is moved as anything that lives.
    pub(super) fn respill(&self, segment: u32) -> Result<()> {
        let mut contents = None;
        for (number, within) in self.writer.spilled_in(segment) {
            let contents = match &mut contents {
                Some(contents) => contents,
                none => none.insert(self.mechanism.read_segment(segment)?),
            };
            let told: HashMap<u64, ChainItem> = contents
                .blocks
                .iter()
                .map(|info| (info.byte / SECTOR, info.item))
                .collect();
            let mut items = Vec::new();
            for (_, pointer) in &within {
                let item = told.get(&pointer.sector());
                items.push(self.again(item, pointer)?);
            }
            let written = self
                .writer
                .write_group(items, GroupKind::Spill(number), None)?
                .expect("only the cleaner's groups are refused");
            let places: Vec<Pointer> = written.placed.iter().filter_map(Placed::pointer).collect();
            self.writer.lead_to(number, &within, &places);
        }
        Ok(())
    }

    /// The block at this place, to be written once more.
    fn again(&self, item: Option<&ChainItem>, pointer: &Pointer) -> Result<LogItem> {
        let Some(ChainItem::Block {
            ino,
            version,
            block,
            written_ns,
            ..
        }) = item
        else {
            return Err(self.give_in());
        };
        let data = self.reader.block(pointer, *ino, *block)?;
        Ok(LogItem::Block {
            ino: *ino,
            version: *version,
            block: *block,
            data: data.into(),
            written: Timestamp::from_ns(*written_ns),
            source: None,
        })
    }
}
