//! The command: exit codes, messages, and that a refusal changes nothing.

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
    varve(["stats", "/"]).expect(1, "");
    varve(["top", "/"]).expect(1, "no Varve mount");
    varve(["info", "/"]).expect(1, "not of a Varve volume");
    varve(["mkfs"]).expect(2, "Usage");
    varve(["frobnicate"]).expect(2, "Usage");
    varve(["--version"]).expect(0, "varve ");
    varve(["help", "mount"]).expect(0, "umount");
}

/// What stands in `/damaged` of [`damaged_volume`].
fn marker() -> Vec<u8> {
    b"a block that will be damaged, told by its content".repeat(200)
}

/// A volume with `/sound` and `/damaged`: its bytes as they were, and with one
/// bit of `/damaged` flipped.
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
    // Every copy, and all else: nothing to check.
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
    // At boot only what loses nothing is mended.
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

#[test]
fn bench_prints_one_json_object_per_phase_and_a_table() {
    let s = Scratch::new();
    let (image, results) = (s.text("image"), s.text("results.jsonl"));
    let common = [
        "--nodrop",
        "--n",
        "200",
        "--seconds",
        "0.2",
        "--total",
        "256K",
    ];
    let mut lines = String::new();
    for workload in [
        "smallfile",
        "sizes",
        "metadata",
        "tpcb",
        "fsyncupdate",
        "oo1",
        "wisconsin",
    ] {
        let size = ["--size", "64M", "--image", &image, "--file-size", "1M"];
        let size = if workload == "fsyncupdate" {
            &size[..]
        } else {
            &size[..4]
        };
        let run = varve(["bench", workload].iter().chain(&common).chain(size));
        lines += &run.expect(0, "varve-lib").out;
        let directory = s.text("");
        let size = ["--dir", &directory, "--tag", "host", "--file-size", "1M"];
        let size = if workload == "fsyncupdate" {
            &size[..]
        } else {
            &size[..4]
        };
        let run = varve(["bench", workload].iter().chain(&common).chain(size));
        lines += &run.expect(0, "\"host\"").out;
    }
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            line["ops"].is_u64() && line["seconds"].is_number(),
            "{line}"
        );
    }
    fs::write(&results, &lines).unwrap();
    let table = varve(["bench", "--table", &results, "--baseline", "host"]);
    let table = table.expect(0, "| create, durable, files/s |");
    assert!(
        table.out.contains("### fsyncupdate, 1 threads"),
        "{table:?}"
    );
    assert!(table.out.contains("x) |"), "{table:?}");
    varve(["bench", "nonsense", "--image", &image]).expect(2, "fillaging");
    varve(["bench"]).expect(2, "Usage");
}

/// The command of a cold point may be a remount, which an open file keeps from happening.
#[test]
fn bench_has_no_file_open_where_it_is_cold() {
    let s = Scratch::new();
    let directory = s.text("");
    let command = "ls -l /proc/$PPID/fd | grep bench.oo1 && exit 1; true";
    let run = ["bench", "oo1", "--dir", &directory, "--n", "200"];
    varve([&run[..], &["--cold-cmd", command]].concat()).expect(0, "backward");
}

#[test]
fn bench_ages_a_volume() {
    let s = Scratch::new();
    let image = s.text("image");
    let run = varve([
        "bench",
        "fillaging",
        "--image",
        &image,
        "--size",
        "64M",
        "--nodrop",
        "--seconds",
        "20",
        "--volume",
        "0.5",
    ]);
    let run = run.expect(0, "aged_read");
    assert!(run.out.contains("\"enospc\":false"), "{}", run.out);
}

#[test]
fn bench_overwrites_volumes_only() {
    let s = Scratch::new();
    let precious = s.text("precious");
    fs::write(&precious, b"thesis".repeat(1 << 20)).unwrap();
    varve(["bench", "metadata", "--image", &precious]).expect(1, "holds data");
    assert_eq!(fs::read(&precious).unwrap(), b"thesis".repeat(1 << 20));
}

/// One image, which each finds as the one before left it.
#[test]
fn bench_runs_on_every_layout() {
    let s = Scratch::new();
    let image = s.text("image");
    let small = ["--size", "64M", "--n", "200", "--nodrop"];
    for layout in ["ffs", "vlfs", "efs", "buddy", "log"] {
        let run = ["bench", "smallfile", "--image", &image, "--layout", layout];
        varve(run.iter().chain(&small)).expect(0, "delete");
        let found = varve(["info", &image, "--json"]).expect(0, "").out;
        assert_eq!(
            found.contains("\"segments\""),
            layout == "log",
            "{layout}: {found}"
        );
    }
}

#[test]
fn prove_runs_rows_and_counts() {
    varve(["prove", "--list"]).expect(0, "crash-states");
    varve(["prove", "--list"]).expect(0, "cargo test --release -p varve-cli --test mount");
    let list = varve(["prove", "--list", "--json"]).expect(0, "").json();
    assert!(list.as_array().unwrap().len() >= 12);
    let rows = [
        "prove",
        "--rows",
        "bounded,io-errors",
        "--minutes",
        "0.01",
        "--seed",
        "7",
    ];
    let told = varve(rows).expect(0, "no failure");
    assert!(told.err.starts_with("seed 7\n"), "{}", told.err);
    assert!(told.out.contains("injected"), "{}", told.out);
    let report = varve(rows.iter().chain(&["--json"])).expect(0, "").json();
    assert_eq!(report["seed"], 7);
    assert_eq!(report["rows"][0]["unit"], "states");
    assert!(report["rows"][0]["done"].as_u64().unwrap() > 0);
    let errors = &report["rows"][1]["faults"]["WriteError"];
    assert!(errors["injected"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn prove_repeats_one_round() {
    let round = [
        "prove",
        "--rows",
        "crash-states",
        "--seed",
        "3",
        "--round",
        "2",
        "--json",
    ];
    let run = || varve(round).expect(0, "").json()["rows"][0].clone();
    let (first, second) = (run(), run());
    assert_eq!(first["rounds"], 1);
    assert_eq!(first["done"], second["done"]);
    assert_eq!(first["details"], second["details"]);
}

#[test]
fn prove_refuses_what_it_does_not_know() {
    varve(["prove", "--rows", "luck"]).expect(2, "no such row");
    varve(["prove", "--rows", "kill"]).expect(2, "it is a test only");
    varve(["prove", "--minutes=-1"]).expect(2, "no number of minutes");
    varve(["prove", "--round", "1"]).expect(2, "--seed");
}

#[test]
fn the_laboratory_replays_a_trace_and_says_which_to_choose() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("calls.txt");
    let name = trace.to_str().unwrap();
    let mut text = String::from("openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT, 0644) = 3\n");
    for at in 0..300 {
        text += &format!(
            "pwrite64(3, \"\"..., 4096, {}) = 4096\n",
            at * 7 % 100 * 4096
        );
    }
    std::fs::write(&trace, &text).unwrap();
    let arguments = [
        "lab",
        "replay",
        name,
        "--utilisation",
        "60",
        "--policy",
        "greedy",
    ];
    varve(arguments).expect(0, "At 60 % full, on a disk choose");
    let mut json = arguments.to_vec();
    json.push("--json");
    let json = varve(json).expect(0, "").json();
    assert_eq!(json["findings"]["format"], "strace");
    assert_eq!(json["findings"]["systems"].as_array().unwrap().len(), 3);
    std::fs::write(&trace, text + "write(3, \"\n").unwrap();
    varve(arguments).expect(1, "calls.txt, record 302: it is no call");
    varve(["lab", "replay", name, "--format", "msr"]).expect(1, "record 1: ");
    varve(["lab", "replay", name, "--format", "tape"]).expect(2, "formats are blkparse");
    varve(["lab", "replay", name, "--policy", "luck"]).expect(2, "policies are greedy");
    varve(["lab", "replay", name, "--utilisation", "100"]).expect(2, "100");
}

#[test]
fn the_laboratory_lists_and_runs_experiments() {
    varve(["lab", "list"]).expect(0, "R3a");
    let list = varve(["lab", "list", "--json"]).expect(0, "").json();
    let list = list.as_array().unwrap();
    let of = |id: &str| list.iter().find(|claim| claim["id"] == id).unwrap();
    assert_eq!(of("R3a")["built"], true);
    assert_eq!(of("N1")["needs_traces"], true);
    let missing = varve(["lab", "list", "--missing", "--json"])
        .expect(0, "")
        .json();
    let missing = missing.as_array().unwrap();
    assert!(missing.len() < list.len() && missing.iter().all(|claim| claim["built"] == false));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    // Half of the points, then all; at this size verdicts mean nothing.
    let run = |more: &[&str]| {
        let mut arguments = vec!["lab", "run", "r3c", "--small", "--jobs", "1", "--out", out];
        arguments.extend(more);
        varve(arguments)
    };
    run(&["--shard", "1/2"]).expect(0, "1 points are left to other shards");
    run(&["--json"]).expect(1, "two modes");
    assert!(directory.path().join("R3c-small/picture.svg").exists());
    varve(["lab", "run", "N1", "--small", "--out", out]).expect(1, "say where they are");
    varve(["lab", "run", "Z9"]).expect(2, "no such experiment");
    varve(["lab", "run", "all", "--segments", "200"]).expect(2, "one at a time");
    varve(["lab", "report", out]).expect(0, "report.html");
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.contains("varve lab run R3c --seed 1 --quick"));
    varve(["lab", "report", "/nowhere"]).expect(1, "/nowhere");
    run(&["--shard", "3/2"]).expect(2, "with i from 1 to n");
}
