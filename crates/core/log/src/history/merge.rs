//! Entries on their way into a run, and several runs read as one.

use super::Run;
use super::array::ArrayCursor;
use super::search::{History, decode_block, image_header};
use crate::error::Result;
use crate::format::Pointer;
use crate::format::history::{DisplacedBlock, Identity, ImageHeader};
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// Entries that are to become a run, in memory.
#[derive(Debug, Default)]
pub(crate) struct RunEntries {
    blocks: BTreeMap<(Identity, u32, u64), Pointer>,
    /// By number and `last`: the header and the stored inode.
    images: BTreeMap<(u64, u32), Vec<u8>>,
}

/// A run and its blocks, in the order in which they are written.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub run: Run,
    pub bytes: Vec<u8>,
}

impl RunEntries {
    /// Adds a displaced block, or the new place of one.
    pub fn block(&mut self, entry: &DisplacedBlock) {
        self.blocks.insert(entry.key(), entry.pointer);
    }

    /// Adds a displaced image; `inode` is its stored form.
    pub fn image(&mut self, header: ImageHeader, inode: &[u8]) {
        let key = (header.ino.get(), header.last.get());
        self.images.insert(key, [header.as_bytes(), inode].concat());
    }

    /// Bytes that they take in a run, without what is left at ends of blocks.
    pub fn bytes(&self) -> usize {
        let image = self.images.values().next().map_or(0, Vec::len);
        self.blocks.len() * size_of::<DisplacedBlock>() + self.images.len() * image
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.images.is_empty()
    }

    /// Makes a run of them that begins at a block of the history file.
    pub fn encode(self, first_block: u64, written: u64, page_bytes: usize) -> Encoded {
        let lasts = self.blocks.keys().map(|key| key.1);
        let lasts = lasts.chain(self.images.keys().map(|key| key.1));
        let span = lasts.fold((u32::MAX, 0), |(low, high), last| {
            (low.min(last), high.max(last))
        });
        let run = Run {
            first_block,
            blocks: self.blocks.len() as u64,
            images: self.images.len() as u64,
            span,
            written,
        };
        let mut bytes = Vec::with_capacity(self.bytes() + 2 * page_bytes);
        for ((identity, last, _), pointer) in self.blocks {
            let entry = DisplacedBlock::new(identity, last, pointer);
            bytes.extend_from_slice(entry.as_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(page_bytes), 0);
        self.images.values().for_each(|image| bytes.extend(image));
        bytes.resize(bytes.len().next_multiple_of(page_bytes), 0);
        Encoded { run, bytes }
    }
}

/// Runs, youngest first, read as one in the order of keys: of entries with the same key
/// the youngest is given.
struct Merged<'a, K, T> {
    /// Each with the entry that it has come to.
    cursors: Vec<(ArrayCursor<'a>, Option<(K, T)>)>,
    decode: fn(&[u8]) -> Result<(K, T)>,
}

impl<'a, K: Ord + Copy, T> Merged<'a, K, T> {
    fn new(
        cursors: impl Iterator<Item = ArrayCursor<'a>>,
        decode: fn(&[u8]) -> Result<(K, T)>,
    ) -> Result<Self> {
        let cursors = cursors.map(|mut cursor| {
            let first = cursor.next()?.map(decode).transpose()?;
            Ok((cursor, first))
        });
        Ok(Merged {
            cursors: cursors.collect::<Result<_>>()?,
            decode,
        })
    }

    fn next(&mut self) -> Result<Option<T>> {
        let keys = self
            .cursors
            .iter()
            .filter_map(|(_, entry)| Some(entry.as_ref()?.0));
        let Some(least) = keys.min() else {
            return Ok(None);
        };
        let mut youngest = None;
        for (cursor, entry) in &mut self.cursors {
            if entry.as_ref().is_some_and(|(key, _)| *key == least) {
                let next = cursor.next()?.map(self.decode).transpose()?;
                let given = std::mem::replace(entry, next);
                youngest = youngest.or(given);
            }
        }
        Ok(youngest.map(|(_, value)| value))
    }
}

/// Entries of blocks of several runs, in the order of their keys.
pub(crate) struct MergedBlocks<'a>(Merged<'a, (Identity, u32, u64), DisplacedBlock>);

impl<'a> MergedBlocks<'a> {
    /// Of these runs, which are given youngest first.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn new(history: &History<'a>, runs: &[Run]) -> Result<Self> {
        let cursors = runs
            .iter()
            .map(|run| run.blocks_array().cursor(history.pages, 0));
        let merged = Merged::new(cursors, |bytes| {
            let entry = decode_block(bytes)?;
            Ok((entry.key(), entry))
        })?;
        Ok(MergedBlocks(merged))
    }

    /// The next entry.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn next(&mut self) -> Result<Option<DisplacedBlock>> {
        self.0.next()
    }
}

/// Entries of images of several runs, in the order of number and `last`.
pub(crate) struct MergedImages<'a>(Merged<'a, (u64, u32), (ImageHeader, Vec<u8>)>);

impl<'a> MergedImages<'a> {
    /// Of these runs, which are given youngest first.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn new(history: &History<'a>, runs: &[Run]) -> Result<Self> {
        let cursors = runs
            .iter()
            .map(|run| history.images_of(run).cursor(history.pages, 0));
        let merged = Merged::new(cursors, |bytes| {
            let header = image_header(bytes)?;
            let key = (header.ino.get(), header.last.get());
            Ok((key, (header, bytes[size_of::<ImageHeader>()..].to_vec())))
        })?;
        Ok(MergedImages(merged))
    }

    /// The header and the stored inode of the next entry.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn next(&mut self) -> Result<Option<(ImageHeader, Vec<u8>)>> {
        self.0.next()
    }
}
