//! How a segment is read: by its summaries or whole, and what lives in it in few
//! requests.

use super::{BLOCK, Volume, settled_file};
use crate::chain::{ChainItem, MapPage};
use crate::control::contents::{BlockInfo, SegmentContents};
use crate::format::Pointer;
use crate::segments::Edition;
use crate::{FormatOptions, MountOptions};
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::InodeNo;

/// What a request costs, in bytes read.
const REQUEST: u64 = 64 << 10;

impl Volume {
    /// One whose segments hold 2 MiB.
    fn large() -> Self {
        let format = FormatOptions {
            segment_bytes: 2 << 20,
            ..FormatOptions::default()
        };
        Volume::made(512 << 20, &format, MountOptions::default())
    }

    /// What reading takes: requests and bytes.
    fn reads<T>(&self, read: impl FnOnce() -> T) -> (T, u64, u64) {
        let before = self.device.counters().snapshot();
        let outcome = read();
        let after = self.device.counters().snapshot();
        let requests = after.reads - before.reads;
        (outcome, requests, after.bytes_read - before.bytes_read)
    }

    /// A segment that holds several partials, and what it holds.
    fn with_partials(&self) -> (u32, SegmentContents) {
        let file = self.create("file");
        for at in 0..6 {
            self.write(file, at * 20, 20);
            self.fs.fsync(file, true).unwrap();
        }
        let segment = self.segment(self.place(file, 0));
        self.write(file, 200, 600);
        self.checkpoint();
        let contents = self.lfs.mechanism.read_segment(segment).unwrap();
        assert!(contents.summaries.len() >= 6);
        (segment, contents)
    }
}

fn places(contents: &SegmentContents) -> Vec<(u64, u32)> {
    let blocks = contents.blocks.iter();
    blocks.map(|info| (info.byte, info.length)).collect()
}

#[test]
fn a_segment_is_read_whole_once_that_is_no_dearer() {
    let v = Volume::large();
    let (segment, whole) = v.with_partials();
    let edition = whole.edition;
    let partials = whole.summaries.len() as u64;
    let unit = u64::from(v.lfs.geometry.write_unit);
    let size = u64::from(v.lfs.geometry.segment_bytes);
    let survey = |live_bytes| {
        let (contents, _, bytes) = v.reads(|| v.lfs.mechanism.survey(segment, edition, live_bytes));
        let contents = contents.unwrap();
        assert_eq!(places(&contents), places(&whole));
        assert!(contents.complete);
        bytes
    };
    // As many partials as usual.
    v.lfs.counters.partials.store(2 * partials + 1, Relaxed);
    v.lfs.counters.segments_opened.store(2, Relaxed);
    let least = size - partials * (REQUEST + unit);
    assert_eq!(survey(least), size);
    assert!(survey(least - 1) < size / 4);
    assert!(survey(0) < size / 4);
    // More than usual: that shows only on the way.
    v.lfs.counters.partials.store(0, Relaxed);
    assert!(survey(least - 1) < size / 4);
    let bytes = survey(least);
    assert!((size + unit..2 * size).contains(&bytes), "{bytes}");
    assert_eq!(survey(size), size);
}

/// Nearly all of such a segment would be read behind its summaries.
#[test]
fn a_segment_is_read_whole_where_what_lives_in_others_was_scattered() {
    let v = Volume::large();
    let (file, segments) = settled_file(&v, 1000);
    (0..1000).step_by(2).for_each(|at| v.write(file, at, 1));
    v.checkpoint();
    let judge = |segment| {
        let (_, requests, bytes) = v.reads(|| v.lfs.mechanism.judge(segment, &|| true).unwrap());
        (requests, bytes)
    };
    let size = u64::from(v.lfs.geometry.segment_bytes);
    let (requests, bytes) = judge(segments[0]);
    assert!(requests > 2 && bytes > size / 4 * 3, "{requests} {bytes}");
    assert_eq!(judge(segments[0]), (1, size));
}

#[test]
fn what_lives_is_fetched_in_runs_that_bridge_small_gaps() {
    let v = Volume::large();
    let (_, segments) = settled_file(&v, 1000);
    let whole = v.lfs.mechanism.read_segment(segments[0]).unwrap();
    let contents = whole.clone().without_bytes();
    let blocks: Vec<BlockInfo> = {
        let all = contents.blocks.iter().copied();
        all.filter(|info| u64::from(info.length) == BLOCK).collect()
    };
    let fetch = |wanted: &[BlockInfo]| {
        let (fetched, requests, bytes) =
            v.reads(|| v.lfs.mechanism.fetch(&contents, wanted.iter()));
        let (fetched, image) = (
            fetched.unwrap(),
            v.lfs.mechanism.fetch(&whole, wanted.iter()).unwrap(),
        );
        for info in wanted {
            assert_eq!(fetched.of(info).len(), info.length as usize);
            assert_eq!(fetched.of(info), image.of(info));
        }
        (requests, bytes)
    };
    let apart = |gap: u64| {
        let is_apart = |(a, b): &(&BlockInfo, &BlockInfo)| b.byte == a.byte + BLOCK + gap;
        let mut pairs = blocks
            .iter()
            .flat_map(|a| blocks.iter().map(move |b| (a, b)));
        pairs.find(is_apart).map(|(a, b)| [*a, *b]).unwrap()
    };
    let [one, next] = apart(0);
    assert_eq!(fetch(&[one]), (1, BLOCK));
    assert_eq!(fetch(&[next, one]), (1, 2 * BLOCK));
    // What is read along counts as a request.
    assert_eq!(fetch(&apart(REQUEST)), (1, REQUEST + 2 * BLOCK));
    assert_eq!(fetch(&apart(REQUEST + BLOCK)), (2, 2 * BLOCK));
    // No more than a mebibyte at once, and on a slow device no more than a portion.
    let within = |bytes: u64| {
        let ends = |info: &&BlockInfo| info.byte + BLOCK <= blocks[0].byte + bytes;
        blocks.iter().take_while(ends).count()
    };
    let at_once = |bytes: u64| {
        let count = within(bytes);
        [count, count + 1].map(|count| fetch(&blocks[..count]).0)
    };
    assert_eq!(at_once(1 << 20), [1, 2]);
    v.appears_slow();
    assert_eq!(at_once(32 << 10), [1, 2]);
}

/// Of what stood at one place, each copy is kept once, and nothing that
/// differs from it in anything is taken for it.
#[test]
fn a_copy_told_of_twice_is_one_and_another_at_its_place_is_not() {
    let geometry = **Volume::new().lfs.geometry;
    let item = |ino, version, block, birth, crc, xattrs| ChainItem::Block {
        ino: InodeNo(ino),
        version,
        block,
        pointer: Pointer::new(1000, 8, crc, birth, 1),
        written_ns: 0,
        source: None,
        kept: false,
        xattrs,
        spilled: false,
    };
    let copies = [
        item(7, 1, 1, 1, 1, false),
        item(8, 1, 1, 1, 1, false),
        item(7, 2, 1, 1, 1, false),
        item(7, 1, 2, 1, 1, false),
        item(7, 1, 1, 2, 1, false),
        item(7, 1, 1, 1, 2, false),
        item(7, 1, 1, 1, 1, true),
    ];
    let page = |serial, items: &[ChainItem]| MapPage {
        serial,
        mount: 1,
        offset: 0,
        items: items.to_vec(),
    };
    let of = (3, Edition::default());
    let told = |pages| SegmentContents::told_by(&geometry, of, Vec::new(), pages).blocks;
    for other in &copies[1..] {
        let both = [page(1, &copies[..1]), page(2, &[*other, copies[0]])];
        assert_eq!(told(both.to_vec()).len(), 2, "{other:?}");
    }
    assert_eq!(
        told(vec![page(1, &copies), page(2, &copies)]).len(),
        copies.len()
    );
}
