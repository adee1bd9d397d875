//! The house keeps its order: within a crate, rooms know each other in one
//! direction. A room is a module right below `src`, with all that lies in it; an
//! arrow leads from the room that writes `crate::other`, or as many `super::` as lead
//! to the root, to the other one; a name that the root only passes on leads to the room
//! that it is from. What the root defines itself belongs to no room, so nobody uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources below a folder that are no tests.
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

/// The code of a file, without comments and unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The rooms that some code names: `crate::room` and `crate::{room, other::{..}}`.
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

fn word(text: &str) -> String {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.chars().take_while(is_part).collect()
}

/// How many modules a file lies below the crate's root.
fn depth(within: &Path) -> usize {
    let own = usize::from(within.file_stem().unwrap() != "mod");
    within.components().count() - 1 + own
}

/// What the root passes on, and the rooms it is from: `use room::Name` and
/// `use room::{Name, other::{..}}`.
fn passed_on(root: &str, rooms: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        let path = root[at + "use ".len()..].split(';').next().unwrap();
        let path = path.strip_prefix("crate::").unwrap_or(path);
        let Some((room, names)) = path.split_once("::") else {
            continue;
        };
        if rooms.contains(room) {
            let names = names.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            found.extend(names.map(|name| (name.to_owned(), room.to_owned())));
        }
    }
    // A name can be that of a room and that of a function.
    found.retain(|name, _| !rooms.contains(name));
    found
}

/// What the root defines itself, macros left out.
fn defined(root: &str) -> BTreeSet<String> {
    let kinds = [
        "struct ", "enum ", "trait ", "fn ", "type ", "const ", "static ",
    ];
    let lines = root.lines().filter_map(|line| {
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let line = line.strip_prefix("pub ").unwrap_or(line);
        kinds.iter().find_map(|kind| line.strip_prefix(kind))
    });
    lines.map(word).collect()
}

/// The arrows between the rooms of a crate, and what its rooms use of the root's own.
fn arrows(name: &str) -> (Arrows, BTreeSet<String>) {
    let src = crates().join(name).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut arrows = Arrows::new();
    for file in files {
        let within = file.strip_prefix(&src).unwrap();
        let first = within.components().next().unwrap();
        let room = Path::new(&first).file_stem().unwrap().to_str().unwrap();
        let to_root = "super::".repeat(depth(within));
        let code = code(&file).replace(&to_root, "crate::");
        let room = arrows.entry(room.to_owned()).or_default();
        room.extend(named(&code));
    }
    // A program's root puts the rooms together, and nobody knows it.
    ["lib", "main"]
        .iter()
        .for_each(|root| drop(arrows.remove(*root)));
    let rooms: BTreeSet<String> = arrows.keys().cloned().collect();
    let root = src.join("lib.rs");
    let root = if root.exists() {
        code(&root)
    } else {
        String::new()
    };
    let (passed_on, own) = (passed_on(&root, &rooms), defined(&root));
    let used = arrows.values().flatten();
    let used = used.filter(|name| own.contains(*name)).cloned().collect();
    for (room, to) in &mut arrows {
        let from = |name: String| passed_on.get(&name).cloned().unwrap_or(name);
        *to = std::mem::take(to).into_iter().map(from).collect();
        to.retain(|other| rooms.contains(other) && other != room);
    }
    (arrows, used)
}

/// Takes away the rooms that know no other, again and again: what is left goes in a
/// circle, or leads to one.
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
    for entry in fs::read_dir(crates()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (arrows, used) = arrows(&name);
        assert!(used.is_empty(), "{name}: rooms use {used:?} of the root");
        let left = circles(arrows);
        assert!(left.is_empty(), "{name}: these go in a circle: {left:#?}");
        looked += 1;
    }
    assert!(looked > 10, "{looked} crates");
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
    assert_eq!(defined(root), ["H".to_owned()].into());
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
