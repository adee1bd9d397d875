//! `varve rename`: changes of spelling on mounts that fold case, and ordinary renames
//! elsewhere.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use support::mounted::{Mount, no_fuse};
use support::{Scratch, VARVE, shell, varve};

const LAYOUTS: [&str; 3] = ["log", "vlfs", "ffs"];

fn mounted(layout: &str, more: &[&str]) -> Mount {
    let scratch = Scratch::new();
    let image = scratch.text("image");
    let mkfs = ["mkfs", "--layout", layout, "--size", "64M"];
    let all: Vec<&str> = mkfs.iter().chain(more).copied().chain([&*image]).collect();
    varve(all).expect(0, "");
    Mount::of(scratch, image)
}

fn text(m: &Mount, path: &str) -> String {
    m.path(path).to_str().unwrap().to_owned()
}

fn names(m: &Mount, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(m.path(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn names_are_spelled_anew_where_case_is_folded() {
    if no_fuse() {
        return;
    }
    for layout in LAYOUTS {
        let m = mounted(layout, &["--case-fold"]);
        fs::create_dir(m.path("d")).unwrap();
        fs::write(m.path("d/foo"), b"content").unwrap();
        fs::create_dir(m.path("d/sub")).unwrap();
        assert_eq!(names(&m, "d"), ["foo", "sub"]);
        // The kernel reports success.
        fs::rename(m.path("d/foo"), m.path("d/FOO")).unwrap();
        assert_eq!(names(&m, "d"), ["foo", "sub"]);
        varve(["rename", &text(&m, "d/foo"), "FOO"]).expect(0, "");
        assert_eq!(names(&m, "d"), ["FOO", "sub"]);
        assert_eq!(fs::read(m.path("d/foo")).unwrap(), b"content");
        varve(["rename", &text(&m, "d/sub"), "Sub"]).expect(0, "");
        assert_eq!(names(&m, "d"), ["FOO", "Sub"]);
        m.remount_checked();
        assert_eq!(names(&m, "d"), ["FOO", "Sub"]);
        m.finish();
    }
}

#[test]
fn a_directory_in_use_is_spelled_anew_and_stays_in_use() {
    if no_fuse() {
        return;
    }
    let m = mounted("log", &["--case-fold"]);
    fs::create_dir_all(m.path("work/below")).unwrap();
    let (work, new) = (text(&m, "work"), text(&m, "WORK"));
    let shown = shell(&format!(
        "set -e; cd {work}/below; mount -t tmpfs none {work}/below; : > {work}/below/kept
         {VARVE} rename {work} WORK; /bin/pwd; ls {new}/below; umount {new}/below"
    ));
    assert_eq!(shown.trim(), format!("{new}/below\nkept"));
    m.finish();
}

#[test]
fn elsewhere_a_file_gets_another_name_and_replaces_none() {
    if no_fuse() {
        return;
    }
    let m = mounted("log", &[]);
    fs::write(m.path("a"), b"a").unwrap();
    fs::write(m.path("b"), b"b").unwrap();
    fs::hard_link(m.path("a"), m.path("link")).unwrap();
    symlink("a", m.path("symlink")).unwrap();
    let a = text(&m, "a");
    varve(["rename", &a, "b"]).expect(1, "another file is named b already");
    varve(["rename", &a, "symlink"]).expect(1, "another file is named symlink already");
    varve(["rename", &a, "link"]).expect(1, "no mounted volume of Varve that folds case");
    varve(["rename", &a, "../a"]).expect(1, "is not a name within the directory");
    varve(["rename", &text(&m, "none"), "c"]).expect(1, "No such file");
    varve(["rename", &a, "A"]).expect(0, "");
    assert_eq!(names(&m, ""), ["A", "b", "link", "symlink"]);
    m.finish();
}

#[test]
fn two_links_where_case_is_folded_stay_two() {
    if no_fuse() {
        return;
    }
    let m = mounted("log", &["--case-fold"]);
    fs::write(m.path("a"), b"a").unwrap();
    fs::hard_link(m.path("a"), m.path("b")).unwrap();
    varve(["rename", &text(&m, "a"), "b"]).expect(1, "another name of the same file");
    assert_eq!(names(&m, "").len(), 2, "{:?}", names(&m, ""));
    varve(["rename", &text(&m, "a"), "A"]).expect(0, "");
    assert_eq!(names(&m, ""), ["A", "b"]);
    m.finish();
}

#[test]
fn spelling_anew_wants_the_rights_of_a_rename() {
    if no_fuse() {
        return;
    }
    let m = mounted("log", &["--case-fold"]);
    for (directory, mode) in [("shut", "755"), ("sticky", "1777"), ("group", "770")] {
        fs::create_dir(m.path(directory)).unwrap();
        fs::write(m.path(directory).join("foo"), b"").unwrap();
        shell(&format!("chmod {mode} {}", text(&m, directory)));
    }
    shell(&format!("chown 0:4321 {}", text(&m, "group")));
    let run = |groups: &str, path: &str| {
        let path = text(&m, path);
        let who = ["--reuid", "1234", "--regid", "1234", "--groups", groups];
        let mut command = Command::new("setpriv");
        command.args(who).args([VARVE, "rename", &path, "FOO"]);
        support::Answer::from(command.output().unwrap())
    };
    run("1", "shut/foo").expect(1, "ermission denied");
    run("1", "sticky/foo").expect(1, "not permitted");
    run("1", "group/foo").expect(1, "ermission denied");
    run("4321", "group/foo").expect(0, "");
    assert_eq!(names(&m, "group"), ["FOO"]);
    // A read-only view of the mount changes nothing.
    let (shut, view) = (text(&m, "shut"), m.scratch.text("view"));
    fs::create_dir(&view).unwrap();
    let names_as_hex = "0x666f6f00464f4f00";
    let shown = shell(&format!(
        "mount --bind -o ro {shut} {view}
         setfattr -n varve.respell -v {names_as_hex} {view} 2>&1 || true
         umount {view}"
    ));
    assert!(shown.contains("Read-only file system"), "{shown}");
    assert_eq!(names(&m, "shut"), ["foo"]);
    m.finish();
}
