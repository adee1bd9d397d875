//! Files of the log are deleted, truncated or overwritten: all commits are present, or
//! the environment does not open.

use crate::common::{Model, Random, change, content, small};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Error, Options};

type Files = BTreeMap<String, Vec<u8>>;

const SEGMENT: usize = 64 << 10;

/// Damage to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Deleted,
    /// The file is truncated to this number of bytes.
    To(usize),
    /// Zeros from this offset on, of this length.
    Zeros(usize, usize),
}

const CUTS: [Cut; 11] = [
    Cut::Deleted,
    Cut::To(0),
    Cut::To(100),
    Cut::To(512),
    Cut::To(SEGMENT / 2),
    Cut::To(SEGMENT - 512),
    Cut::Zeros(0, SEGMENT),
    Cut::Zeros(0, 512),
    Cut::Zeros(0, SEGMENT / 2),
    Cut::Zeros(512, 512),
    Cut::Zeros(SEGMENT / 2, SEGMENT / 2),
];

impl Cut {
    fn make(self, files: &Files, name: &str) -> Files {
        let mut files = files.clone();
        let file = files.get_mut(name).unwrap();
        match self {
            Cut::Deleted => drop(files.remove(name)),
            Cut::To(bytes) => file.truncate(bytes),
            Cut::Zeros(at, bytes) => file[at..at + bytes].fill(0),
        }
        files
    }
}

/// Returns the segment at the beginning of a log file, if it was used.
fn segment(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[16..24].try_into().unwrap()) / SEGMENT as u64
}

/// Returns the files of a killed environment, and the content after each commit.
fn killed(seed: u64, commits: usize, options: &Options) -> (Files, Vec<Model>) {
    let mut random = Random::new(seed);
    let storage = MemoryStorage::new();
    let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
    let mut model = Model::new();
    let mut states = vec![model.clone()];
    for _ in 0..commits {
        let transaction = environment.begin_write();
        for _ in 0..4 {
            change(&mut random, &transaction, &mut model);
        }
        transaction.commit().unwrap();
        states.push(model.clone());
        environment.maintain().unwrap();
    }
    std::mem::forget(environment);
    (storage.files(), states)
}

fn opened(options: &Options, files: &Files) -> (Result<Model, Error>, Files) {
    let storage = MemoryStorage::with_files(files.clone());
    let environment = options.open_storage(Arc::new(storage.clone()));
    (
        environment.map(|environment| content(&environment)),
        storage.files(),
    )
}

fn assert_refused(what: &str, error: &Error) {
    let text = error.to_string();
    let says = matches!(error, Error::Damaged { file, .. } if file == "wal");
    assert!(says && text.contains("varve tp restore"), "{what}: {text}");
}

/// Applies every damage to every file. Only the loss of the very end of the log is
/// undetectable: of the last segment, to the state in which a crash before its write
/// would have left it.
fn explored(seed: u64, commits: usize, options: &Options) -> (usize, usize) {
    let (files, states) = killed(seed, commits, options);
    let (whole, _) = opened(options, &files);
    assert!(whole.unwrap() == states[commits], "nothing was cut");
    let logs: Vec<&String> = files
        .keys()
        .filter(|name| name.starts_with("wal-"))
        .collect();
    let last = logs.iter().max_by_key(|name| segment(&files[**name]));
    let highest = logs
        .iter()
        .max_by_key(|name| name[4..].parse::<u32>().unwrap());
    let (mut refused, mut unnoticed) = (0, 0);
    for name in &logs {
        for cut in CUTS {
            let what = format!("seed {seed}: {name} {cut:?}");
            let damaged = cut.make(&files, name);
            let mut read_only = options.clone();
            let (read, after) = opened(read_only.read_only(true), &damaged);
            assert!(after == damaged, "{what}: looking wrote");
            let (found, after) = opened(options, &damaged);
            assert_eq!(read.is_ok(), found.is_ok(), "{what}");
            match found {
                Ok(found) if found == states[commits] => {}
                Ok(found) => {
                    let end = Some(name) == last
                        && match cut {
                            Cut::Deleted | Cut::To(0) => Some(name) == highest,
                            Cut::To(_) => false,
                            Cut::Zeros(at, bytes) => {
                                at + bytes == SEGMENT || segment_ends(&files[*name], at + bytes)
                            }
                        };
                    assert!(
                        end && states.contains(&found),
                        "{what}: commits are missing"
                    );
                    unnoticed += 1;
                }
                Err(error) => {
                    assert_refused(&what, &error);
                    assert!(after == damaged, "{what}: it was changed");
                    refused += 1;
                }
            }
        }
    }
    (refused, unnoticed)
}

/// Returns true if no batch begins from here on.
fn segment_ends(bytes: &[u8], at: usize) -> bool {
    let own = segment(bytes);
    let mut units = bytes[at..].chunks(512);
    !units.any(|unit| unit.starts_with(b"VTPB") && segment(unit) == own)
}

#[test]
fn a_lost_part_of_the_log_is_told() {
    let mut all = (0, 0);
    for seed in 0..3 {
        // Everything is behind the last checkpoint, or most of it is recycled.
        for (checkpoint, commits) in [(16 << 20, 110), (96 << 10, 160)] {
            let mut options = small();
            options.checkpoint_after(checkpoint);
            let (refused, unnoticed) = explored(seed, commits, &options);
            eprintln!("{checkpoint}: {refused} refused, {unnoticed} unnoticed");
            all = (all.0 + refused, all.1 + unnoticed);
        }
    }
    assert!(all.0 > 150 && all.1 > 0, "{all:?}");
}
