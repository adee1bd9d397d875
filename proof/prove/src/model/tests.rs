//! The model returns the same results as Linux.

use super::*;
use crate::operation::story;

fn answers(text: &str) -> Vec<i32> {
    let mut model = Model::new(4096);
    let operations = story(text);
    let answer = |operation| match model.apply(operation) {
        Ok(_) => 0,
        Err(Refusal::Errno(errno)) => errno,
        Err(Refusal::Skip) => -1,
    };
    operations.iter().map(answer).collect()
}

#[test]
fn names_are_refused_as_linux_does() {
    assert_eq!(
        answers("create a; create a; mkdir a; link a a"),
        [0, EEXIST, EEXIST, EEXIST]
    );
    assert_eq!(
        answers("create a; create a/b; unlink a/b"),
        [0, ENOTDIR, ENOTDIR]
    );
    assert_eq!(
        answers("unlink a; rmdir a; rename a b; link a b"),
        [ENOENT; 4]
    );
    assert_eq!(
        answers("mkdir a; unlink a; create b; rmdir b"),
        [0, EISDIR, 0, ENOTDIR]
    );
    assert_eq!(
        answers("mkdir a; create a/a; rmdir a; link a b"),
        [0, 0, ENOTEMPTY, EPERM]
    );
    assert_eq!(answers("create x^255; create x^256"), [0, ENAMETOOLONG]);
}

#[test]
fn renames_are_refused_as_linux_does() {
    assert_eq!(answers("mkdir a; rename a a/b"), [0, EINVAL]);
    assert_eq!(
        answers("mkdir a; mkdir a/b; rename a/b a"),
        [0, 0, ENOTEMPTY]
    );
    assert_eq!(
        answers("mkdir a; create b; rename a b; rename b a"),
        [0, 0, ENOTDIR, EISDIR]
    );
    assert_eq!(
        answers("create a; link a b; rename a b; unlink a"),
        [0, 0, 0, 0]
    );
    assert_eq!(
        answers("create a; create b; rename-noreplace a b"),
        [0, 0, EEXIST]
    );
    assert_eq!(answers("create a; exchange a b"), [0, ENOENT]);
}

#[test]
fn a_whiteout_stays_under_the_old_name() {
    let answers = answers(
        "mkdir d; create d/a; create b; rename-whiteout d/a b; rmdir d; unlink d/a; rmdir d",
    );
    assert_eq!(answers, [0, 0, 0, 0, ENOTEMPTY, 0, 0]);
    let mut model = Model::new(4096);
    for operation in story("mkdir d; mkdir d/e; rename-whiteout d/e e; rename-whiteout d d/f") {
        let _ = model.apply(&operation);
    }
    let whiteout = model.node(model.resolve(&"d/e".parse().unwrap()).unwrap());
    assert_eq!(
        (whiteout.kind, whiteout.mode, whiteout.nlink),
        (FileKind::CharDevice, 0, 1)
    );
    assert_eq!(model.node(ROOT).nlink, 4);
}

#[test]
fn of_two_reasons_to_refuse_linux_tells_one() {
    assert_eq!(
        answers("mkdir a; mkdir a/b; link a a/b; rename-noreplace a/b a"),
        [0, 0, EEXIST, EEXIST]
    );
    assert_eq!(
        answers("mkdir a; mkdir a/b; rename-noreplace a a/b; exchange a a/b/c"),
        [0, 0, EEXIST, ENOENT]
    );
}

#[test]
fn a_copy_within_a_file_ends_where_the_file_ended() {
    let mut model = Model::new(4096);
    let copies = "create b; write b 0+8192 #1; copy b 4096+8192 b 16384; copy b 20470+9 b 20480";
    let answers: Vec<_> = story(copies).iter().map(|o| model.apply(o)).collect();
    assert_eq!(
        answers[2..],
        [Ok(Answer::Count(4096)), Ok(Answer::Count(9))]
    );
    let overlaps = model.apply(&story("copy b 20480+100 b 20485")[0]);
    assert_eq!(overlaps, refuse(EINVAL));
}

#[test]
fn open_files_outlive_their_names() {
    let open = "create a; open a @1; unlink a; write @1 0+5 #1; read @1 0+5; close @1; read @1 0+5";
    assert_eq!(answers(open), [0, 0, 0, 0, 0, 0, -1]);
}

#[test]
fn links_are_counted() {
    let mut model = Model::new(4096);
    let tree =
        "mkdir a; mkdir a/b; mkdir b; rename a/b b; create a/a; link a/a b/b; exchange a b/b";
    for operation in story(tree) {
        model.apply(&operation).unwrap();
    }
    let id = |path: &str| model.resolve(&path.parse().unwrap()).unwrap();
    assert_eq!(model.node(ROOT).nlink, 3);
    assert_eq!(model.node(id("b")).nlink, 3);
    assert_eq!(model.node(id("b/b")).nlink, 2);
    assert_eq!(model.node(id("a")).nlink, 2);
    assert_eq!(model.named_inodes(), 4);
}
