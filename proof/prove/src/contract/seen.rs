//! The model of a tree that was found.

use crate::model::{Id, Model, ROOT};
use crate::tree::Tree;
use std::collections::BTreeMap;
use varve_fs::FileKind;

/// Returns the model of a tree that was found, with all of it durable, and the settings
/// of another model. Reserved space is not visible.
pub(super) fn of_tree(tree: &Tree, like: &Model) -> Model {
    let mut model = like.emptied();
    let mut known: BTreeMap<&[u8], Id> = BTreeMap::new();
    for line in &tree.lines {
        let kind = FileKind::from_mode(line.kind).unwrap_or(FileKind::Regular);
        let (parent, name) = match line.path.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (&line.path[..at], &line.path[at + 1..]),
            None => (&b""[..], line.path.as_slice()),
        };
        let parent = known.get(parent).copied().unwrap_or(ROOT);
        let id = match line.same_as.as_deref().and_then(|first| known.get(first)) {
            Some(&id) => id,
            None => model.add(kind, line.mode, parent),
        };
        known.insert(&line.path, id);
        let node = model.change(id);
        (node.uid, node.gid) = line.owner;
        node.nlink = line.nlink;
        node.target.clone_from(&line.target);
        node.xattrs.clone_from(&line.xattrs);
        if id != ROOT {
            model.change(parent).entries.insert(name.to_vec(), id);
        }
    }
    for file in &tree.files {
        let id = known[tree.lines[file.line].path.as_slice()];
        model.observe(id, &file.bytes);
    }
    model.settle();
    model
}
