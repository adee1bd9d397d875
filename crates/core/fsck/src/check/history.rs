//! Phase I, for snapshots: the history file, and the blocks that only snapshots have.
//!
//! A listed block is counted by the usage table where the history has it, and is stored
//! there unless the log has moved it since.

use super::claims::{Role, Stored};
use super::imap::Mapped;
use super::report::{FindingKind, Subject};
use super::visit::Tally;
use super::{Checker, plain, subject_of_block};
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::ImapState;
use varve_lfs::internal::{HISTORY, Identity};

const KEPT: &str = "kept for snapshots: ";

impl Checker<'_> {
    /// True if a snapshot may have a block that the log displaced, and the log has not
    /// moved it.
    pub(super) fn keeps(&self, identity: Identity, pointer: &Pointer) -> bool {
        let log = &self.state.live;
        log.may_be_kept(identity, pointer) && !log.kept.contains_key(&(identity, pointer.birth()))
    }

    /// Claims the history file and what it lists.
    pub(super) fn check_history(&mut self) {
        let base = Arc::clone(&self.state.base);
        let log = Arc::clone(&self.state.live);
        // What the inode map cannot say has been reported with that.
        let is_mapped = base.imap(self.reader, &self.geometry, HISTORY).is_ok();
        if let Some(problem) = base.history.problem.as_ref().filter(|_| is_mapped) {
            let text = format!("the history of snapshots is damaged: {problem}");
            self.found
                .error(FindingKind::Snapshots, Subject::Volume, text);
        }
        if base.history.inode.is_some() {
            self.history_file();
        }
        let reader = self.reader;
        let read = base.history.kept_blocks(reader, &log, &mut |entry| {
            let (identity, pointer) = (entry.identity(), entry.pointer);
            let elsewhere = log.kept.contains_key(&(identity, pointer.birth()));
            self.kept_block(identity, &pointer, true, elsewhere);
        });
        if let Err(error) = read {
            let text = format!("the history of snapshots is damaged: {}", plain(&error));
            self.found
                .error(FindingKind::Snapshots, Subject::Volume, text);
        }
        for ((identity, _), pointer) in &log.kept {
            self.kept_block(*identity, pointer, false, false);
        }
    }

    fn kept_block(&mut self, identity: Identity, pointer: &Pointer, base: bool, elsewhere: bool) {
        let (ino, version) = (InodeNo(identity.ino), identity.version);
        let role = match identity.xattrs {
            true => Role::Attributes,
            false => Role::Data(identity.block),
        };
        let stored = Stored::block(ino, version, role, pointer);
        let subject = subject_of_block(ino, identity.block);
        if elsewhere {
            let counted = self.claims.count(&stored);
            if counted.is_err() {
                let text = format!("{KEPT}outside of the segments");
                self.found.error(FindingKind::Snapshots, subject, text);
            }
        } else {
            self.claim(subject, &stored, base, KEPT);
        }
    }

    /// Claims the history file like any file. It belongs to no directory and to no total.
    fn history_file(&mut self) {
        let base = Arc::clone(&self.state.base);
        let log = Arc::clone(&self.state.live);
        let Ok(ImapState::Used { version, place, .. }) =
            base.imap(self.reader, &self.geometry, HISTORY)
        else {
            return;
        };
        let mapped = Mapped {
            ino: HISTORY.0,
            version,
            place,
        };
        let delta = log.inode(HISTORY.0);
        let Some(image) = self.image_at(HISTORY.0, version, &place) else {
            return;
        };
        let totals = self.base_usage;
        let below = self.image_below(&mapped, image, delta);
        self.base_usage = totals;
        let Some(delta) = delta else { return };
        let mut tally = Tally::default();
        self.logged_blocks(HISTORY, delta, &below.same, &mut tally);
        if let Some(placed) = &delta.image
            && placed.place != place
        {
            let stored = Stored::inode(&self.geometry, HISTORY, version, &placed.place);
            self.claim(subject_of_block(HISTORY, 0), &stored, false, KEPT);
        }
    }
}
