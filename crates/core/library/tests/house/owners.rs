//! Methods of a type outside of its module, and types of a crate that share a name.
//!
//! A type whose fields several modules change has no owner: an invariant of these fields
//! can be broken anywhere. So the inherent methods of a type are in its module. The lists
//! below are work to do; a count in them only ever falls.

use crate::calls::{blocks, owner};
use crate::words::{bare, defined};
use crate::{crates, modules};
use std::collections::{BTreeMap, BTreeSet};

/// Crates that these rules cover.
const COVERED: &[&str] = &["varve-lfs", "varve-fs", "varve-fuse"];

/// Type, module, and number of the inherent methods of the type in this other module.
type Abroad = BTreeMap<(String, String), usize>;

/// Counts the inherent methods of types in modules that do not declare the type.
fn abroad(sources: &[(String, String)]) -> Abroad {
    let mut declared: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for (module, code) in sources {
        for name in defined(code, KINDS) {
            declared.entry(name).or_default().insert(module);
        }
    }
    let mut found = Abroad::new();
    for (module, code) in sources {
        for (head, body) in blocks(code) {
            let of = owner(&head);
            let own = declared.get(&of).is_none_or(|by| by.contains(module));
            if !own && !head.contains(" for ") {
                let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
                let lines = lines.map(|line| bare(line).replace("const fn ", "fn "));
                let methods = lines.filter(|line| line.starts_with("fn ")).count();
                *found.entry((of, module.clone())).or_default() += methods;
            }
        }
    }
    found
}

/// Counts the types of each name that several types have.
fn shared_names(sources: &[(String, String)]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (_, code) in sources {
        for name in defined(code, KINDS) {
            *found.entry(name).or_default() += 1;
        }
    }
    found.retain(|_, count| *count > 1);
    found
}

const KINDS: &[&str] = &["struct ", "enum ", "union "];

/// Fails if the code differs from the list, and says how to list it.
fn compare<K: Ord + std::fmt::Debug>(
    found: &BTreeMap<K, usize>,
    listed: &BTreeMap<K, usize>,
    what: &str,
) {
    let keys: BTreeSet<&K> = found.keys().chain(listed.keys()).collect();
    let number = |of: &BTreeMap<K, usize>, key: &K| of.get(key).copied().unwrap_or(0);
    let pairs = keys
        .into_iter()
        .map(|key| (key, number(found, key), number(listed, key)));
    let wrong: Vec<_> = pairs.filter(|(_, now, listed)| now != listed).collect();
    assert!(
        wrong.is_empty(),
        "{what}: number now, and as listed: {wrong:#?}"
    );
}

#[test]
fn methods_are_in_the_module_of_their_type() {
    for name in COVERED {
        let listed = STILL_ABROAD.iter().filter(|it| it.0 == *name);
        let listed = listed.map(|it| ((it.1.to_owned(), it.2.to_owned()), it.3));
        let found = abroad(&modules(&crates()[*name]));
        compare(&found, &listed.collect(), name);
    }
}

#[test]
fn types_of_a_crate_have_different_names() {
    for name in COVERED {
        let listed = STILL_SHARED.iter().filter(|it| it.0 == *name);
        let listed = listed.map(|it| (it.1.to_owned(), it.2));
        let found = shared_names(&modules(&crates()[*name]));
        compare(&found, &listed.collect(), name);
    }
}

#[test]
fn a_method_abroad_is_found() {
    let home = "pub struct Tree {\n}\nimpl Tree {\n    fn own(&self) {}\n}\nstruct Leaf {\n}";
    let away = "impl<'a> Tree {\n    pub(crate) const fn far(&self) {\n        fn in_it() \
                {}\n    }\n    fn too(&self) {}\n}\nimpl Clone for Tree {\n    fn clone() \
                {}\n}\nimpl Leaf {}\npub(crate) enum Leaf {\n}\nimpl Other {\n    fn f() \
                {}\n}";
    let sources = [("home", home), ("away", away)];
    let sources = sources.map(|(module, code)| (module.to_owned(), code.to_owned()));
    let expected = [(("Tree".to_owned(), "away".to_owned()), 2)];
    assert_eq!(abroad(&sources), expected.into());
    assert_eq!(shared_names(&sources), [("Leaf".to_owned(), 2)].into());
}

/// Crate, type, other module, and number of the type's methods there.
const STILL_ABROAD: &[(&str, &str, &str, usize)] = &[
    ("varve-lfs", "Delta", "absorb", 1),
    ("varve-lfs", "Delta", "apply", 12),
    ("varve-lfs", "Delta", "kept", 5),
    ("varve-lfs", "Directory", "volume_snapshots", 1),
    ("varve-lfs", "Lfs", "admission", 7),
    ("varve-lfs", "Lfs", "ahead", 5),
    ("varve-lfs", "Lfs", "layout", 2),
    ("varve-lfs", "Lfs", "mark", 4),
    ("varve-lfs", "Lfs", "mount", 10),
    ("varve-lfs", "Lfs", "outside", 12),
    ("varve-lfs", "Lfs", "resize", 11),
    ("varve-lfs", "Lfs", "segment_map", 3),
    ("varve-lfs", "Lfs", "shipping", 3),
    ("varve-lfs", "Lfs", "trim", 1),
    ("varve-lfs", "Lfs", "volume_snapshots", 17),
    ("varve-fs", "FileSystem", "attributes", 25),
    ("varve-fs", "FileSystem", "content", 69),
    ("varve-fs", "FileSystem", "epochs", 43),
    ("varve-fs", "FileSystem", "maintenance", 6),
    ("varve-fs", "FileSystem", "mount", 3),
    ("varve-fs", "FileSystem", "names", 81),
    ("varve-fs", "FileSystem", "scan", 1),
    ("varve-fs", "FileSystem", "setattr", 6),
    ("varve-fs", "FileSystem", "snapshots", 32),
    ("varve-fs", "FileSystem", "space", 34),
    ("varve-fs", "FileSystem", "transactions", 62),
    ("varve-fs", "FileSystem", "uses", 13),
    ("varve-fs", "State", "space", 1),
    ("varve-fs", "State", "transactions", 4),
    ("varve-fs", "State", "uses", 1),
    ("varve-fs", "Store", "content", 7),
    ("varve-fs", "Store", "names", 2),
    ("varve-fs", "Transaction", "snapshots", 3),
];

/// Crate, name, and number of types that have it.
const STILL_SHARED: &[(&str, &str, usize)] = &[
    ("varve-lfs", "Answer", 2),
    ("varve-lfs", "Measures", 2),
    ("varve-lfs", "Payload", 2),
    ("varve-lfs", "Placed", 2),
    ("varve-lfs", "Record", 2),
    ("varve-lfs", "Replay", 2),
    ("varve-fs", "Access", 2),
    ("varve-fs", "Batch", 2),
    ("varve-fs", "Below", 2),
    ("varve-fs", "Change", 3),
    ("varve-fs", "Changed", 2),
    ("varve-fs", "Changes", 2),
    ("varve-fs", "Entry", 2),
    ("varve-fs", "Numbers", 2),
    ("varve-fs", "Place", 2),
    ("varve-fs", "Plan", 2),
    ("varve-fs", "Scan", 2),
    ("varve-fs", "Shard", 2),
    ("varve-fs", "State", 3),
    ("varve-fs", "Step", 3),
    ("varve-fuse", "Held", 2),
    ("varve-fuse", "Listed", 2),
    ("varve-fuse", "Shared", 2),
];
