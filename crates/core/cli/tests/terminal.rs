//! Labels, hosts and names that another user wrote to a volume reach the terminal escaped.

mod support;

use std::fs;
use std::process::Command;
use support::mounted::{Mount, lacks, no_fuse, no_programs};
use support::{Answer, Scratch, VARVE, commands, varve};
use varve::Volume;

/// Control sequences: colours, the title, clearing the screen, a new line, reversed text.
const NAME: &str = "n\x1b[31m\x1b]0;t\x07\x1b[2J\u{9b}1m\nFAKE: clean\r\u{202e}\u{85}x";
const LABEL: &str = "l\x1b[31m\u{9b}1m\x07\nFAKE: clean\u{202e}";
const HOST: &str = "h\x1b[31m\u{9b}1m\nFAKE: h\u{202e}";
/// Content of the damaged file, which occurs nowhere else.
const CONTENT: &[u8] = b"these bytes are looked for and changed";

/// Asserts that the output can be shown on a terminal.
#[track_caller]
fn assert_shown(what: &str, answer: &Answer) {
    for text in [&answer.out, &answer.err] {
        let control = |c: char| (c.is_control() && !"\n\t".contains(c)) || c == '\u{202e}';
        let raw = text.contains(control);
        let fake = text
            .lines()
            .any(|line| line.trim_start().starts_with("FAKE"));
        assert!(!raw && !fake, "{what}: {text:?}");
    }
}

/// Runs the program with arguments, and checks its output.
#[track_caller]
fn shown(arguments: &[&str]) -> Answer {
    let mut command = Command::new("timeout");
    command.args(["60", VARVE]).args(arguments);
    command.env_remove("VARVE_LOG").env_remove("RUST_LOG");
    let answer = Answer::from(command.output().unwrap());
    assert!(answer.code != 124, "{arguments:?} does not end");
    assert_shown(&format!("{arguments:?}"), &answer);
    answer
}

fn volume(scratch: &Scratch, layout: &str) -> String {
    let image = scratch.text(&format!("{layout}{NAME}"));
    let made = [
        "mkfs", &image, "--size", "32M", "--layout", layout, "-L", LABEL,
    ];
    assert_eq!(shown(&made).code, 0);
    let volume = Volume::open(&image).unwrap();
    volume.create_dir(NAME).unwrap();
    volume
        .write(format!("{NAME}/{NAME}"), CONTENT.repeat(200))
        .unwrap();
    volume.symlink(NAME, format!("{NAME}/link")).unwrap();
    volume
        .set_xattr(NAME, "user.n\x1b[31m", b"v\x1b[31m")
        .unwrap();
    volume.close().unwrap();
    image
}

/// The image with its data changed, so that names of files are printed.
fn damaged(image: &str) -> String {
    let mut bytes = fs::read(image).unwrap();
    let places: Vec<usize> = bytes
        .windows(CONTENT.len())
        .enumerate()
        .filter_map(|(at, window)| (window == CONTENT).then_some(at))
        .collect();
    places.iter().for_each(|at| bytes[*at] ^= 1);
    assert!(!places.is_empty(), "the content lies in the image as it is");
    let copy = format!("{image}.damaged");
    fs::write(&copy, bytes).unwrap();
    copy
}

/// Every command with arguments that it refuses or accepts.
#[test]
fn no_command_prints_its_arguments_raw() {
    if no_programs() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.text(NAME);
    fs::write(&file, "no volume").unwrap();
    for command in commands() {
        let words: Vec<&str> = command.split(' ').collect();
        let option = format!("--{NAME}");
        shown(&[&words[..], &[&option]].concat());
        // These accept any text as the name of a file, and would serve or make it.
        if !["vld serve", "mkfs", "vld create", "lab age"].contains(&&*command) {
            shown(&[&words[..], &[&file]].concat());
        }
    }
}

#[test]
fn what_a_volume_holds_is_printed_escaped() {
    let scratch = Scratch::new();
    for layout in ["log", "vlfs", "ffs"] {
        let image = volume(&scratch, layout);
        for command in ["info", "tune", "fsck", "stats"] {
            let answer = shown(&[command, &image]);
            assert_eq!(answer.code, 0, "{answer:#?}");
            let json = shown(&[command, &image, "--json"]);
            json.json();
        }
        let label = shown(&["tune", &image, "--json"]).json()["label"].clone();
        assert_eq!(label, LABEL, "it is not changed");
        for what in ["superblock", "checkpoints", "segments", "ifile", "inode"] {
            let path = format!("/{NAME}");
            let last: &[&str] = if what == "inode" { &[&path] } else { &[] };
            shown(&[&["dump", &image, what], last].concat());
            shown(&[&["dump", "--json", &image, what], last].concat());
        }
        let copy = damaged(&image);
        let found = shown(&["fsck", "--data", &copy]);
        if layout == "log" {
            assert!(
                found.code & 4 != 0 && found.out.contains("x1b"),
                "{found:#?}"
            );
            let target = scratch.text("salvaged");
            shown(&["salvage", &copy, &target]);
            shown(&["tp", "init", NAME, "--volume", &image]);
            shown(&["tp", "verify", NAME, "--volume", &image]);
            shown(&["tp", "stats", "/none\x1b[31m", "--volume", &image]);
            shown(&["replay", &image, "--from", &copy]);
            shown(&["mount", &image, &scratch.text("none\x1b[31m")]);
        }
        shown(&["fsck", "--repair", &copy]);
        shown(&["vld", "info", &image]);
        shown(&["resize", &image, "1"]);
    }
}

/// Not a test: leaves a volume open, on a host with another name.
#[test]
fn a_process_on_another_host() {
    let Some(image) = std::env::var_os("VARVE_TERMINAL_IMAGE") else {
        return;
    };
    rustix::system::sethostname(HOST.as_bytes()).unwrap();
    let volume = Volume::open(image).unwrap();
    volume.write("file", "words").unwrap();
    volume.sync().unwrap();
    std::mem::forget(volume);
    std::process::exit(0);
}

#[test]
fn the_host_that_has_a_volume_is_printed_escaped() {
    if lacks("root's rights", rustix::process::getuid().is_root()) {
        return;
    }
    let scratch = Scratch::new();
    for layout in ["log", "vlfs", "ffs"] {
        let image = volume(&scratch, layout);
        let program = std::env::current_exe().unwrap();
        let left = Command::new("unshare")
            .arg("-u")
            .arg(program)
            .args(["a_process_on_another_host", "--exact", "--nocapture"])
            .env("VARVE_TERMINAL_IMAGE", &image)
            .output()
            .unwrap();
        assert!(left.status.success(), "{left:?}");
        let info = shown(&["info", &image]);
        assert!(info.out.contains(r"on h\x1b[31m"), "{info:#?}");
        let json = shown(&["info", "--json", &image]).json();
        assert_eq!(json["holder"]["host"], HOST);
        shown(&["dump", &image, "superblock"]);
        // Locked by a process that has not ended.
        let file = fs::File::open(&image).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let refused = shown(&["tp", "init", "d", "--volume", &image]);
        assert!(refused.err.contains(r"h\x1b[31m"), "{refused:#?}");
        drop(file);
        shown(&["fsck", &image]);
        shown(&["fsck", "--repair", &image]);
    }
}

#[test]
fn what_a_mount_holds_is_printed_escaped() {
    if no_fuse() {
        return;
    }
    let scratch = Scratch::new();
    let image = volume(&scratch, "log");
    let copy = damaged(&image);
    let mount = Mount::of(scratch, copy);
    let dir = &*mount.dir;
    let file = format!("{dir}/{NAME}/{NAME}");
    for arguments in [
        &["info", dir][..],
        &["stats", dir],
        &["top", dir, "--once"],
        &["protect", &file, "--show"],
        &["coalesce", &file],
        &["scrub", dir],
        &["scrub", dir, "--status", "--json"],
        &["txn", "list", dir],
        &["cleaner", dir],
        &["stats", dir, "--prometheus"],
    ] {
        shown(arguments);
    }
    let scrubbed = shown(&["scrub", dir]);
    assert!(scrubbed.out.contains("x1b"), "{scrubbed:#?}");
    // A conflict names the file.
    let id = shown(&["txn", "begin", dir]).out.trim().to_owned();
    let new = format!("{dir}/new{NAME}");
    fs::write(&new, "before").unwrap();
    let script = "cat \"$1\"; echo inside > \"$1\"";
    let inside = [
        "txn", "run", "--id", &id, "--", "sh", "-c", script, "sh", &new,
    ];
    let inside = varve(inside);
    assert_eq!(inside.code, 0, "{inside:#?}");
    fs::write(&new, "outside").unwrap();
    let refused = shown(&["txn", "commit", &id]);
    assert!(
        refused.code != 0 && refused.err.contains("x1b"),
        "{refused:#?}"
    );
    mount.umount();
}
