//! Tests that the program accepts the command lines and options in the documents.

use super::mount_options::Chosen;
use super::{Cli, helpers};
use clap::{Command, CommandFactory, Parser};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// All Markdown below `folder`.
fn documents(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            into.push(path);
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let names = ["README.md", "CONTRIBUTING.md", "BENCHMARKS.md"];
    let mut pages: Vec<PathBuf> = names.iter().map(|name| root().join(name)).collect();
    documents(&root().join("docs"), &mut pages);
    let study = fs::read_dir(root().join("study")).unwrap();
    let study = study.map(|entry| entry.unwrap().path());
    pages.extend(study.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    pages
}

/// Splits a page into the lines of its shell blocks and the text outside of blocks.
fn parts(page: &Path) -> (Vec<String>, String) {
    let (mut lines, mut prose) = (Vec::new(), String::new());
    let mut fence: Option<String> = None;
    for line in fs::read_to_string(page).unwrap().lines() {
        match (line.trim_start().strip_prefix("```"), &fence) {
            (Some(kind), None) => {
                // The blocks of README.md are compiled as tests of the library.
                let compiled = page.ends_with("README.md") || !kind.starts_with("rust");
                assert!(compiled, "{}: nobody compiles that", page.display());
                fence = Some(kind.into());
            }
            (Some(_), Some(_)) => fence = None,
            (None, Some(kind)) if kind == "sh" => lines.push(line.into()),
            (None, Some(_)) => {}
            (None, None) => prose += &format!("{line}\n"),
        }
    }
    (lines, prose)
}

/// The words of a call of the program in a line of a shell, if there is one; of `mount -t
/// varve` and similar calls, those that reach the helper.
fn call(line: &str) -> Option<Vec<String>> {
    let line = line.split(" #").next().unwrap_or(line);
    let line = line.split(" | ").next().unwrap_or(line);
    let line = line.trim_end().trim_end_matches(" &");
    let mut words: Vec<String> = line.split_whitespace().map(String::from).collect();
    if let Some(at) = words.windows(2).position(|pair| pair == ["-t", "varve"]) {
        words.drain(at..at + 2);
        words[0] += ".varve";
        return Some(words);
    }
    let called = |at: &usize| words[*at] == "varve" && (*at == 0 || words[at - 1] != "-p");
    let begin = (0..words.len()).find(called)?;
    Some(words[begin..].to_vec())
}

#[test]
fn every_line_of_a_shell_is_accepted() {
    let mut seen = 0;
    for page in pages() {
        for line in parts(&page).0 {
            let Some(words) = call(&line) else { continue };
            let parsed = helpers::parse(words.iter().map(OsString::from).collect());
            if let Err((error, _)) = parsed {
                panic!("{}: {line}\n{error}", page.display());
            }
            let option = words.iter().position(|word| word == "-o");
            if let Some(list) = option.and_then(|at| words.get(at + 1)) {
                let applied = Chosen::default().apply(list);
                applied.unwrap_or_else(|error| panic!("{}: {line}\n{error}", page.display()));
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} lines found");
}

/// The commands that the systemd units start.
#[test]
fn every_command_of_a_unit_is_accepted() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/systemd");
    let mut seen = 0;
    for unit in fs::read_dir(units).unwrap() {
        let path = unit.unwrap().path();
        for line in fs::read_to_string(&path).unwrap().lines() {
            if let Some(words) = line.strip_prefix("ExecStart=/usr/bin/") {
                let parsed = Cli::try_parse_from(words.split_whitespace());
                assert!(parsed.is_ok(), "{}: {line}", path.display());
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 2);
}

/// All long options of a command and its subcommands.
fn options(command: &Command, into: &mut BTreeSet<String>) {
    let longs = command
        .get_arguments()
        .filter_map(|option| option.get_long());
    into.extend(longs.map(|long| format!("--{long}")));
    for below in command.get_subcommands() {
        options(below, into);
    }
}

/// In running text and tables, where words are placeholders.
#[test]
fn every_subcommand_and_option_in_the_text_exists() {
    let mut cli = Cli::command();
    cli.build();
    let mut known = BTreeSet::new();
    options(&cli, &mut known);
    let mut seen = 0;
    for page in [
        root().join("README.md"),
        root().join("docs/guide/operations.md"),
    ] {
        let prose = parts(&page).1;
        let codes = prose.split('`').skip(1).step_by(2);
        for code in codes {
            let shown = || format!("{}: `{code}`", page.display());
            let mut words = code.split(|c: char| c.is_whitespace() || "[]|\\=".contains(c));
            if words.next() != Some("varve") {
                if let Some(option) = code.split(' ').next().filter(|w| w.starts_with("--")) {
                    let option = option.split('=').next().unwrap_or(option);
                    assert!(known.contains(option), "{}", shown());
                    seen += 1;
                }
                continue;
            }
            let mut command = &cli;
            for word in words.filter(|word| !word.is_empty()) {
                if word.starts_with("--") {
                    let mut own = BTreeSet::new();
                    options(command, &mut own);
                    assert!(own.contains(word), "{}: {word}", shown());
                } else if let Some(below) = command.find_subcommand(word) {
                    command = below;
                } else {
                    let is_name = command.get_name() == cli.get_name();
                    assert!(!is_name, "{}: {word} is no subcommand", shown());
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "only {seen} found");
}
