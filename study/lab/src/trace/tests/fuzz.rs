//! Every reader under attack: lines that were good, changed at random. A reader
//! returns, for whatever it is given, and what it makes of a line is bounded.
//!
//! `VARVE_FUZZ_ROUNDS` (2000) says how often for each format, `VARVE_SEED` with
//! which seed.

use crate::trace::file_set::FileSet;
use crate::trace::format::{Format, Reader};
use crate::trace::lines::{LONGEST, Line};
use crate::trace::records::Event;
use crate::trace::{Sample, Source, Survey, block_trace, mobigen};
use varve_prove::random::Random;

/// A line of no format makes more operations: all blocks of the longest request
/// or those that lived before.
const MOST: usize = LONGEST as usize / 4096 + 2;

fn good(format: Format) -> &'static str {
    match format {
        Format::Blkparse => {
            "8,0 3 1 0.000000000 697 Q WS 223490 + 8 [x]\n8,0 3 2 0.5 697 Q DS 64 + 4096 [x]\n\
             8,0 3 3 0.6 697 Q FWS [x]\n8,16 3 3 0.6 697 Q R 0 + 8 [x]\nCPU0 (8,0):\n"
        }
        Format::Msr => {
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
             128166372003061629,hm,0,Read,383496192,32768,413\n\
             128166372003061630,hm,1,Write,0,4096,5\n"
        }
        Format::Tencent => "1538323200,8,16,1,7\n1538323199,0,8,0,8\n",
        Format::DiskSim | Format::MqSim => "0.5 5 7 2 0\n1.5 6 0 16 1\n48513000 0 7 2 0\n",
        Format::Netbench => {
            "NTCreateX \\c\\a 0x40 0x2 1\nWriteX 1 0 8192 8192\nReadX 1 0 99 99\nFlush 1\n\
             Close 1\nRename \\c\\a \\c\\b\nUnlink \\c\\*?b\nDeltree \\c\nFIND_FIRST \\c\\*\n"
        }
        Format::Mobigen => {
            "1 20 open \"/a/b.db\" O_RDWR|O_TRUNC 5\n1 40 pwrite 5 4096 4096\n1 30 write 5 9\n\
             2 50 fsync 5 0\n2 60 unlink \"/a/b.db\" 0\n2 70 pread 5 0 10\n"
        }
        Format::Strace => {
            "12 1700000000.1 openat(AT_FDCWD, \"/d/a\\\"\", O_RDWR|O_TRUNC|O_APPEND, 0644) = 3\n\
             12 12:00:00.5 write(3</d/a>, \"x\\\", (y\"..., 4096) = 4096\n\
             [pid 7] pwritev(3, [{iov_base=\"a\", iov_len=1}], 1, 0) = 1\n\
             [pid 7] fsync(3 <unfinished ...>\n[pid 7] <... fsync resumed>) = 0\n\
             lseek(3, 0, SEEK_SET) = 0x10\nrename(\"/d/a\", \"/d/b\") = -1 ENOENT (No)\n\
             dup2(3, 4) = 4\nftruncate(4, 0) = 0\n+++ exited with 0 +++\n"
        }
        Format::Vscsi => "",
    }
}

/// What parsers stumble over.
const WORDS: [&[u8]; 16] = [
    b"18446744073709551615",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"-1",
    b"1e308",
    b"NaN",
    b"inf",
    b"0",
    b"\"",
    b"\\",
    b"(",
    b")",
    b"<",
    b" ",
    b",",
    b"\xc3\xa9",
];

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.word() as u8,
            1 => {
                let word = WORDS[random.below(WORDS.len() as u64) as usize];
                bytes.splice(at..at, word.iter().copied());
            }
            2 => {
                let end = (at + random.below(12) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let end = (at + random.below(40) as usize).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() as u64 + 1) as usize;
                bytes.splice(to..to, copy);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
}

fn attack(format: Format, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = Format::of(bytes);
    let mut files = FileSet::default();
    match format.reader(&text) {
        Some(mut reader) => {
            for (at, text) in text.lines().enumerate() {
                let line = Line {
                    name: "t",
                    record: at + 1,
                    text,
                };
                one(&mut reader, &mut files, &line);
            }
        }
        None if format == Format::Vscsi => {
            for record in bytes.chunks(block_trace::VSCSI_BYTES) {
                if let Ok(request) = block_trace::vscsi_record(record) {
                    assert!(request.places().count() <= MOST);
                }
            }
        }
        None => {
            let _ = mobigen::read("t", bytes, FileSet::of(Sample::default()));
        }
    }
}

fn one(reader: &mut Reader, files: &mut FileSet, line: &Line<'_>) {
    match reader {
        Reader::Block(read) => {
            if let Ok(Some(Event::Request(r) | Event::Durable(r))) = read(line) {
                assert!(r.places().count() <= MOST, "{}", line.text);
            }
        }
        Reader::File(read) => {
            let before = files.seen().0;
            let _ = read(files, line);
            let mut ops = Vec::new();
            files.take(&mut ops);
            assert!(ops.len() <= MOST + before, "{}", line.text);
        }
    }
}

fn number(name: &str, usual: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn readers_survive_anything() {
    let (seed, rounds) = (number("VARVE_SEED", 1), number("VARVE_FUZZ_ROUNDS", 2000));
    eprintln!("reproduce: VARVE_SEED={seed} VARVE_FUZZ_ROUNDS={rounds} cargo test -p varve-lab");
    let mut random = Random::new(seed);
    for format in Format::ALL {
        attack(format, good(format).as_bytes());
        for _ in 0..rounds {
            let mut bytes = match format {
                Format::Vscsi => (0..96).map(|_| random.word() as u8).collect(),
                _ => good(format).as_bytes().to_vec(),
            };
            change(&mut bytes, &mut random);
            attack(format, &bytes);
        }
    }
}

/// From the file to the last pass: whatever a file holds, there is an answer.
#[test]
fn files_of_anything_are_replayed_or_refused() {
    let seed = number("VARVE_SEED", 1);
    let rounds = number("VARVE_FUZZ_ROUNDS", 2000) / 40;
    let mut random = Random::new(seed);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    let wanted = crate::replay::Wanted {
        policies: vec!["greedy".into(), "wolf".into()],
        utilisations: vec![0.9],
        synchronous: false,
        jobs: 1,
        seed: 1,
    };
    let mut replayed = 0;
    for round in 0..rounds {
        let format = Format::ALL[round as usize % Format::ALL.len()];
        let mut bytes = good(format).as_bytes().to_vec();
        change(&mut bytes, &mut random);
        std::fs::write(&path, &bytes).unwrap();
        let known = (round % 2 == 0).then_some(format);
        let Ok(source) = Source::open(&path, known) else {
            continue;
        };
        if let Ok(survey) = Survey::of(&source) {
            // Large volumes take long, and show nothing more.
            let small = survey.blocks < 4000;
            if small && crate::replay::replay_for(&source, &wanted, 5000).is_ok() {
                replayed += 1;
            }
        }
    }
    assert!(replayed > 0, "none of {rounds}");
}
