//! What cleaning costs at worst (thesis §6.2.2, figures 6-6 and 6-7).

use super::*;
use crate::chain::ChainItem;
use crate::format::node::NodeId;
use varve_fs::SetAttr;

#[test]
fn figures_6_6_and_6_7_cleaning_gains_nothing_at_first() {
    let v = Volume::new();
    let file = v.create("file 1");
    v.write(file, 0, 100);
    v.checkpoint();
    // Figure 6-6: segment 1 holds one deleted block, segment 2 the node.
    let caller = Caller::root();
    v.fs.fallocate(&caller, file, PUNCH, BLOCK, BLOCK).unwrap();
    v.checkpoint();
    // The log goes on elsewhere.
    let other = v.create("other");
    v.write(other, 0, 100);
    v.checkpoint();
    let (one, node) = (v.segment(v.place(file, 0)), v.node(file));
    let two = v.segment(node);
    assert_ne!(one, two);
    let (in_two, written) = (v.live(two), v.written());

    assert!(v.lfs.cleaner.clean_segment(one).unwrap());
    v.lfs.checkpoint().unwrap();

    // Figure 6-7: segment 1 is empty, and in segment 2 the node is dead.
    assert_eq!(v.live(one), 0);
    assert_ne!(v.node(file), node);
    let node_bytes = node.stored_bytes();
    assert!(
        v.live(two) <= in_two - node_bytes,
        "{} {in_two}",
        v.live(two)
    );
    // It took more than the one block that was free.
    assert!(v.written() - written > BLOCK);

    // The node's old place comes back by cleaning segment 2.
    assert!(v.lfs.cleaner.clean_segment(two).unwrap());
    v.lfs.checkpoint().unwrap();
    v.lfs.checkpoint().unwrap();
    assert!(v.is_clean(one) && v.is_clean(two));
    v.is_whole(file, 0, 1);
    v.is_whole(file, 2, 98);
}

#[test]
fn a_block_of_each_of_many_files_costs_more_than_its_segment() {
    let v = Volume::new();
    let blocks = 150;
    let segment_bytes = v.lfs.geometry.segment_bytes;
    let fit = u64::from(segment_bytes) / BLOCK - 6;
    let files: Vec<InodeNo> = (0..fit).map(|n| v.create(&format!("file {n}"))).collect();
    for &file in &files {
        v.write(file, 0, blocks);
        v.checkpoint();
    }
    // One block of each, together in one segment.
    let filler = v.create("filler");
    let offset = || v.lfs.log.lock().end.at(0).offset.get();
    let mut block = 0;
    while offset() > segment_bytes / 32 && offset() < segment_bytes {
        v.write(filler, block, 1);
        v.fs.sync().unwrap();
        block += 1;
    }
    files.iter().for_each(|&file| v.write(file, 0, 1));
    v.checkpoint();
    v.checkpoint();
    let mut segments: Vec<u32> = files.iter().map(|&f| v.segment(v.place(f, 0))).collect();
    segments.dedup();
    assert_eq!(segments.len(), 1);
    let clean = v.clean();
    assert!(v.lfs.space.may_move(fit * BLOCK, Default::default()));
    let written = v.written();

    for &segment in &segments {
        assert!(v.lfs.cleaner.clean_segment(segment).unwrap());
    }
    let priced = {
        let committed = v.lfs.layers.read();
        v.lfs.space.fold_bytes(&committed.base, &committed.live)
    };
    v.lfs.checkpoint().unwrap();
    // Copies and nodes are more than the segments held, and they come first.
    let cost = v.written() - written;
    let gain = segments.len() as u64 * u64::from(segment_bytes);
    assert!(cost > gain, "cost {cost} for {gain}");
    assert!(v.clean() < clean, "{} after {clean}", v.clean());
    // But never more than had been set aside.
    assert!(cost - fit * BLOCK <= priced + 256 * 1024, "{cost} {priced}");

    // The long run: the dead nodes' segments come back.
    for _ in 0..20 {
        v.lfs.cleaner.clean_batch().unwrap();
        v.lfs.checkpoint().unwrap();
        v.lfs.checkpoint().unwrap();
    }
    assert!(v.clean() >= clean, "{} after {clean}", v.clean());
    files.iter().for_each(|&file| v.is_whole(file, 0, blocks));
}

/// A checkpoint that only moves nodes changes the inodes above them as well: what
/// was moved of those meanwhile is written once more, and has its price.
#[test]
fn inodes_moved_while_a_checkpoint_moves_their_nodes_are_priced() {
    let v = Volume::new();
    let files: Vec<InodeNo> = (0..1000).map(|n| v.create(&format!("file {n}"))).collect();
    files.iter().for_each(|&file| v.write(file, 100, 1));
    v.checkpoint();
    let places: BTreeSet<u32> = (files.iter())
        .map(|&file| {
            let place = v
                .lfs
                .layers
                .lookup()
                .inode_place(file)
                .unwrap()
                .0
                .unwrap()
                .1;
            v.lfs.geometry.segment_of(place.sector).unwrap()
        })
        .collect();
    let ids = files.iter().map(|&ino| NodeId {
        ino,
        height: 1,
        index: 0,
    });
    for id in ids {
        v.node(id.ino);
        v.lfs.layers.change().live.touch(&v.lfs.geometry, id, 1);
    }
    // The checkpoint reads them: that is when they are moved.
    v.lfs.drop_caches();
    let lfs = Arc::clone(&v.lfs);
    v.errands.before(Operation::Read, 0..u64::MAX, move || {
        if lfs.layers.read().frozen.is_none() {
            return true;
        }
        let mut found = crate::cleaner::Found::default();
        for &segment in &places {
            let contents = lfs.mechanism.read_segment(segment).unwrap();
            let is_inode =
                |at: &usize| matches!(contents.blocks[*at].item, ChainItem::Inode { .. });
            let inodes: Vec<usize> = (0..contents.blocks.len()).filter(is_inode).collect();
            found.append(
                lfs.mechanism
                    .bmapv_some(&contents, &inodes, &|| true)
                    .unwrap(),
            );
        }
        assert!(lfs.mechanism.markv(found).unwrap().is_some());
        false
    });
    v.lfs.checkpoint().unwrap();
    assert!(v.errands.is_done());

    let priced = {
        let committed = v.lfs.layers.read();
        v.lfs.space.fold_bytes(&committed.base, &committed.live)
            + v.lfs.space.table_bytes(committed.live.next_ino)
    };
    let before = v.lfs.statistics().checkpoint_log_bytes;
    v.lfs.checkpoint().unwrap();
    let written = v.lfs.statistics().checkpoint_log_bytes - before;
    let inodes = files.len() as u64 * u64::from(v.lfs.geometry.inode_bytes);
    assert!(
        inodes < written && written <= priced,
        "{written} for {priced}"
    );
    files.iter().for_each(|&file| v.is_whole(file, 100, 1));
}

/// The same of inodes that are changed meanwhile: what is logged of them must not name
/// the places that their nodes had.
#[test]
fn inodes_changed_while_a_checkpoint_moves_their_nodes_are_counted() {
    let v = Volume::new();
    let files: Vec<InodeNo> = (0..1000).map(|n| v.create(&format!("file {n}"))).collect();
    files.iter().for_each(|&file| v.write(file, 100, 1));
    v.checkpoint();
    for &ino in &files {
        let id = NodeId {
            ino,
            height: 1,
            index: 0,
        };
        v.node(ino);
        v.lfs.layers.change().live.touch(&v.lfs.geometry, id, 1);
    }
    v.lfs.drop_caches();
    let Volume {
        errands, lfs, fs, ..
    } = v;
    let (fs, folding) = (Arc::new(fs), Arc::clone(&lfs));
    let (changing, changed) = (Arc::clone(&fs), files.clone());
    errands.before(Operation::Read, 0..u64::MAX, move || {
        if folding.layers.read().frozen.is_none() {
            return true;
        }
        let mode = SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        };
        for &file in &changed {
            changing.setattr(&Caller::root(), file, &mode).unwrap();
        }
        changing.sync().unwrap();
        false
    });
    lfs.checkpoint().unwrap();
    assert!(errands.is_done());
    let counts = lfs.layers.read().live.counts();
    assert!(counts.inodes >= files.len() as u64, "{counts:?}");
    lfs.checkpoint().unwrap();
    let mode = |&file: &InodeNo| fs.getattr(file).unwrap().mode & 0o777;
    assert!(files.iter().all(|file| mode(file) == 0o600));
}
