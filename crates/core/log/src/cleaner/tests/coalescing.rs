//! What comes between judging part of a file and moving it, and what a call
//! leaves alone.

use super::{BLOCK, Volume};
use crate::MountOptions;
use crate::cleaner::Coalesced;
use crate::format::Pointer;
use crate::policy::{Coalescing, EXTENT_BYTES};
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Device, Operation};
use varve_fs::{BlockPointer, InodeNo, Layout, View};

/// Blocks looked at together.
const EXTENT: u64 = EXTENT_BYTES / BLOCK;

impl Volume {
    /// A file of so many extents, every second block of which lies elsewhere.
    fn in_pieces(options: MountOptions, extents: u64) -> (Self, InodeNo) {
        let v = Volume::mounted(options);
        let (file, other) = (v.create("file"), v.create("other"));
        let blocks = extents * EXTENT;
        v.write(file, 0, blocks);
        v.fs.sync().unwrap();
        (0..blocks)
            .step_by(2)
            .for_each(|block| v.write(file, block, 1));
        for _ in 0..3 {
            v.checkpoint();
            v.write(other, 0, 1);
        }
        v.checkpoint();
        assert!(v.pieces(file) > blocks / 2);
        v.lfs.drop_caches();
        (v, file)
    }

    fn places(&self, file: InodeNo) -> Vec<Pointer> {
        let blocks = self.lfs.map(View::Live, file, 0, u64::MAX).unwrap();
        blocks.iter().map(|mapped| mapped.pointer).collect()
    }

    fn pieces(&self, file: InodeNo) -> u64 {
        let places = self.places(file);
        let breaks = places.windows(2).filter(|pair| !pair[1].follows(&pair[0]));
        1 + breaks.count() as u64
    }

    fn coalesce(&self, file: InodeNo) -> Coalesced {
        let policy = Coalescing::thorough();
        self.lfs
            .cleaner
            .coalesce(&policy, file, 0, u64::MAX)
            .unwrap()
    }

    /// It has been put in order as a whole, and reads as before.
    fn is_in_order(&self, file: InodeNo, done: &Coalesced) {
        let blocks = self.places(file).len() as u64;
        assert_eq!(done.moved_bytes, blocks * BLOCK);
        assert_eq!((done.damaged, done.short_of_room), (0, false));
        assert!(self.pieces(file) < blocks / 10, "{}", self.pieces(file));
        assert_eq!(self.lfs.statistics().checksum_failures, 0);
        self.checkpoint();
        self.is_whole(file, 0, blocks);
    }
}

#[test]
fn a_call_ends_when_it_has_looked_at_sixteen_times_what_it_may_move() {
    let v = Volume::new();
    let file = v.create("file");
    v.write(file, 0, 3 * EXTENT);
    v.checkpoint();
    let look = |limit| {
        let done = v
            .lfs
            .cleaner
            .coalesce(&Coalescing::default(), file, 0, limit);
        let done = done.unwrap();
        assert_eq!(done.moved_bytes, 0, "it is in order");
        (done.seen_bytes, done.next)
    };
    assert_eq!(look(EXTENT_BYTES / 16), (EXTENT_BYTES, Some(EXTENT)));
    let more = look(EXTENT_BYTES / 16 + 1);
    assert_eq!(more, (2 * EXTENT_BYTES, Some(2 * EXTENT)));
    assert_eq!(look(EXTENT_BYTES), (3 * EXTENT_BYTES, None));
}

/// Whether the bytes are wrong or do not come: the rest of the file is put in
/// order, and this part too once it can be read.
#[test]
fn an_extent_with_damage_is_left_where_it_is() {
    for refused in [false, true] {
        let (v, file) = Volume::in_pieces(MountOptions::default(), 2);
        let before = v.places(file);
        let bytes = Volume::bytes(before[3]);
        let mut sound = vec![0; BLOCK as usize];
        v.device.read(bytes.start, &mut sound).unwrap();
        let store = |data: &[u8]| v.device.write(bytes.start, &[IoSlice::new(data)]).unwrap();
        match refused {
            true => v.errands.refuse(bytes.clone()),
            false => store(&[0xa5; BLOCK as usize]),
        }
        let done = v.coalesce(file);
        assert_eq!((done.damaged, done.moved_bytes), (1, EXTENT_BYTES));
        assert_eq!((done.seen_bytes, done.next), (EXTENT_BYTES, None));
        let after = v.places(file);
        let (first, second) = after.split_at(EXTENT as usize);
        assert_eq!(first, &before[..EXTENT as usize]);
        assert!(second.iter().all(|place| !before.contains(place)));
        v.errands.refuse(0..0);
        store(&sound);
        v.lfs.drop_caches();
        let done = v.coalesce(file);
        assert_eq!((done.damaged, done.moved_bytes), (0, EXTENT_BYTES));
        v.is_whole(file, 0, 2 * EXTENT);
    }
}

/// The cleaner moves what is about to be read, and its segment is given back
/// and discarded: it is looked up again, and no damage.
#[test]
fn what_is_moved_before_it_is_read_is_looked_up_again() {
    let options = MountOptions {
        discard: true,
        ..MountOptions::default()
    };
    let (v, file) = Volume::in_pieces(options, 1);
    let lfs = Arc::clone(&v.lfs);
    let may = |place: &Pointer| lfs.segments.lock().may_vacate(v.segment(*place));
    let place = v.places(file).into_iter().find(may).expect("data, and old");
    let segment = v.segment(place);
    v.errands
        .before(Operation::Read, Volume::bytes(place), move || {
            assert!(lfs.cleaner.clean_segment(segment).unwrap());
            lfs.checkpoints.settle_vacated().unwrap();
            false
        });
    let done = v.coalesce(file);
    assert!(v.errands.is_done() && v.is_clean(segment));
    v.is_in_order(file, &done);
}

/// However often that happens: an extent that changes too often is left to
/// another call, and what was moved is no damage.
#[test]
fn what_is_moved_at_each_attempt_is_left_alone_and_no_damage() {
    let (v, file) = Volume::in_pieces(MountOptions::default(), 1);
    let before = v.places(file);
    let (place, lfs) = (before[1], Arc::clone(&v.lfs));
    let segment = v.segment(place);
    // As if the log had come back to it.
    v.device
        .write(place.sector() * 512, &[IoSlice::new(&[0xa5; 512])])
        .unwrap();
    v.errands
        .before(Operation::Read, Volume::bytes(place), move || {
            lfs.reader.opened(segment, place.incarnation() + 1);
            true
        });
    let done = v.coalesce(file);
    assert_eq!((done.damaged, done.moved_bytes, done.next), (0, 0, None));
    assert_eq!(v.places(file), before);
}

/// A move is refused that was judged against an image which a checkpoint has
/// replaced since; it is judged again.
#[test]
fn a_checkpoint_before_the_move_has_it_judged_again() {
    let (v, file) = Volume::in_pieces(MountOptions::default(), 1);
    v.checkpoint_before_reading(Volume::bytes(v.place(file, 1)));
    let done = v.coalesce(file);
    assert!(v.errands.is_done());
    v.is_in_order(file, &done);
}

/// The same while it is being judged.
#[test]
fn what_was_looked_up_on_both_sides_of_a_checkpoint_is_looked_up_again() {
    let (v, file) = Volume::in_pieces(MountOptions::default(), 1);
    // The first node says where the file goes on, the second only what lies
    // there.
    let node = Volume::bytes(v.nodes(file)[1]);
    v.lfs.drop_caches();
    v.checkpoint_before_reading(node);
    let done = v.coalesce(file);
    assert!(v.errands.is_done());
    v.is_in_order(file, &done);
}

#[test]
fn where_checkpoints_follow_each_other_too_closely_nothing_is_moved() {
    let (v, file) = Volume::in_pieces(MountOptions::default(), 1);
    let (before, runs) = (v.places(file), v.pieces(file));
    v.lfs.drop_caches();
    let lfs = Arc::clone(&v.lfs);
    v.errands.before(Operation::Read, 0..u64::MAX, move || {
        lfs.checkpoint().unwrap();
        lfs.drop_caches();
        true
    });
    let done = v.coalesce(file);
    v.errands.forget();
    assert_eq!((done.moved_bytes, done.damaged), (0, 0));
    assert_eq!((done.seen_bytes, done.next), (EXTENT_BYTES, None));
    assert_eq!((done.runs, v.places(file)), ((runs, runs), before));
    let done = v.coalesce(file);
    v.is_in_order(file, &done);
}

#[test]
fn room_that_others_take_before_the_move_is_not_taken_twice() {
    let (v, file) = Volume::in_pieces(MountOptions::default(), 2);
    let (before, lfs) = (v.places(file), Arc::clone(&v.lfs));
    let volume = lfs.geometry.volume_bytes();
    let data = Volume::bytes(before[1]);
    v.errands.before(Operation::Read, data, move || {
        lfs.segments.lock().waiting.bytes = volume;
        false
    });
    let done = v.coalesce(file);
    assert!(v.errands.is_done());
    assert!(done.short_of_room && done.moved_bytes == 0, "{done:?}");
    assert_eq!((done.next, v.places(file)), (Some(0), before));
    v.lfs.segments.lock().waiting = Default::default();
    let done = v.coalesce(file);
    v.is_in_order(file, &done);
}
