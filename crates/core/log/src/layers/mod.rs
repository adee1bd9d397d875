//! The committed state under its lock, with what follows from it: what was granted in
//! advance, and images of the last checkpoint.
//!
//! Invariants, for `C` the committed state, changed only by [`Layers::change`]:
//!
//! - `C.base.serial` grows with each [`Layers::install`], and nothing is frozen after it.
//! - an image cached for `ino` is what `C.base` says of it: [`Layers::remember`] compares
//!   the serial, and `install` removes what the frozen delta changed.
//! - a grant derived before a change never counts after it (`grants.rs`).
//! - pins of snapshots ascend: each number is given out once.
//!
//! | file | contents |
//! |---|---|
//! | `past.rs` | reading a snapshot of the volume |
//! | `views.rs` | reading the newest state, or a pinned one |

mod past;
mod views;

use crate::base::Base;
use crate::committed::{Committed, Lookup};
use crate::delta::Delta;
use crate::error::Result;
use crate::format::inode::InodeImage;
use crate::geometry::Geometry;
use crate::grants::Grants;
use crate::locks::{Rank, Ranked, RankedMutex, RankedRwLock};
use crate::log::image::Below;
use crate::newest::Newest;
use crate::reader::Reader;
use crate::segments::SegmentTable;
use crate::snapshots::Snapshots;
use std::sync::Arc;
use varve_device::sync::{RwLockReadGuard, RwLockWriteGuard};
use varve_fs::InodeNo;
use varve_fs::caches::{Cache, cache_of};

/// Number of images of the last checkpoint that are cached.
const BASE_IMAGES: usize = 1 << 14;

/// The three layers, and the pinned states of former moments.
pub struct Layers {
    committed: RankedRwLock<Committed>,
    /// Space that was granted in advance.
    pub(crate) grants: Grants,
    snapshots: RankedMutex<Snapshots>,
    /// Images of the newest checkpoint, by inode; `None` where it has no such inode.
    base_images: Cache<u64, Option<Arc<InodeImage>>>,
    reader: Arc<Reader>,
    geometry: Arc<Newest<Geometry>>,
    segments: Arc<RankedMutex<SegmentTable>>,
}

impl Layers {
    /// The layers that recovery found.
    pub(crate) fn new(
        committed: RankedRwLock<Committed>,
        reader: Arc<Reader>,
        segments: Arc<RankedMutex<SegmentTable>>,
    ) -> Self {
        Layers {
            committed,
            grants: Grants::default(),
            snapshots: RankedMutex::new(Rank::Snapshots, Snapshots::default()),
            base_images: cache_of(BASE_IMAGES),
            geometry: Arc::clone(&reader.geometry),
            reader,
            segments,
        }
    }

    /// The measures of the volume, which follow its size.
    pub(crate) fn geometry(&self) -> Arc<Newest<Geometry>> {
        Arc::clone(&self.geometry)
    }

    /// The present state.
    #[inline]
    pub(crate) fn read(&self) -> Ranked<RwLockReadGuard<'_, Committed>> {
        self.committed.read()
    }

    /// The state, to be changed: what was granted in advance no longer counts.
    pub(crate) fn change(&self) -> Ranked<RwLockWriteGuard<'_, Committed>> {
        let committed = self.committed.write();
        self.grants.void();
        committed
    }

    /// The image of the last checkpoint.
    pub(crate) fn base(&self) -> Arc<Base> {
        Arc::clone(&self.committed.read().base)
    }

    /// Answers questions about the committed state.
    pub fn lookup(&self) -> Lookup<'_> {
        Lookup {
            committed: &self.committed,
            reader: &self.reader,
            geometry: &self.geometry,
        }
    }

    /// The newest image of `ino`, cached if it is the checkpoint's.
    pub(crate) fn image(&self, ino: InodeNo) -> Result<Arc<InodeImage>> {
        let (image, serial) = self.lookup().inode(ino)?;
        if let Some(serial) = serial {
            self.remember(ino, serial, Some(Arc::clone(&image)));
        }
        Ok(image)
    }

    /// Caches what the checkpoint with this number says of `ino`, unless a newer one has
    /// been installed.
    pub(crate) fn remember(&self, ino: InodeNo, serial: u64, image: Option<Arc<InodeImage>>) {
        let committed = self.committed.read();
        if committed.base.serial == serial {
            self.base_images.insert(ino.0, image);
        }
    }

    /// Caches what the last checkpoint says of files that are about to change: their
    /// images are then complete, and a fold is counted by its real nodes. What cannot be
    /// read now is guessed.
    pub(crate) fn recall(&self, numbers: &[InodeNo]) {
        let next_ino = self.committed.read().base.next_ino;
        for &ino in numbers.iter().filter(|ino| ino.0 < next_ino) {
            if self.base_images.get(&ino.0).is_none() {
                let _known = self.image(ino);
            }
        }
    }

    /// Forgets everything that could be read from the device again.
    pub(crate) fn drop_images(&self) {
        self.base_images.clear();
    }

    /// Makes the image of a checkpoint the base of `committed`, the state as
    /// [`Layers::change`] returned it: the delta that was folded into it is dropped.
    /// `images` are the inodes that the checkpoint wrote.
    ///
    /// # Panics
    /// If this is not the image of `frozen`.
    pub(crate) fn install(
        &self,
        committed: &mut Committed,
        base: Base,
        frozen: &Delta,
        images: Vec<(u64, Option<Arc<InodeImage>>)>,
    ) {
        assert!(base.serial > committed.base.serial, "an older checkpoint");
        assert!(committed.frozen.is_some(), "installed and nothing frozen");
        committed.live.follow_map(&self.geometry, base.next_ino);
        committed.base = Arc::new(base);
        committed.frozen = None;
        // Inodes that the delta did not touch are as the last image had them.
        for ino in frozen.inodes.keys() {
            self.base_images.remove(ino);
        }
        for (ino, image) in images {
            self.base_images.insert(ino, image);
        }
    }

    /// An inode's checkpointed image, as far as it is known without a read.
    pub(crate) fn below(&self, committed: &Committed, ino: InodeNo) -> Below {
        if ino.0 >= committed.base.next_ino {
            return Below::Nothing;
        }
        match self.base_images.get(&ino.0) {
            Some(image) => image.map_or(Below::Nothing, Below::Image),
            None => Below::Unknown,
        }
    }

    /// The height that the index of `ino` will have below the live delta, if that is
    /// known.
    pub(crate) fn height_below(&self, committed: &Committed, ino: InodeNo) -> Option<u8> {
        if committed.live.begins(ino) {
            return Some(0);
        }
        let folding = committed.frozen.as_ref();
        let folded_height = folding.map_or(0, |frozen| frozen.height(ino));
        if folding.is_some_and(|frozen| frozen.begins(ino)) {
            return Some(folded_height);
        }
        match self.below(committed, ino) {
            Below::Nothing => Some(folded_height),
            Below::Image(image) => Some(image.root.as_ref()?.height.max(folded_height)),
            Below::Unknown => None,
        }
    }
}
