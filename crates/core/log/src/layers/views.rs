//! Reading a state of the log: the newest, or that of a snapshot.

use crate::committed::{Committed, Lookup};
use crate::error::Error;
use crate::layers::Layers;
use crate::locks::{Rank, RankedRwLock};
use crate::snapshots::PinnedState;
use std::sync::Arc;
use varve_fs::{SnapshotNo, View};

impl Layers {
    /// Answers for [`varve_fs::Layout::snapshot`]. Takes as long as the live delta has
    /// inodes.
    pub(crate) fn take_snapshot(&self) -> SnapshotNo {
        let mut snapshots = self.snapshots.lock();
        snapshots.taken += 1;
        let number = SnapshotNo(snapshots.taken);
        let committed = self.committed.read();
        let layers = Committed {
            base: Arc::clone(&committed.base),
            frozen: committed.frozen.clone(),
            live: committed.live.readable(),
            usage: committed.usage,
        };
        // Of the same moment: nothing that lives can be given back in between.
        let broken = self.segments.lock().pin(number.0);
        drop(committed);
        let snapshot = PinnedState {
            committed: RankedRwLock::new(Rank::Committed, layers),
            broken,
        };
        let former = snapshots.held.insert(number, Arc::new(snapshot));
        assert!(former.is_none(), "pin {number:?} is given out twice");
        number
    }

    /// Pins snapshot `number` of the volume.
    pub(crate) fn pin_volume_snapshot(&self, number: u32) -> SnapshotNo {
        let mut snapshots = self.snapshots.lock();
        snapshots.taken += 1;
        let pin = SnapshotNo(snapshots.taken);
        let former = snapshots.opened.insert(pin, number);
        assert!(former.is_none(), "pin {pin:?} is given out twice");
        pin
    }

    /// True if the snapshots that keep space were not reported in the last `every` ns; they
    /// are now.
    pub(crate) fn is_report_due(&self, now: i64, every: i64) -> bool {
        let mut snapshots = self.snapshots.lock();
        let is_due = snapshots.reported_ns.is_none_or(|last| now >= last + every);
        if is_due {
            snapshots.reported_ns = Some(now);
        }
        is_due
    }

    /// Answers for [`varve_fs::Layout::release_snapshot`].
    pub(crate) fn let_go_of_snapshot(&self, number: SnapshotNo) {
        let mut snapshots = self.snapshots.lock();
        if snapshots.opened.remove(&number).is_some() {
            return;
        }
        let gone = snapshots.held.remove(&number);
        drop(snapshots);
        drop(gone);
        self.segments.lock().unpin(number.0);
    }

    /// The number of the volume's snapshot that `view` names, if it names one.
    pub(crate) fn opened_snapshot(&self, view: View) -> Option<u32> {
        match view {
            View::Live => None,
            View::Snapshot(pin) => self.snapshots.lock().opened.get(&pin).copied(),
        }
    }

    /// Looks at the state that `view` names.
    ///
    /// # Errors
    /// `Aborted` for a snapshot that has been given up; what `look` fails with.
    pub(crate) fn look_in<T>(
        &self,
        view: View,
        look: impl FnOnce(&Lookup<'_>) -> Result<T, Error>,
    ) -> varve_fs::Result<T> {
        let View::Snapshot(number) = view else {
            return Ok(look(&self.lookup())?);
        };
        let snapshot = self.snapshots.lock().held.get(&number).cloned();
        let snapshot = snapshot.ok_or(varve_fs::Error::Aborted)?;
        snapshot.check()?;
        let found = look(&Lookup {
            committed: &snapshot.committed,
            ..self.lookup()
        });
        // What was read while it was broken proves nothing.
        snapshot.check()?;
        Ok(found?)
    }
}
