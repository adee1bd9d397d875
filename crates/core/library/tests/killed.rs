//! TPC-B on an image, in a process that is killed repeatedly: the sums agree and include
//! every committed transaction.
//!
//! The process is this test program itself: one test does nothing unless the environment
//! gives it an image.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use varve::{Error, File, Isolation, OpenOptions, TransactionOptions, Volume, VolumeOptions};

const IMAGE: &str = "VARVE_TEST_KILLED_IMAGE";
const ROUND: &str = "VARVE_TEST_KILLED_ROUND";
const THREADS: u64 = 4;
/// Number of accounts, tellers and branches, each with records of [`RECORD`] bytes.
const RECORDS: [u64; 3] = [200, 20, 4];
const RECORD: u64 = 100;
const NAMES: [&str; 4] = ["/accounts", "/tellers", "/branches", "/history"];

fn open(volume: &Volume) -> [File; 4] {
    NAMES.map(|name| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        options.append(name == "/history");
        options.open(volume, name).unwrap()
    })
}

/// Converts an error of a file in a transaction back into the library's error.
fn lost(error: std::io::Error) -> Error {
    *error.into_inner().unwrap().downcast().unwrap()
}

fn one(
    volume: &Volume,
    files: &[File; 4],
    options: &TransactionOptions,
    (number, random): (u64, u64),
) -> varve::Result<()> {
    let delta = (random >> 20) as i64 % 1000 - 500;
    volume.transact_with(options, |transaction| {
        for (file, records) in files.iter().zip(RECORDS) {
            let file = transaction.file(file)?;
            let at = random % records * RECORD;
            let mut balance = [0; 8];
            file.read_exact_at(&mut balance, at).map_err(lost)?;
            let balance = i64::from_le_bytes(balance) + delta;
            file.write_all_at(&balance.to_le_bytes(), at)
                .map_err(lost)?;
        }
        let entry = [number.to_le_bytes(), delta.to_le_bytes()].concat();
        transaction.file(&files[3])?.write_all(&entry).map_err(lost)
    })
}

/// Runs transactions until it is killed, and prints each after its commit.
#[test]
fn the_process_that_is_killed() {
    let Ok(image) = std::env::var(IMAGE) else {
        return;
    };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let volume = Volume::open(image).unwrap();
    let files = open(&volume);
    let kinds = [
        Isolation::Locking,
        Isolation::Serializable,
        Isolation::Snapshot,
    ];
    let options = TransactionOptions::new()
        .isolation(kinds[round as usize % 3])
        .subpage(round.is_multiple_of(2));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (volume, files, options) = (&volume, &files, &options);
            scope.spawn(move || {
                let mut random = round << 8 | thread | 1 << 40;
                for sequence in 0.. {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let number = round << 40 | thread << 32 | sequence;
                    match one(volume, files, options, (number, random >> 1)) {
                        Ok(()) => println!("committed {number}"),
                        Err(error) if error.is_conflict() => {} // after 64 attempts
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
}

fn sum(file: &File, bytes: u64) -> i64 {
    let mut all = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    let records = all.chunks_exact(bytes as usize);
    let balance = |record: &[u8]| i64::from_le_bytes(record[..8].try_into().unwrap());
    records.map(balance).sum()
}

/// Returns the number of times each transaction is in the history, and the sum of its
/// amounts.
fn history(file: &File) -> (BTreeMap<u64, u32>, i64) {
    let mut all = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    assert!(all.len().is_multiple_of(16), "half an entry");
    let (mut numbers, mut sum) = (BTreeMap::new(), 0);
    for entry in all.chunks_exact(16) {
        let word = |at: usize| <[u8; 8]>::try_from(&entry[at..at + 8]).unwrap();
        *numbers.entry(u64::from_le_bytes(word(0))).or_default() += 1;
        sum += i64::from_le_bytes(word(8));
    }
    (numbers, sum)
}

#[test]
fn the_books_agree_whenever_the_process_is_killed() {
    let host = tempfile::tempdir().unwrap();
    let image = host.path().join("bank.img");
    let volume = VolumeOptions::new().size(256 << 20).create(&image).unwrap();
    for (file, records) in open(&volume).iter().zip(RECORDS) {
        file.write_all_at(&vec![0; (records * RECORD) as usize], 0)
            .unwrap();
    }
    volume.close().unwrap();
    let mut committed = Vec::new();
    for round in 0..6 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["the_process_that_is_killed", "--exact", "--nocapture"]);
        command.env(IMAGE, &image).env(ROUND, round.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let first = lines.find(|line| line.contains("committed ")).unwrap();
        std::thread::sleep(Duration::from_millis(60 + 70 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in std::iter::once(first).chain(lines) {
            let told = line
                .split_once("committed ")
                .and_then(|(_, number)| number.parse().ok());
            // The last line may be truncated, and a part of a number would be a different
            // number.
            committed.extend(told.filter(|number: &u64| number >> 40 == round));
        }
        let volume = Volume::open(&image).unwrap();
        let files = open(&volume);
        let (numbers, of_history) = history(&files[3]);
        for file in &files[..3] {
            assert_eq!(sum(file, RECORD), of_history, "round {round}");
        }
        assert!(numbers.values().all(|count| *count == 1), "one entry twice");
        let missing = committed
            .iter()
            .filter(|number| !numbers.contains_key(number));
        assert_eq!(missing.count(), 0, "round {round}: committed, and gone");
        let more = numbers.len() - committed.len();
        assert!(
            more <= (round as usize + 1) * THREADS as usize,
            "{more} that nobody was told of"
        );
        eprintln!(
            "round {round}: {} committed, {} in the history",
            committed.len(),
            numbers.len()
        );
        volume.close().unwrap();
    }
    assert!(committed.len() > 60, "{}", committed.len());
}
