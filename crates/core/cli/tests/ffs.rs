//! Volumes that are updated in place, by the commands: made, mounted, used by real
//! programs, killed, checked; and refusals of operations that they do not support.
//!
//! Without /dev/fuse the mounts are skipped loudly, but fail in CI.

mod support;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Command;
use support::mounted::{Mount, no_fuse};
use support::{Scratch, varve};

fn volume(scratch: &Scratch, size: &str) -> String {
    let image = scratch.text("image");
    volume_in(&image, size);
    image
}

fn volume_in(image: &str, size: &str) {
    let made = varve(["mkfs", "--layout", "ffs", "--size", size, image]);
    made.expect(0, "cylinder groups");
}

fn mounted(size: &str) -> Mount {
    let scratch = Scratch::new();
    let image = volume(&scratch, size);
    Mount::of(scratch, image)
}

#[test]
fn what_it_is_and_what_it_has_not() {
    let scratch = Scratch::new();
    let image = &volume(&scratch, "64M");
    varve(["info", image]).expect(0, "FFS, updated in place");
    let info = varve(["info", "--json", image]).expect(0, "").json();
    assert_eq!(info["layout"], "ffs");
    assert_eq!(info["state"], "clean");
    varve(["fsck", "--data", image]).expect(0, ": clean");
    let dump = varve(["dump", image, "ifile"]).expect(0, "").json();
    assert_eq!(dump["usage"]["inodes"], 1);
    let groups = dump["cylinder_groups"].as_array().unwrap();
    assert_eq!(
        groups.len() as u64,
        info["cylinder_groups"].as_u64().unwrap()
    );
    varve(["fsck", "-p", image]).expect(0, ": clean");
    let target = &scratch.text("target");
    varve(["salvage", image, target]).expect(1, "updated in place");
    varve(["dump", image, "segments"]).expect(1, "updated in place");
    varve(["tune", image, "--label", "lake"]).expect(0, "lake");
    // It is not overwritten without --force.
    varve(["mkfs", "--size", "64M", image]).expect(1, "--force");
}

#[test]
fn volumes_without_a_journal_are_made_and_repaired() {
    let scratch = Scratch::new();
    for metadata in ["journal", "synchronous", "async"] {
        let image = scratch.text(metadata);
        let option = format!("--metadata={metadata}");
        varve(["mkfs", "--layout=ffs", "--size=64M", &option, &image]).expect(0, "groups");
        let info = varve(["info", "--json", &image]).expect(0, "").json();
        assert_eq!(info["metadata"], metadata);
        varve(["info", &image]).expect(0, metadata);
        varve(["fsck", &image]).expect(0, ": clean");
        varve(["fsck", "--repair", &image]).expect(0, ": clean");
        // Both superblocks, and the root's inode.
        let file = File::options().write(true).open(&image).unwrap();
        file.write_all_at(&[0; 512], 0).unwrap();
        varve(["fsck", &image]).expect(4, "superblock copy at byte 0");
        varve(["fsck", "-p", &image]).expect(4, "superblock copy at byte 0");
        file.write_all_at(&[0; 512], (64 << 20) - 4096).unwrap();
        varve(["fsck", "--repair", &image]).expect(1, "superblock");
        let dump = varve(["dump", &image, "superblock"]).expect(0, "").json();
        let blocks = dump["superblock"]["journal_bytes"].as_u64().unwrap() / 4096;
        // A sector for each inode map, one for each fragment of a block.
        let fragments = 4096 / info["fragment_bytes"].as_u64().unwrap();
        assert_eq!(info["group_blocks"], 4032);
        let maps = (4 + fragments).div_ceil(8);
        let table = (4 + blocks + 1 + maps) * 4096;
        file.write_all_at(&[0x5a; 512], table + 2 * 512).unwrap();
        varve(["fsck", &image]).expect(4, "DAMAGED");
        varve(["fsck", "--repair", &image]).expect(1, "lost: ");
        varve(["fsck", &image]).expect(0, ": clean");
    }
    let image = scratch.text("log");
    varve(["mkfs", "--size=64M", "--metadata=async", &image]).expect(2, "--layout ffs");
}

/// A volume made over such a volume is not overwritten because of remaining copies of the
/// old one.
#[test]
fn what_was_made_over_it_is_not_repaired_as_one() {
    let scratch = Scratch::new();
    let image = volume(&scratch, "64M");
    varve(["mkfs", "--force", &image]).expect(0, "segments");
    varve(["fsck", "--repair", &image]).expect(0, ": clean");
    varve(["info", &image]).expect(0, "segments");
    // Another file system is not overwritten either, with journal heads or without.
    let others = scratch.text("others");
    volume_in(&others, "64M");
    let file = File::options().write(true).open(&others).unwrap();
    for at in [0, (64 << 20) - 4096] {
        file.write_all_at(&[0; 4096], at).unwrap();
    }
    file.write_all_at(&[0x53, 0xef], 0x438).unwrap();
    varve(["fsck", "--repair", &others]).expect(8, "no usable superblock");
    let mut front = [0xff; 512];
    File::open(&others)
        .unwrap()
        .read_exact_at(&mut front, 0)
        .unwrap();
    assert_eq!(front, [0; 512]);
}

#[test]
fn the_configurations_of_the_papers_are_made() {
    let scratch = Scratch::new();
    for (nth, (maxcontig, rotdelay)) in [(1, 2), (8, 0), (8, 2), (256, 0)].into_iter().enumerate() {
        let image = scratch.text(&format!("image{nth}"));
        let (contig, delay) = (
            format!("--maxcontig={maxcontig}"),
            format!("--rotdelay={rotdelay}"),
        );
        let made = [
            "mkfs",
            "--layout=ffs",
            "--size=64M",
            "--json",
            &contig,
            &delay,
            &image,
        ];
        let told = varve(made).expect(0, "").json();
        assert_eq!(
            (&told["maxcontig"], &told["rotdelay"]),
            (&maxcontig.into(), &rotdelay.into())
        );
    }
    let names = [
        ("ffs-m1r2", 1, 2),
        ("ffs-m8r0", 8, 0),
        ("ffs-m8r2", 8, 2),
        ("efs", 256, 0),
    ];
    for (name, maxcontig, rotdelay) in names {
        let image = scratch.text(name);
        let made = varve(["mkfs", "--layout", name, "--size=64M", "--json", &image]);
        let told = made.expect(0, "").json();
        assert_eq!(told["policy"]["clusters"], false);
        assert_eq!(told["metadata"], "synchronous");
        assert_eq!(
            (&told["maxcontig"], &told["rotdelay"]),
            (&maxcontig.into(), &rotdelay.into())
        );
    }
    let image = scratch.text("log");
    varve(["mkfs", "--size=64M", "--maxcontig=8", &image]).expect(2, "--layout ffs");
}

/// The reserve is as requested, under each policy; a log refuses the option.
#[test]
fn the_reserve_is_that_of_minfree() {
    let scratch = Scratch::new();
    for layout in ["ffs", "extent", "efs"] {
        let reserve = |percent: &str| {
            let image = scratch.text(&format!("{layout}{percent}"));
            let option = format!("--minfree={percent}");
            let made = ["mkfs", "--layout", layout, "--size=64M", "--json"];
            let made = made.into_iter().chain([option.as_str(), &image]);
            varve(made).expect(0, "");
            let info = varve(["info", "--json", &image]).expect(0, "").json();
            info["reserve_blocks"].as_u64().unwrap()
        };
        let twentieth = reserve("5");
        assert!(reserve("20").abs_diff(4 * twentieth) < 4, "{twentieth}");
        // The layout's own need.
        assert_eq!(reserve("0"), 16);
    }
    let image = scratch.text("log");
    varve(["mkfs", "--size=64M", "--minfree=5", &image]).expect(2, "--layout ffs");
    let too_much = ["mkfs", "--layout=ffs", "--size=64M", "--minfree=51", &image];
    varve(too_much).expect(2, "50");
}

/// Each policy with its parameters: made, described, checked.
#[test]
fn every_policy_is_made_and_told_of() {
    let scratch = Scratch::new();
    let policies: [(&str, &[&str], &str); 6] = [
        ("extent", &[], "extents of [16] blocks, first fit"),
        (
            "extent",
            &["--fit=best", "--sizes=64K,1M", "--metadata=async"],
            "extents of [16, 256] blocks, best fit",
        ),
        ("buddy", &["--metadata=synchronous"], "binary buddies"),
        (
            "restricted",
            &[],
            "restricted buddies of [1, 16, 256] blocks, grow factor 1, regions of 8192",
        ),
        (
            "restricted",
            &["--sizes=4K,32K", "--grow=2", "--region=0"],
            "[1, 8] blocks, grow factor 2, one region",
        ),
        ("fixed", &["--shuffled=7"], "fixed blocks, shuffled by 7"),
    ];
    for (nth, (layout, options, text)) in policies.into_iter().enumerate() {
        let image = &scratch.text(&format!("image{nth}"));
        let mut made = vec!["mkfs", "--layout", layout, "--size=64M"];
        made.extend(options);
        made.push(image);
        varve(made).expect(0, text);
        varve(["info", image]).expect(0, text);
        varve(["fsck", "--data", image]).expect(0, text);
        let info = varve(["info", "--json", image]).expect(0, "").json();
        assert_eq!(info["policy"]["name"], layout);
        let given = options.iter().find_map(|o| o.strip_prefix("--metadata="));
        assert_eq!(info["metadata"], given.unwrap_or("journal"));
        let checked = varve(["fsck", "--json", image]).expect(0, "").json();
        assert_eq!(checked["policy"], layout);
        let dump = varve(["dump", image, "superblock"]).expect(0, "").json();
        let free = &dump["free_space"];
        assert!(free["runs"].as_u64().unwrap() > 0, "{dump}");
        assert_eq!(free["fragments"], dump["room"]["fragments_free"]);
    }
    let image = &scratch.text("none");
    let refused = |options: &[&str], text| {
        let mut made = vec!["mkfs", "--size=64M"];
        made.extend(options);
        made.push(image);
        varve(made).expect(2, text);
    };
    refused(&["--layout=buddy", "--sizes=64K"], "extent or restricted");
    refused(&["--layout=ffs", "--fit=best"], "--layout extent");
    refused(&["--layout=extent", "--grow=2"], "--layout restricted");
    refused(&["--layout=extent", "--shuffled=2"], "--layout fixed");
    refused(
        &["--layout=extent", "--sizes=5000"],
        "whole number of blocks",
    );
    refused(&["--layout=restricted", "--sizes=8K,64K"], "smallest block");
    refused(&["--layout=restricted", "--sizes=4K,64K,96K"], "multiples");
    refused(&["--layout=buddy", "--aged=x"], "--layout ffs");
    let nothing = ["--layout=extent", "--block-size=0", "--sizes=0"];
    refused(&nothing, "whole number of blocks");
    let nothing = ["--layout=restricted", "--block-size=0", "--region=0"];
    refused(&nothing, "whole number of blocks");
    let nine = "--sizes=4K,8K,12K,16K,20K,24K,28K,32K,36K";
    refused(&["--layout=extent", nine], "there must be 1 to 8");
    let none = varve([
        "mkfs",
        "--size=64M",
        "--layout=ffs",
        "--block-size=0",
        image,
    ]);
    none.expect(1, "blocks of 0 bytes");
    assert!(!std::path::Path::new(image).exists());
}

#[test]
fn what_was_synced_survives_a_killed_server() {
    if no_fuse() {
        return;
    }
    let m = mounted("64M");
    for round in 0..3_u8 {
        let content = vec![round; 300_000];
        let name = format!("file{round}");
        let mut file = File::create(m.path(&name)).unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        fs::rename(m.path(&name), m.path("newest")).unwrap();
        File::open(&m.dir).unwrap().sync_all().unwrap();
        fs::write(m.path("not synced"), b"may be lost").unwrap();
        drop(file);
        let server = m.server();
        let killed = Command::new("kill").args(["-KILL", &server]).status();
        assert!(killed.unwrap().success());
        let _ = Command::new("umount").args(["-l", &m.dir]).status();
        m.mount();
        assert!(fs::read(m.path("newest")).unwrap() == content);
        let left = fs::metadata(m.path(&name));
        assert!(left.is_err(), "the old name is gone");
    }
    m.finish();
}

#[test]
fn a_full_volume_says_so_and_is_emptied() {
    if no_fuse() {
        return;
    }
    let m = mounted("64M");
    for _ in 0..3 {
        let mut file = File::create(m.path("large")).unwrap();
        let block = [7_u8; 1 << 16];
        let mut written = 0;
        let error = loop {
            match file.write_all(&block).and_then(|()| file.sync_data()) {
                Ok(()) => written += block.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(28), "{error}");
        assert!(written > 32 << 20, "{written}");
        drop(file);
        fs::remove_file(m.path("large")).unwrap();
    }
    m.remount_checked();
    m.finish();
}

/// The reach of three levels of indirect blocks, and the block of extended attributes.
#[test]
fn its_limits_are_told() {
    if no_fuse() {
        return;
    }
    let m = mounted("64M");
    let path = m.path("f");
    let file = File::create(&path).unwrap();
    let largest = (12 + 336 + 336_u64.pow(2) + 336_u64.pow(3)) * 4096;
    file.set_len(largest).unwrap();
    for beyond in [largest + 1, 1 << 60] {
        let error = file.set_len(beyond).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(27), "{beyond}: {error}");
    }
    let set = |bytes| setxattr(&path, "user.a", &vec![7; bytes], XattrFlags::empty());
    assert_eq!(set(4000), Ok(()));
    assert_eq!(set(5000), Err(Errno::NOSPC));
    drop(file);
    m.remount_checked();
    assert_eq!(fs::metadata(&path).unwrap().len(), largest);
    let mut value = [0; 8192];
    assert_eq!(getxattr(&path, "user.a", &mut value), Ok(4000));
    m.finish();
}

/// Files on each policy through a mount, with its counters, and after a remount.
#[test]
fn every_policy_is_mounted() {
    if no_fuse() {
        return;
    }
    for layout in ["extent", "buddy", "restricted", "fixed", "efs"] {
        let scratch = Scratch::new();
        let image = scratch.text("image");
        varve(["mkfs", "--layout", layout, "--size=64M", &image]).expect(0, "cylinder groups");
        let m = Mount::of(scratch, image);
        for round in 0..40_u8 {
            fs::write(
                m.path(&format!("f{round}")),
                vec![round; 10_000 * usize::from(round)],
            )
            .unwrap();
        }
        for round in (0..40_u8).step_by(2) {
            fs::remove_file(m.path(&format!("f{round}"))).unwrap();
        }
        let told = varve(["stats", "--json", &m.dir]).expect(0, "").json();
        let name = if layout == "efs" { "ffs" } else { layout };
        assert_eq!(told["policy"], name, "{told}");
        // Reporting it would delay writers.
        assert!(told["free_space"].is_null(), "{told}");
        m.remount_checked();
        for round in (1..40_u8).step_by(2) {
            let content = fs::read(m.path(&format!("f{round}"))).unwrap();
            assert!(
                content == vec![round; 10_000 * usize::from(round)],
                "{layout}"
            );
        }
        m.finish();
    }
}

#[test]
fn git_works_on_it() {
    if no_fuse() {
        return;
    }
    let m = mounted("64M");
    let script = "git init -q r && cd r && for i in 1 2 3; do cp -r /usr/include/linux d$i 2>/dev/null \
                  || cp -r /etc/. d$i; git add . && git -c user.name=a -c user.email=a@b \
                  commit -qm $i; done && git gc -q && git fsck --no-progress";
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(&m.dir)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    m.remount_checked();
    m.finish();
}

/// The first block, or the last, or both: fsck reports what a repair would restore.
#[test]
fn destroyed_superblocks_are_told_and_restored_from_the_groups() {
    let scratch = Scratch::new();
    let image = scratch.text("image");
    varve(["mkfs", "--layout=ffs", "--size=64M", &image]).expect(0, "");
    let whole = fs::read(&image).unwrap();
    let copies: Vec<usize> = (0..whole.len())
        .step_by(512)
        .filter(|at| whole[*at..].starts_with(&whole[..8]))
        .collect();
    let (first, last) = (0, copies[copies.len() - 1]);
    for (destroyed, said) in [
        (vec![first], "superblock copy at byte 0"),
        (vec![last], &format!("superblock copy at byte {last}")),
        (vec![first, last], "fsck --repair"),
    ] {
        let mut bytes = whole.clone();
        for at in destroyed {
            bytes[at..at + 512].fill(0);
        }
        fs::write(&image, &bytes).unwrap();
        varve(["fsck", &image]).expect(4, said);
        assert!(fs::read(&image).unwrap() == bytes, "looking wrote");
        varve(["fsck", "--repair", &image]).expect(1, "REPAIRED");
        varve(["fsck", &image]).expect(0, ": clean");
    }
    let mut bytes = whole;
    for at in copies {
        bytes[at..at + 512].fill(0);
    }
    fs::write(&image, &bytes).unwrap();
    for flag in ["-n", "--repair"] {
        varve(["fsck", flag, &image]).expect(8, "no usable superblock");
    }
}
