//! Reconstructs unreadable metadata and makes the reader use it.
//!
//! Nothing is written here. A reconstructed block is given to the [`Reader`] as a patch:
//! from then on the pointer to the damaged block leads to the patch, for the check, for
//! look-ups and for the next checkpoint. A patched block is also marked as *touched*, so
//! that this checkpoint rewrites it.
//!
//! Nothing is guessed: a node is taken from the evidence only if the file's own counts of
//! blocks and sectors then agree. Summaries describe every live block and possibly dead
//! ones, a superset of the lost children, so equal counts prove equal sets. Otherwise the
//! range is given up.

use super::evidence::Evidence;
use super::report::Actions;
use super::trace::{Horizon, Witness};
use crate::check::Fix;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use varve_fs::InodeNo;
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::format::node::NodeId;
use varve_lfs::format::{Pointer, Superblock};
use varve_lfs::internal::{Base, Reader, load_base};
use varve_lfs::{Geometry, Result};

/// The state of one reconstruction.
pub(crate) struct Mender<'a> {
    pub(crate) superblock: &'a Superblock,
    pub(crate) geometry: Geometry,
    pub(crate) reader: &'a Reader,
    /// The checkpoint record in use, its header corrected.
    pub(crate) record: CheckpointRecord,
    pub(crate) horizon: Horizon,
    pub(crate) progress: &'a dyn Fn(u64, u64),
    evidence: OnceCell<Evidence>,
    pub(super) touched: Touched,
    /// Blocks of the inode map that were made from the evidence.
    pub(super) rebuilt_imap: BTreeSet<u64>,
    /// Nodes made from the evidence whose files' counts were not compared yet.
    pub(super) unproven: HashMap<u64, Vec<(NodeId, Pointer)>>,
    /// Nodes that were patched; if they are refused again, they are dropped.
    pub(super) tried: HashSet<NodeId>,
    pub(super) tried_images: HashSet<u64>,
    relinked: bool,
}

/// Metadata that the next checkpoint must write.
#[derive(Default)]
pub(super) struct Touched {
    pub(super) nodes: BTreeSet<NodeId>,
    /// Blocks of the ifile.
    pub(super) ifile: BTreeSet<u64>,
    pub(super) inodes: BTreeSet<u64>,
}

impl Touched {
    pub(super) fn any(&self) -> bool {
        !self.nodes.is_empty() || !self.ifile.is_empty() || !self.inodes.is_empty()
    }
}

/// A function that returns a text for the file with an inode number.
pub(crate) type Names<'n> = &'n dyn Fn(u64) -> String;

impl<'a> Mender<'a> {
    pub(crate) fn new(
        superblock: &'a Superblock,
        reader: &'a Reader,
        record: CheckpointRecord,
        horizon: Horizon,
        progress: &'a dyn Fn(u64, u64),
    ) -> Self {
        Mender {
            superblock,
            geometry: Geometry::from(superblock),
            reader,
            record,
            horizon,
            progress,
            evidence: OnceCell::new(),
            touched: Touched::default(),
            rebuilt_imap: BTreeSet::new(),
            unproven: HashMap::new(),
            tried: HashSet::new(),
            tried_images: HashSet::new(),
            relinked: false,
        }
    }

    /// Returns the evidence of the log; the first call searches the volume.
    pub(crate) fn evidence(&self) -> &Evidence {
        self.evidence.get_or_init(|| {
            let tag = self.superblock.volume_tag();
            Evidence::gather(self.reader, &self.geometry, tag, self.progress)
        })
    }

    pub(crate) fn witness(&self) -> Witness<'_> {
        Witness {
            evidence: self.evidence(),
            reader: self.reader,
            geometry: &self.geometry,
            volume_tag: self.superblock.volume_tag(),
            horizon: self.horizon,
        }
    }

    /// Returns the image as corrected so far, and the usage table.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub(crate) fn base(&self) -> Result<(Base, Vec<varve_lfs::format::UsageEntry>)> {
        load_base(self.reader, &self.geometry, &self.record)
    }

    /// Gives up the list of unfinished inodes if it alone prevents the image from being
    /// loaded; a check counts it again.
    ///
    /// # Errors
    /// If the image still cannot be loaded.
    pub(super) fn loads(&mut self) -> Result<()> {
        if self.base().is_err() {
            self.record.header.unfinished_count = 0.into();
        }
        self.base().map(drop)
    }

    pub(super) fn into_parts(self) -> (OnceCell<Evidence>, Touched, BTreeSet<u64>) {
        (self.evidence, self.touched, self.rebuilt_imap)
    }

    pub(super) fn ifile_root(&self) -> Result<Root> {
        let image = InodeImage::decode(&self.record.ifile, InodeNo::IFILE)?;
        image.root.ok_or_else(|| {
            varve_lfs::format::Malformed::new("checkpoint record", "the ifile's inode has no root")
                .into()
        })
    }

    /// Patches the findings of a survey where possible. Returns true if something
    /// changed, so that another look is needed.
    ///
    /// # Errors
    /// If the ifile cannot be read.
    pub(crate) fn patch(
        &mut self,
        fixes: &[Fix],
        names: Names<'_>,
        actions: &mut Actions,
    ) -> Result<bool> {
        let mut changed = self.give_up_unproven(fixes, names, actions);
        let mut nodes = Vec::new();
        let mut images = Vec::new();
        let mut entries = Vec::new();
        for fix in fixes {
            match *fix {
                Fix::Node { id, pointer } => nodes.push((id, pointer)),
                Fix::Image { ino } => images.push(ino),
                Fix::ImapEntry { ino } => entries.push(ino),
                Fix::ImapBlock { block, pointer } => {
                    self.rebuild_imap(&[(block, pointer)], actions);
                    changed = true;
                }
                Fix::IfileStray { block } => changed |= self.drop_stray(block, actions)?,
                // Numbers without entries are unused, so the next number is lowered.
                Fix::Unmapped { from, to } if to >= self.record.header.next_ino.get() => {
                    self.record.header.next_ino = from.into();
                    actions.mended(format!("inode numbers end before {from}"));
                    changed = true;
                }
                _ => {}
            }
        }
        changed |= self.mend_entries(&entries, actions)?;
        changed |= self.mend_nodes(&nodes, names, actions)?;
        changed |= self.mend_images(&images, names, actions)?;
        if !changed && fixes.contains(&Fix::FreeList) && !self.relinked {
            self.relinked = true;
            changed = self.relink()?;
            actions.mended("the list of free inode numbers was linked anew");
        }
        Ok(changed)
    }
}
