//! The history of snapshots: its directory, with the bytes that only one snapshot has.

use super::Inspector;
use crate::check::plain;
use serde::Serialize;
use std::fmt;

/// A snapshot in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotView {
    /// Its number.
    pub number: u32,
    /// Its name; empty for an automatic one.
    pub name: String,
    /// When it was taken, in ns since 1970.
    pub taken_ns: i64,
    /// Serial of the last partial segment before it.
    pub position: u64,
    /// The checkpoint that it is.
    pub checkpoint: u64,
    /// True if the next checkpoint removes the row.
    pub deleted: bool,
    /// Bytes of listed blocks that no other snapshot has: those that deleting it frees.
    pub only_bytes: u64,
}

/// A run of the history file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HistoryRunView {
    /// First block of the file that it takes.
    pub first_block: u64,
    /// Entries of displaced blocks.
    pub blocks: u64,
    /// Entries of inode images.
    pub images: u64,
    /// The oldest and the newest `last` of its entries.
    pub span: (u32, u32),
    /// The checkpoint that wrote its youngest entries.
    pub written: u64,
}

/// The history of the checkpoint from which recovery started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistoryView {
    /// Number of the newest snapshot that was ever taken.
    pub newest: u32,
    /// Bytes of the history file.
    pub file_bytes: u64,
    /// Bytes of blocks that only snapshots have.
    pub kept_bytes: u64,
    /// Upper bound of the blocks of the newest snapshot that are not displaced yet.
    pub blocks_left: u64,
    /// The same of its inode images.
    pub images_left: u64,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotView>,
    /// The runs, youngest first.
    pub runs: Vec<HistoryRunView>,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Inspector {
    /// Returns the history of snapshots.
    ///
    /// # Errors
    /// If no checkpoint can be loaded.
    pub fn history(&self) -> varve_lfs::Result<HistoryView> {
        let loaded = self.loaded()?;
        let history = &loaded.state.base.history;
        let directory = &history.directory;
        let mut problems: Vec<String> = history.problem.iter().map(ToString::to_string).collect();
        let mut only = vec![0; directory.snapshots.len()];
        let live = &loaded.state.live;
        let read = history.kept_blocks(&self.reader, live, &mut |entry| {
            let (birth, last) = (entry.pointer.birth(), entry.last.get());
            let having = directory.snapshots.iter().enumerate();
            let mut having = having.filter(|(_, one)| one.has(birth, last));
            if let (Some((at, _)), None) = (having.next(), having.next()) {
                only[at] += entry.pointer.stored_bytes();
            }
        });
        if let Err(error) = read {
            problems.push(plain(&error));
        }
        let snapshots = directory.snapshots.iter().zip(only);
        let snapshots = snapshots.map(|(one, only_bytes)| SnapshotView {
            number: one.number,
            name: one.name.clone(),
            taken_ns: one.taken_ns,
            position: one.position,
            checkpoint: one.checkpoint,
            deleted: one.deleted,
            only_bytes,
        });
        let runs = directory.runs.iter().map(|run| HistoryRunView {
            first_block: run.first_block,
            blocks: run.blocks,
            images: run.images,
            span: run.span,
            written: run.written,
        });
        Ok(HistoryView {
            newest: directory.newest,
            file_bytes: history.bytes() - directory.kept_bytes,
            kept_bytes: directory.kept_bytes,
            blocks_left: directory.blocks_left,
            images_left: directory.images_left,
            snapshots: snapshots.collect(),
            runs: runs.collect(),
            problems,
        })
    }
}

impl fmt::Display for HistoryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "newest snapshot: {}", self.newest)?;
        writeln!(
            f,
            "bytes: {} kept, {} of the file",
            self.kept_bytes, self.file_bytes
        )?;
        writeln!(
            f,
            "still to be listed: at most {} blocks, {} images",
            self.blocks_left, self.images_left
        )?;
        for one in &self.snapshots {
            let name = match (one.deleted, one.name.is_empty()) {
                (true, _) => "(deleted)",
                (false, true) => "(automatic)",
                (false, false) => &one.name,
            };
            writeln!(
                f,
                "snapshot {}: {name}, taken at {} ns, behind {}, checkpoint {}, {} bytes only here",
                one.number, one.taken_ns, one.position, one.checkpoint, one.only_bytes
            )?;
        }
        for run in &self.runs {
            let (oldest, newest) = run.span;
            writeln!(
                f,
                "run at block {}: {} blocks, {} images, of snapshots {oldest} to {newest}, \
                 checkpoint {}",
                run.first_block, run.blocks, run.images, run.written
            )?;
        }
        for problem in &self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        Ok(())
    }
}
