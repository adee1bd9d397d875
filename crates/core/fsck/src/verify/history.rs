//! The history of snapshots: its file, and the blocks that only snapshots have.

use super::Image;
use super::files::Stored;
use crate::check::{FindingKind, Mapped, Subject, plain, walk};
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::format::ifile::ImapState;
use varve_lfs::internal::{Delta, DisplacedBlock, HISTORY};

impl Image<'_> {
    /// Counts the history file and what it lists. The image is held, so all of it is
    /// where the history says.
    pub(super) fn history(&mut self) {
        let base = Arc::clone(&self.hold.base);
        if base.history.inode.is_none() {
            return;
        }
        let geometry = *self.lfs.geometry_of_volume();
        if let Ok(ImapState::Used { version, place, .. }) =
            base.imap(&self.reader, &geometry, HISTORY)
        {
            let mapped = Mapped {
                ino: HISTORY.0,
                version,
                place,
            };
            self.history_file(&mapped);
        }
        let reader = Arc::clone(&self.reader);
        let nothing_logged = Delta::default();
        let mut place = |entry: &DisplacedBlock| {
            let subject = Subject::Block {
                ino: entry.ino.get(),
                block: entry.block.get(),
            };
            self.place(subject, Stored::from(&entry.pointer));
        };
        let listed = base
            .history
            .kept_blocks(&reader, &nothing_logged, &mut place);
        if let Err(error) = listed {
            let text = format!("the history of snapshots is damaged: {}", plain(&error));
            self.warning(FindingKind::Snapshots, Subject::Volume, text);
            self.blind = true;
        }
    }

    fn history_file(&mut self, mapped: &Mapped) {
        let Some(image) = self.image_at(mapped) else {
            return;
        };
        let root = image.root.clone().unwrap_or_default();
        let reader = Arc::clone(&self.reader);
        let mut visitor = self.visitor(InodeNo(mapped.ino));
        walk(&reader, HISTORY, mapped.version, &root, &mut visitor);
        self.blind |= visitor.damaged;
    }
}
