//! Extended attributes of several blocks: set, replaced, removed, moved, damaged, on
//! volumes filled with them, and on volumes of earlier programs without them.

use super::full::{ends_sound, least_bytes};
use super::parts::without;
use super::*;
use crate::format::{Fork, LONG_XATTRS, NodeId, PARTS, Place};
use crate::owners::Owner;
use crate::walk::attributes;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::IoSlice;
use varve_format::index::Index;
use varve_fs::{Error, SetAttr};

const VALUE_MAX: usize = 65_536;
/// Number of bytes of each attribute in addition to its value: a name of six, and five.
const BESIDE: usize = 11;

fn media() -> Vec<(Arc<dyn Medium>, u32)> {
    let mut media: Vec<(Arc<dyn Medium>, u32)> = [512, 1024, 2048, 4096]
        .map(|unit| (memory(8 << 20, unit), unit))
        .into();
    media.push((drive_of(4), 0));
    media
}

fn value(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 + at * seed) as u8).collect()
}

fn set(system: &System, ino: InodeNo, name: &[u8], value: &[u8]) -> varve_fs::Result<()> {
    system.setxattr(&Caller::root(), ino, name, value, false, false)
}

fn get(system: &System, ino: InodeNo, name: &[u8]) -> varve_fs::Result<Vec<u8>> {
    system.getxattr(&Caller::root(), ino, name)
}

fn remove(system: &System, ino: InodeNo, name: &[u8]) -> varve_fs::Result<()> {
    system.removexattr(&Caller::root(), ino, name)
}

/// Returns the places of a file's attributes, and the place of the node above them.
fn places(system: &System, ino: InodeNo) -> (Place, Vec<Place>) {
    let layout = system.layout();
    let tables = layout.tables.read();
    let image = tables.image(&layout.store, ino.0).unwrap();
    let fetch = |id, place: &Place| tables.node(&layout.store, id, place);
    let blocks = attributes(layout.measures(), &image, &fetch).unwrap();
    (image.xattrs, blocks.into_iter().map(|(_, at)| at).collect())
}

/// Returns the number of live units, once nothing is pending any more.
fn settled(system: &System) -> u64 {
    system.sync().unwrap();
    system.layout().checkpoint().unwrap();
    system.layout().writer.lock().space.tree_units()
}

#[test]
fn attributes_of_every_length_are_there_after_everything() {
    let lengths = [
        100,
        4096 - BESIDE,
        4097 - BESIDE,
        8192,
        30_000,
        VALUE_MAX,
        3000,
        VALUE_MAX,
        20_000,
        1,
    ];
    for (medium, unit) in media() {
        let mut system = made(&medium, unit);
        let file = create(&system, "file");
        write(&system, file, 0, &[1; 100_000]).unwrap();
        let before = settled(&system);
        for (nth, &bytes) in lengths.iter().enumerate() {
            let content = value(nth, bytes);
            set(&system, file, b"user.a", &content).unwrap();
            assert!(get(&system, file, b"user.a").unwrap() == content);
            match nth % 3 {
                0 => system.sync().unwrap(),
                1 => system.fsync(file, false).unwrap(),
                _ => system.layout().checkpoint().unwrap(),
            }
            let synced = nth % 3 < 2;
            if !synced {
                system.sync().unwrap();
            }
            let (_, blocks) = places(&system, file);
            assert_eq!(blocks.len(), (bytes + BESIDE).div_ceil(4096));
            system.layout().drop_caches();
            drop(system);
            sound(&medium);
            system = again(&medium);
            assert!(get(&system, file, b"user.a").unwrap() == content, "{bytes}");
            if nth == 5 {
                system.unmount().unwrap();
                system.layout().unmount().unwrap();
                sound(&medium);
                system = again(&medium);
                assert!(get(&system, file, b"user.a").unwrap() == content);
            }
        }
        remove(&system, file, b"user.a").unwrap();
        assert_eq!(settled(&system), before, "units of {unit} bytes");
        assert_eq!(read(&system, file, 0, 100_000), [1; 100_000]);
        ends_sound(system, &medium);
    }
}

#[test]
fn as_many_attributes_as_there_is_room_for_and_not_one_byte_more() {
    for (medium, unit) in media() {
        let system = made(&medium, unit);
        let (file, other) = (create(&system, "file"), create(&system, "other"));
        let before = settled(&system);
        let most = system.layout().geometry().xattr_bytes;
        assert_eq!(most, 130_560);
        let first = value(1, VALUE_MAX);
        let rest = most - VALUE_MAX - 2 * BESIDE;
        let second = value(2, rest);
        set(&system, file, b"user.a", &first).unwrap();
        set(&system, file, b"user.b", &second).unwrap();
        let more = set(&system, file, b"user.c", b"");
        assert!(matches!(more, Err(Error::NoSpace)), "{more:?}");
        let more = set(&system, file, b"user.b", &value(3, rest + 1));
        assert!(matches!(more, Err(Error::NoSpace)), "{more:?}");
        let more = set(&system, file, b"user.a", &value(3, VALUE_MAX + 1));
        assert!(matches!(more, Err(Error::Range)), "{more:?}");
        set(&system, other, b"user.a", &first).unwrap();
        system.sync().unwrap();
        drop(system);
        sound(&medium);
        let system = again(&medium);
        assert!(get(&system, file, b"user.a").unwrap() == first);
        assert!(get(&system, file, b"user.b").unwrap() == second);
        assert!(get(&system, other, b"user.a").unwrap() == first);
        // The remaining attributes are rewritten.
        remove(&system, file, b"user.a").unwrap();
        assert!(get(&system, file, b"user.b").unwrap() == second);
        system.sync().unwrap();
        drop(system);
        let system = again(&medium);
        assert!(get(&system, file, b"user.b").unwrap() == second);
        let root = Caller::root();
        for name in [&b"file"[..], b"other"] {
            (system.unlink(&root, InodeNo::ROOT, name)).unwrap();
        }
        // There are two inodes less, which may have had a block.
        assert!(settled(&system) <= before);
        ends_sound(system, &medium);
    }
}

/// With records of 4096 bytes, a record of changes names 32 places; with 512 bytes the
/// transaction is a full one. Between two folds the attributes are set, removed and
/// moved.
#[test]
fn long_attributes_are_a_brief_transaction_where_a_record_says_them() {
    for (medium, brief) in [(memory(8 << 20, 4096), true), (memory(8 << 20, 512), false)] {
        let unit = if brief { 4096 } else { 512 };
        let system = made(&medium, unit);
        let file = create(&system, "file");
        system.checkpoint().unwrap();
        let mut expected = Vec::new();
        let counted = system.layout().statistics();
        for (round, bytes) in [60_000, 3000, VALUE_MAX, 9000, 5000]
            .into_iter()
            .enumerate()
        {
            expected = value(round, bytes);
            set(&system, file, b"user.a", &expected).unwrap();
            system.fsync(file, false).unwrap();
        }
        let counts = system.layout().statistics();
        let (all, short) = (
            counts.transactions - counted.transactions,
            counts.brief - counted.brief,
        );
        assert_eq!(all, 5);
        assert_eq!(short >= 4, brief, "{short} of {all}");
        drop(system);
        sound(&medium);
        let system = again(&medium);
        assert!(get(&system, file, b"user.a").unwrap() == expected);
        ends_sound(system, &medium);
    }
}

/// Every other block between long attributes is removed, so that regions are worth
/// emptying.
#[test]
fn the_compactor_moves_blocks_and_nodes_of_attributes() {
    for (medium, unit) in media() {
        made(&medium, unit).layout().unmount().unwrap();
        let options = VlfsMountOptions {
            seed: Some(2),
            compaction: Watermarks::ALWAYS,
            ..VlfsMountOptions::default()
        };
        let mount = || {
            let layout = Vlfs::mount(Arc::clone(&medium), clock(), options.clone()).unwrap();
            FileSystem::mount(Arc::new(layout), clock(), super::options()).unwrap()
        };
        let mut system = mount();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(unit.into());
        let mut files = Vec::new();
        for nth in 0..20 {
            let file = create(&system, &format!("file{nth}"));
            let filler = create(&system, &format!("filler{nth}"));
            write(&system, filler, 0, &vec![nth as u8; 60_000]).unwrap();
            let bytes = random.random_range(1..VALUE_MAX);
            set(&system, file, b"user.a", &value(nth, bytes)).unwrap();
            system.sync().unwrap();
            files.push((file, bytes));
        }
        let moved = |system: &System| {
            let before: Vec<_> = files
                .iter()
                .map(|&(file, _)| places(system, file))
                .collect();
            system.layout().compact(u64::MAX, &|_| true).unwrap();
            let after = files.iter().map(|&(file, _)| places(system, file));
            let pairs = before.into_iter().zip(after);
            pairs.fold((0, 0), |(nodes, blocks), (before, after)| {
                let changed = before.1.iter().zip(&after.1).filter(|(a, b)| a != b);
                let node = before.1.len() > 1 && before.0 != after.0;
                (nodes + u64::from(node), blocks + changed.count())
            })
        };
        let mut all = (0, 0);
        for round in 0..6 {
            for nth in (round..20).step_by(6) {
                let (root, name) = (Caller::root(), format!("filler{nth}"));
                (system.unlink(&root, InodeNo::ROOT, name.as_bytes())).unwrap();
            }
            system.sync().unwrap();
            system.layout().checkpoint().unwrap();
            let (nodes, blocks) = moved(&system);
            all = (all.0 + nodes, all.1 + blocks);
            // They are read as they were moved, and after a crash; then another mount
            // learns the owners.
            for again in [false, true] {
                if again {
                    system.layout().drop_caches();
                    drop(system);
                    sound(&medium);
                    system = mount();
                }
                for (nth, &(file, bytes)) in files.iter().enumerate() {
                    assert!(get(&system, file, b"user.a").unwrap() == value(nth, bytes));
                }
            }
        }
        assert!(all.0 > 0 && all.1 > 20, "units of {unit}: {all:?} moved");
        assert_eq!(system.layout().statistics().units_immovable, 0);
        for (nth, &(file, _)) in files.iter().enumerate() {
            match nth % 3 {
                0 => remove(&system, file, b"user.a").unwrap(),
                1 => set(&system, file, b"user.a", b"short").unwrap(),
                _ => set(&system, file, b"user.a", &value(nth, VALUE_MAX)).unwrap(),
            }
        }
        system.layout().compact(u64::MAX, &|_| true).unwrap();
        ends_sound(system, &medium);
    }
}

/// Returns the region of a place and its live content, as the compactor reads it.
fn claimed(system: &System, place: &Place) -> Claims {
    let layout = system.layout();
    let mut writer = layout.writer.lock();
    writer.owners.begin(layout.measures().eager_units());
    while writer.owners.progress.is_some() {
        layout.learn(&mut writer);
    }
    let unit = layout.measures().extent_of(place).unit;
    let region = writer.space.region_of(unit);
    // Changes since the last fold were recorded when they were appended.
    let names = |block: usize, height, ino| NodeId {
        ino,
        fork: Fork::Attributes,
        height,
        index: block as u64,
    };
    let tables = layout.tables.read();
    for (&ino, image) in &tables.images {
        let fetch = |id, place: &Place| tables.node(&layout.store, id, place);
        let blocks = attributes(layout.measures(), image, &fetch).unwrap();
        for (nth, (_, place)) in blocks.iter().enumerate() {
            let unit = layout.measures().extent_of(place).unit;
            (writer.owners).note(unit, Owner::Tree(names(nth, 0, ino)));
        }
        let tree = crate::walk::Tree {
            measures: layout.measures(),
            image,
            fork: Fork::Content,
            fetch: &fetch,
        };
        tree.places(0, &mut |at, place| {
            if place.is_stored() {
                let unit = layout.measures().extent_of(&place).unit;
                writer.owners.note(unit, Owner::Tree(tree.id(at)));
            }
            Ok(true)
        })
        .unwrap();
    }
    drop(tables);
    layout.claim(&writer, region)
}

/// Brief transactions move attributes that replaced longer or shorter ones in an
/// earlier transaction: attributes that a move does not name must not reappear.
#[test]
fn moved_attributes_are_no_longer_than_they_were() {
    for unit in [512, 4096] {
        for (first, second) in [(60_000, 9000), (60_000, 3000), (3000, 20_000), (9000, 3500)] {
            let medium = memory(8 << 20, unit);
            let system = made(&medium, unit);
            let file = create(&system, "file");
            let filler = create(&system, "filler");
            set(&system, file, b"user.a", &value(1, first)).unwrap();
            write(&system, filler, 0, &[1; 4096 * 120]).unwrap();
            system.checkpoint().unwrap();
            // The file extends beyond the region with inodes and nodes.
            for nth in 0..12 {
                write(&system, filler, nth * 4096 * 8, &[2; 4096 * 8]).unwrap();
                system.fsync(filler, false).unwrap();
            }
            set(&system, file, b"user.a", &value(2, second)).unwrap();
            system.fsync(file, false).unwrap();
            let (_, blocks) = places(&system, file);
            let layout = system.layout();
            let before = layout.statistics();
            layout.move_claims(claimed(&system, &blocks[0])).unwrap();
            let after = layout.statistics();
            let (_, moved) = places(&system, file);
            assert_eq!(moved.len(), blocks.len());
            assert_ne!(moved[0], blocks[0]);
            let transactions = after.transactions - before.transactions;
            assert!(transactions > 0);
            // A record of 512 bytes cannot contain the changes of five blocks and an
            // inode. The transaction was then full, and a node is in the region, too.
            let brief = unit == 4096 || second <= 9000;
            assert!(!brief || after.brief - before.brief == transactions);
            drop(system);
            sound(&medium);
            let system = again(&medium);
            let changes = system.layout().recovery_report().changes;
            assert!(!brief || changes > 0);
            assert!(get(&system, file, b"user.a").unwrap() == value(2, second));
            assert_eq!(read(&system, filler, 0, 4096 * 96), [2; 4096 * 96]);
            ends_sound(system, &medium);
        }
    }
}

fn flip(medium: &Arc<dyn Medium>, byte: u64) {
    let at = byte / 512 * 512;
    let mut sector = [0; 512];
    medium.read(at, &mut sector).unwrap();
    sector[(byte - at) as usize] ^= 4;
    medium.write(at, &[IoSlice::new(&sector)]).unwrap();
}

#[test]
fn damage_of_a_node_or_a_block_names_the_inode_and_is_found() {
    for (medium, unit) in media() {
        let system = made(&medium, unit);
        let file = create(&system, "file");
        write(&system, file, 0, b"content").unwrap();
        set(&system, file, b"user.a", &value(1, VALUE_MAX)).unwrap();
        system.unmount().unwrap();
        system.layout().unmount().unwrap();
        let (node, blocks) = places(&system, file);
        drop(system);
        let all: Vec<Place> = [node].into_iter().chain(blocks).collect();
        for place in all {
            for byte in [0, 13, 100, 511] {
                let at = place.sector * 512 + byte;
                flip(&medium, at);
                let system = again(&medium);
                match get(&system, file, b"user.a") {
                    Err(Error::Damaged { ino, .. }) => assert_eq!(ino, Some(file)),
                    other => panic!("{other:?} with damage at {at}"),
                }
                assert_eq!(read(&system, file, 0, 100), b"content");
                drop(system);
                let found = check(Arc::clone(&medium), clock(), true).unwrap().problems;
                let named = format!("inode {file}");
                let tells = |problem: &String| {
                    problem.contains(&named) || problem.starts_with(&format!("{file}, block"))
                };
                assert!(found.iter().any(tells), "{found:?}");
                flip(&medium, at);
            }
        }
        sound(&medium);
    }
}

/// A node with correct checksums leads to other blocks than those of the attributes.
#[test]
fn attributes_with_blocks_amiss_are_refused_where_they_are_read() {
    let spoilers: [fn(&mut [Place]); 4] = [
        |slots| slots[1] = Place::NONE,
        |slots| slots.rotate_right(1),
        |slots| slots[0].sectors = 1,
        |slots| slots.fill(Place::NONE),
    ];
    for (nth, spoil) in spoilers.into_iter().enumerate() {
        let medium = memory(8 << 20, 4096);
        let system = made(&medium, 0);
        let file = create(&system, "file");
        set(&system, file, b"user.a", &value(1, 20_000)).unwrap();
        system.fsync(file, false).unwrap();
        let layout = system.layout();
        // This is the state that readers see, and that is written next.
        {
            let mut tables = layout.tables.write();
            let id = NodeId {
                ino: file.0,
                fork: Fork::Attributes,
                height: 1,
                index: 0,
            };
            let mut node = (*tables.nodes[&id]).clone();
            spoil(&mut node.slots);
            tables.nodes.insert(id, Arc::new(node));
        }
        layout.checkpoint().unwrap();
        drop(system);
        let system = again(&medium);
        match get(&system, file, b"user.a") {
            Err(Error::Damaged { ino, .. }) => assert_eq!(ino, Some(file), "spoiler {nth}"),
            other => panic!("{other:?} with spoiler {nth}"),
        }
        let found = check(Arc::clone(&medium), clock(), false).unwrap().problems;
        let named = format!("inode {file}");
        assert!(found.iter().any(|told| told.contains(&named)), "{found:?}");
    }
}

#[test]
fn volumes_from_before_keep_their_limit() {
    for unit in [512, 4096] {
        for bits in [LONG_XATTRS, LONG_XATTRS | PARTS] {
            let medium = memory(8 << 20, unit);
            made(&medium, unit).layout().unmount().unwrap();
            without(&medium, bits);
            let mut system = again(&medium);
            assert_eq!(system.layout().geometry().xattr_bytes, 4096);
            let file = create(&system, "file");
            for bytes in [100, 3000, 4096 - BESIDE, 1] {
                set(&system, file, b"user.a", &value(1, bytes)).unwrap();
                let more = set(&system, file, b"user.a", &value(1, 4097 - BESIDE));
                assert!(matches!(more, Err(Error::NoSpace)), "{more:?}");
                system.fsync(file, false).unwrap();
                drop(system);
                sound(&medium);
                system = again(&medium);
                assert!(get(&system, file, b"user.a").unwrap() == value(1, bytes));
                system.layout().compact(u64::MAX, &|_| true).unwrap();
            }
            ends_sound(system, &medium);
        }
    }
}

#[test]
fn long_attributes_are_refused_on_a_volume_that_has_none() {
    for unit in [512, 4096] {
        let medium = memory(8 << 20, unit);
        let system = made(&medium, unit);
        let file = create(&system, "file");
        set(&system, file, b"user.a", &value(1, VALUE_MAX)).unwrap();
        system.unmount().unwrap();
        system.layout().unmount().unwrap();
        without(&medium, LONG_XATTRS);
        let system = again(&medium);
        let found = system.getattr(file);
        assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
        let found = check(Arc::clone(&medium), clock(), true).unwrap().problems;
        assert!(
            found.iter().any(|told| told.contains("height")),
            "{found:?}"
        );
    }
}

/// Files with attributes until the volume is full, to the last block.
struct Full {
    medium: Arc<dyn Medium>,
    system: System,
    /// File, name of the attribute, and number of bytes.
    attributes: Vec<(InodeNo, String, usize)>,
    names: Vec<String>,
    empty: u64,
}

fn filled(medium: Arc<dyn Medium>, unit_bytes: u32, seed: u64) -> Full {
    let options = VlfsFormatOptions {
        unit_bytes,
        inodes: medium.geometry().size / 4096,
        seed: Some(seed),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock(), &options).unwrap();
    FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
    let system = again(&medium);
    let empty = settled(&system);
    let filler = create(&system, "filler");
    let mut full = Full {
        medium,
        system,
        attributes: Vec::new(),
        names: vec!["filler".to_owned()],
        empty,
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let root = Caller::root();
    let mut failures = 0;
    while failures < 20 {
        let name = format!("file{}", full.names.len());
        let bytes = name.as_bytes();
        let made = (full.system).mknod(&root, InodeNo::ROOT, bytes, 0o100644, 0);
        let Ok(made) = made else { break };
        full.names.push(name);
        for nth in 0..random.random_range(1..8) {
            let name = format!("user.{nth}");
            let most = [300, 5000, 40_000, VALUE_MAX][random.random_range(0..4)];
            let bytes = random.random_range(1..=most);
            match set(&full.system, made.ino, name.as_bytes(), &vec![1; bytes]) {
                Ok(()) => full.attributes.push((made.ino, name, bytes)),
                Err(Error::NoSpace) => failures += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    for bytes in [4096, 512] {
        let mut at = full.system.getattr(filler).unwrap().size;
        while write(&full.system, filler, at, &vec![1; bytes]).is_ok() {
            at += bytes as u64;
        }
    }
    full
}

impl Full {
    fn told(&self) -> String {
        let layout = self.system.layout();
        let measures = layout.measures();
        let (free, live) = (self.system.statfs().free, layout.statistics().blocks_live);
        format!(
            "units of {} on {} blocks, reserve {}: {free} free, {live} live",
            measures.unit_bytes, measures.blocks, measures.reserve_blocks
        )
    }

    /// Removes everything at once, with the files: the tree is as it was.
    fn ends_empty(self) {
        let root = Caller::root();
        for name in &self.names {
            let gone = (self.system).unlink(&root, InodeNo::ROOT, name.as_bytes());
            gone.unwrap_or_else(|error| panic!("{name}: {error}; {}", self.told()));
        }
        self.system.sync().unwrap();
        while self.system.write_back().unwrap() {}
        // The allowance is for the growth of the root directory, and for the nodes of
        // it.
        let directory = 4 * u64::from(self.system.layout().measures().units_per_block());
        let left = settled(&self.system);
        assert!(left <= self.empty + directory, "{left}; {}", self.told());
        ends_sound(self.system, &self.medium);
    }
}

fn full_media() -> Vec<(Arc<dyn Medium>, u32)> {
    let mut media: Vec<(Arc<dyn Medium>, u32)> = Vec::new();
    for unit in [512, 1024, 2048, 4096] {
        media.push((memory(least_bytes(unit), unit), unit));
        media.push((memory(6 << 20, unit), unit));
    }
    media.push((drive_of(3), 0));
    media
}

#[test]
fn on_a_full_volume_every_attribute_can_be_removed() {
    for seed in 1..4 {
        for (medium, unit) in full_media() {
            let mut full = filled(medium, unit, seed);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            full.attributes.shuffle(&mut random);
            let all = std::mem::take(&mut full.attributes);
            assert!(all.len() > 5, "{} attributes", all.len());
            for (nth, (file, name, _)) in all.iter().enumerate() {
                let gone = remove(&full.system, *file, name.as_bytes());
                gone.unwrap_or_else(|error| {
                    panic!("{nth} of {}: {error}; {}", all.len(), full.told())
                });
                if nth % 5 == 0 {
                    full.system.sync().unwrap();
                }
                if nth % 50 == 49 {
                    drop(full.system);
                    full.system = again(&full.medium);
                    // Removals that were not synced are undone.
                    let mut left = all[..=nth].iter();
                    left.try_for_each(|(file, name, _)| {
                        match remove(&full.system, *file, name.as_bytes()) {
                            Err(Error::NoAttribute) | Ok(()) => Ok(()),
                            Err(error) => Err(error),
                        }
                    })
                    .unwrap();
                }
            }
            full.ends_empty();
        }
    }
}

#[test]
fn on_a_full_volume_attributes_are_replaced_for_ever_and_leak_nothing() {
    for (medium, unit) in full_media() {
        let mut full = filled(medium, unit, 7);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let first = settled(&full.system);
        for round in 2..8u8 {
            full.attributes.shuffle(&mut random);
            for (nth, (file, name, bytes)) in full.attributes.iter().enumerate() {
                let fill = vec![round; *bytes];
                let outcome = set(&full.system, *file, name.as_bytes(), &fill);
                assert!(
                    outcome.is_ok(),
                    "round {round}, {nth}: {bytes} bytes: {outcome:?}; {}",
                    full.told()
                );
                if nth % 7 == 0 {
                    full.system.fsync(*file, false).unwrap();
                }
            }
            let live = settled(&full.system);
            assert!(live <= first, "{live}, {first} at first");
            drop(full.system);
            sound(&full.medium);
            full.system = again(&full.medium);
            for (file, name, bytes) in &full.attributes {
                let found = get(&full.system, *file, name.as_bytes()).unwrap();
                assert!(found == vec![round; *bytes]);
            }
        }
        full.ends_empty();
    }
}

/// Changes of attributes leave the space that removals need, also those of long
/// attributes.
#[test]
fn after_many_changes_of_modes_a_long_attribute_can_be_removed() {
    for (medium, unit) in full_media() {
        let mut full = filled(medium, unit, 11);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut files: Vec<InodeNo> = full.attributes.iter().map(|(file, ..)| *file).collect();
        let root = Caller::root();
        for round in 0..6 {
            files.shuffle(&mut random);
            for &file in &files {
                let set = SetAttr {
                    mode: Some(0o600 + round),
                    ..SetAttr::default()
                };
                match full.system.setattr(&root, file, &set) {
                    Ok(_) | Err(Error::NoSpace) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let all = std::mem::take(&mut full.attributes);
        for (nth, (file, name, _)) in all.iter().enumerate() {
            let gone = remove(&full.system, *file, name.as_bytes());
            gone.unwrap_or_else(|error| panic!("{nth}: {error}; {}", full.told()));
        }
        full.ends_empty();
    }
}
