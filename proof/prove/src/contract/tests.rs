//! The contract is tested with trees that keep it and trees that do not, because it
//! judges everything else.

use super::*;
use crate::model::Model;
use crate::operation::{Range, story};
use crate::tree::SeenFile;
use varve_fs::InodeNo;

/// Returns the tree of `model`'s newest state.
fn tree_of(model: &Model) -> Tree {
    let (lines, ids) = tree::model_lines(model);
    let mut files = Vec::new();
    for (line, id) in ids.iter().enumerate() {
        let node = model.node(*id);
        if node.kind == varve_fs::FileKind::Regular && lines[line].same_as.is_none() {
            let bytes = node.content.read(Range {
                offset: 0,
                length: node.content.size(),
            });
            files.push(SeenFile {
                line,
                ino: InodeNo(*id),
                sectors: 0,
                bytes,
            });
        }
    }
    Tree {
        inodes: model.named_inodes(),
        lines,
        files,
        unreadable: Vec::new(),
    }
}

fn tree_after(text: &str) -> Tree {
    let mut model = Model::new(4096);
    for operation in story(text) {
        let _ = model.apply(&operation);
    }
    tree_of(&model)
}

/// Returns true if a crash after all of `text` may leave the state after `found`.
fn allowed(text: &str, found: &str) -> bool {
    let mut model = Model::new(4096);
    let mut history = History::new(model.clone());
    let operations = story(text);
    for operation in &operations {
        let done = model.apply(operation).is_ok();
        history.push(operation, model.clone(), done);
    }
    history
        .check(&tree_after(found), Step::returned(operations.len() - 1))
        .is_ok()
}

#[test]
fn prefixes_are_allowed_and_nothing_else() {
    let text = "create a; mkdir b; create b/a; unlink a";
    for prefix in ["", "create a", "create a; mkdir b", text] {
        assert!(allowed(text, prefix), "{prefix}");
    }
    for other in [
        "mkdir b",
        "create a; create b",
        "create a; mkdir b; unlink a",
    ] {
        assert!(!allowed(text, other), "{other}");
    }
}

#[test]
fn an_fsync_brings_earlier_names_and_its_own_data() {
    let text = "create a; create b; write a 0+4096 #1; write b 0+4096 #2; fsync b";
    assert!(allowed(text, text));
    assert!(allowed(text, "create a; create b; write b 0+4096 #2"));
    assert!(!allowed(text, "create a; create b; write a 0+4096 #1"));
    assert!(!allowed(text, "create a"));
    let later = format!("{text}; write b 0+4096 #3; unlink a");
    assert!(allowed(&later, "create a; create b; write b 0+4096 #2"));
    assert!(allowed(&later, "create a; create b; write b 0+4096 #3"));
    assert!(allowed(&later, "create b; write b 0+4096 #3"));
    assert!(!allowed(&later, "create b"));
}

#[test]
fn a_rename_over_a_name_carries_the_data() {
    let text = "create a; write a 0+4096 #1; fsync a; create b; write b 0+8192 #2; rename b a";
    let old = "create a; write a 0+4096 #1";
    assert!(allowed(text, old));
    assert!(allowed(text, &format!("{old}; create b")));
    assert!(allowed(
        text,
        &format!("{old}; create b; write b 0+4096 #2")
    ));
    assert!(allowed(text, "create a; write a 0+8192 #2"));
    assert!(
        !allowed(text, "create a; write a 0+4096 #2"),
        "a short target"
    );
    assert!(!allowed(text, "create a"), "an empty target");
    assert!(
        !allowed(text, "create b; write b 0+8192 #2"),
        "a missing target"
    );
}

#[test]
fn a_length_without_data_is_not_allowed() {
    let text = "create a; write a 0+4096 #1; write a 4096+4096 #2";
    assert!(allowed(text, "create a; write a 0+4096 #1"));
    assert!(!allowed(text, "create a; truncate a 8192"));
    assert!(!allowed(
        text,
        "create a; write a 0+4096 #1; truncate a 8192"
    ));
    assert!(!allowed(
        text,
        "create a; truncate a 4096; write a 4096+4096 #2"
    ));
}

#[test]
fn what_a_truncate_cut_does_not_come_back() {
    let text = "create a; write a 0+8192 #1; fsync a; truncate a 0; write a 4096+4096 #2; fsync a";
    assert!(allowed(text, "create a; write a 4096+4096 #2"));
    assert!(!allowed(
        text,
        "create a; write a 0+4096 #1; write a 4096+4096 #2"
    ));
}

#[test]
fn the_operation_under_way_may_have_happened() {
    let mut model = Model::new(4096);
    let mut history = History::new(model.clone());
    let operations = story("create a; unlink a; sync");
    for operation in &operations {
        let _ = model.apply(operation);
        history.push(operation, model.clone(), true);
    }
    let (empty, created) = (tree_after(""), tree_after("create a"));
    assert!(history.check(&created, Step::START).is_err());
    assert!(history.check(&created, Step::begun(0)).is_ok());
    assert!(history.check(&empty, Step::begun(0)).is_ok());
    assert!(history.check(&created, Step::begun(2)).is_ok());
    assert!(history.check(&created, Step::returned(2)).is_err());
}

#[test]
fn after_a_death_what_was_lost_stays_lost() {
    let mut model = Model::new(4096);
    let mut history = History::new(model.clone());
    for operation in story("create a; create b") {
        let _ = model.apply(&operation);
        history.push(&operation, model.clone(), true);
    }
    let survived = tree_after("create a");
    let mut model = history.push_kill(&Operation::Kill, &survived).unwrap();
    let operation = &story("create c")[0];
    let _ = model.apply(operation);
    history.push(operation, model, true);
    let last = Step::returned(3);
    assert!(
        history
            .check(&tree_after("create a; create c"), last)
            .is_ok()
    );
    assert!(history.check(&tree_after("create a"), last).is_ok());
    assert!(
        history.check(&tree_after(""), last).is_ok(),
        "nothing was acknowledged"
    );
    assert!(
        history
            .check(&tree_after("create a; create b"), last)
            .is_err()
    );
}
