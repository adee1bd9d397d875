//! One byte of the device is changed: verification finds it if and only if the offline
//! check finds damage in a live structure, and both name the same object.

use super::forged::verified;
use crate::patient::patient;
use crate::surgeon::Surgeon;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeMap, BTreeSet};
use varve_fs::InodeNo;
use varve_fsck::check::{FindingKind as Kind, Subject};
use varve_lfs::format::ifile::ImapState;

/// Returns the damage that the offline check finds, without structures that only it
/// examines.
fn offline(surgeon: &Surgeon) -> BTreeSet<String> {
    let ignored = [
        Kind::Summary,
        Kind::SuperblockCopy,
        Kind::CheckpointSlot,
        Kind::LogDamage,
        Kind::TooMany,
    ];
    let report = surgeon.check(true);
    let errors = report.errors.iter();
    errors
        .filter(|finding| !ignored.contains(&finding.kind))
        .map(|finding| finding.subject.to_string())
        .collect()
}

#[test]
fn a_flipped_byte_is_found_where_something_lives_and_nowhere_else() {
    let seed = std::env::var("VARVE_SEED").map_or(1, |text| text.parse().unwrap());
    let rounds = std::env::var("VARVE_ROUNDS").map_or(120, |text| text.parse().unwrap());
    eprintln!(
        "reproduce: VARVE_SEED={seed} cargo test -p varve-fsck --test integrity a_flipped_byte"
    );
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (whole, _) = patient();
    let first = whole.geometry.first_segment as usize;
    let used: Vec<usize> = (first..whole.bytes.len())
        .step_by(512)
        .filter(|&at| whole.bytes[at..at + 512].iter().any(|&byte| byte != 0))
        .collect();
    let (mut live, mut dead, mut unmounted) = (0, 0, 0);
    for _ in 0..rounds {
        let mut surgeon = whole.clone();
        let at = used[rng.random_range(0..used.len())] + rng.random_range(0..512);
        surgeon.bytes[at] ^= 1 << rng.random_range(0..8);
        let mut expected = offline(&surgeon);
        let refused = surgeon.check(false).recovery.refused_records;
        if !refused.is_empty() {
            unmounted += 1; // the older image is used: another volume
            continue;
        }
        let (report, stopped) = verified(&surgeon);
        let metadata = report.errors.iter().map(|f| f.subject.to_string());
        let data = report.files.iter().flat_map(|file| {
            let blocks = file
                .ranges
                .iter()
                .flat_map(|r| r.offset / 4096..(r.offset + r.length).div_ceil(4096));
            blocks.map(|block| {
                let ino = file.inode;
                Subject::Block { ino, block }.to_string()
            })
        });
        let found: BTreeSet<String> = metadata.chain(data).collect();
        // The offline check reports a directory's block twice.
        expected.retain(|text| {
            let owner = text.split(',').next().unwrap();
            owner == text || !found.contains(owner)
        });
        assert_eq!(found, expected, "byte {at}: {report:#?}");
        assert_eq!(stopped.is_some(), !report.errors.is_empty(), "byte {at}");
        for file in &report.files {
            assert!(file.path.is_some(), "byte {at}: {report:#?}");
        }
        match found.is_empty() {
            true => dead += 1,
            false => live += 1,
        }
    }
    eprintln!("{live} in live blocks, {dead} in dead ones, {unmounted} in the image's own");
    assert!(live > 0 && dead > 0);
}

#[test]
fn each_kind_of_block_is_named() {
    let (whole, files) = patient();
    let (large, home) = (files["large"], files["home"]);
    let mut places: BTreeMap<&str, (usize, Subject)> = BTreeMap::new();
    let mut surgeon = whole.clone();
    let byte = |sector: u64| sector as usize * 512;
    let block = |ino: InodeNo, block| Subject::Block { ino: ino.0, block };
    let pointer = surgeon.pointer(large, 0, 100);
    places.insert("data", (byte(pointer.sector()) + 77, block(large, 100)));
    let pointer = surgeon.pointer(files["long"], 0, 0);
    places.insert("link", (byte(pointer.sector()), block(files["long"], 0)));
    let pointer = surgeon.pointer(large, 1, 0);
    let node = Subject::Node {
        ino: large.0,
        height: 1,
        index: 0,
    };
    places.insert("index node", (byte(pointer.sector()) + 60, node));
    let pointer = surgeon.pointer(home, 0, 0);
    let inode = |ino: InodeNo| Subject::Inode(ino.0);
    places.insert("directory", (byte(pointer.sector()) + 30, inode(home)));
    let pointer = surgeon.inode(files["labelled"]).xattrs;
    places.insert(
        "attributes",
        (byte(pointer.sector()) + 3, inode(files["labelled"])),
    );
    if let ImapState::Used { place, .. } = surgeon.imap(large) {
        let at = byte(place.sector) + usize::from(place.slot) * 256 + 20;
        places.insert("inode", (at, inode(large)));
    }
    let number = surgeon.imap_block(large);
    surgeon.edit_ifile(number, &mut |_, pointer| {
        let at = byte(pointer.sector()) + 5;
        places.insert("inode map", (at, block(InodeNo::IFILE, number)));
        pointer
    });
    assert_eq!(places.len(), 7);
    for (kind, (at, subject)) in places {
        let mut surgeon = whole.clone();
        surgeon.bytes[at] ^= 4;
        let (report, stopped) = verified(&surgeon);
        match kind {
            "data" | "link" => {
                assert!(report.errors.is_empty() && stopped.is_none(), "{report:#?}");
                let file = &report.files[0];
                assert_eq!(Some(file.inode), subject.ino());
                let at = if kind == "data" { 100 * 4096 } else { 0 };
                assert_eq!(file.ranges[0].offset, at);
                assert!(file.path.as_deref().unwrap().starts_with("/home/"));
            }
            _ => {
                let named = report.errors.iter().any(|f| f.subject == subject);
                assert!(named && stopped.is_some(), "{kind}: {report:#?}");
            }
        }
    }
}
