//! One corner case each; then random operations against a map.

use super::node::{MAX_LEVEL, NodeHeader, max_children};
use super::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use varve_device::Block;
use zerocopy::FromBytes;

const KEY: Key = Key {
    hash_seed: 7,
    case_fold: false,
    ino: InodeNo(9),
    version: 3,
};
const FILE: FileKind = FileKind::Regular;

/// Blocks in memory, stored in whole sectors as a layout does.
#[derive(Clone, Default)]
struct Blocks {
    stored: HashMap<u64, Arc<Block>>,
    /// The number of reads after which a read fails.
    reads_left: Option<u64>,
    /// Reports all blocks as checked.
    checked: bool,
    /// Uses the trait's own `edit`.
    plain_edit: bool,
    writes: u64,
    /// Number of edits that found their block shared.
    copies: u64,
}

fn sectors(mut data: Vec<u8>) -> Vec<u8> {
    assert!(data.len() <= NODE_BYTES);
    data.resize(data.len().next_multiple_of(512), 0);
    data
}

impl DirectoryBlocks for Blocks {
    fn read(&mut self, block: u64) -> Result<Arc<Block>> {
        if let Some(left) = &mut self.reads_left {
            *left = left.checked_sub(1).ok_or(Error::Stale)?;
        }
        let stored = self.stored.get(&block).cloned();
        Ok(stored.unwrap_or_default())
    }

    fn write(&mut self, block: u64, data: Vec<u8>) {
        self.writes += 1;
        self.stored.insert(block, Arc::new(sectors(data).into()));
    }

    fn free(&mut self, block: u64) {
        self.stored.remove(&block);
    }

    fn exists(&mut self, block: u64) -> Result<bool> {
        Ok(self.stored.contains_key(&block))
    }

    fn is_checked(&self, _block: u64) -> bool {
        self.checked
    }

    fn next_existing(&mut self, from: u64) -> Result<Option<u64>> {
        Ok(self.stored.keys().copied().filter(|b| *b >= from).min())
    }

    fn edit(&mut self, block: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
        if self.plain_edit {
            let mut data = Arc::unwrap_or_clone(self.read(block)?);
            let data = data.as_vec_mut();
            change(data);
            self.write(block, std::mem::take(data));
            return Ok(());
        }
        if self.reads_left == Some(0) {
            return Err(Error::Stale);
        }
        self.writes += 1;
        let data = self.stored.get_mut(&block).expect("it was just read");
        self.copies += u64::from(Arc::strong_count(data) > 1);
        change(Arc::make_mut(data).as_vec_mut());
        Ok(())
    }
}

/// A hash that replaces the real one on the current test's thread.
struct WeakHash;

impl WeakHash {
    fn new(hash: name::NameHash) -> WeakHash {
        name::HASH.set(Some(hash));
        WeakHash
    }
}

impl Drop for WeakHash {
    fn drop(&mut self) {
        name::HASH.set(None);
    }
}

fn add(blocks: &mut Blocks, name: &[u8], ino: u64) {
    insert(&KEY, blocks, name, InodeNo(ino), FILE).unwrap();
}

fn find(blocks: &mut Blocks, name: &[u8]) -> Option<u64> {
    lookup(&KEY, blocks, name).unwrap().map(|(ino, _)| ino.0)
}

fn numbered(n: u64) -> Vec<u8> {
    format!("file-{n}").into_bytes()
}

fn filled(entries: u64) -> Blocks {
    let mut blocks = Blocks::default();
    for n in 1..=entries {
        add(&mut blocks, &numbered(n), n);
    }
    blocks
}

fn flaws(key: &Key, blocks: &mut Blocks) -> (u64, Vec<String>) {
    let mut flaws = Vec::new();
    let entries = check(key, blocks, &mut |flaw| flaws.push(flaw)).unwrap();
    (entries, flaws)
}

/// Panics unless the directory is sound and has `entries` entries.
fn sound(blocks: &mut Blocks, entries: u64) {
    assert_eq!(flaws(&KEY, blocks), (entries, Vec::new()));
    let all = listed(blocks, 0, usize::MAX);
    assert_eq!(all.len() as u64, entries);
    assert!(all.windows(2).all(|pair| pair[0].2 < pair[1].2));
    assert!(all.iter().all(|e| (256..1 << 63).contains(&e.2)));
}

/// Up to `most` entries after a cookie: name, inode, cookie.
fn listed(blocks: &mut Blocks, after: u64, most: usize) -> Vec<(Vec<u8>, u64, u64)> {
    let mut entries = Vec::new();
    let mut emit = |name: &[u8], ino: InodeNo, _, cookie| {
        if entries.len() == most {
            return false;
        }
        entries.push((name.to_vec(), ino.0, cookie));
        true
    };
    list(&KEY, blocks, after, &mut emit).unwrap();
    entries
}

fn level(blocks: &Blocks, block: u64) -> u8 {
    let (header, _) = NodeHeader::ref_from_prefix(&blocks.stored[&block]).unwrap();
    header.level
}

fn seed() -> u64 {
    let given = std::env::var("VARVE_SEED").ok();
    let seed = given.map_or_else(rand::random, |seed| seed.parse().expect("a number"));
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-fs directory");
    seed
}

#[test]
fn without_block_0_the_directory_is_empty() {
    let mut blocks = Blocks::default();
    assert!(is_empty(&KEY, &mut blocks).unwrap());
    assert_eq!(find(&mut blocks, b"a"), None);
    assert!(matches!(
        remove(&KEY, &mut blocks, b"a"),
        Err(Error::NotFound)
    ));
    sound(&mut blocks, 0);
}

#[test]
fn the_last_removal_frees_block_0() {
    let mut blocks = filled(1);
    assert!(!is_empty(&KEY, &mut blocks).unwrap());
    let former = remove(&KEY, &mut blocks, b"file-1").unwrap();
    assert_eq!(former, (InodeNo(1), FILE));
    assert!(blocks.stored.is_empty());
}

#[test]
fn a_small_directory_is_one_sector() {
    let mut blocks = filled(18);
    assert_eq!(blocks.stored.len(), 1);
    assert!(blocks.stored[&0].len() <= 512);
    sound(&mut blocks, 18);
}

#[test]
fn an_edit_finds_its_block_unshared() {
    let mut blocks = filled(1000);
    for n in 1..=1000 {
        replace(&KEY, &mut blocks, &numbered(n), InodeNo(7), FILE).unwrap();
        remove(&KEY, &mut blocks, &numbered(n)).unwrap();
    }
    assert_eq!(blocks.copies, 0);
}

#[test]
fn a_name_is_there_once() {
    let mut blocks = filled(2);
    let again = insert(&KEY, &mut blocks, b"file-1", InodeNo(5), FILE);
    assert!(matches!(again, Err(Error::Exists)));
    sound(&mut blocks, 2);
}

#[test]
fn replace_keeps_the_cookie_and_returns_the_former() {
    let mut blocks = filled(3);
    let before = listed(&mut blocks, 0, 9);
    let former = replace(&KEY, &mut blocks, b"file-2", InodeNo(8), FileKind::Fifo);
    assert_eq!(former.unwrap(), (InodeNo(2), FILE));
    let now = lookup(&KEY, &mut blocks, b"file-2").unwrap();
    assert_eq!(now, Some((InodeNo(8), FileKind::Fifo)));
    let after = listed(&mut blocks, 0, 9);
    assert!(before.iter().zip(&after).all(|(a, b)| a.2 == b.2));
    let missing = replace(&KEY, &mut blocks, b"x", InodeNo(8), FILE);
    assert!(matches!(missing, Err(Error::NotFound)));
}

#[test]
fn names_that_no_entry_may_have() {
    let mut blocks = Blocks::default();
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
        let refused = insert(&KEY, &mut blocks, name, InodeNo(1), FILE);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{name:?}");
        assert_eq!(find(&mut blocks, name), None);
    }
    let long = [b'a'; 256];
    let refused = insert(&KEY, &mut blocks, &long, InodeNo(1), FILE);
    assert!(matches!(refused, Err(Error::NameTooLong)));
    assert!(matches!(
        lookup(&KEY, &mut blocks, &long),
        Err(Error::NameTooLong)
    ));
    assert!(blocks.stored.is_empty());
}

#[test]
fn names_of_any_other_byte_and_of_255() {
    let mut blocks = Blocks::default();
    for byte in (1..=255).filter(|b| !b".//".contains(b)) {
        add(&mut blocks, &[byte], u64::from(byte));
        add(&mut blocks, &[byte; 255], u64::from(byte) + 1000);
    }
    for byte in (1..=255).filter(|b| !b".//".contains(b)) {
        assert_eq!(find(&mut blocks, &[byte]), Some(u64::from(byte)));
        let long = find(&mut blocks, &[byte; 255]);
        assert_eq!(long, Some(u64::from(byte) + 1000));
    }
    sound(&mut blocks, 2 * 253);
}

#[test]
fn splits_leave_two_halves_under_a_new_root() {
    let mut blocks = filled(1);
    let mut n = 1;
    while blocks.stored.len() == 1 {
        n += 1;
        add(&mut blocks, &numbered(n), n);
    }
    assert_eq!(blocks.stored.keys().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(level(&blocks, 0), 1);
    sound(&mut blocks, n);
}

#[test]
fn a_root_with_one_leaf_takes_it_back() {
    let mut blocks = filled(200);
    assert!(blocks.stored.len() > 2);
    let mut left = 200;
    while blocks.stored.len() > 1 {
        remove(&KEY, &mut blocks, &numbered(left)).unwrap();
        left -= 1;
        sound(&mut blocks, left);
    }
    assert_eq!(level(&blocks, 0), 0);
    assert!(left > 0, "collapsed only when it held nothing");
}

#[test]
fn block_numbers_stay_dense() {
    let mut blocks = filled(2000);
    let nodes = blocks.stored.len() as u64;
    assert_eq!(blocks.stored.keys().max(), Some(&(nodes - 1)));
    let mut random = Random::seed_from_u64(1);
    for n in 2001..40_000_u64 {
        add(&mut blocks, &numbered(n), n);
        remove(&KEY, &mut blocks, &numbered(n - 2000)).unwrap();
        if random.random_range(0..2000) == 0 {
            sound(&mut blocks, 2000);
        }
    }
    let (nodes, highest) = (blocks.stored.len() as u64, blocks.stored.keys().max());
    assert!(*highest.unwrap() < 3 * nodes, "{highest:?} of {nodes}");
}

#[test]
fn a_hundred_thousand_entries_and_back() {
    let mut blocks = filled(100_000);
    assert_eq!(level(&blocks, 0), 2);
    sound(&mut blocks, 100_000);
    for n in 1..=100_000 {
        assert_eq!(find(&mut blocks, &numbered(n)), Some(n));
    }
    for n in 1..=100_000 {
        remove(&KEY, &mut blocks, &numbered(n)).unwrap();
        if n % 9973 == 0 {
            sound(&mut blocks, 100_000 - n);
        }
    }
    assert!(blocks.stored.is_empty());
}

#[test]
fn an_insert_writes_no_more_blocks_than_announced() {
    assert_eq!(INSERT_BLOCKS_MAX, u64::from(MAX_LEVEL) * 2 + 1);
    let mut blocks = Blocks::default();
    for n in 1..20_000 {
        blocks.writes = 0;
        add(&mut blocks, &numbered(n), n);
        let levels = u64::from(level(&blocks, 0));
        assert!(blocks.writes <= 2 * levels + 1);
    }
}

#[test]
fn a_removal_writes_no_more_blocks_than_announced_and_makes_none() {
    let mut blocks = filled(50_000);
    assert_eq!(level(&blocks, 0), 2);
    let mut most = 0;
    let mut there: HashSet<u64> = blocks.stored.keys().copied().collect();
    for n in 1..=50_000 {
        blocks.writes = 0;
        remove(&KEY, &mut blocks, &numbered(n)).unwrap();
        most = most.max(blocks.writes);
        if blocks.stored.len() != there.len() {
            assert!(blocks.stored.keys().all(|block| there.contains(block)));
            there = blocks.stored.keys().copied().collect();
        }
    }
    assert_eq!(most, REMOVE_BLOCKS_MAX);
}

#[test]
fn names_of_one_hash_are_told_apart_across_leaves() {
    let _weak = WeakHash::new(|_| 5 << 20);
    let mut blocks = Blocks::default();
    let long = |n: u64| format!("{n:0>200}").into_bytes();
    for n in 1..=256 {
        add(&mut blocks, &long(n), n);
        assert_eq!(find(&mut blocks, &long(n)), Some(n));
    }
    assert!(blocks.stored.len() > 10);
    let full = insert(&KEY, &mut blocks, b"one more", InodeNo(1), FILE);
    assert!(matches!(full, Err(Error::NoSpace)));
    let again = insert(&KEY, &mut blocks, &long(256), InodeNo(1), FILE);
    assert!(matches!(again, Err(Error::Exists)));
    sound(&mut blocks, 256);
    for n in (3..=256).step_by(3) {
        let cookie = listed(&mut blocks, 0, 999)[n as usize - 1].2;
        remove(&KEY, &mut blocks, &long(n)).unwrap();
        assert_eq!(find(&mut blocks, &long(n)), None);
        sound(&mut blocks, 255);
        add(&mut blocks, b"in the gap", 1);
        let gap = listed(&mut blocks, cookie - 1, 1);
        assert_eq!(gap, [(b"in the gap".to_vec(), 1, cookie)]);
        remove(&KEY, &mut blocks, b"in the gap").unwrap();
        add(&mut blocks, &long(n), n);
    }
    for n in 1..=256 {
        remove(&KEY, &mut blocks, &long(n)).unwrap();
    }
    assert!(blocks.stored.is_empty());
}

#[test]
fn the_least_and_the_greatest_hash() {
    let _weak = WeakHash::new(|name| if name[0] == b'a' { 0 } else { u64::MAX });
    let mut blocks = Blocks::default();
    for n in 0..200_u64 {
        add(&mut blocks, format!("a{n:030}").as_bytes(), n + 1);
        add(&mut blocks, format!("z{n:030}").as_bytes(), n + 1);
    }
    sound(&mut blocks, 400);
    let last = listed(&mut blocks, 0, 999).pop().unwrap();
    assert!(listed(&mut blocks, last.2, 9).is_empty());
    assert!(listed(&mut blocks, u64::MAX, 9).is_empty());
}

#[test]
fn case_folds_on_request_and_keeps_the_spelling() {
    let key = Key {
        case_fold: true,
        ..KEY
    };
    let mut blocks = Blocks::default();
    let name = "Straße.TXT É".as_bytes();
    insert(&key, &mut blocks, name, InodeNo(1), FILE).unwrap();
    let other = "sTRAßE.txt é".as_bytes();
    let again = insert(&key, &mut blocks, other, InodeNo(2), FILE);
    assert!(matches!(again, Err(Error::Exists)));
    assert!(lookup(&key, &mut blocks, other).unwrap().is_some());
    assert_eq!(listed(&mut blocks, 0, 9)[0].0, name);
    insert(&key, &mut blocks, b"\xffA", InodeNo(2), FILE).unwrap();
    assert!(lookup(&key, &mut blocks, b"\xffa").unwrap().is_some());
    assert!(lookup(&key, &mut blocks, b"\xfea").unwrap().is_none());
    assert_eq!(flaws(&key, &mut blocks).1, [""; 0]);
    // The same bytes are not sound where case counts, because the hash differs.
    assert!(!flaws(&KEY, &mut blocks).1.is_empty());
    let mut blocks = filled(1);
    assert_eq!(find(&mut blocks, b"FILE-1"), None);
}

#[test]
fn a_listing_stops_and_resumes_anywhere() {
    let mut blocks = filled(1000);
    let all = listed(&mut blocks, 0, 9999);
    for most in [1, 7, 100] {
        let mut after = 0;
        let mut parts = Vec::new();
        loop {
            let part = listed(&mut blocks, after, most);
            let Some(last) = part.last() else { break };
            after = last.2;
            parts.extend(part);
        }
        assert_eq!(parts, all);
    }
}

#[test]
fn what_exists_throughout_a_listing_is_seen_once() {
    let seed = seed();
    let mut random = Random::seed_from_u64(seed);
    // A weak hash on some runs: collisions must not confuse the order.
    for weak in [false, true] {
        let _weak = weak.then(|| WeakHash::new(|name| u64::from(name[name.len() - 1]) << 30));
        let lasting = if weak { 300 } else { 3000 };
        let mut blocks = filled(lasting);
        let mut passing: Vec<u64> = Vec::new();
        let mut fresh = lasting;
        let mut seen = BTreeMap::new();
        let mut after = 0;
        loop {
            let part = listed(&mut blocks, after, random.random_range(1..50));
            let Some(last) = part.last() else { break };
            after = last.2;
            for (name, ..) in part {
                *seen.entry(name).or_insert(0) += 1;
            }
            for _ in 0..random.random_range(0..100) {
                if passing.len() < 500 && random.random_bool(0.6) {
                    fresh += 1;
                    add(&mut blocks, &numbered(fresh), fresh);
                    passing.push(fresh);
                } else if !passing.is_empty() {
                    let at = random.random_range(0..passing.len());
                    let gone = passing.swap_remove(at);
                    remove(&KEY, &mut blocks, &numbered(gone)).unwrap();
                }
            }
        }
        for n in 1..=lasting {
            assert_eq!(seen.get(&numbered(n)), Some(&1), "file {n}");
        }
    }
}

/// Names of a few letters and lengths, so that they collide often.
fn random_name(random: &mut Random) -> Vec<u8> {
    let long = random.random_bool(0.3);
    let bytes = if long {
        150
    } else {
        random.random_range(1..12)
    };
    (0..bytes)
        .map(|at| {
            if at < 9 {
                b'a' + random.random_range(0..2)
            } else {
                b'c'
            }
        })
        .collect()
}

/// A directory and its expected contents.
struct Pair {
    blocks: Blocks,
    map: BTreeMap<Vec<u8>, u64>,
    /// Cookies of the entries that existed at the last comparison and still do.
    cookies: HashMap<Vec<u8>, u64>,
}

impl Pair {
    fn insert(&mut self, name: &[u8], ino: u64) {
        let outcome = insert(&KEY, &mut self.blocks, name, InodeNo(ino), FILE);
        match (outcome, self.map.contains_key(name)) {
            (Ok(()), false) => {
                self.map.insert(name.to_vec(), ino);
            }
            (Err(Error::Exists), true) | (Err(Error::NoSpace), false) => {}
            (outcome, known) => panic!("{outcome:?} where known is {known}"),
        }
    }

    /// Removes the next existing name, or, if there is none, one that does not exist.
    fn remove(&mut self, name: &[u8]) {
        let next = self.map.range(name.to_vec()..).next();
        let name = next.map_or(name.to_vec(), |(name, _)| name.clone());
        let former = remove(&KEY, &mut self.blocks, &name).ok();
        assert_eq!(former.map(|(ino, _)| ino.0), self.map.remove(&name));
        self.cookies.remove(&name);
    }

    fn replace(&mut self, name: &[u8], ino: u64) {
        let former = replace(&KEY, &mut self.blocks, name, InodeNo(ino), FILE).ok();
        let known = self.map.get_mut(name);
        assert_eq!(former.map(|(ino, _)| ino.0), known.as_deref().copied());
        if let Some(known) = known {
            *known = ino;
        }
    }

    /// Checks that every name exists, the directory is sound, and no entry's cookie has
    /// changed.
    fn compare(&mut self) {
        sound(&mut self.blocks, self.map.len() as u64);
        assert_eq!(
            is_empty(&KEY, &mut self.blocks).unwrap(),
            self.map.is_empty()
        );
        for (name, ino, cookie) in listed(&mut self.blocks, 0, usize::MAX) {
            assert_eq!(self.map.get(&name), Some(&ino));
            if let Some(former) = self.cookies.insert(name, cookie) {
                assert_eq!(cookie, former);
            }
        }
    }
}

#[test]
fn random_operations_agree_with_a_map() {
    let seed = seed();
    let hashes: [Option<name::NameHash>; 3] = [
        None,
        Some(|name| (name.len() as u64 % 5) << 40 | u64::from(name[0]) << 9),
        Some(|name| {
            name.iter()
                .fold(0, |hash, byte| hash << 1 | u64::from(byte & 1))
                << 40
        }),
    ];
    for (round, hash) in hashes.into_iter().cycle().take(12).enumerate() {
        let mut random = Random::seed_from_u64(seed.wrapping_add(round as u64));
        let _weak = hash.map(WeakHash::new);
        let mut pair = Pair {
            blocks: Blocks {
                plain_edit: round % 2 == 0,
                checked: round % 4 < 2,
                ..Blocks::default()
            },
            map: BTreeMap::new(),
            cookies: HashMap::new(),
        };
        for turn in 0..6000 {
            let name = random_name(&mut random);
            let ino = random.random_range(1..1000);
            let insertions = if turn / 1500 % 2 == 0 { 7 } else { 2 };
            assert_eq!(find(&mut pair.blocks, &name), pair.map.get(&name).copied());
            match random.random_range(0..10) {
                9 => pair.replace(&name, ino),
                dice if dice < insertions => pair.insert(&name, ino),
                _ => pair.remove(&name),
            }
            if turn % 200 == 0 {
                pair.compare();
            }
        }
    }
}

#[test]
fn a_failed_operation_changes_nothing() {
    let _weak = WeakHash::new(|name| u64::from(name[name.len() - 1]) << 56);
    let mut blocks = Blocks::default();
    let name = |n: u64| format!("{n:0>150}{}", (b'a' + (n % 26) as u8) as char).into_bytes();
    for n in 1..=1500 {
        add(&mut blocks, &name(n), n);
    }
    let mut random = Random::seed_from_u64(seed());
    let mut count = 1500;
    for n in 1501..2500 {
        let before = blocks.stored.clone();
        blocks.reads_left = Some(random.random_range(0..6));
        let inserted = insert(&KEY, &mut blocks, &name(n), InodeNo(n), FILE).is_ok();
        count += u64::from(inserted);
        let middle = blocks.stored.clone();
        assert!(inserted || middle == before);
        blocks.reads_left = Some(random.random_range(0..6));
        let removed = remove(&KEY, &mut blocks, &name(n - 1490)).is_ok();
        count -= u64::from(removed);
        assert!(removed || middle == blocks.stored);
        blocks.reads_left = None;
        if n % 50 == 0 {
            sound(&mut blocks, count);
        }
    }
}

#[test]
fn nodes_of_others_are_found() {
    let mut blocks = filled(500);
    let other = Key {
        ino: InodeNo(10),
        ..KEY
    };
    let older = Key { version: 2, ..KEY };
    for key in [other, older] {
        let found = lookup(&key, &mut blocks, b"file-1");
        let text = found.unwrap_err().to_string();
        assert!(text.contains("block 0"), "{text}");
        assert!(text.contains("another directory"), "{text}");
    }
    let second = blocks.stored[&2].clone();
    blocks.stored.insert(1, second);
    let (_, flaws) = flaws(&KEY, &mut blocks);
    assert_eq!(flaws, ["directory block 1, byte 24: node of another block"]);
}

#[test]
fn check_finds_holes_strays_and_wrong_hashes() {
    let mut blocks = filled(500);
    let second = blocks.stored.remove(&2).unwrap();
    let (_, found) = flaws(&KEY, &mut blocks);
    assert_eq!(found, ["directory block 2 is missing"]);
    blocks.stored.insert(2, second);
    blocks.stored.insert(77, Arc::new(vec![0; 512].into()));
    let (entries, found) = flaws(&KEY, &mut blocks);
    assert_eq!(entries, 500);
    assert_eq!(found, ["directory block 77 belongs to no node"]);
    blocks.stored.remove(&77);
    let reseeded = Key {
        hash_seed: 8,
        ..KEY
    };
    assert_eq!(flaws(&reseeded, &mut blocks).1.len(), 500);
}

#[test]
fn check_finds_a_name_that_is_there_twice() {
    let _weak = WeakHash::new(|_| 1 << 40);
    let mut blocks = Blocks::default();
    add(&mut blocks, b"aaaa", 1);
    add(&mut blocks, b"aaab", 1);
    let mut data = blocks.stored[&0].to_vec();
    let at = data.windows(4).position(|name| name == b"aaab").unwrap();
    data[at + 3] = b'a';
    blocks.stored.insert(0, Arc::new(data.into()));
    let (entries, found) = flaws(&KEY, &mut blocks);
    assert_eq!(entries, 2);
    assert_eq!(found, ["directory block 0: \"aaaa\" is there twice"]);
}

#[test]
fn an_entry_with_a_bad_kind_or_name_is_damage() {
    let blocks = filled(1);
    let good = blocks.stored[&0].to_vec();
    let entry = size_of::<NodeHeader>();
    for (at, byte) in [
        (entry + 16, 3),
        (entry + 16, 0),
        (entry + 8, 0),
        (entry + 18, b'/'),
    ] {
        let mut data = good.clone();
        data[at] = byte;
        let mut bad = Blocks::default();
        bad.stored.insert(0, Arc::new(data.into()));
        let listing = list(&KEY, &mut bad, 0, &mut |_, _, _, _| true);
        assert!(matches!(listing, Err(Error::Damaged { .. })), "byte {at}");
        assert!(!flaws(&KEY, &mut bad).1.is_empty());
    }
}

/// A search stops at the name; a change checks the rest before it edits.
#[test]
fn a_leaf_with_a_flaw_behind_the_name_is_read_and_not_changed() {
    let blocks = filled(3);
    let mut data = blocks.stored[&0].to_vec();
    data[6] += 1; // one entry more than exist
    let mut bad = Blocks::default();
    bad.stored.insert(0, Arc::new(data.into()));
    let first = listed(&mut filled(3), 0, 1)[0].0.clone();
    let found = search(&KEY, &mut bad, &first).unwrap().unwrap();
    assert_eq!(Some(found.leads_to().0.0), find(&mut bad, &first));
    let refused = |outcome: Result<()>| {
        assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
    };
    refused(remove_entry(&KEY, &mut bad, found));
    refused(remove(&KEY, &mut bad, &first).map(|_| ()));
    refused(replace(&KEY, &mut bad, &first, InodeNo(9), FILE).map(|_| ()));
    refused(insert(&KEY, &mut bad, b"new", InodeNo(9), FILE));
    assert_eq!(bad.writes, 0);
    // A leaf that an earlier change has checked, or made, is not checked again.
    bad.checked = true;
    remove(&KEY, &mut bad, &first).unwrap();
    assert_eq!(bad.writes, 1);
}

#[test]
fn a_free_list_that_names_a_live_block_destroys_nothing() {
    let mut blocks = filled(400);
    let mut data = blocks.stored[&0].to_vec();
    let root = size_of::<NodeHeader>();
    data[root + 8] = 1;
    data[root + 16] = 1;
    blocks.stored.insert(0, Arc::new(data.into()));
    assert!(!flaws(&KEY, &mut blocks).1.is_empty());
    let before = blocks.stored[&1].len();
    let refused = (401..2000).map(|n| insert(&KEY, &mut blocks, &numbered(n), InodeNo(n), FILE));
    let refused = refused.filter(|outcome| matches!(outcome, Err(Error::Damaged { .. })));
    assert!(refused.count() > 0);
    assert!(blocks.stored[&1].len() >= before);
}

/// Runs every operation on damaged blocks: it may fail, but in bounded time and without a
/// panic.
fn exercise(blocks: &Blocks, random: &mut Random) {
    let mut blocks = blocks.clone();
    blocks.reads_left = Some(100_000);
    let _ = check(&KEY, &mut blocks, &mut |_| {});
    let mut previous = 0;
    let _ = list(&KEY, &mut blocks, 0, &mut |_, _, _, cookie| {
        assert!(cookie > previous, "a listing goes forward");
        previous = cookie;
        true
    });
    let _ = is_empty(&KEY, &mut blocks);
    for _ in 0..20 {
        let known = numbered(random.random_range(1..700));
        let _ = lookup(&KEY, &mut blocks, &known);
        let _ = replace(&KEY, &mut blocks, &known, InodeNo(3), FILE);
        let _ = remove(&KEY, &mut blocks, &known);
        let fresh = numbered(random.random());
        let _ = insert(&KEY, &mut blocks, &fresh, InodeNo(3), FILE);
    }
    assert_ne!(blocks.reads_left, Some(0), "no end");
}

#[test]
fn mutated_nodes_neither_panic_nor_loop() {
    let seed = seed();
    let mut random = Random::seed_from_u64(seed);
    for entries in [1, 100, 700] {
        let sound = filled(entries);
        let numbers: Vec<u64> = sound.stored.keys().copied().collect();
        for _ in 0..600 {
            let mut blocks = sound.clone();
            for _ in 0..random.random_range(1..4) {
                let victim = numbers[random.random_range(0..numbers.len())];
                let source = numbers[random.random_range(0..numbers.len())];
                let mut data = blocks.stored[&victim].to_vec();
                mutate(&mut data, &blocks.stored[&source], &mut random);
                blocks.stored.insert(victim, Arc::new(data.into()));
            }
            exercise(&blocks, &mut random);
        }
    }
}

fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    // The first bytes matter most.
    let reach = [data.len(), 64, 32][random.random_range(0..3)].min(data.len());
    if reach == 0 {
        return;
    }
    let at = random.random_range(0..reach);
    let any: u8 = random.random();
    match random.random_range(0..6) {
        0 => data[at] ^= 1 << random.random_range(0..8),
        1 => data[at] = [0, 1, 127, 128, 255, any][random.random_range(0..6)],
        2 => data.truncate(at),
        3 => data[at..reach].fill(any),
        4 => {
            let end = other.len().min(data.len());
            if at < end {
                data[at..end].copy_from_slice(&other[at..end]);
            }
        }
        _ => {
            let from = random.random_range(0..reach);
            let bytes = (reach - at.max(from)).min(16);
            data.copy_within(from..from + bytes, at);
        }
    }
}

/// As [`mutated_nodes_neither_panic_nor_loop`], but each header is repaired, so that the
/// damage below it is reached.
#[test]
fn mutated_entries_under_sound_headers() {
    let seed = seed();
    let mut random = Random::seed_from_u64(seed);
    let sound = filled(700);
    let numbers: Vec<u64> = sound.stored.keys().copied().collect();
    for _ in 0..1500 {
        let mut blocks = sound.clone();
        for _ in 0..random.random_range(1..4) {
            let victim = numbers[random.random_range(0..numbers.len())];
            let source = numbers[random.random_range(0..numbers.len())];
            let header = blocks.stored[&victim][..size_of::<NodeHeader>()].to_vec();
            let mut data = blocks.stored[&victim].to_vec();
            mutate(&mut data, &blocks.stored[&source], &mut random);
            data.resize(blocks.stored[&victim].len(), 0);
            data[..header.len()].copy_from_slice(&header);
            blocks.stored.insert(victim, Arc::new(data.into()));
        }
        exercise(&blocks, &mut random);
    }
}

#[test]
fn children_that_fit() {
    assert_eq!((max_children(0), max_children(1)), (245, 254));
}
