//! Names are bytes: all except `/` and NUL are allowed, distinguished as bytes and
//! returned unchanged, through the mount, to the library and in printed output.

use crate::mount::{Layout, Mount};
use crate::support::varve;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;

on_every_layout! {
    names_are_bytes_on_a_mount,
}

/// Names that other systems would fold, normalise, refuse or mishandle.
fn names() -> Vec<Vec<u8>> {
    let texts = [
        // One letter, composed and not; ligatures; widths; look-alikes.
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{fb01}le",
        "file",
        "\u{ff26}ile",
        "f\u{131}le",
        "\u{5d0}\u{5d1}",
        // Invisible characters, and those that change the direction of writing.
        "zero\u{200b}width",
        "zerowidth",
        "\u{202e}elif",
        "FILE",
        "\u{1f980}",
        " ",
        "  ",
        "...",
        "-rf",
        "a\\b",
        "a:b*c?d\"e<f>g|h",
        "line\nbreak",
        "tab\tbell\u{7}esc\u{1b}[31m",
    ];
    let mut names: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    // No UTF-8: lone bytes, halves of letters, surrogates, overlong forms.
    for bytes in [
        &b"\xff"[..],
        b"\xfe\xff",
        b"caf\xe9",
        b"\xc3",
        b"\xa9",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf8\x88\x80\x80\x80",
    ] {
        names.push(bytes.to_vec());
    }
    // Each byte that a name may have, alone and at the greatest length.
    for byte in (1..=255_u8).filter(|byte| !b"/.".contains(byte)) {
        names.push(vec![byte]);
        names.push(vec![byte; 255]);
    }
    let all: BTreeSet<Vec<u8>> = names.into_iter().collect();
    all.into_iter().collect()
}

fn listed(dir: &std::path::Path) -> BTreeSet<Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_vec())
        .collect()
}

fn names_are_bytes_on_a_mount(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let names = names();
    let dir = m.path("d");
    fs::create_dir(&dir).unwrap();
    for name in &names {
        fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let want: BTreeSet<Vec<u8>> = names.iter().cloned().collect();
    assert!(listed(&dir) == want);
    m.remount();
    assert!(listed(&dir) == want);
    for name in &names {
        let path = dir.join(OsStr::from_bytes(name));
        assert!(fs::read(&path).unwrap() == *name, "{}", name.escape_ascii());
        // A link's target is bytes as well, and a rename may give any name.
        let (link, to) = (m.path("link"), m.path("renamed"));
        symlink(OsStr::from_bytes(name), &link).unwrap();
        assert!(fs::read_link(&link).unwrap().as_os_str().as_bytes() == name);
        fs::remove_file(&link).unwrap();
        fs::rename(&path, &to).unwrap();
        fs::rename(&to, &path).unwrap();
    }
    let long = dir.join(OsString::from_vec(vec![0xff; 256]));
    let refused = fs::write(long, b"").unwrap_err();
    assert_eq!(
        refused.raw_os_error(),
        Some(rustix::io::Errno::NAMETOOLONG.raw_os_error())
    );
    m.offline(|image| {
        the_same_to_the_library(image, &names);
        if on.is_log() {
            the_same_in_print(image);
        }
    });
    fs::remove_dir_all(&dir).unwrap();
}

fn the_same_to_the_library(image: &str, names: &[Vec<u8>]) {
    varve(["fsck", "--data", image]).expect(0, ": clean");
    let volume = varve::Volume::open(image).unwrap();
    for name in names {
        let path = std::path::Path::new("/d").join(OsStr::from_bytes(name));
        assert!(volume.read(&path).unwrap() == *name);
    }
    volume.close().unwrap();
}

fn the_same_in_print(image: &str) {
    let command = |arguments: &[&OsStr]| {
        let output = std::process::Command::new(crate::support::VARVE)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    for name in [&b"caf\xe9"[..], b"line\nbreak", b"\xff"] {
        let path = [b"/d/", name].concat();
        let path = OsStr::from_bytes(&path);
        let [dump, json, image, inode] = ["dump", "--json", image, "inode"].map(OsStr::new);
        let said = command(&[dump, json, image, inode, path]);
        serde_json::from_slice::<serde_json::Value>(&said).unwrap();
    }
}
