//! Tests that `docs/guide/options.md` lists every option: each word of `mount -o`, each
//! option of mkfs and of the library, and every flag of the formats.

use super::Cli;
use super::mount_options::Chosen;
use clap::CommandFactory;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn source(path: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let text = fs::read_to_string(root.join(path)).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    code.to_owned()
}

/// The code words of the document, whole and in parts: `cleaner=off` is also `cleaner`
/// and `off`.
fn named() -> BTreeSet<String> {
    let text = source("docs/guide/options.md");
    let codes = text.split('`').skip(1).step_by(2);
    let parts = |code: &str| {
        let words = code.split(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
        let words: Vec<String> = words.map(str::to_owned).collect();
        words.into_iter().chain([code.to_owned()])
    };
    codes.flat_map(parts).collect()
}

/// Fails with all words that are not in the document. If fewer than `least` are known,
/// the search for them is broken.
#[track_caller]
fn all_named(kind: &str, known: &BTreeSet<String>, least: usize) {
    assert!(known.len() >= least, "only {known:?}");
    let named = named();
    let missing: Vec<&String> = known.difference(&named).collect();
    assert!(
        missing.is_empty(),
        "docs/guide/options.md does not list these: {kind} {missing:?}"
    );
}

/// Words in quotes before the `=>` of a line.
fn compared(source: &str) -> BTreeSet<String> {
    let arms = source.lines().filter_map(|line| line.split_once("=>"));
    let quoted = arms.flat_map(|(arm, _)| arm.split('"').skip(1).step_by(2));
    let words = quoted.filter(|word| !word.is_empty() && !word.ends_with('-'));
    words.map(str::to_owned).collect()
}

/// Of a word and its opposite, one is enough.
#[test]
fn every_word_of_a_mount_is_named() {
    let mut words = compared(&source("crates/core/cli/src/cli/mount_options.rs"));
    words.extend(compared(&source("crates/core/fuse/src/options.rs")));
    let has_opposite = |word: &String| {
        let opposite = word.strip_prefix("no");
        opposite.is_some_and(|opposite| words.contains(opposite))
    };
    let known: BTreeSet<String> = words.iter().filter(|w| !has_opposite(w)).cloned().collect();
    assert!(Chosen::default().apply("acl,holes,order=strict").is_ok());
    assert!(
        ["acl", "holes", "order=strict"]
            .iter()
            .all(|word| known.contains(*word))
    );
    all_named("mount -o", &known, 35);
}

#[test]
fn every_option_of_mkfs_is_named() {
    let cli = Cli::command();
    let mkfs = cli.find_subcommand("mkfs").unwrap();
    let longs = mkfs.get_arguments().filter_map(|option| option.get_long());
    let known = longs.map(|long| format!("--{long}")).collect();
    all_named("mkfs", &known, 20);
}

#[test]
fn every_choice_of_a_library_user_is_named() {
    let between = |path: &str, before: &str, behind: &str| -> Vec<String> {
        let text = source(path);
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(before));
        let names = lines.filter_map(|line| line.split_once(behind));
        let names = names.map(|(name, _)| name.to_owned());
        names.filter(|name| !name.contains(' ')).collect()
    };
    let setters = between(
        "crates/core/library/src/options/mod.rs",
        "pub fn ",
        "(&mut self",
    );
    let fields = between("crates/core/library/src/options/tuning.rs", "pub ", ": ");
    assert!(!setters.is_empty() && !fields.is_empty());
    all_named("varve::", &setters.into_iter().chain(fields).collect(), 30);
}

/// Names of flags: features by their names, bits of other structures as in
/// `docs/spec/log.md`: `summary.FIRST`.
fn flags(source: &str) -> BTreeSet<String> {
    let (mut found, mut group, mut feature) = (BTreeSet::new(), None, false);
    for line in source.lines() {
        let text = line.trim();
        if let Some(name) = text.strip_prefix("pub mod ").or(text.strip_prefix("mod ")) {
            group = name.strip_suffix(" {").and_then(|name| match name {
                "flags" => Some("inode"),
                name => name.strip_suffix("_flags"),
            });
        } else if line == "}" {
            group = None;
        }
        if text.starts_with("/// Incompatible feature") {
            feature = true;
        }
        let constant = text.strip_prefix("pub const ").and_then(|rest| {
            let (name, value) = rest.split_once(": u")?;
            let (_, value) = value.split_once(" = ")?;
            let bit = value.strip_suffix(';')?;
            let is_bit = bit.starts_with("1 << ") || (feature && bit.parse::<u64>().is_ok());
            is_bit.then_some(name)
        });
        if let Some(name) = constant {
            match group {
                Some("incompat" | "read_only_compat") => found.insert(name.to_owned()),
                Some(group) => found.insert(format!("{group}.{name}")),
                None => feature && found.insert(name.to_owned()),
            };
            feature = false;
        }
    }
    found
}

#[test]
fn every_flag_of_a_format_is_named() {
    let mut known = flags(&source("crates/core/fs/src/inode.rs"));
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for folder in [
        "core/format/src",
        "core/log/src/format",
        "core/log/src/shipping",
        "layouts/vlfs/src/format",
        "layouts/in-place/src/format",
    ] {
        for file in fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "rs") {
                known.extend(flags(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    for flag in [
        "ALIGNED",
        "REPLAYED",
        "CHANGES",
        "IN_PLACE",
        "summary.FIRST",
        "inode.SYNC",
    ] {
        assert!(known.contains(flag), "{flag} is not found: {known:?}");
    }
    all_named("flags", &known, 40);
}
