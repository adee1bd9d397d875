//! Snapshots sent to other volumes: trees that are equal, receptions that are cut off
//! and resumed, streams that are damaged, and volumes that a stream does not fit.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use varve::{FileFlags, Layout, OpenOptions, Volume, VolumeOptions};
use varve_prove::random::{Random, scaled};

/// Of each path all that is sent, and content.
type Tree = BTreeMap<PathBuf, (String, Vec<u8>)>;

fn tree(volume: &Volume) -> Tree {
    let mut tree = Tree::new();
    let mut first_names = BTreeMap::new();
    let walked = volume.walk("/").unwrap();
    let paths = walked.map(|entry| entry.unwrap().path().to_owned());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.push("/".into());
    paths.sort();
    for path in paths {
        let metadata = volume.symlink_metadata(&path).unwrap();
        let kind = metadata.file_type();
        let first = first_names
            .entry(metadata.ino())
            .or_insert_with(|| path.clone());
        let (mut content, mut attributes) = (Vec::new(), String::new());
        if kind.is_symlink() {
            content = volume
                .read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes();
        } else {
            if kind.is_file() {
                content = volume.read(&path).unwrap();
            }
            let mut names = volume.xattr_names(&path).unwrap();
            names.retain(|name| !name.as_encoded_bytes().starts_with(b"trusted.varve."));
            names.sort();
            let value = |name| (name, volume.xattr(&path, name).unwrap());
            let flags = volume.file_flags(&path).unwrap();
            attributes = format!(
                "{:?} {flags:?}",
                names.iter().map(value).collect::<Vec<_>>()
            );
        }
        let told = format!(
            "{:o} {} {} {} {:?} {:?} {attributes}",
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            metadata.nlink(),
            metadata.modified().unwrap(),
            first,
        );
        tree.insert(path, (told, content));
    }
    tree
}

#[track_caller]
fn same(found: &Tree, wanted: &Tree) {
    let told = |tree: &Tree| -> Vec<String> {
        let line = |(path, (told, _)): (&PathBuf, &(String, _))| format!("{path:?} {told}");
        tree.iter().map(line).collect()
    };
    assert_eq!(told(found), told(wanted));
    for (path, (_, content)) in wanted {
        assert!(&found[path].1 == content, "content of {}", path.display());
    }
}

fn volume() -> Volume {
    Volume::in_memory(32 << 20).unwrap()
}

fn stream(volume: &Volume, name: &str, since: Option<&str>, first: u64) -> Vec<u8> {
    let mut stream = Vec::new();
    volume
        .send(name, since, first, &mut stream, &mut |_| {})
        .unwrap();
    stream
}

fn receive(volume: &Volume, stream: &[u8]) -> Result<varve::Received, String> {
    let mut left = u64::MAX;
    let received = volume.receive(&mut &stream[..], false, &mut |now| {
        assert!(now <= left, "less is left each time");
        left = now;
    });
    received.map_err(|error| error.to_string())
}

/// Where items begin, and the end.
fn boundaries(stream: &[u8]) -> Vec<usize> {
    let word = |at: usize, bytes: usize| -> usize {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&stream[at..at + bytes]);
        u64::from_le_bytes(word) as usize
    };
    let mut at = 80 + word(10, 2);
    let mut all = vec![at];
    while at < stream.len() {
        at += 64 + word(at + 56, 4);
        all.push(at);
    }
    all
}

fn path(random: &mut Random) -> PathBuf {
    let mut path = PathBuf::from("/");
    for _ in 0..=random.below(3) {
        path.push(random.pick(&["a", "b", "c", "d"]));
    }
    path
}

fn step(volume: &Volume, random: &mut Random) {
    let (path, other) = (path(random), path(random));
    let opened = || OpenOptions::new().write(true).open(volume, &path);
    match random.below(20) {
        0..4 => {
            let length = *random.pick(&[0, 30, 3000, 9000, 300_000]);
            drop(volume.write(&path, vec![random.below(256) as u8; length]));
        }
        4..6 => drop(volume.create_dir(&path)),
        6 => drop(volume.remove_file(&path)),
        7 => drop(volume.remove_dir_all(&path)),
        8 => drop(volume.rename(&path, &other)),
        9 => drop(volume.exchange(&path, &other)),
        10 => drop(volume.hard_link(&path, &other)),
        11 => drop(volume.symlink(&other, &path)),
        12 => {
            if let Ok(file) = opened() {
                let at = random.below(400_000);
                file.write_all_at(&[random.below(256) as u8; 5000], at)
                    .unwrap();
            }
        }
        13 => {
            if let Ok(file) = opened() {
                file.punch(random.below(100_000), 1 + random.below(100_000))
                    .unwrap();
            }
        }
        14 => {
            if let Ok(file) = opened() {
                file.set_len(random.below(200_000)).unwrap();
            }
        }
        15 => {
            let mode = std::fs::Permissions::from_mode(random.below(0o10_000) as u32);
            drop(volume.set_permissions(&path, mode));
        }
        16 => drop(volume.chown(&path, Some(random.below(9) as u32), Some(7))),
        17 => {
            let name = *random.pick(&["user.a", "user.b", "trusted.c"]);
            let value = vec![random.below(256) as u8; random.below(1000) as usize];
            drop(volume.set_xattr(&path, name, &value));
            drop(volume.remove_xattr(&other, name));
        }
        18 => {
            let flags = FileFlags {
                immutable: random.once_in(2),
                no_dump: random.once_in(2),
                project_inherit: random.once_in(8),
                ..FileFlags::default()
            };
            drop(volume.set_file_flags(&path, flags));
            drop(volume.set_file_flags(&other, FileFlags::default()));
        }
        _ => volume.checkpoint().unwrap(),
    }
}

#[test]
fn a_copy_follows_snapshots_through_interruptions() {
    for seed in 0..scaled(12) {
        eprintln!("reproduce: seed {seed} of a_copy_follows_snapshots_through_interruptions");
        let mut random = Random::new(seed);
        let (sender, receiver) = (volume(), volume());
        let mut since: Option<String> = None;
        for round in 0..8 {
            for _ in 0..30 {
                step(&sender, &mut random);
            }
            let name = format!("s{round}");
            let taken = sender.snapshot(&name).unwrap();
            let wanted = tree(&sender.at(&taken).unwrap());
            // Changes behind the snapshot are not sent.
            for _ in 0..5 {
                step(&sender, &mut random);
            }
            loop {
                let next = receiver.received().unwrap().and_then(|mark| mark.next);
                let first = next.filter(|_| random.once_in(2)).unwrap_or(0);
                let sent = stream(&sender, &name, since.as_deref(), first);
                if random.once_in(3) {
                    receive(&receiver, &sent).unwrap();
                    break;
                }
                let cut = random.below(sent.len() as u64) as usize;
                let error = receive(&receiver, &sent[..cut]).unwrap_err();
                assert!(error.contains("stream"), "{error}");
                let has = receiver.snapshots().unwrap();
                assert!(
                    has.iter().all(|one| one.name() != name),
                    "not before the end"
                );
            }
            let copy = receiver.snapshot_named(&name).unwrap();
            same(&tree(&receiver.at(&copy).unwrap()), &wanted);
            same(&tree(&receiver), &wanted);
            since = Some(name);
        }
        // Any layout receives a whole tree.
        let name = since.unwrap();
        let wanted = tree(&sender.at(&sender.snapshot_named(&name).unwrap()).unwrap());
        let sent = stream(&sender, &name, None, 0);
        for layout in [Layout::Log, Layout::VirtualLog, Layout::InPlace] {
            let host = tempfile::tempdir().unwrap();
            let mut options = VolumeOptions::new();
            options.layout(layout).size(64 << 20);
            let copy = options.create(host.path().join("image")).unwrap();
            receive(&copy, &sent).unwrap();
            same(&tree(&copy), &wanted);
            copy.close().unwrap();
        }
    }
}

/// A volume with every kind of change between its snapshots `a` and `b`.
fn changed() -> Volume {
    let volume = volume();
    volume.create_dir_all("/one/two").unwrap();
    volume.create_dir("/three").unwrap();
    volume.write("/one/file", vec![1; 50_000]).unwrap();
    volume.hard_link("/one/file", "/three/link").unwrap();
    volume.write("/one/two/deep", b"deep").unwrap();
    volume.write("/becomes", b"a file").unwrap();
    volume.write("/goes", vec![3; 9000]).unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe");
    volume
        .write(Path::new("/").join(odd), b"not UTF-8")
        .unwrap();
    volume.set_xattr("/one/file", "user.color", b"red").unwrap();
    volume.snapshot("a").unwrap();
    // Directories change places, one with a link across them.
    volume.rename("/one/two", "/two").unwrap();
    volume.rename("/one", "/two/one").unwrap();
    volume.remove_file("/three/link").unwrap();
    volume.hard_link("/two/one/file", "/linked").unwrap();
    volume.remove_file("/becomes").unwrap();
    volume.create_dir("/becomes").unwrap();
    volume.write("/becomes/in", b"it").unwrap();
    volume.remove_file("/goes").unwrap();
    volume.write("/new", vec![4; 70_000]).unwrap();
    let file = OpenOptions::new()
        .write(true)
        .open(&volume, "/linked")
        .unwrap();
    file.punch(8192, 16_384).unwrap();
    file.set_len(1 << 20).unwrap();
    volume.symlink("nowhere", "/symlink").unwrap();
    let flags = FileFlags {
        immutable: true,
        ..FileFlags::default()
    };
    volume.set_file_flags("/new", flags).unwrap();
    drop(file);
    volume.snapshot("b").unwrap();
    volume
}

#[test]
fn a_stream_is_cut_at_every_item() {
    let sender = changed();
    let (whole, since) = (
        stream(&sender, "a", None, 0),
        stream(&sender, "b", Some("a"), 0),
    );
    let at = |name| tree(&sender.at(&sender.snapshot_named(name).unwrap()).unwrap());
    let (a, b) = (at("a"), at("b"));
    let all = boundaries(&since);
    for cut in &all[..all.len() - 1] {
        let receiver = volume();
        receive(&receiver, &whole).unwrap();
        same(&tree(&receiver), &a);
        let error = receive(&receiver, &since[..*cut]).unwrap_err();
        assert!(error.contains("the stream was cut at item"), "{error}");
        let held = receiver.snapshot_named("a").unwrap();
        same(&tree(&receiver.at(&held).unwrap()), &a);
        let next = receiver.received().unwrap().unwrap().next.unwrap();
        receive(&receiver, &stream(&sender, "b", Some("a"), next)).unwrap();
        same(&tree(&receiver), &b);
    }
    for cut in boundaries(&whole) {
        let receiver = volume();
        drop(receive(&receiver, &whole[..cut]));
        receive(&receiver, &whole).unwrap();
        same(&tree(&receiver), &a);
    }
}

#[test]
fn a_damaged_stream_loses_nothing() {
    let sender = changed();
    let sent = stream(&sender, "b", None, 0);
    let wanted = tree(&sender.at(&sender.snapshot_named("b").unwrap()).unwrap());
    let all = boundaries(&sent);
    let mut random = Random::new(53);
    let mut damaged: Vec<Vec<u8>> = (0..40)
        .map(|_| {
            let mut damaged = sent.clone();
            damaged[random.below(sent.len() as u64) as usize] ^= 1 << random.below(8);
            damaged
        })
        .collect();
    for three in all.windows(3) {
        // Two items exchanged, and one left out.
        let (first, second) = (&sent[three[0]..three[1]], &sent[three[1]..three[2]]);
        let (head, tail) = (&sent[..three[0]], &sent[three[2]..]);
        damaged.push([head, second, first, tail].concat());
        damaged.push([head, second, tail].concat());
    }
    for stream in damaged {
        let receiver = volume();
        let error = receive(&receiver, &stream).unwrap_err();
        assert!(error.contains("stream"), "{error}");
        assert!(receiver.snapshots().unwrap().is_empty());
        receive(&receiver, &sent).unwrap();
        same(&tree(&receiver), &wanted);
    }
}

#[test]
fn a_stream_that_does_not_belong_is_refused() {
    let (sender, receiver, other) = (changed(), volume(), changed());
    let since = stream(&sender, "b", Some("a"), 0);
    let refused = |receiver: &Volume, stream: &[u8], why: &str| {
        let error = receive(receiver, stream).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    refused(&receiver, &since, "has not received the base");
    refused(&other, &stream(&sender, "a", None, 0), "is not empty");
    refused(
        &receiver,
        &stream(&sender, "a", None, 3),
        "was not begun here",
    );
    receive(&receiver, &stream(&sender, "a", None, 0)).unwrap();
    refused(
        &receiver,
        &stream(&other, "b", Some("a"), 0),
        "from another volume",
    );
    receiver.write("/one/two/deep", b"here").unwrap();
    refused(&receiver, &since, "was changed since");
    assert_eq!(receiver.read("/one/two/deep").unwrap(), b"here");
    receiver
        .receive(&mut &since[..], true, &mut |_| {})
        .unwrap();
    let wanted = tree(&sender.at(&sender.snapshot_named("b").unwrap()).unwrap());
    same(&tree(&receiver), &wanted);
    // Once more: there is nothing to do.
    assert_eq!(receive(&receiver, &since).unwrap().items, 0);
    let newer = sender.send("a", Some("b"), 0, &mut Vec::new(), &mut |_| {});
    assert!(newer.unwrap_err().to_string().contains("is not older"));
}
