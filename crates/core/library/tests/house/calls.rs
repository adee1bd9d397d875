//! Calls between modules that name no module, because several modules add methods to one
//! type.

use crate::words::{bare, defined, is_part, places, word};
use std::collections::{BTreeMap, BTreeSet};

/// Calling module, called module, and method.
pub type Call = (String, String, String);

/// Modules that define each method of a type, by type and name.
type Methods = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns the `impl` blocks of some code: the first line, and the text of the block.
pub fn blocks(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("impl ") && !line.starts_with("impl<") {
            continue;
        }
        let mut head = line.to_owned();
        while !head.ends_with(['{', '}']) {
            head.push(' ');
            head.push_str(lines.next().expect("a block").trim());
        }
        let mut body = Vec::new();
        if head.ends_with('{') {
            body.extend(lines.by_ref().take_while(|line| *line != "}"));
        }
        found.push((head, body.join("\n")));
    }
    found
}

/// Returns the type of an `impl` block from its first line.
pub fn owner(head: &str) -> String {
    let mut rest = head.strip_prefix("impl").expect("a block");
    if rest.starts_with('<') {
        let (mut depth, mut before) = (0, ' ');
        let end = rest.find(|c: char| {
            match c {
                '<' => depth += 1,
                '>' if before != '-' => depth -= 1,
                _ => {}
            }
            before = c;
            depth == 0
        });
        rest = &rest[end.expect("parameters end") + 1..];
    }
    let of = rest.split_once(" for ").map_or(rest, |(_, of)| of);
    let of = of.trim_start().trim_start_matches('&');
    let path = of.split(|c: char| !is_part(c) && c != ':').next().unwrap();
    path.rsplit("::").next().unwrap().to_owned()
}

/// Returns each type to which several modules add methods, with its methods and their
/// modules. Types that share a name cannot be distinguished and are left out.
fn shared(sources: &[(String, String)]) -> Methods {
    let mut declared: BTreeMap<String, u32> = BTreeMap::new();
    let mut methods: Methods = BTreeMap::new();
    for (room, code) in sources {
        for name in defined(code, &["struct ", "enum "]) {
            *declared.entry(name).or_default() += 1;
        }
        for (head, body) in blocks(code) {
            let of = methods.entry(owner(&head)).or_default();
            let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
            let lines = lines.map(bare).collect::<Vec<_>>().join("\n");
            let lines = lines.replace("const fn ", "fn ");
            for name in defined(&lines, &["fn "]) {
                of.entry(name).or_default().insert(room.clone());
            }
        }
    }
    methods.retain(|owner, of| {
        let rooms: BTreeSet<&String> = of.values().flatten().collect();
        rooms.len() > 1 && declared.get(owner) == Some(&1)
    });
    methods
}

/// Returns the variables and fields that some code declares with a type: `name: &Type`,
/// `name: Arc<Type>`, `let name = Type::..`.
fn holders(code: &str, of: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for at in places(code, of) {
        let mut before = &code[..at];
        while let Some(path) = before.strip_suffix("::") {
            before = path.trim_end_matches(is_part);
        }
        loop {
            let around = ["&", "mut ", "Arc<", "Option<", "Box<"];
            let within = around.iter().find_map(|around| before.strip_suffix(around));
            let named = before
                .strip_suffix(' ')
                .map(|it| it.trim_end_matches(is_part));
            let lifetime = named.and_then(|named| named.strip_suffix('\''));
            match within.or(lifetime) {
                Some(within) => before = within,
                None => break,
            }
        }
        let made = code[at + of.len()..].starts_with("::");
        let made = made.then(|| before.strip_suffix(" = ")).flatten();
        if let Some(before) = before.strip_suffix(": ").or(made) {
            let name = before.rsplit(|c| !is_part(c)).next().unwrap();
            found.insert(name.to_owned());
        }
    }
    found.remove("");
    found
}

/// Returns the methods that some code calls on a variable or field.
fn calls(code: &str, of: &str) -> BTreeSet<String> {
    let called = |at: usize| {
        let rest = code[at + of.len()..].trim_start().strip_prefix('.')?;
        let rest = rest.trim_start();
        let name = word(rest);
        let behind = &rest[name.len()..];
        (behind.starts_with('(') || behind.starts_with("::<")).then_some(name)
    };
    places(code, of).filter_map(called).collect()
}

/// Returns the names that some code uses as `Type::name`.
fn parts(code: &str, of: &str) -> BTreeSet<String> {
    let part = |at: usize| code[at + of.len()..].strip_prefix("::").map(word);
    places(code, of).filter_map(part).collect()
}

/// Returns the calls from one module to another.
pub fn called(sources: &[(String, String)]) -> BTreeSet<Call> {
    let shared = shared(sources);
    let mut held: BTreeMap<(&String, &String), BTreeSet<String>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (room, code) in sources {
        for owner in shared.keys() {
            let held = held.entry((room, owner)).or_default();
            held.extend(holders(code, owner));
            let own = blocks(code).into_iter();
            let own = own.filter(|(head, _)| self::owner(head) == *owner);
            own.for_each(|(_, body)| held.extend(holders(&body, "Self")));
        }
    }
    for (room, code) in sources {
        let mut blocks = blocks(code);
        blocks.iter_mut().for_each(|(head, _)| *head = owner(head));
        for (owner, methods) in &shared {
            let mut names = parts(code, owner);
            let held = held[&(room, owner)].iter();
            names.extend(held.flat_map(|name| calls(code, name)));
            for (_, body) in blocks.iter().filter(|(of, _)| of == owner) {
                names.extend(calls(body, "self"));
                names.extend(parts(body, "Self"));
            }
            for name in names {
                let rooms = methods.get(&name).into_iter().flatten();
                if let [to] = rooms.collect::<Vec<_>>()[..]
                    && to != room
                {
                    found.insert((room.clone(), to.clone(), name));
                }
            }
        }
    }
    found
}

#[test]
fn a_call_without_a_name_is_found() {
    let state = "pub struct Tree<L> {\n}\n\nimpl<L: Fn() -> u32> Tree<L> {\n    pub(crate) \
                 const fn read(&self) {}\n    fn both(&self) {}\n}";
    let low = "struct Fold<'a> {\n    tree: &'a mut crate::state::Tree,\n}\nimpl Tree {\n    \
               fn low(&self) {\n        self\n            .high::<u8>(self.read);\n        \
               self.both();\n    }\n}\nimpl Fold {\n    fn of(&self) {\n        \
               self.tree.read();\n        self.high_too();\n    }\n}";
    let high = "impl Layout for Tree {\n    fn high(&self) {}\n    fn high_too(&self) {}\n    \
                fn both(&self) {}\n}\nimpl Tree {}\nfn f() {\n    let it = Tree::new();\n    \
                it.low();\n    other.read();\n    g(Tree::read)\n}";
    let rooms = [("state", state), ("low", low), ("high", high)];
    let sources = rooms.map(|(room, code)| (room.to_owned(), code.to_owned()));
    let expected = [
        ("high", "low", "low"),
        ("high", "state", "read"),
        ("low", "high", "high"),
        ("low", "state", "read"),
    ];
    let expected = expected.map(|(from, to, name)| (from.into(), to.into(), name.into()));
    assert_eq!(called(&sources), expected.into());
    let mut twice = sources.to_vec();
    twice.push(("other".into(), "enum Tree {\n}".into()));
    assert!(called(&twice).is_empty());
}
