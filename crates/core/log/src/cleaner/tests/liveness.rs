//! Which segments may be cleaned, what in them lives, and what moving it is
//! said to cost.

use super::{BLOCK, PUNCH, Volume, found_in, settled_file};
use crate::bytes::partial::PartialBytes;
use crate::chain::ChainItem;
use crate::cleaner::Found;
use crate::cleaner::plan::Urgency;
use crate::delta::Delta;
use crate::durability::InFlight;
use crate::format::Pointer;
use crate::format::index::Index;
use crate::format::node::NodeId;
use crate::mechanism::Life;
use crate::reader::Tree;
use crate::segments::{Segment, SegmentState};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use varve_device::AlignedBuffer;
use varve_fs::{Caller, InodeNo};

impl Volume {
    /// Whether a segment is a candidate, and whether it is settled.
    fn stands(&self, segment: u32) -> (bool, bool) {
        let candidates = self.lfs.cleaner.candidates();
        let is_one = candidates.iter().any(|c| c.segment == segment);
        (is_one, self.lfs.mechanism.settled(segment).is_some())
    }

    fn change(&self, segment: u32, change: impl FnOnce(&mut Segment)) {
        change(self.lfs.segments.lock().get_mut(segment));
    }

    /// The pointer of a node of the newest image.
    fn node_at(&self, id: NodeId) -> Option<Pointer> {
        let base = Arc::clone(&self.lfs.layers.read().base);
        let (reader, geometry) = (&self.lfs.reader, &self.lfs.geometry);
        let image = base.inode(reader, geometry, id.ino).unwrap().unwrap();
        let (ino, root) = (id.ino, image.root.as_ref().unwrap());
        Tree { reader, ino, root }.find(id.spot()).unwrap()
    }

    fn life(&self, id: NodeId, pointer: Pointer) -> Option<Life> {
        let item = ChainItem::Node {
            id,
            version: 1,
            pointer,
        };
        let mut found = Found::default();
        self.lfs.mechanism.life_of(&item, &mut found).unwrap()
    }
}

fn frozen_at(boundary: u64) -> Option<Arc<Delta>> {
    let mut frozen = Delta::default();
    frozen.boundary = boundary;
    Some(Arc::new(frozen))
}

#[test]
fn candidates_are_the_used_segments_and_no_others() {
    let v = Volume::new();
    settled_file(&v, 100);
    let candidates: Vec<u32> = v
        .lfs
        .cleaner
        .candidates()
        .iter()
        .map(|c| c.segment)
        .collect();
    let segments = v.lfs.segments.lock();
    let used = segments
        .iter()
        .filter(|(_, s)| s.state == SegmentState::Used);
    let used: Vec<u32> = used.map(|(number, _)| number).collect();
    assert!(used.len() > 3);
    assert_eq!(candidates, used);
}

#[test]
fn what_is_suspect_or_cleaned_or_open_is_no_candidate() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let segment = segments[0];
    assert_eq!(v.stands(segment), (true, true));
    v.change(segment, |s| s.suspect = true);
    assert_eq!(v.stands(segment), (false, true));
    v.change(segment, |s| (s.suspect, s.cleaned) = (false, Some(9)));
    assert_eq!(v.stands(segment), (false, true));
    v.change(segment, |s| {
        (s.cleaned, s.state) = (None, SegmentState::Open);
    });
    assert_eq!(v.stands(segment), (false, false));
    let head = v.lfs.log.lock().end.at(0).segment.get();
    v.change(head, |s| s.state = SegmentState::Used);
    assert_eq!(v.stands(head), (false, false), "the log stands there");
}

#[test]
fn what_is_on_its_way_or_behind_a_running_checkpoint_is_not_judged() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let segment = segments[0];
    let last = v.lfs.segments.lock().get(segment).last_serial;
    for (serial, stands) in [(last, false), (last + 1, true)] {
        let bytes = AlignedBuffer::zeroed(512);
        v.lfs.durability.announce(Arc::new(InFlight {
            serial,
            sector: 0,
            bytes: PartialBytes::new(bytes, 512),
            plugs: Vec::new(),
        }));
        assert_eq!(v.stands(segment), (stands, stands), "{serial} of {last}");
        v.lfs.durability.landed(serial);
    }
    for (boundary, stands) in [(last - 1, false), (last, true)] {
        v.lfs.layers.change().frozen = frozen_at(boundary);
        assert_eq!(v.stands(segment), (stands, stands), "{boundary} of {last}");
    }
}

#[test]
fn a_candidates_live_bytes_are_the_tables_and_what_deltas_add() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let (segment, live) = (segments[0], v.live(segments[0]));
    for (added, now) in [(0, live), (5000, live + 5000), (-4096, live - 4096)] {
        v.lfs.layers.change().live.usage.insert(segment, added);
        let candidates = v.lfs.cleaner.candidates();
        let candidate = candidates.iter().find(|c| c.segment == segment).unwrap();
        let settled = v.lfs.mechanism.settled(segment).unwrap();
        assert_eq!((candidate.live_bytes, settled.1), (now, now));
    }
    let all_and_more = -(live as i64) - 1;
    let mut committed = v.lfs.layers.change();
    committed.live.usage.insert(segment, all_and_more);
    drop(committed);
    assert_eq!(v.lfs.mechanism.settled(segment).unwrap().1, 0);
}

#[test]
fn a_node_lives_in_an_index_of_some_height() {
    let v = Volume::new();
    let (low, tall) = (v.create("low"), v.create("tall"));
    v.write(low, 0, 100);
    v.write(tall, 0, 1);
    v.write(tall, 1 << 20, 1);
    v.checkpoint();
    let node = |ino, height| NodeId {
        ino,
        height,
        index: 0,
    };
    let life = |id| v.life(id, v.node_at(id).unwrap());
    assert_eq!(life(node(low, 1)), Some(Life::Node(1)));
    assert_eq!(v.node_at(node(low, 2)), None);
    let top = (1..9).rev().find(|h| v.node_at(node(tall, *h)).is_some());
    let top = top.unwrap();
    assert!(top > 1, "{top}");
    for height in [1, top] {
        assert_eq!(life(node(tall, height)), Some(Life::Node(top)));
    }
    // Another's node, and one that has been written anew.
    let old = v.node_at(node(low, 1)).unwrap();
    assert_eq!(v.life(node(tall, 1), old), None);
    v.write(low, 0, 1);
    v.checkpoint();
    assert_eq!(v.life(node(low, 1), old), None);
    assert_eq!(life(node(low, 1)), Some(Life::Node(1)));
}

#[test]
fn a_touched_node_is_counted_once() {
    let v = Volume::new();
    let (file, _) = settled_file(&v, 100);
    let node = v.node(file);
    let segment = v.segment(node);
    let contents = v.lfs.mechanism.read_segment(segment).unwrap();
    let nodes = contents.blocks.iter().filter_map(|info| match info.item {
        ChainItem::Node { id, pointer, .. } => v.life(id, pointer).map(|life| (id, life)),
        _ => None,
    });
    let nodes: Vec<NodeId> = nodes.map(|(id, _)| id).collect();
    assert!(!nodes.is_empty());
    let mut counted = Vec::new();
    for _ in 0..2 {
        let found = found_in(&v, &[segment]);
        assert!(v.lfs.mechanism.markv(found).unwrap().is_some());
        let committed = v.lfs.layers.read();
        assert!(nodes.iter().all(|id| committed.live.is_touched(id)));
        counted.push(committed.live.counts());
    }
    assert!(counted[0].existing >= nodes.len() as u64, "{counted:?}");
    assert_eq!(counted[0], counted[1]);
}

#[test]
fn what_lives_in_two_segments_is_the_sum_of_both() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 200);
    let each: Vec<Found> = segments[..2].iter().map(|s| found_in(&v, &[*s])).collect();
    let live: u64 = each.iter().map(|found| found.live_bytes).sum();
    let blocks: usize = each.iter().map(Found::len).sum();
    let both = found_in(&v, &segments[..2]);
    assert_eq!((both.live_bytes, both.len()), (live, blocks));
    assert_eq!(each[0].live_bytes, v.live(segments[0]));
}

/// Whatever is wrong with one part is wrong with the whole.
#[test]
fn what_is_wrong_with_a_part_is_wrong_with_the_whole() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 200);
    let part = || found_in(&v, &segments[..1]);
    let wholes = |wrong: &dyn Fn(&mut Found)| {
        [(true, false), (false, true), (true, true)].map(|(first, second)| {
            let (mut whole, mut other) = (part(), part());
            if first {
                wrong(&mut whole);
            }
            if second {
                wrong(&mut other);
            }
            whole.append(other);
            whole
        })
    };
    let interrupted = wholes(&|found| found.interrupted = true);
    assert!(interrupted.iter().all(|found| found.interrupted));
    let damaged = wholes(&|found| found.damaged = 3);
    assert_eq!(damaged.map(|found| found.damaged), [3, 3, 6]);

    assert!(part().is_all_data());
    let incomplete = wholes(&|found| {
        let mut contents = v.lfs.mechanism.read_segment(segments[0]).unwrap();
        contents.complete = false;
        *found = v.lfs.mechanism.bmapv(&contents).unwrap();
    });
    assert!(!incomplete.iter().any(Found::is_all_data));

    // Judged against the newest image, but for a part.
    let torn = || {
        let old = [part(), part()];
        v.create(&format!("{}", v.lfs.statistics().checkpoints));
        v.checkpoint();
        old.map(|old| {
            let mut found = part();
            found.append(old);
            found
        })
    };
    let [mut first, _] = torn();
    first.append(Found::default());
    assert_eq!(v.lfs.mechanism.markv(first).unwrap(), None);
    let ([second, _], mut whole) = (torn(), Found::default());
    whole.append(second);
    assert_eq!(v.lfs.mechanism.markv(whole).unwrap(), None);
    let [mut both, other] = torn();
    both.append(other);
    assert_eq!(v.lfs.mechanism.markv(both).unwrap(), None);
}

#[test]
fn on_a_slow_device_fewer_moves_go_into_a_group() {
    let v = Volume::new();
    assert_eq!(v.lfs.mechanism.group_bytes(), 1 << 20);
    let read = || -> Result<(), ()> {
        v.clock.advance(Duration::from_secs(1));
        Ok(())
    };
    for _ in 0..200 {
        v.lfs.counters.speed.timed(128 << 10, read).unwrap();
    }
    let unit = v.lfs.geometry.block_bytes.max(v.lfs.geometry.write_unit);
    assert_eq!(v.lfs.mechanism.group_bytes(), 16 * unit as usize);
}

/// What waits for checkpoints: what is empty by now, and what was cleaned.
#[test]
fn empty_and_cleaned_segments_wait_for_checkpoints() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let before = v.lfs.cleaner.waiting_for_checkpoint();
    v.change(segments[0], |s| s.cleaned = Some(9));
    assert_eq!(v.lfs.cleaner.waiting_for_checkpoint(), before + 1);
    let dead = -(v.live(segments[1]) as i64);
    let mut committed = v.lfs.layers.change();
    committed.live.usage.insert(segments[1], dead);
    drop(committed);
    assert_eq!(v.lfs.cleaner.waiting_for_checkpoint(), before + 2);
}

#[test]
fn a_checkpoint_may_see_more_once_so_much_has_been_logged() {
    let v = Volume::new();
    let eighth = v.lfs.geometry.volume_bytes() / 8;
    let sees = |logged: u64, urgency| {
        v.lfs.layers.change().live.log_bytes = logged;
        v.lfs.cleaner.may_see_more(urgency)
    };
    for (urgency, part) in [
        (Urgency::Background, 2),
        (Urgency::Ahead, 2),
        (Urgency::Pressed, 16),
    ] {
        assert!(sees(eighth / part, urgency), "{urgency:?}");
        assert!(!sees(eighth / part - 1, urgency), "{urgency:?}");
    }
}

#[test]
fn deaths_pay_for_a_checkpoint_once_they_are_many_or_somebody_waits() {
    let v = Volume::new();
    v.checkpoint();
    let pays = |urgency, change: &dyn Fn(&mut Delta)| {
        let mut committed = v.lfs.layers.change();
        let live = &mut committed.live;
        (live.log_bytes, live.removes, live.entries) = (0, false, 0);
        change(live);
        drop(committed);
        v.lfs.cleaner.pending_deaths(urgency)
    };
    let segment = u64::from(v.lfs.geometry.segment_bytes);
    let many = v.lfs.space.batch_segments().max(8) * segment;
    let (nobody, waits) = (Urgency::Background, Urgency::Waiting);
    assert!(!pays(nobody, &|_| ()) && !pays(waits, &|_| ()));
    assert!(pays(waits, &|live| live.entries = 1));
    assert!(!pays(nobody, &|live| live.log_bytes = many - 1));
    assert!(pays(nobody, &|live| live.log_bytes = many));
    let removed = |entries| move |live: &mut Delta| (live.removes, live.entries) = (true, entries);
    assert!(!pays(nobody, &removed(1000)));
    assert!(pays(nobody, &removed(1001)));
    assert!(
        !pays(nobody, &|live| live.entries = 1001),
        "nothing has died"
    );
}

/// A segment's worth of moves is asked for with its fold, and the room for what
/// waits stays.
#[test]
fn who_has_judged_asks_for_the_room_of_what_lives() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 100);
    let place = v.place(file, 0);
    assert!(v.lfs.space.may_move(BLOCK, Default::default()));
    v.lfs.segments.lock().waiting.bytes = v.lfs.geometry.volume_bytes();
    assert!(!v.lfs.space.may_move(BLOCK, Default::default()));
    assert!(!v.lfs.cleaner.clean_segment(segments[0]).unwrap());
    let cleaning = v.lfs.cleaner.lock_cleaning();
    let mut batch = crate::cleaner::pass::Batch::default();
    let (edition, found) = v
        .lfs
        .mechanism
        .judge(segments[0], &|| true)
        .unwrap()
        .unwrap();
    batch.add((segments[0], edition), found, Default::default());
    assert_eq!(v.lfs.cleaner.move_out(batch).unwrap(), 0);
    drop(cleaning);
    assert_eq!(v.lfs.cleaner.clean_batch().unwrap(), 0);
    assert_eq!(v.place(file, 0), place);
}

impl Volume {
    /// What [`Mechanism::life_of`](crate::mechanism::Mechanism) must say of a block, by a look-up that the
    /// cleaner does not use.
    fn lives(&self, item: &ChainItem) -> bool {
        let (ino, version, block, pointer) = match *item {
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                ..
            } if ino != InodeNo::IFILE => (ino, version, block, pointer),
            _ => {
                let life = self.lfs.mechanism.life_of(item, &mut Found::default());
                return life.unwrap().is_some();
            }
        };
        let lookup = self.lfs.layers.lookup();
        let place = lookup.inode_place(ino).unwrap().0;
        if place.is_none_or(|(now, _)| now != version) {
            return false;
        }
        let found = lookup.blocks(ino, block, block + 1).unwrap().0;
        found.iter().any(|(_, at)| at.same_content(&pointer))
    }
}

/// Blocks of several files, in the image, above it, in holes, of files that are
/// gone, and of lives of a number that are over.
#[test]
fn what_is_judged_together_is_as_what_is_judged_alone() {
    let v = Volume::new();
    let remove = |name: &[u8]| {
        v.fs.unlink(&Caller::root(), InodeNo::ROOT, name).unwrap();
    };
    let files: Vec<InodeNo> = (0..4).map(|n| v.create(&format!("file {n}"))).collect();
    for &file in &files {
        v.write(file, 0, 300);
        v.write(file, 20_000, 30); // below another node
    }
    v.checkpoint();
    (0..300).step_by(7).for_each(|at| v.write(files[0], at, 2));
    v.checkpoint();
    remove(b"file 3");
    v.checkpoint();
    let again = v.create("again");
    v.write(again, 0, 60);
    (0..300).step_by(11).for_each(|at| v.write(files[1], at, 1));
    let (from, length) = (40 * BLOCK, 70 * BLOCK);
    v.fs.fallocate(&Caller::root(), files[2], PUNCH, from, length)
        .unwrap();
    remove(b"file 0");
    v.fs.sync().unwrap();

    let (mut alive, mut dead) = (0, 0);
    for segment in 0..v.lfs.geometry.segment_count {
        let contents = v.lfs.mechanism.read_segment(segment).unwrap();
        let blocks: Vec<_> = contents.blocks.iter().collect();
        let mut found = Found::default();
        let lives = v
            .lfs
            .mechanism
            .lives_of(&blocks, &mut found, &|| true)
            .unwrap();
        assert!(!found.interrupted);
        for (info, life) in blocks.iter().zip(lives) {
            assert_eq!(life.is_some(), v.lives(&info.item), "{:?}", info.item);
            match life {
                Some(_) => alive += 1,
                None => dead += 1,
            }
        }
    }
    assert!(alive > 500 && dead > 500, "{alive} live, {dead} do not");
}

/// Whoever comes in between waits for no further look-up.
#[test]
fn judging_ends_at_the_next_block_when_somebody_comes() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    let contents = v.lfs.mechanism.read_segment(segments[0]).unwrap();
    let all: Vec<usize> = (0..contents.blocks.len()).collect();
    assert!(all.len() > 10);
    for allowed in [0, 1, 5, all.len() - 1] {
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() <= allowed
        };
        let found = v.lfs.mechanism.bmapv_some(&contents, &all, &go_on).unwrap();
        assert!(found.interrupted && found.is_empty());
        // Judged by file, and asked once more before the next.
        assert_eq!(asked.get(), allowed + 1);
    }
}
