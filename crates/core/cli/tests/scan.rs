//! `varve tar` and `varve cp --unordered`, on images and real mounts, read back by tar(1)
//! and compared by diff(1).
//!
//! Without /dev/fuse the tests of mounts are skipped loudly, but fail in CI.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use support::mounted::{Mount, no_fuse};
use support::{Scratch, shell, varve};

/// Fills a directory with files of all kinds, some rewritten out of order.
fn fill(dir: &Path) {
    let long = "d".repeat(120);
    let deep = dir.join(&long).join("e".repeat(200));
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir_all(dir.join("empty/below")).unwrap();
    for nth in 0..40_u8 {
        fs::write(
            dir.join(format!("{long}/{nth}")),
            vec![nth; 300 * usize::from(nth)],
        )
        .unwrap();
    }
    fs::write(deep.join("long name"), b"deep").unwrap();
    let raw = OsStr::from_bytes(b"not \xff utf-8\n");
    fs::write(dir.join(raw), b"raw").unwrap();
    symlink(&long, dir.join("link")).unwrap();
    symlink("x".repeat(300), dir.join("dangling")).unwrap();
    fs::hard_link(dir.join(&long).join("39"), dir.join("also 39")).unwrap();
    fs::write(dir.join("random"), vec![7; 1 << 20]).unwrap();
    let sparse = fs::File::create(dir.join("sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 9 << 20).unwrap();
    fs::set_permissions(dir.join("empty/below"), fs::Permissions::from_mode(0o500)).unwrap();
    shell(&format!(
        "cd '{}'; sync -f .; for at in 9 3 200 77 31; do
           head -c 4096 /dev/urandom | dd of=random bs=4096 seek=$at conv=notrunc,fsync status=none
         done
         mkfifo fifo; setfattr -n user.colour -v blue random; touch -d @86400.5 empty sparse",
        dir.display()
    ));
}

/// What diff(1) does not compare.
fn attributes(dir: &Path) -> Vec<String> {
    let listed = shell(&format!(
        "cd '{}'; find . -printf '%P %y %m %U %G %n %s %T@ %l\\n' | LC_ALL=C sort \
         | sed '/^ d/d'; getfattr -d random",
        dir.display()
    ));
    // Sizes of directories are those of the file system.
    let directory = |line: &str| line.contains(" d ");
    let size = |line: &str| match directory(line) {
        true => {
            let mut words: Vec<&str> = line.split(' ').collect();
            let count = words.len();
            words[count - 3] = "";
            words.join(" ")
        }
        false => line.to_owned(),
    };
    listed.lines().map(size).collect()
}

#[track_caller]
fn same(one: &Path, other: &Path) {
    let (a, b) = (one.display(), other.display());
    // A fifo is no content; sizes and targets are among the attributes.
    shell(&format!("diff -r --no-dereference -x fifo '{a}' '{b}'"));
    assert_eq!(attributes(one), attributes(other));
    let blocks = |dir: &Path| fs::metadata(dir.join("sparse")).unwrap().blocks();
    assert!(blocks(other) < 2000, "{} sectors", blocks(other));
}

fn extract(stream: &str, into: &Path) {
    fs::create_dir(into).unwrap();
    let into = into.display();
    shell(&format!(
        "tar -xpf '{stream}' --xattrs --xattrs-include='*' -C '{into}'"
    ));
}

#[test]
fn a_mount_is_copied_and_written_as_a_tar_stream() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("128M");
    let out = Scratch::new();
    let tree = PathBuf::from(&mount.dir).join("tree");
    fs::create_dir(&tree).unwrap();
    fill(&tree);
    let (source, stream) = (tree.to_str().unwrap(), out.text("tree.tar"));
    varve(["tar", source, "--to", &stream]).expect(0, "");
    extract(&stream, &out.path("extracted"));
    same(&tree, &out.path("extracted"));
    let copy = out.text("copy");
    varve(["cp", "--unordered", source, &copy]).expect(0, "files");
    same(&tree, Path::new(&copy));

    // A snapshot does not change with the tree.
    varve(["snapshot", "create", &mount.dir, "before"]).expect(0, "");
    fs::write(tree.join("random"), b"changed").unwrap();
    fs::remove_file(tree.join("link")).unwrap();
    let past = out.text("past");
    let of_past = [
        "cp",
        "--unordered",
        &mount.dir,
        &past,
        "--at",
        "before",
        "--path",
        "tree",
    ];
    varve(of_past).expect(0, "files");
    same(Path::new(&copy), Path::new(&past));
    varve(["tar", source, "--at", "before", "--to", &stream]).expect(0, "");
    extract(&stream, &out.path("past of tar"));
    same(Path::new(&copy), &out.path("past of tar"));

    // One file, to the standard output.
    let listed = shell(&format!(
        "'{}' tar '{}' --path tree/sparse | tar -tv",
        support::VARVE,
        mount.dir
    ));
    assert!(
        listed.ends_with(" sparse\n") && listed.contains("20971520"),
        "{listed}"
    );

    // A destination without enough space.
    let small = Mount::new("16M");
    fs::write(tree.join("big"), vec![1; 30 << 20]).unwrap();
    let full = small.dir.clone() + "/copy";
    varve(["cp", "--unordered", source, &full]).expect(1, "No space left");
    varve(["tar", source, "--to", "/dev/full"]).expect(1, "/dev/full: No space left");
}

#[test]
fn an_image_is_copied_with_holes_and_any_names() {
    let scratch = Scratch::new();
    let image = scratch.volume("image", "64M");
    let volume = varve::Volume::open(&image).unwrap();
    volume.create_dir("/d").unwrap();
    let raw = PathBuf::from(OsStr::from_bytes(b"/d/\xff\xfe"));
    volume.write(&raw, vec![3; 100_000]).unwrap();
    volume.write("/d/small", b"inline").unwrap();
    volume.hard_link("/d/small", "/twin").unwrap();
    volume.close().unwrap();
    let (copy, stream) = (scratch.text("copy"), scratch.text("tar"));
    varve(["cp", "--unordered", &image, &copy, "--json"]).expect(0, "\"files\":3");
    let of_copy = |name: &[u8]| Path::new(&copy).join(OsStr::from_bytes(name));
    assert_eq!(fs::read(of_copy(b"d/\xff\xfe")).unwrap(), vec![3; 100_000]);
    let twin = fs::metadata(of_copy(b"twin")).unwrap();
    assert_eq!(twin.ino(), fs::metadata(of_copy(b"d/small")).unwrap().ino());
    varve(["tar", &image, "--to", &stream]).expect(0, "");
    extract(&stream, &scratch.path("extracted"));
    let extracted = scratch.text("extracted");
    shell(&format!("diff -r '{copy}' '{extracted}'"));
    assert_eq!(
        fs::read(scratch.path("extracted").join("twin")).unwrap(),
        b"inline"
    );
}

#[test]
fn wrong_arguments_are_refused() {
    let scratch = Scratch::new();
    let image = scratch.volume("image", "64M");
    let (copy, none) = (scratch.text("copy"), scratch.text("none"));
    varve(["cp", &image, &copy]).expect(2, "--unordered");
    varve(["cp", "--unordered", &none, &copy]).expect(1, "none");
    varve(["cp", "--unordered", &image, &copy, "--at", "monday"]).expect(1, "no such snapshot");
    varve(["cp", "--unordered", &image, &copy, "--path", "/x"]).expect(1, "no such file");
    fs::write(Path::new(&copy).join("file"), b"1").unwrap();
    varve(["cp", "--unordered", &image, &copy]).expect(1, "is not empty");
    varve(["cp", "--unordered", &image, &image]).expect(1, "Not a directory");
    varve(["tar", &image, "--to", "/none/none"]).expect(1, "cannot write /none/none");
    let host = scratch.dir.path().to_str().unwrap();
    varve(["tar", host, "--to", &none]).expect(1, "mount");
}
