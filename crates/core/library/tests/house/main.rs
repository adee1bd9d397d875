//! Tests that the modules of a crate use each other in one direction only. A module is a
//! file or folder directly below `src` with its content. Module A uses module B
//!
//! - if A names B: `crate::b`, or `super::` repeated up to the root. A name that the root
//!   re-exports counts as a use of its original module.
//! - if A calls a method that only B adds to a type, on `self`, on the type, or on a
//!   variable that is declared with that type.
//!
//! The module [`owners`] tests that a type's methods are in its module.
//!
//! Items that the root itself defines belong to no module, so no module may use them.
//! Uses must form no cycle, except for the calls in [`STILL_UP`], and those of the log
//! must follow the table in `DESIGN.md` upwards.

mod calls;
mod owners;
mod words;

use calls::{Call, called};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use words::{defined, is_part, word};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Calls against the direction: crate, module, called module, method, and the reason.
/// Entries are only ever removed.
const STILL_UP: &[(&str, &str, &str, &str, &str)] = &[
    (
        "varve-fs",
        "space",
        "content",
        "reap_step",
        "who finds no room frees in steps what was deleted, which asks for room",
    ),
    (
        "varve-fs",
        "uses",
        "transactions",
        "place_before",
        "what waits to be appended is written before its place is asked for",
    ),
];

/// Returns the root of the workspace: the nearest directory above this crate that has a
/// lock file.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut above = own.ancestors();
    let root = above.find(|folder| folder.join("Cargo.lock").exists());
    root.expect("the workspace has a lock file").to_owned()
}

/// Returns the folder of every crate that has a library or a program, by the crate's
/// name.
fn crates() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for group in ["crates", "study", "proof"] {
        crates_below(&root().join(group), &mut found);
    }
    found
}

fn crates_below(folder: &Path, into: &mut BTreeMap<String, PathBuf>) {
    let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                crates_below(&path, into);
            }
        }
        return;
    };
    let name = manifest
        .lines()
        .find_map(|line| line.strip_prefix("name = "));
    let name = name.expect("a crate has a name").trim_matches('"');
    if folder.join("src").is_dir() {
        into.insert(name.to_owned(), folder.to_owned());
    }
}

/// Collects the sources below a folder, without tests.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// Returns the code of a file, without comments and unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Returns the modules that some code names: `crate::module` and `crate::{module,
/// other::{..}}`.
fn named(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    found.insert(word(&group[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns the depth of a file's module below the crate's root.
fn depth(within: &Path) -> usize {
    let own = usize::from(within.file_stem().unwrap() != "mod");
    within.components().count() - 1 + own
}

/// Returns the names that the root re-exports, with their modules: `use module::Name` and
/// `use module::{Name, other::{..}}`.
fn passed_on(root: &str, rooms: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        let path = root[at + "use ".len()..].split(';').next().unwrap();
        let path = path.strip_prefix("crate::").unwrap_or(path);
        let Some((room, names)) = path.split_once("::") else {
            continue;
        };
        if rooms.contains(room) {
            let names = names.split(|c: char| !is_part(c));
            found.extend(names.map(|name| (name.to_owned(), room.to_owned())));
        }
    }
    // A function may have the name of a module, and `super::*` names no module.
    found.retain(|name, _| !rooms.contains(name) && !name.is_empty());
    found
}

/// Returns the code of the files of a crate, each with its module. A path to the root is
/// written `crate::`.
fn modules(folder: &Path) -> Vec<(String, String)> {
    let src = folder.join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut found = Vec::new();
    for file in files {
        let within = file.strip_prefix(&src).unwrap();
        let first = within.components().next().unwrap();
        let room = Path::new(&first).file_stem().unwrap().to_str().unwrap();
        let to_root = "super::".repeat(depth(within));
        let code = code(&file).replace(&to_root, "crate::");
        // The root of a library or program combines the modules; no module may use it.
        if room != "lib" && room != "main" {
            found.push((room.to_owned(), code));
        }
    }
    found
}

/// The modules of a crate and their uses of each other.
struct House {
    /// Uses by name.
    named: Arrows,
    /// Uses by method calls.
    called: BTreeSet<Call>,
    /// Items of the root that modules use.
    used: BTreeSet<String>,
}

impl House {
    fn of(name: &str) -> Self {
        let src = crates()[name].join("src");
        let sources = modules(&crates()[name]);
        let mut arrows = Arrows::new();
        for (room, code) in &sources {
            arrows.entry(room.clone()).or_default().extend(named(code));
        }
        let rooms: BTreeSet<String> = arrows.keys().cloned().collect();
        let root = src.join("lib.rs");
        let root = if root.exists() {
            code(&root)
        } else {
            String::new()
        };
        let passed_on = passed_on(&root, &rooms);
        let own = defined(&root, ROOT_KINDS);
        let used = arrows.values().flatten();
        let used = used.filter(|name| own.contains(name)).cloned().collect();
        for (room, to) in &mut arrows {
            let from = |name: String| passed_on.get(&name).cloned().unwrap_or(name);
            *to = std::mem::take(to).into_iter().map(from).collect();
            to.retain(|other| rooms.contains(other) && other != room);
        }
        House {
            named: arrows,
            called: called(&sources),
            used,
        }
    }

    /// Returns all uses except for the calls selected by `without`.
    fn arrows(&self, without: impl Fn(&Call) -> bool) -> Arrows {
        let mut arrows = self.named.clone();
        for call in self.called.iter().filter(|call| !without(call)) {
            let (from, to, _) = call;
            arrows.entry(from.clone()).or_default().insert(to.clone());
        }
        arrows
    }
}

/// Kinds of items that a root may define and modules could use.
const ROOT_KINDS: &[&str] = &[
    "struct ", "enum ", "trait ", "fn ", "type ", "const ", "static ",
];

/// Repeatedly removes the modules that use no other. The rest is part of a cycle or leads
/// to one.
fn circles(mut arrows: Arrows) -> Arrows {
    loop {
        let ends: Vec<String> = arrows
            .iter()
            .filter(|(_, to)| to.is_empty())
            .map(|(room, _)| room.clone())
            .collect();
        if ends.is_empty() {
            return arrows;
        }
        for end in ends {
            arrows.remove(&end);
            for to in arrows.values_mut() {
                to.remove(&end);
            }
        }
    }
}

#[test]
fn arrows_between_rooms_lead_one_way() {
    let mut looked = 0;
    for name in crates().into_keys() {
        let house = House::of(&name);
        let used = &house.used;
        assert!(used.is_empty(), "{name}: rooms use {used:?} of the root");
        let listed: BTreeSet<_> = STILL_UP
            .iter()
            .filter(|up| up.0 == name)
            .map(|up| (up.1.to_owned(), up.2.to_owned(), up.3.to_owned()))
            .collect();
        let left = circles(house.arrows(|call| listed.contains(call)));
        assert!(left.is_empty(), "{name}: these go in a circle: {left:#?}");
        for up in &listed {
            let back = house.arrows(|call| call != up && listed.contains(call));
            let is_up = house.called.contains(up) && !circles(back).is_empty();
            assert!(is_up, "{name}: {up:?} leads up no longer: list it no more");
        }
        looked += 1;
    }
    assert!(looked > 10, "{looked} crates");
}

/// Returns the modules of the log in the order of the table in `DESIGN.md`, row by row
/// and from left to right.
fn order() -> Vec<String> {
    let text = fs::read_to_string(root().join("DESIGN.md")).unwrap();
    let (_, behind) = text.split_once("**Modules of the log**").unwrap();
    let rows = behind.lines().skip_while(|line| !line.starts_with("| `"));
    let rows = rows.take_while(|line| line.starts_with("| `"));
    let rooms = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    rooms.map(str::to_owned).collect()
}

#[test]
fn the_rooms_of_the_log_know_only_those_above_them_in_the_design() {
    let arrows = House::of("varve-lfs").arrows(|_| false);
    let order = order();
    let told: BTreeSet<&String> = order.iter().collect();
    let there: BTreeSet<&String> = arrows.keys().collect();
    assert_eq!(told, there, "left: the table, right: the rooms");
    assert_eq!(order.len(), there.len(), "a room is in the table twice");
    let at = |room: &String| order.iter().position(|other| other == room);
    for (room, to) in &arrows {
        let wrong: Vec<_> = to.iter().filter(|other| at(other) > at(room)).collect();
        assert!(
            wrong.is_empty(),
            "{room} knows {wrong:?}, which stand below"
        );
    }
}

#[test]
fn a_circle_is_found() {
    assert_eq!(
        named("use crate::{a::{b, c}, d}; crate::e::f(crate::g)"),
        ["a", "d", "e", "g"].map(String::from).into()
    );
    let rooms = ["a", "b"].map(String::from).into();
    let root = "use a::{C, d::E};\npub use b::F;\nuse std::G;\nstruct H;\nuse b::a;";
    let from = |name: &str| passed_on(root, &rooms).get(name).cloned();
    assert_eq!(
        ["C", "E", "F"].map(from),
        ["a", "a", "b"].map(|room| Some(room.into()))
    );
    assert_eq!(["G", "H", "a"].map(from), [None, None, None]);
    assert_eq!(defined(root, ROOT_KINDS), ["H"]);
    let deep = ["a.rs", "a/mod.rs", "a/b.rs", "a/b/c.rs"].map(|file| depth(Path::new(file)));
    assert_eq!(deep, [1, 1, 2, 3]);
    let to = |rooms: &[&str]| rooms.iter().map(|room| (*room).to_owned()).collect();
    let arrows = |of_c| {
        Arrows::from([
            ("a".into(), to(&["b"])),
            ("b".into(), to(&["c"])),
            ("c".into(), to(of_c)),
        ])
    };
    assert!(circles(arrows(&[])).is_empty());
    assert_eq!(circles(arrows(&["a"])).len(), 3);
}
