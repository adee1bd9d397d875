//! The command line: exit codes, messages, and that a refusal changes nothing.

mod support;

use std::fs;
use support::{Scratch, varve};
use varve::{Volume, admin};

#[test]
fn mkfs_makes_a_volume_and_tells_about_it() {
    let s = Scratch::new();
    let image = s.text("a");
    let made = varve([
        "mkfs",
        &image,
        "--size",
        "64M",
        "-L",
        "öl",
        "--segment-size",
        "256K",
        "--block-size",
        "8K",
        "--inode-size",
        "512",
        "--json",
    ])
    .expect(0, "uuid")
    .json();
    assert_eq!(made["bytes"], 64 << 20);
    assert_eq!(made["segment_bytes"], 256 << 10);
    let info = varve(["info", &image, "--json"]).expect(0, "").json();
    assert_eq!(info["label"], "öl");
    assert_eq!(info["uuid"], made["uuid"]);
    assert_eq!(info["block_bytes"], 8192);
    assert_eq!(info["inode_bytes"], 512);
    assert_eq!(info["state"], "clean");
    varve(["info", &image]).expect(0, "segments   ");
    varve(["fsck", &image]).expect(0, "clean");
}

#[test]
fn mkfs_preallocates_what_it_is_asked_to() {
    use std::os::unix::fs::MetadataExt;
    let s = Scratch::new();
    for (name, flag) in [("w", "--preallocate"), ("r", "--reserve")] {
        let image = s.text(name);
        varve(["mkfs", &image, "--size", "16M", flag]).expect(0, "16 MiB");
        assert!(fs::metadata(&image).unwrap().blocks() * 512 >= 16 << 20);
    }
    let sparse = s.volume("sparse", "1G");
    assert!(fs::metadata(sparse).unwrap().blocks() * 512 < 8 << 20);
}

#[test]
fn mkfs_refuses_what_would_destroy_or_cannot_be() {
    let s = Scratch::new();
    let image = s.volume("volume", "16M");
    let before = fs::read(&image).unwrap();
    varve(["mkfs", &image]).expect(1, "holds a Varve volume; to overwrite it");
    varve(["mkfs", &image, "--size", "32M", "--force"]).expect(1, "exists already and has");
    assert_eq!(fs::read(&image).unwrap(), before);
    varve(["mkfs", &image, "--force"]).expect(0, "16 MiB");
    assert_ne!(fs::read(&image).unwrap(), before);

    let ext4 = s.text("ext4");
    let mut bytes = vec![0; 16 << 20];
    bytes[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    fs::write(&ext4, &bytes).unwrap();
    varve(["mkfs", &ext4]).expect(1, "an ext2, ext3 or ext4 file system");
    assert_eq!(fs::read(&ext4).unwrap(), bytes);

    let new = s.text("new");
    varve(["mkfs", &new]).expect(1, "give a size");
    varve(["mkfs", &new, "--size", "100K"]).expect(1, "use a larger device");
    varve(["mkfs", &new, "--size", "1G", "--segment-size", "128M"]).expect(1, "smaller segments");
    varve(["mkfs", &new, "--size", "64M", "--block-size", "3000"])
        .expect(1, "block size: 3000 bytes");
    varve(["mkfs", &new, "--size", "64M", "-L", &"x".repeat(65)]).expect(1, "label");
    varve(["mkfs", &new, "--size", "much"]).expect(2, "is no size");
    varve(["mkfs", "/no/such/directory/x", "--size", "64M"]).expect(1, "No such file");
    varve(["mkfs", "/dev/null"]).expect(1, "neither a regular file nor a block device");
    assert!(!fs::exists(&new).unwrap());
}

#[test]
fn a_volume_in_use_is_refused_and_its_holder_named() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    let volume = Volume::open(&image).unwrap();
    let holder = format!("held by process {}", std::process::id());
    let directory = s.text("");
    varve(["mkfs", &image, "--force"]).expect(1, &holder);
    varve(["fsck", &image]).expect(8, &holder);
    varve(["stats", &image]).expect(1, &holder);
    varve(["mount", &image, &directory, "--foreground"]).expect(32, &holder);
    let info = varve(["info", &image, "--json"]).expect(0, "").json();
    assert_eq!(info["state"], "mounted");
    assert_eq!(info["holder"]["pid"], std::process::id());
    volume.write("/still", b"works").unwrap();
    volume.close().unwrap();
    let info = varve(["info", &image, "--json"]).expect(0, "").json();
    assert_eq!(info["state"], "clean");
    assert!(info["holder"].is_null());
}

#[test]
fn a_crash_is_told_and_mended() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    let volume = Volume::open(&image).unwrap();
    volume.write("/kept", b"synced").unwrap();
    volume.sync().unwrap();
    volume.abandon();
    varve(["info", &image]).expect(0, "not unmounted cleanly");
    varve(["fsck", &image]).expect(0, "not unmounted cleanly");
    let volume = Volume::open(&image).unwrap();
    let fs = admin::tree(&volume).log().unwrap();
    assert!(fs.layout().recovery_report().groups > 0);
    assert_eq!(volume.read("/kept").unwrap(), b"synced");
    volume.close().unwrap();
    varve(["fsck", &image, "--data"]).expect(0, ": clean");
}

#[test]
fn missing_and_foreign_images_give_each_command_its_exit_code() {
    let s = Scratch::new();
    let (missing, foreign, empty) = (s.text("missing"), s.text("foreign"), s.text("empty"));
    fs::write(&foreign, b"XFSB".repeat(1 << 18)).unwrap();
    fs::write(&empty, b"").unwrap();
    let directory = s.text("");
    for (image, said) in [
        (&missing, "No such file"),
        (&foreign, "XFS"),
        (&empty, "size of 0 bytes"),
    ] {
        varve(["info", image]).expect(1, if said.contains("size") { "" } else { said });
        varve(["stats", image]).expect(1, said);
        varve(["mount", "-f", image, &directory]).expect(32, said);
        varve(["mount", image, &directory]).expect(32, said);
    }
    varve(["fsck", &missing]).expect(8, "No such file");
    varve(["fsck", &foreign]).expect(8, "no usable superblock");
    assert!(!fs::exists(&missing).unwrap());
    assert_eq!(fs::read(&foreign).unwrap(), b"XFSB".repeat(1 << 18));
}

#[test]
fn wrong_usage_has_the_exit_code_of_the_command_it_stands_for() {
    let s = Scratch::new();
    let image = s.volume("volume", "16M");
    varve(["fsck"]).expect(16, "Usage");
    varve(["fsck", &image, "--nonsense"]).expect(16, "Usage");
    varve(["mount"]).expect(1, "Usage");
    varve(["mount", "-o", "blue", &image, "/"]).expect(1, "`blue` is no option");
    varve(["mount", &image, "/no/such/directory"]).expect(32, "cannot mount on");
    varve(["mount", &image, &image]).expect(32, "is not a directory");
    varve(["umount"]).expect(1, "Usage");
    varve(["umount", "/no/such/directory"]).expect(32, "nothing is mounted");
    varve(["umount", "/"]).expect(32, "not of a Varve volume");
    varve(["stats", "/"]).expect(1, "not of a Varve volume");
    varve(["top", "/"]).expect(1, "not of a Varve volume");
    varve(["info", "/"]).expect(1, "not of a Varve volume");
    varve(["mkfs"]).expect(2, "Usage");
    varve(["frobnicate"]).expect(2, "Usage");
    varve(["--version"]).expect(0, "varve ");
    varve(["help", "mount"]).expect(0, "umount");
}

/// Content of `/damaged` in [`damaged_volume`].
fn marker() -> Vec<u8> {
    b"a block that will be damaged, told by its content".repeat(200)
}

/// A volume with `/sound` and `/damaged`: its original bytes, and those with one bit of
/// `/damaged` flipped.
fn damaged_volume(image: &str) -> (Vec<u8>, Vec<u8>) {
    let volume = Volume::open(image).unwrap();
    let marker = marker();
    volume.write("/damaged", &marker).unwrap();
    volume.write("/sound", vec![7; 1 << 20]).unwrap();
    volume.close().unwrap();
    let sound = fs::read(image).unwrap();
    let mut bytes = sound.clone();
    let at = bytes
        .windows(64)
        .position(|window| window == &marker[..64])
        .unwrap();
    bytes[at + 5] ^= 1;
    (sound, bytes)
}

#[test]
fn fsck_finds_damage_and_changes_nothing() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    let (_, bytes) = damaged_volume(&image);
    fs::write(&image, &bytes).unwrap();
    varve(["fsck", &image]).expect(0, "clean");
    let found = varve(["fsck", &image, "--data"]).expect(4, "/damaged");
    assert!(
        found.out.contains("restore the file from a backup"),
        "{found:?}"
    );
    let json = varve(["fsck", &image, "--data", "--json"])
        .expect(4, "")
        .json();
    assert_eq!(json["errors"][0]["path"], "/damaged");
    assert_eq!(fs::read(&image).unwrap(), bytes);

    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.read("/damaged").unwrap_err().errno(), 5);
    assert_eq!(volume.read("/sound").unwrap(), vec![7; 1 << 20]);
}

#[test]
fn a_lost_superblock_is_found_in_a_copy() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    let mut bytes = fs::read(&image).unwrap();
    bytes[..4096].fill(0xee);
    fs::write(&image, &bytes).unwrap();
    let found = varve(["fsck", &image]);
    assert!(found.code == 0 || found.code == 4, "{found:?}");
    assert!(found.out.contains("superblock"), "{found:?}");
    // Every copy and all other bytes are overwritten: there is nothing to check.
    fs::write(&image, vec![0xee; 32 << 20]).unwrap();
    varve(["fsck", &image]).expect(8, "no usable superblock");
}

#[test]
fn fsck_repairs_once_and_says_what() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    let (sound, mut bytes) = damaged_volume(&image);
    varve(["fsck", "--repair", &image]).expect(0, ": clean");
    assert_eq!(fs::read(&image).unwrap(), sound);

    bytes[..4096].fill(0xee);
    fs::write(&image, &bytes).unwrap();
    // At boot only repairs without a loss are made.
    varve(["fsck", "-n", &image, "--data"]).expect(4, "/damaged");
    assert_eq!(fs::read(&image).unwrap(), bytes);
    varve(["fsck", "-a", &image]).expect(1, "the superblock copy at byte 0");
    varve(["fsck", "-a", &image]).expect(0, "clean");
    varve(["fsck", "-p", "-f", &image, "--data"]).expect(4, "run varve fsck --repair");
    let done = varve(["fsck", "-y", &image, "--data"]).expect(1, "REPAIRED");
    assert!(done.out.contains("lost: /damaged"), "{done:?}");
    let mended = fs::read(&image).unwrap();
    varve(["fsck", "--repair", &image, "--data"]).expect(0, ": clean");
    assert_eq!(fs::read(&image).unwrap(), mended);
    varve(["fsck", &image, "--data"]).expect(0, ": clean");

    let volume = Volume::open(&image).unwrap();
    varve(["fsck", "--repair", &image]).expect(8, "is in use");
    assert_eq!(volume.read("/sound").unwrap(), vec![7; 1 << 20]);
    assert_eq!(volume.read("/damaged").unwrap().len(), marker().len());
    drop(volume);
    varve(["fsck", "-n", "-y", &image]).expect(16, "cannot be used with");
}

#[test]
fn salvage_copies_a_volume_without_superblocks_and_checkpoints() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    let target = s.text("target");
    let volume = Volume::open(&image).unwrap();
    volume.create_dir_all("/a/b").unwrap();
    volume.write("/a/b/file", vec![9; 100_000]).unwrap();
    let Ok(admin::Superblock::Log(superblock)) = admin::read_superblock(&image) else {
        panic!("no superblock");
    };
    let uuid = superblock.uuid;
    varve(["salvage", &image, &target]).expect(1, "is in use");
    volume.close().unwrap();
    varve(["salvage", &image, &image]).expect(1, "");
    // Superblocks, owner record and ring; and the copies in segments.
    let mut bytes = fs::read(&image).unwrap();
    bytes[..16384].fill(0);
    for at in (0..bytes.len()).step_by(4096) {
        if bytes[at..].starts_with(b"VARVEFS") {
            bytes[at..at + 4096].fill(0);
        }
    }
    fs::write(&image, &bytes).unwrap();
    varve(["fsck", "--repair", &image]).expect(8, "no usable superblock");
    varve(["salvage", &image, &target]).expect(0, "1 files, 3 directories");
    assert_eq!(fs::read(&image).unwrap(), bytes);
    varve(["fsck", &target, "--data"]).expect(0, ": clean");
    let volume = Volume::open(&target).unwrap();
    assert_eq!(volume.read("/a/b/file").unwrap(), vec![9; 100_000]);
    volume.close().unwrap();
    varve(["salvage", &image, &target]).expect(1, "--force");
    let digits: String = uuid[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    varve(["salvage", &image, &target, "--force", "--uuid", &digits]).expect(0, "1 files");
    varve(["salvage", &image, &s.text("small"), "--size", "100"]).expect(1, "");
    varve(["salvage", &image, &target, "--uuid", "zz"]).expect(2, "hexadecimal");
    let other = "0011223344556677";
    varve(["salvage", &image, &target, "--force", "--uuid", other]).expect(1, "no summary of");
    varve(["salvage", &image]).expect(2, "Usage");
    fs::write(&image, vec![0xee; 1 << 20]).unwrap();
    varve(["salvage", &image, &s.text("none")]).expect(1, "no summary is whole");
}

#[test]
fn structures_are_dumped_for_people_and_scripts() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    let volume = Volume::open(&image).unwrap();
    volume.create_dir("/d").unwrap();
    volume.write("/d/file", vec![5; 20_000]).unwrap();
    volume.sync().unwrap();
    varve(["dump", &image, "ifile"]).expect(1, "is in use");
    volume.close().unwrap();
    let dump = |what: &[&str], json: bool| {
        let flag: &[&str] = if json { &["--json"] } else { &[] };
        let answer = varve(["dump", &image].iter().chain(what).chain(flag));
        assert!(!answer.out.is_empty());
        answer.expect(0, "")
    };
    for what in [
        &["superblock"][..],
        &["checkpoints"],
        &["segments"],
        &["segments", "--used"],
        &["summary", "0", "--data"],
        &["inode", "2"],
        &["inode", "/d/file"],
        &["ifile"],
    ] {
        dump(what, false);
        dump(what, true).json();
    }
    assert_eq!(dump(&["inode", "/d/file"], true).json()["size"], 20_000);
    assert_eq!(dump(&["superblock"], true).json()["clean"], true);
    assert!(dump(&["segments"], true).json().as_array().unwrap().len() > 100);
    varve(["dump", &image, "inode", "/nowhere"]).expect(1, "/nowhere");
    varve(["dump", &image, "inode", "x"]).expect(1, "neither a number");
    varve(["dump", &image, "summary", "99999"]).expect(1, "there is no segment");
    varve(["dump", &image]).expect(2, "say what");
    varve(["dump", &image, "--utilisation", "ifile"]).expect(2, "say what");

    // The histogram, as text, as JSON and as a picture.
    let text = dump(&["--utilisation"], false).out;
    assert!(
        text.contains("clean") && text.contains("90-100 %"),
        "{text}"
    );
    let counted = dump(&["--utilisation"], true).json();
    let used = counted["used"].as_array().unwrap();
    let used: u64 = used.iter().map(|n| n.as_u64().unwrap()).sum();
    let others = ["clean", "open", "empty"].map(|name| counted[name].as_u64().unwrap());
    let segments = dump(&["segments"], true).json();
    let all = segments.as_array().unwrap().len() as u64;
    assert_eq!(used + others.iter().sum::<u64>(), all);
    let picture = s.text("picture.svg");
    dump(&["--utilisation", "--picture", &picture], false);
    assert!(fs::read_to_string(&picture).unwrap().starts_with("<svg"));
    let nowhere = s.text("no/where.svg");
    varve(["dump", &image, "--utilisation", "--picture", &nowhere]).expect(1, "where.svg");
    varve(["dump", &image, "--picture", &picture]).expect(2, "--utilisation");
}
