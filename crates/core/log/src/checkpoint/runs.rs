//! The runs of the history file: written by a fold, dropped, and merged
//! (`docs/design/snapshots.md`, "Merging").

use super::fold::{CHUNK, Fold};
use super::live_bytes;
use crate::error::Result;
use crate::format::history::{HISTORY, RUNS_FROM};
use crate::history::{Directory, MergedBlocks, MergedImages, Run, RunEntries};
use crate::log::{LogItem, Placed};
use varve_fs::Timestamp;

/// The version of the history file: there is one in the life of a volume.
pub(super) const HISTORY_VERSION: u32 = 1;
/// Entries that a fold has in memory, in bytes.
const ENTRY_BYTES_AT_ONCE: usize = 8 << 20;
/// Runs of similar size that are merged.
const MERGED_AT_ONCE: usize = 4;

impl Fold<'_> {
    /// Writes a run if so many entries are in memory that they should not wait.
    pub(super) fn write_full_runs(&mut self) -> Result<()> {
        match self.listing.entries.bytes() >= ENTRY_BYTES_AT_ONCE {
            true => self.write_entries(),
            false => Ok(()),
        }
    }

    pub(super) fn write_entries(&mut self) -> Result<()> {
        let entries = std::mem::take(&mut self.listing.entries);
        if entries.is_empty() {
            return Ok(());
        }
        let run = self.write_run(entries, self.base.serial + 1)?;
        self.listing.runs.insert(0, run);
        Ok(())
    }

    /// Writes entries as a run; checkpoint `written` wrote the youngest of them.
    fn write_run(&mut self, entries: RunEntries, written: u64) -> Result<Run> {
        let page_bytes = self.checkpoints.geometry.block_bytes as usize;
        let pages = (entries.bytes().div_ceil(page_bytes) + 2) as u64;
        let first = self.free_range(pages);
        let encoded = entries.encode(first, written, page_bytes);
        let pages: Vec<(u64, Vec<u8>)> = (first..)
            .zip(encoded.bytes.chunks(page_bytes).map(<[u8]>::to_vec))
            .collect();
        self.listing.taken.push((first, pages.len() as u64));
        self.write_pages(pages)?;
        Ok(encoded.run)
    }

    /// The first of so many blocks of the history file that neither the image nor this
    /// fold uses.
    fn free_range(&self, pages: u64) -> u64 {
        let inode_bytes = self.checkpoints.geometry.inode_bytes as usize;
        let page_bytes = self.checkpoints.geometry.block_bytes as usize;
        let runs = self.base.history.directory.runs.iter();
        let mut taken: Vec<(u64, u64)> = runs
            .map(|run| (run.first_block, run.pages(inode_bytes, page_bytes)))
            .chain(self.listing.taken.iter().copied())
            .collect();
        taken.sort_unstable();
        let mut first = RUNS_FROM;
        for (start, length) in taken {
            if start >= first + pages {
                break;
            }
            first = first.max(start + length);
        }
        first
    }

    /// Writes blocks of the history file; their pointers wait for its index.
    pub(super) fn write_pages(&mut self, pages: Vec<(u64, Vec<u8>)>) -> Result<()> {
        let written = Timestamp::from_ns(self.checkpoints.clock.now_ns());
        for chunk in pages.chunks(self.chunk(CHUNK)) {
            let items = chunk.iter().map(|(block, bytes)| LogItem::Block {
                ino: HISTORY,
                version: HISTORY_VERSION,
                block: *block,
                data: bytes.clone().into(),
                written,
                source: None,
            });
            for ((block, _), placed) in chunk.iter().zip(self.write(items.collect())?) {
                let Placed::Block(pointer) = placed else {
                    unreachable!("a block was written")
                };
                self.count(pointer.sector(), live_bytes(&pointer));
                self.listing.changes.insert(*block, Some(pointer));
            }
        }
        Ok(())
    }

    /// Removes runs of which no snapshot keeps an entry.
    pub(super) fn drop_runs(&mut self, directory: &mut Directory) {
        let oldest = directory.snapshots.first().map(|s| s.number);
        let keeps = |run: &Run| oldest.is_some_and(|oldest| run.span.1 >= oldest);
        let runs = std::mem::take(&mut directory.runs);
        let (kept, dropped): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(keeps);
        directory.runs = kept;
        dropped.iter().for_each(|run| self.punch(run));
    }

    /// The blocks of a run end.
    fn punch(&mut self, run: &Run) {
        let inode_bytes = self.checkpoints.geometry.inode_bytes as usize;
        let pages = run.pages(inode_bytes, self.checkpoints.geometry.block_bytes as usize);
        for block in run.first_block..run.first_block + pages {
            if let Some(Some(written)) = self.listing.changes.insert(block, None) {
                self.kill(&written);
            }
        }
    }

    /// Merges runs of similar size, if there are enough of them: of those that are
    /// neighbours in age, so that younger places keep replacing older ones.
    pub(super) fn merge_runs(&mut self, directory: &mut Directory) -> Result<()> {
        while let Some(at) = self.mergeable(&directory.runs) {
            let runs: Vec<Run> = directory.runs[at..at + MERGED_AT_ONCE].to_vec();
            // Runs of this fold are not in the image yet: they are read by the next.
            let Some(merged) = self.merge(directory, &runs)? else {
                return Ok(());
            };
            runs.iter().for_each(|run| self.punch(run));
            directory.runs.splice(at..at + MERGED_AT_ONCE, merged);
        }
        Ok(())
    }

    /// Where as many runs begin as are merged at once, all of the image and of one size
    /// class.
    fn mergeable(&self, runs: &[Run]) -> Option<usize> {
        let inode_bytes = self.checkpoints.geometry.inode_bytes as usize;
        let page_bytes = self.checkpoints.geometry.block_bytes as usize;
        let pages = |run: &Run| run.pages(inode_bytes, page_bytes);
        let class = |run: &Run| pages(run).max(1).ilog2() / 2;
        let most = self.merge_bytes / page_bytes as u64;
        let taken = &self.listing.taken;
        let new = |run: &Run| taken.iter().any(|(first, _)| *first == run.first_block);
        runs.windows(MERGED_AT_ONCE).position(|these| {
            !these.iter().any(new)
                && these.iter().all(|run| class(run) == class(&these[0]))
                && these.iter().map(pages).sum::<u64>() <= most
        })
    }

    /// Writes one run of several; none if no snapshot keeps any of their entries, and
    /// nothing at all if they cannot be read.
    fn merge(&mut self, directory: &Directory, runs: &[Run]) -> Result<Option<Option<Run>>> {
        let checkpoints = self.checkpoints;
        let mut entries = RunEntries::default();
        let read = checkpoints.layers.with_history(self.base, |history| {
            let mut blocks = MergedBlocks::new(history, runs)?;
            while let Some(entry) = blocks.next()? {
                if directory.keeps(entry.pointer.birth(), entry.last.get()) {
                    entries.block(&entry);
                }
            }
            let mut images = MergedImages::new(history, runs)?;
            while let Some((header, inode)) = images.next()? {
                if directory.keeps_image(header.after.get(), header.last.get()) {
                    entries.image(header, &inode);
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(%error, "runs are damaged, and are not merged");
            return Ok(None);
        }
        if entries.is_empty() {
            return Ok(Some(None));
        }
        let written = runs.iter().map(|run| run.written).max().unwrap_or(0);
        self.merge_bytes = self.merge_bytes.saturating_sub(entries.bytes() as u64);
        Ok(Some(Some(self.write_run(entries, written)?)))
    }
}
