//! What each call answers, and what is left of a write that is not committed.

use crate::map::SharedMap;
use crate::support::{VARVE, shell, varve};
use crate::{ABORT, COMMIT, Helper, START, call, code, mount, mount_with, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;

/// Starts to write its argument, and says what went wrong.
const PERL: &str = r#"open(F, "+<", $ARGV[0]) or die; ioctl(F, 0xf501, 0) or print $!+0"#;

#[test]
fn the_feature_is_told_of_files_and_directories() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    for asked in [&file, &File::open(&m.dir).unwrap()] {
        assert_eq!(crate::call::features(asked), Ok(4));
    }
    let directory = File::open(&m.dir).unwrap();
    assert_eq!(crate::call::atomic(&directory, START), Err(Errno::INVAL));
    for volatile in [3, 4] {
        assert_eq!(crate::call::atomic(&file, volatile), Err(Errno::OPNOTSUPP));
    }
    drop((file, directory));
    m.finish();
}

#[test]
fn mounts_that_cannot_say_so() {
    for options in ["rw", "atomic,order=strict"] {
        let Some(m) = mount_with("64M", options) else {
            return;
        };
        let file = open(&m.path("f"));
        assert_eq!(crate::call::features(&file), Err(Errno::NOTTY), "{options}");
        for number in [START, COMMIT, 3, 4, ABORT] {
            let refused = crate::call::atomic(&file, number);
            assert_eq!(refused, Err(Errno::NOTTY), "{options} {number}");
        }
        drop(file);
        m.umount();
        varve(["mount", "-o", "atomic,ro", &m.image, &m.dir]).expect(0, "");
        let file = File::open(m.path("f")).unwrap();
        assert_eq!(crate::call::features(&file), Err(Errno::NOTTY));
        drop(file);
        m.finish();
    }
}

#[test]
fn layouts_without_transactions_refuse_the_option() {
    let scratch = crate::support::Scratch::new();
    fs::create_dir(scratch.path("mnt")).unwrap();
    for layout in ["vlfs", "ffs"] {
        let image = scratch.text(layout);
        varve(["mkfs", "--layout", layout, &image, "--size", "64M"]).expect(0, "");
        let mounted = varve(["mount", "-o", "atomic", &image, &scratch.text("mnt")]);
        mounted.expect(1, "segmented log");
    }
}

#[test]
fn an_abort_brings_back_content_size_and_time() {
    let Some(m) = mount() else { return };
    let path = m.path("f");
    for (before, after) in [
        (10_000u64, 300_000u64),
        (300_000, 5_000),
        (0, 9_000),
        (50, 70),
    ] {
        let _ = fs::remove_file(&path);
        let file = open(&path);
        let old = vec![b'o'; before as usize];
        file.write_all_at(&old, 0).unwrap();
        let time = file.metadata().unwrap().mtime_nsec();
        call(&file, START);
        file.set_len(after.min(before)).unwrap();
        file.write_all_at(&vec![b'n'; after as usize], 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![b'n'; after as usize]);
        call(&file, ABORT);
        assert_eq!(file.metadata().unwrap().len(), before);
        assert_eq!(file.metadata().unwrap().mtime_nsec(), time);
        assert!(fs::read(&path).unwrap() == old, "{before} {after}");
        // What is written then is written as ever.
        file.write_all_at(b"x", before).unwrap();
        file.sync_all().unwrap();
        drop(file);
        m.umount();
        m.mount();
        assert_eq!(fs::metadata(&path).unwrap().len(), before + 1);
    }
    m.finish();
}

#[test]
fn a_commit_is_there_after_a_crash_and_an_open_write_is_not() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    file.write_all_at(&[b'a'; 20_000], 0).unwrap();
    call(&file, START);
    file.write_all_at(&[b'b'; 30_000], 5_000).unwrap();
    call(&file, COMMIT);
    call(&file, START);
    file.write_all_at(&[b'c'; 90_000], 0).unwrap();
    // It reaches the server, and all that others did is synced.
    file.sync_all().unwrap();
    fs::write(m.path("other"), "there").unwrap();
    File::open(m.path("other")).unwrap().sync_all().unwrap();
    File::open(&m.dir).unwrap().sync_all().unwrap();
    shell(&format!("kill -9 {}; umount -l {}", m.server(), m.dir));
    drop(file);
    m.mount();
    let found = fs::read(m.path("f")).unwrap();
    assert_eq!(found.len(), 35_000);
    assert!(found[..5_000].iter().all(|b| *b == b'a'));
    assert!(found[5_000..].iter().all(|b| *b == b'b'));
    assert_eq!(fs::read(m.path("other")).unwrap(), b"there");
    m.finish();
}

#[test]
fn what_was_written_before_the_start_is_no_part_of_it() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    file.write_all_at(&[b'a'; 50_000], 0).unwrap();
    call(&file, START);
    file.write_all_at(&[b'b'; 50_000], 25_000).unwrap();
    call(&file, ABORT);
    assert!(fs::read(m.path("f")).unwrap() == [b'a'; 50_000]);
    drop(file);
    m.finish();
}

#[test]
fn starts_commits_and_aborts_out_of_place() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    // As on F2FS: a commit of nothing is an fsync, an abort of nothing nothing.
    file.write_all_at(b"one", 0).unwrap();
    call(&file, COMMIT);
    call(&file, ABORT);
    call(&file, START);
    file.write_all_at(b"two", 0).unwrap();
    call(&file, START);
    let mut other = Helper::new("caller", &m.path("f"));
    assert_eq!(other.ask("1"), code(Errno::BUSY));
    call(&file, ABORT);
    assert_eq!(fs::read(m.path("f")).unwrap(), b"one");
    assert_eq!(other.ask("1"), "ok");
    assert_eq!(other.ask("w z 0 3"), "ok");
    assert_eq!(crate::call::atomic(&file, START), Err(Errno::BUSY));
    assert_eq!(other.ask("2"), "ok");
    other.end();
    assert_eq!(fs::read(m.path("f")).unwrap(), b"zzz");
    drop(file);
    m.finish();
}

#[test]
fn whoever_does_not_own_the_file_may_not() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o666)).unwrap();
    shell(&format!(
        "chmod 755 {} {}",
        m.scratch.dir.path().display(),
        m.dir
    ));
    let said = shell(&format!(
        "setpriv --reuid 12345 --regid 12345 --clear-groups perl -e '{PERL}' {}/f",
        m.dir
    ));
    assert_eq!(said.trim(), "13");
    drop(file);
    m.finish();
}

#[test]
fn a_process_that_ends_takes_its_write_with_it_before_its_locks() {
    let Some(m) = mount() else { return };
    let path = m.path("f");
    let file = open(&path);
    file.write_all_at(&[b'o'; 100_000], 0).unwrap();
    for killed in [true, false].repeat(10) {
        let mut other = Helper::new("caller", &path);
        assert_eq!(other.ask("1"), "ok");
        assert_eq!(other.ask("w n 50000 200000"), "ok");
        assert_eq!(file.metadata().unwrap().len(), 250_000);
        match killed {
            true => other.kill(),
            false => other.end(),
        }
        // No wait: it was before the process was gone.
        assert_eq!(file.metadata().unwrap().len(), 100_000);
        assert!(fs::read(&path).unwrap() == [b'o'; 100_000]);
        call(&file, START);
        call(&file, ABORT);
    }
    drop(file);
    m.finish();
}

#[test]
fn a_close_by_the_owner_ends_it_and_one_by_another_does_not() {
    let Some(m) = mount() else { return };
    let path = m.path("f");
    let file = open(&path);
    file.write_all_at(b"old", 0).unwrap();
    call(&file, START);
    file.write_all_at(b"new", 0).unwrap();
    let other = Helper::new("caller", &path);
    other.end();
    assert_eq!(fs::metadata(&path).unwrap().len(), 3);
    call(&file, COMMIT);
    call(&file, START);
    file.write_all_at(b"lost", 0).unwrap();
    drop(open(&path));
    // Who does not know yet must not take what follows for a whole.
    assert_eq!(crate::call::atomic(&file, COMMIT), Err(Errno::CANCELED));
    call(&file, COMMIT);
    let mut found = [0; 3];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"new");
    assert_eq!(file.metadata().unwrap().len(), 3);
    drop(file);
    m.finish();
}

#[test]
fn a_view_and_an_atomic_write_of_one_file_conflict() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    file.write_all_at(b"old", 0).unwrap();
    file.sync_all().unwrap();
    let view = |script: &[&str]| {
        let mut command = Command::new(VARVE);
        command.args(["txn", "run", "--retries", "0", &m.dir, "--"]);
        command.args(script).current_dir(&m.dir);
        crate::support::Answer::from(command.output().unwrap())
    };
    view(&["perl", "-e", PERL, "f"]).expect(0, "25");
    call(&file, START);
    file.write_all_at(b"new", 0).unwrap();
    view(&["sh", "-c", "echo other > f"]).expect(75, "atomically");
    view(&["sh", "-c", "echo other > g"]).expect(0, "");
    call(&file, COMMIT);
    assert_eq!(fs::read(m.path("f")).unwrap(), b"new");
    view(&["sh", "-c", "echo other > f"]).expect(0, "");
    assert_eq!(fs::read(m.path("f")).unwrap(), b"other\n");
    drop(file);
    m.finish();
}

#[test]
fn rights_that_change_meanwhile_are_neither_lost_nor_in_the_way() {
    let Some(m) = mount() else { return };
    let path = m.path("f");
    let file = open(&path);
    for (mode, comes_in, end) in [
        (0o600, true, COMMIT),
        (0o640, false, COMMIT),
        (0o604, true, ABORT),
        (0o606, false, ABORT),
    ] {
        file.set_len(0).unwrap();
        file.write_all_at(b"old", 0).unwrap();
        call(&file, START);
        file.write_all_at(b"newer", 0).unwrap();
        if comes_in {
            file.sync_all().unwrap();
        }
        rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode)).unwrap();
        rustix::fs::fchown(&file, Some(rustix::fs::Uid::from_raw(mode)), None).unwrap();
        rustix::fs::fsetxattr(
            &file,
            c"user.a",
            &mode.to_le_bytes(),
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
        // Nor does a change of the size take them back.
        file.set_len(4).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, mode);
        call(&file, end);
        let content: &[u8] = if end == COMMIT { b"newe" } else { b"old" };
        for _ in 0..2 {
            assert_eq!(fs::read(&path).unwrap(), content);
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.mode() & 0o777, found.uid()), (mode, mode));
            let mut value = [0; 4];
            rustix::fs::getxattr(&path, c"user.a", &mut value).unwrap();
            assert_eq!(value, mode.to_le_bytes());
            // The kernel forgets what it knows.
            let _ = fs::write("/proc/sys/vm/drop_caches", "2");
        }
    }
    drop(file);
    m.remount_checked();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o606);
    m.finish();
}

#[test]
fn protection_and_atomic_writes_exclude_each_other() {
    let Some(m) = mount() else { return };
    let path = m.path("f");
    let file = open(&path);
    call(&file, START);
    file.write_all_at(b"one", 0).unwrap();
    varve(["protect", path.to_str().unwrap()]).expect(1, "busy");
    call(&file, COMMIT);
    varve(["protect", path.to_str().unwrap()]).expect(0, "");
    assert_eq!(crate::call::atomic(&file, START), Err(Errno::INVAL));
    file.write_all_at(b"two", 0).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    drop(file);
    m.finish();
}

#[test]
fn names_come_and_go_meanwhile() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    file.write_all_at(b"old", 0).unwrap();
    call(&file, START);
    file.write_all_at(b"new", 0).unwrap();
    fs::rename(m.path("f"), m.path("g")).unwrap();
    fs::hard_link(m.path("g"), m.path("h")).unwrap();
    call(&file, COMMIT);
    assert_eq!(fs::read(m.path("h")).unwrap(), b"new");
    for how in [COMMIT, ABORT] {
        let file = open(&m.path("i"));
        file.write_all_at(b"old", 0).unwrap();
        call(&file, START);
        file.write_all_at(b"newer", 0).unwrap();
        fs::remove_file(m.path("i")).unwrap();
        call(&file, how);
        let length = if how == COMMIT { 5 } else { 3 };
        assert_eq!(file.metadata().unwrap().len(), length);
    }
    drop(file);
    m.finish();
}

#[test]
fn maps_holes_seeks_and_copies_are_of_the_write() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    file.set_len(1 << 20).unwrap();
    call(&file, START);
    let map = SharedMap::new(&file, 1 << 20);
    map.set(500_000, b'x');
    rustix::fs::fallocate(
        &file,
        rustix::fs::FallocateFlags::KEEP_SIZE,
        2 << 20,
        1 << 20,
    )
    .unwrap();
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert_eq!(data, 500_000 / 4096 * 4096);
    let copy = open(&m.path("copy"));
    let copied = rustix::fs::copy_file_range(&file, Some(&mut 0), &copy, Some(&mut 0), 1 << 20);
    assert_eq!(copied, Ok(1 << 20));
    map.sync();
    assert_eq!(map.get(500_000), b'x');
    drop(map);
    call(&file, ABORT);
    assert!(fs::read(m.path("f")).unwrap() == vec![0; 1 << 20]);
    let mut expected = vec![0; 1 << 20];
    expected[500_000] = b'x';
    assert!(fs::read(m.path("copy")).unwrap() == expected);
    drop((file, copy));
    m.finish();
}

#[test]
fn what_is_larger_than_memory_is_committed_as_a_whole() {
    let Some(m) = mount() else { return };
    let file = open(&m.path("f"));
    file.write_all_at(&[b'o'; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    // More than the quarter of the cache that transactions may take.
    for end in [ABORT, COMMIT] {
        call(&file, START);
        for at in 0..20 {
            file.write_all_at(&[b'n'; 1 << 20], at << 20).unwrap();
        }
        call(&file, end);
        let expected = match end {
            ABORT => vec![b'o'; 1 << 20],
            _ => vec![b'n'; 20 << 20],
        };
        assert!(fs::read(m.path("f")).unwrap() == expected);
    }
    drop(file);
    m.remount_checked();
    assert!(fs::read(m.path("f")).unwrap() == vec![b'n'; 20 << 20]);
    m.finish();
}
