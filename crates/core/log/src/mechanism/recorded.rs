//! The blocks of a segment to which the newest image refers.

use crate::base::Base;
use crate::chain::ChainItem;
use crate::control::contents::{BlockInfo, SegmentContents};
use crate::error::Result;
use crate::format::ifile::ImapState;
use crate::format::inode::InodeImage;
use crate::mechanism::Mechanism;
use crate::reader::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_fs::InodeNo;

impl Mechanism {
    /// The newest image, and the bytes of the segment to which it refers.
    pub(crate) fn recorded(&self, segment: u32) -> (Arc<Base>, u64) {
        let committed = self.layers.read();
        let live_bytes = self.segments.lock().get(segment).live_bytes;
        (Arc::clone(&committed.base), u64::from(live_bytes))
    }

    /// The blocks of a segment to which an image refers, if they are as many bytes as in
    /// the usage table, and are data: then nothing is missing (rule P5).
    pub(crate) fn led_to<'c>(
        &self,
        contents: &'c SegmentContents,
        (base, bytes): &(Arc<Base>, u64),
    ) -> Result<Option<Vec<&'c BlockInfo>>> {
        let mut image = RecordedImage::new(self, Arc::clone(base));
        let (mut found, mut led_to) = (0, Vec::new());
        for info in &contents.blocks {
            match image.leads_to(info)? {
                None => return Ok(None),
                Some(false) => {}
                Some(true) => {
                    found += u64::from(info.length);
                    led_to.push(info);
                }
            }
        }
        let segment = contents.segment;
        if found != *bytes {
            tracing::debug!(segment, found, bytes, "not all that lives there is known");
        }
        Ok((found == *bytes).then_some(led_to))
    }
}

/// The newest image, and those of its inodes that were asked for.
struct RecordedImage<'l> {
    mechanism: &'l Mechanism,
    base: Arc<Base>,
    inodes: BTreeMap<u64, Option<Arc<InodeImage>>>,
}

impl<'l> RecordedImage<'l> {
    fn new(mechanism: &'l Mechanism, base: Arc<Base>) -> Self {
        RecordedImage {
            mechanism,
            base,
            inodes: BTreeMap::new(),
        }
    }

    /// True if the image refers to this copy. `None` if it refers to metadata there: such
    /// a segment is not plugged.
    fn leads_to(&mut self, info: &BlockInfo) -> Result<Option<bool>> {
        let (reader, geometry) = (&self.mechanism.reader, &self.mechanism.geometry);
        match info.item {
            ChainItem::Record { .. } | ChainItem::Placed { .. } | ChainItem::Map { .. } => {
                Ok(Some(false))
            }
            ChainItem::Node { .. } => Ok(None),
            ChainItem::Inode { ino, place, .. } => {
                let there = self.base.imap(reader, geometry, ino)?;
                let leads = matches!(there, ImapState::Used { place: at, .. } if at == place);
                Ok((!leads).then_some(false))
            }
            ChainItem::Block { ino, .. } if ino == InodeNo::IFILE => Ok(None),
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                xattrs,
                ..
            } => {
                let image = match self.inodes.get(&ino.0) {
                    Some(image) => image.clone(),
                    None => {
                        let image = self.base.inode(reader, geometry, ino)?;
                        self.inodes.insert(ino.0, image.clone());
                        image
                    }
                };
                let Some(image) = image.filter(|image| image.inode.version == version) else {
                    return Ok(Some(false));
                };
                if xattrs {
                    return Ok(Some(image.xattrs.same_content(&pointer)));
                }
                let Some(root) = &image.root else {
                    return Ok(Some(false));
                };
                let tree = Tree { reader, ino, root };
                let there = tree.get(block)?;
                Ok(Some(
                    there.is_some_and(|there| there.same_content(&pointer)),
                ))
            }
        }
    }
}
