//! Streams against what [`crate::trace`] reads into memory, samples, errors.

use super::*;
use crate::trace::{self, Format};
use std::io::Write;
use std::path::PathBuf;

fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(bytes)
        .unwrap();
    (directory, path)
}

fn streamed(survey: &Survey, source: &Source) -> Vec<Op> {
    let mut ops = Vec::new();
    let take = &mut |batch: &[Op]| ops.extend_from_slice(batch);
    survey.pass(source, false, take).unwrap();
    ops
}

fn blocks(count: u64) -> String {
    let mut text = String::new();
    let mut x = 1u64;
    for at in 0..count {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (sector, read) = ((x >> 33) % 100_000 * 8, u64::from(x >> 60 == 3));
        text += &format!("{at} 0 {sector} 12 {read}\n");
    }
    text
}

#[test]
fn a_stream_is_what_is_read_into_memory() {
    let office = "NTCreateX \\c\\a 0x40 0x2 1\nWriteX 1 0 8192 8192\nFlush 1\nClose 1\n\
        Rename \\c\\A \\c\\b\nNTCreateX \\c\\c 0x40 0x2 2\nWriteX 2 0 100 100\nUnlink \\c\\*\n";
    let phone = "1 20 open \"/a/b.db\" O_RDWR 5\n1 40 pwrite 5 4096 4096\n\
        1 30 pwrite 5 0 4096\n1 50 fsync 5 0\n";
    for (name, text) in [
        ("tpcc-small.ascii", blocks(2000)),
        ("netbench-client.txt", office.to_owned()),
        ("android-twitter.mobigen", phone.to_owned()),
    ] {
        let (directory, path) = file(name, text.as_bytes());
        let known = name.split_once('.').unwrap().0;
        let loaded = trace::load(directory.path(), known).unwrap();
        let source = Source::open(&path, None).unwrap();
        let survey = Survey::of(&source).unwrap();
        assert_eq!(streamed(&survey, &source), loaded.ops, "{name}");
        assert_eq!(survey.blocks, loaded.blocks, "{name}");
        assert_eq!(survey.live_max, loaded.live_max, "{name}");
        assert_eq!(survey.writes, loaded.writes, "{name}");
        assert_eq!(survey.locality.file_of, loaded.locality.file_of, "{name}");
    }
}

#[test]
fn what_is_too_much_is_sampled_by_region() {
    let (_directory, path) = file("t", blocks(20_000).as_bytes());
    let source = Source::open(&path, None).unwrap();
    assert_eq!(source.format(), Format::MqSim);
    let whole = Survey::of(&source).unwrap();
    let part = Survey::following(&source, 8000).unwrap();
    assert!(part.blocks <= 8000 && part.blocks > 2000, "{}", part.blocks);
    let share = part.writes as f64 / whole.writes as f64;
    let expected = 1.0 / part.sample.one_in() as f64;
    assert!((share / expected - 1.0).abs() < 0.25, "{share} {expected}");
    // All of a region, or nothing.
    let wanted = |place: &&(u64, u64)| part.sample.takes_region(place.0, place.1 / RUN);
    let kept: Vec<_> = whole.places.iter().filter(wanted).copied().collect();
    assert_eq!(kept, part.places);
}

#[test]
fn files_are_sampled_whole() {
    let mut text = String::new();
    for at in 0..400 {
        text += &format!(
            "openat(AT_FDCWD, \"/f{at}\", O_WRONLY|O_CREAT) = 3\nwrite(3, \"\"..., 8192) = 8192\n\
             close(3) = 0\n"
        );
    }
    let (_directory, path) = file("t", text.as_bytes());
    let source = Source::open(&path, None).unwrap();
    let part = Survey::following(&source, 300).unwrap();
    assert!(
        part.sample.one_in() >= 4 && part.blocks > 50,
        "{}",
        part.blocks
    );
    assert_eq!(part.writes, u64::from(part.blocks));
    assert_eq!(part.blocks % 2, 0, "two blocks of each file");
}

#[test]
fn a_file_larger_than_any_sample_is_told() {
    let text = "pwrite64(3</f>, \"\"..., 1048576, 0) = 1048576\n";
    let (_directory, path) = file("t", text.as_bytes());
    let source = Source::open(&path, None).unwrap();
    let refused = Survey::following(&source, 200);
    assert!(matches!(refused, Err(TraceError::Large { .. })));
    assert!(Survey::following(&source, 256).is_ok());
}

#[test]
fn a_trace_that_grows_is_refused() {
    let line = |at: u32| format!("pwrite64(3</f>, \"\"..., 4096, {}) = 4096\n", at * 4096);
    let (_directory, path) = file("t", line(0).as_bytes());
    let source = Source::open(&path, None).unwrap();
    let survey = Survey::of(&source).unwrap();
    std::fs::write(&path, [line(0), line(1)].concat()).unwrap();
    let grown = survey.pass(&source, false, &mut |_| ());
    assert!(matches!(grown, Err(TraceError::Grows { .. })), "{grown:?}");
}

#[test]
fn a_discard_at_the_end_of_all_numbers() {
    let last = u64::MAX / 512;
    let text = format!("8,0 0 1 0.1 9 Q W 0 + 8 [x]\n8,0 0 2 0.2 9 Q D {last} + 16 [x]\n");
    let (_directory, path) = file("t", text.as_bytes());
    let source = Source::open(&path, None).unwrap();
    assert_eq!(Survey::of(&source).unwrap().live_max, 1);
}

#[test]
fn discards_end_the_life_of_whole_blocks() {
    let text = "8,0 0 1 0.1 9 Q W 0 + 24 [x]\n8,0 0 2 0.2 9 Q D 4 + 16 [x]\n";
    let (_directory, path) = file("t", text.as_bytes());
    let source = Source::open(&path, None).unwrap();
    let survey = Survey::of(&source).unwrap();
    let trims: Vec<Op> = streamed(&survey, &source)
        .into_iter()
        .filter(|op| matches!(op, Op::Trim { .. }))
        .collect();
    assert_eq!(trims, [Op::Trim { block: 1 }]);
    assert_eq!((survey.live_max, survey.blocks), (3, 3));
}

#[test]
fn durability_can_be_wanted_of_every_write() {
    let office = "NTCreateX \\c\\a 0x40 0x2 1\nWriteX 1 0 8192 8192\nReadX 1 0 8192 8192\n\
        WriteX 1 0 100 100\nClose 1\n";
    let phone = "1 20 open \"/a/b.db\" O_RDWR 5\n1 30 pwrite 5 0 8192\n1 40 pread 5 0 4096\n\
        1 50 pwrite 5 0 4096\n";
    for text in ["0.5 5 0 16 0\n0.6 5 0 8 1\n0.7 5 8 8 0\n", office, phone] {
        let (_directory, path) = file("t", text.as_bytes());
        let source = Source::open(&path, None).unwrap();
        let survey = Survey::of(&source).unwrap();
        let mut syncs = 0;
        let count = |ops: &[Op]| ops.iter().filter(|op| matches!(op, Op::Sync)).count();
        survey
            .pass(&source, true, &mut |ops| syncs += count(ops))
            .unwrap();
        assert_eq!(syncs, 2, "{text}");
    }
}

#[test]
fn errors_name_the_line() {
    let refused = |text: &[u8]| {
        let (_directory, path) = file("t", text);
        let source = Source::open(&path, None)?;
        Survey::of(&source).map(|_| ())
    };
    let said = |text: &[u8]| refused(text).unwrap_err().to_string();
    let lines = "0.5 5 7 2 0\n".repeat(50);
    assert!(said(format!("{lines}0.5 5\n").as_bytes()).starts_with("t, record 51: "));
    assert!(
        said(&[lines.as_bytes(), b"\xff\xfe\n"].concat()).contains("record 51: it is not text")
    );
    let long = format!("{lines}{}\n", "x".repeat(2 << 20));
    assert!(said(long.as_bytes()).contains("longer than a mebibyte"));
    assert!(said(b"what is this\n").contains("no known format"));
    assert!(said(b"").contains("no known format"));
    assert!(said(b"0.5 5 7 2 1\n").contains("writes nothing"));
    let cut = [0x28, 0xb5, 0x2f, 0xfd, 1, 2];
    assert!(refused(&cut).is_err());
    let missing = Source::open(std::path::Path::new("/nowhere/t"), None);
    assert!(missing.unwrap_err().to_string().contains("/nowhere/t"));
}
