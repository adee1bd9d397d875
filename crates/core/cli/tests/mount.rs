//! Real mounts: the built binary, the kernel, and common programs.
//!
//! Every test has an image of its own. Without /dev/fuse, or without a program that a
//! test needs, it is skipped loudly, but fails in CI.

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::mounted::{Mount, lacks, no_fuse};
use support::{Scratch, VARVE, has, shell, varve};

#[test]
fn a_mount_lives_from_mount_to_umount() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::write(m.path("hello"), b"world").unwrap();
    varve(["mount", &m.image, &m.dir]).expect(32, "mounted on");
    let other = m.scratch.text("other");
    fs::create_dir(&other).unwrap();
    varve(["mount", &m.image, &other]).expect(32, "held by process");
    let info = varve(["info", "--json", &m.dir]).expect(0, "").json();
    assert_eq!(info["state"], "mounted");
    assert_eq!(info["mounted_on"], m.dir.as_str());
    let stats = varve(["stats", "--json", &m.dir]).expect(0, "").json();
    assert!(stats["tree"]["creates"].as_u64().unwrap() >= 1);

    assert!(stats["latency"]["name"]["p50_us"].as_u64().unwrap() >= 1);
    let top = ["top", &m.dir, "--once", "--interval", "0.1"];
    let frame = varve(top).expect(0, "varve top").out;
    for part in [
        "write cost",
        "summaries",
        "latency",
        "clean segments",
        "segments, 1 a cell",
    ] {
        assert!(frame.contains(part), "no `{part}` in\n{frame}");
    }
    assert!(frame.contains('@'), "where is the log?\n{frame}");
    let ages = varve(["top", &m.dir, "--age", "--interval", "0.1"]);
    ages.expect(0, "age in log2 seconds");
    varve(["top", &m.dir, "--interval", "0"]).expect(2, "seconds from 0.1");

    // Blocks from the last to the first: as many pieces.
    let pieces = fs::File::create(m.path("pieces")).unwrap();
    for block in (0..24).rev() {
        pieces
            .write_all_at(&[block as u8; 4096], block * 4096)
            .unwrap();
        pieces.sync_data().unwrap();
    }
    drop(pieces);
    let path = m.path("pieces").display().to_string();
    // Not yet cold.
    let passed = varve(["coalesce", &path]).expect(0, "0 files looked at");
    passed.expect(
        0,
        "1 files passed over: they were written within the last minute",
    );
    let done = varve(["coalesce", "--thorough", "--json", &m.dir])
        .expect(0, "")
        .json();
    assert_eq!(done["moved_bytes"], 24 * 4096, "{done}");
    assert!(
        done["runs_after"].as_u64() < done["runs_before"].as_u64(),
        "{done}"
    );
    let read = fs::read(m.path("pieces")).unwrap();
    assert!((0..24).all(|block| read[block * 4096] == block as u8));
    // Files of other file systems of any kind.
    let elsewhere = m.scratch.text("elsewhere");
    fs::write(&elsewhere, b"x").unwrap();
    for path in [elsewhere.as_str(), "/", "/proc/version"] {
        varve(["coalesce", path]).expect(1, &format!("{path} is not on a mounted Varve volume"));
    }
    // Seen through a part of the mount that is mounted elsewhere.
    fs::create_dir(m.path("part")).unwrap();
    fs::rename(m.path("pieces"), m.path("part/pieces")).unwrap();
    let bound = m.scratch.text("bound");
    fs::create_dir(&bound).unwrap();
    shell(&format!(
        "mount --bind {} {bound}",
        m.path("part").display()
    ));
    let file = format!("{bound}/pieces");
    varve(["coalesce", "--thorough", &file]).expect(0, "1 files looked at");
    shell(&format!("umount {bound}"));

    let open = fs::File::open(m.path("hello")).unwrap();
    let own = format!("process {}", std::process::id());
    varve(["umount", "--timeout", "0", &m.dir])
        .expect(32, "files are open")
        .expect(32, &own);
    drop(open);
    m.umount();
    varve(["umount", &m.dir]).expect(32, "nothing is mounted");
    assert!(!m.path("hello").exists());
    m.mount_with(&["-r"]);
    assert_eq!(fs::read(m.path("hello")).unwrap(), b"world");
    let refused = fs::write(m.path("hello"), b"x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30));
    m.finish();
}

#[test]
fn a_signal_unmounts_cleanly() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::write(m.path("f"), vec![3; 1 << 20]).unwrap();
    shell(&format!("kill -TERM {}", m.server()));
    let deadline = Instant::now() + Duration::from_secs(60);
    while m.path("f").exists() || varve(["fsck", &m.image]).code != 0 {
        assert!(Instant::now() < deadline, "the server did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    varve(["fsck", &m.image]).expect(0, ": clean");
    m.mount();
    assert_eq!(fs::read(m.path("f")).unwrap(), vec![3; 1 << 20]);
    m.finish();
}

#[test]
fn git_works_in_a_mount() {
    if no_fuse() || lacks("git", has("git")) {
        return;
    }
    let m = Mount::new("256M");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    shell(&format!(
        "cd {dir}; export GIT_CONFIG_GLOBAL=/dev/null HOME={dir}
        git init -q -b main r; cd r
        export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e@example.org
        export GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e@example.org
        cp -r {source}/*/src {source}/*/Cargo.toml . 2>/dev/null || cp -r {source}/cli/src .
        git add .; git commit -q -m one
        for i in $(seq 30); do echo $i >> log; git add log; git commit -q -m $i; done
        git clone -q . ../clone; git gc -q; git fsck --full --strict
        cd ../clone; git checkout -q -b side; git mv log moved; git commit -q -m moved
        git rebase -q main; git fsck --full",
        dir = m.dir,
        source = source.display(),
    ));
    m.remount_checked();
    shell(&format!(
        "cd {}/clone; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=1 \
         GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
        git fsck --full; git status --porcelain | (! grep .); cd ../r; git fsck --full",
        m.dir
    ));
    m.finish();
}

#[test]
fn a_large_tree_is_copied_and_comes_back_equal() {
    if no_fuse() || lacks("/usr/include", Path::new("/usr/include").is_dir()) {
        return;
    }
    let m = Mount::new("512M");
    shell(&format!(
        "tar -C /usr -cf - include | tar -C {} -xf -",
        m.dir
    ));
    m.remount_checked();
    shell(&format!(
        "diff -r --no-dereference /usr/include {dir}/include
        tar -C /usr -cf - include | tar -C {dir} --compare -f -
        rm -rf {dir}/include; test -z \"$(ls -A {dir})\"",
        dir = m.dir
    ));
    m.finish();
}

#[test]
fn cargo_builds_a_crate_in_a_mount() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("512M");
    let source = m.path("c/src");
    fs::create_dir_all(&source).unwrap();
    let manifest =
        "[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(m.path("c/Cargo.toml"), manifest).unwrap();
    let (mut modules, mut calls) = (String::new(), String::new());
    for i in 0..40 {
        let module = format!("pub fn f(x: u64) -> u64 {{ x + {i} }}\n");
        fs::write(source.join(format!("m{i}.rs")), module).unwrap();
        modules += &format!("mod m{i};\n");
        calls += &format!("    sum = m{i}::f(sum);\n");
    }
    let main =
        format!("{modules}fn main() {{\n    let mut sum = 0;\n{calls}    print!(\"{{sum}}\");\n}}");
    fs::write(source.join("main.rs"), main).unwrap();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let build = |word: &str| {
        let target = m.path("target");
        let script = format!(
            "cd {}/c; export CARGO_TARGET_DIR={}; unset RUSTFLAGS; {cargo} {word} --offline -q",
            m.dir,
            target.display()
        );
        shell(&script)
    };
    build("build");
    assert_eq!(build("run"), "780");
    m.remount_checked();
    fs::write(source.join("m7.rs"), "pub fn f(x: u64) -> u64 { x + 27 }\n").unwrap();
    assert_eq!(build("run"), "800");
    m.finish();
}

#[test]
fn sqlite_keeps_its_database_whole() {
    if no_fuse() || lacks("sqlite3", has("sqlite3")) {
        return;
    }
    let m = Mount::new("256M");
    for mode in ["DELETE", "WAL", "PERSIST"] {
        let mut script = format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); CREATE INDEX i ON t(v);\n"
        );
        for i in 0..60 {
            script += &format!(
                "BEGIN; INSERT INTO t(v) SELECT randomblob(200) FROM \
                 (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<40) \
                 SELECT x FROM c); UPDATE t SET v = randomblob(300) WHERE id % 7 = {}; \
                 DELETE FROM t WHERE id % 11 = {}; COMMIT;\n",
                i % 7,
                i % 11
            );
        }
        script += "VACUUM; PRAGMA integrity_check;\n";
        let file = m.scratch.path(mode);
        fs::write(&file, script).unwrap();
        let database = m.path(&format!("{mode}.db"));
        let out = shell(&format!(
            "sqlite3 {} < {}",
            database.display(),
            file.display()
        ));
        assert!(out.trim().ends_with("ok"), "{mode}: {out}");
    }
    m.remount_checked();
    for mode in ["DELETE", "WAL", "PERSIST"] {
        let database = m.path(&format!("{mode}.db"));
        let out = shell(&format!(
            "sqlite3 {} 'PRAGMA integrity_check; SELECT count(*) > 100 FROM t;'",
            database.display()
        ));
        assert_eq!(out, "ok\n1\n", "{mode}");
    }
    m.finish();
}

/// Writes numbered files, each synced before it is recorded as safe, together with other
/// work that is not synced.
fn load(m: &Mount, safe: &Mutex<Vec<u32>>, stop: &AtomicBool) {
    let content = |i: u32| format!("file {i} ").repeat(500 + i as usize % 3000);
    for i in 0..u32::MAX {
        let attempt = || -> std::io::Result<()> {
            fs::write(m.path(&format!("loose{}", i % 50)), content(i))?;
            let temporary = m.path(&format!("tmp{i}"));
            let mut file = fs::File::create(&temporary)?;
            file.write_all(content(i).as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, m.path(&format!("safe{i}")))?;
            fs::File::open(&m.dir)?.sync_all()
        };
        if stop.load(Relaxed) || attempt().is_err() {
            return;
        }
        safe.lock().unwrap().push(i);
    }
}

#[test]
fn what_was_synced_survives_the_servers_death() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("256M");
    let content = |i: u32| format!("file {i} ").repeat(500 + i as usize % 3000);
    let mut known = 0;
    for round in 0..3 {
        let (safe, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| load(&m, &safe, &stop));
            std::thread::sleep(Duration::from_millis(700 + 300 * round));
            // A busy host may take longer over the first ones.
            while safe.lock().unwrap().len() < 5 && !worker.is_finished() {
                std::thread::sleep(Duration::from_millis(10));
            }
            shell(&format!("kill -KILL {}", m.server()));
            stop.store(true, Relaxed);
            worker.join().unwrap();
        });
        m.umount();
        varve(["fsck", "--data", &m.image]).expect(0, "0 errors");
        m.mount();
        let safe = safe.into_inner().unwrap();
        for i in &safe {
            let found = fs::read_to_string(m.path(&format!("safe{i}")));
            let found = found.unwrap_or_else(|error| panic!("safe{i}: {error}"));
            assert!(found == content(*i), "safe{i} differs");
        }
        known += safe.len();
        shell(&format!("cd {}; rm -f safe* tmp* loose*", m.dir));
    }
    assert!(known > 10, "the load did too little: {known}");
    m.finish();
}

/// Four threads overwrite blocks of one file, each durable in the write itself.
#[test]
fn what_was_written_synchronously_survives_the_servers_death() {
    if no_fuse() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.volume("image", "256M");
    let m = Mount::with_options(scratch, image, "cache=64M,dsync");
    let mut how = fs::File::options();
    how.write(true).create(true);
    how.custom_flags(rustix::fs::OFlags::DSYNC.bits() as i32);
    let file = how.open(m.path("f")).unwrap();
    file.write_all_at(&[0; 64 << 10], 0).unwrap();
    let written: [AtomicU32; 16] = Default::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (file, written) = (&file, &written);
            scope.spawn(move || {
                for round in 1..u32::MAX {
                    let block = thread * 4 + round as usize % 4;
                    let content = round.to_le_bytes().repeat(1024);
                    if file.write_all_at(&content, block as u64 * 4096).is_err() {
                        return;
                    }
                    written[block].store(round, Relaxed);
                }
            });
        }
        while written.iter().any(|round| round.load(Relaxed) < 20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        shell(&format!("kill -KILL {}", m.server()));
    });
    drop(file);
    m.umount();
    varve(["fsck", "--data", &m.image]).expect(0, "0 errors");
    m.mount();
    let found = fs::read(m.path("f")).unwrap();
    for (block, content) in found.chunks(4096).enumerate() {
        let round = u32::from_le_bytes(content[..4].try_into().unwrap());
        let known = written[block].load(Relaxed);
        // The next write of this block may have arrived without its answer.
        assert!(round == known || round == known + 4, "{round}, {known}");
        assert!(content.chunks(4).all(|word| word == &content[..4]));
    }
    m.finish();
}

#[test]
fn fio_reads_back_what_it_wrote() {
    if no_fuse() || lacks("fio", has("fio")) {
        return;
    }
    let m = Mount::new("256M");
    let jobs = [
        "--name=random --rw=randwrite --bs=4k --size=32M --fsync=64 --verify=crc32c",
        "--name=odd --rw=randrw --bsrange=512-64k --bs_unaligned --size=24M --verify=md5",
        "--name=mapped --ioengine=mmap --rw=randwrite --bs=4k --size=16M --verify=crc32c",
        "--name=direct --rw=randwrite --bs=8k --size=24M --direct=1 --verify=crc32c",
    ];
    for job in jobs {
        shell(&format!(
            "cd {dir}; timeout 100 fio --directory={dir} --do_verify=1 --verify_fatal=1 \
             --verify_state_save=0 --randseed=7 --output=/dev/null {job}",
            dir = m.dir
        ));
    }
    m.finish();
}

/// Writes files of 1 MiB until the volume is full; returns the number of bytes synced.
/// Only synced bytes count, because the kernel's cache may contain more than fits.
fn fill(m: &Mount, round: u32) -> u64 {
    let piece: Vec<u8> = (0..1 << 20)
        .map(|i: u32| (i ^ (i >> 8) ^ round) as u8)
        .collect();
    let mut written = 0;
    let mut size = piece.len();
    for number in 0.. {
        let path = m.path(&format!("fill{round}-{number}"));
        let attempt = || -> std::io::Result<()> {
            let file = fs::File::create(&path)?;
            file.write_all_at(&piece[..size], 0)?;
            file.sync_all()
        };
        match attempt() {
            Ok(()) => written += size as u64,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(28), "{error}");
                // Deleting always works, on a full volume, too.
                if path.exists() {
                    fs::remove_file(&path).unwrap();
                }
                size /= 4;
                if size < 4096 {
                    return written;
                }
            }
        }
    }
    unreachable!("volumes are finite")
}

#[test]
fn a_full_volume_can_be_emptied_and_filled_again() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("96M");
    fs::write(m.path("kept"), vec![9; 100_000]).unwrap();
    let first = fill(&m, 1);
    assert!(first > 60 << 20, "only {first} bytes fit");
    assert_eq!(fs::read(m.path("kept")).unwrap(), vec![9; 100_000]);
    for round in 2..4 {
        shell(&format!("rm {}/fill*", m.dir));
        let again = fill(&m, round);
        assert!(
            again * 100 >= first * 95,
            "round {round}: {again} of {first}"
        );
    }
    m.remount_checked();
    assert_eq!(fs::read(m.path("kept")).unwrap(), vec![9; 100_000]);
    shell(&format!("rm {}/fill*", m.dir));
    m.finish();
}

#[test]
fn a_program_that_fills_the_volume_is_told_by_write() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("96M");
    let (dir, big) = (m.dir.clone(), m.path("big"));
    let fill = || {
        // Without a count: it ends when the volume is full.
        let command = format!("! timeout 100 dd if=/dev/zero of={dir}/big bs=1M 2>{dir}.says");
        shell(&command);
        let said = fs::read_to_string(format!("{dir}.says")).unwrap();
        assert!(said.contains("No space left on device"), "{said}");
        // Accepted data fits.
        fs::File::open(&big).unwrap().sync_all().unwrap();
        shell(&format!(
            "test $(stat -f -c %a {dir}) = 0; cd {dir}; cmp -n $(stat -c %s big) big /dev/zero
            test $(cat big | wc -c) = $(stat -c %s big); test -z \"$(tail -c +1G big)\"
            touch new 2>/dev/null && exit 1
            cp /dev/null big2 2>/dev/null && exit 1; true"
        ));
        fs::metadata(&big).unwrap().len()
    };
    let first = fill();
    assert!(first > 75 << 20, "only {first} bytes fit");
    // Overwriting adds nothing.
    let file = fs::File::options().write(true).open(&big).unwrap();
    for at in 0..16 {
        file.write_all_at(&[7; 100_000], at << 22).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    for _ in 0..2 {
        fs::remove_file(&big).unwrap();
        let again = fill();
        assert!(again * 100 >= first * 97, "{again} of {first}");
    }
    m.remount_checked();
    shell(&format!("rm {}/big", m.dir));
    m.finish();
}

#[test]
fn mount_by_the_usual_helper_name() {
    if no_fuse() {
        return;
    }
    let s = Scratch::new();
    let (image, dir) = (s.volume("image", "64M"), s.text("mnt"));
    fs::create_dir(&dir).unwrap();
    let helper = s.text("mount.varve");
    std::os::unix::fs::symlink(VARVE, &helper).unwrap();
    shell(&format!(
        "{helper} {image} {dir} -s -o rw,noatime,nofail,cache=32M"
    ));
    shell(&format!(
        "touch {dir}/x; grep -q '{dir} .*noatime' /proc/self/mountinfo"
    ));
    let server = varve(["info", "--json", &dir]).json();
    shell(&format!(
        "{helper} {image} {dir} -o remount,ro,nosuid && ! touch {dir}/y 2>/dev/null &&
         grep -q '{dir} ro,.*nosuid' /proc/self/mountinfo &&
         exec 3<{dir}/x && {helper} {image} {dir} -o remount,rw && touch {dir}/y"
    ));
    assert_eq!(
        varve(["info", "--json", &dir]).json()["holder"]["pid"],
        server["holder"]["pid"]
    );
    varve(["mount", &image, &s.text("."), "-o", "remount"]).expect(32, "nothing is mounted");
    // umount(8) does not wait for the server; the next mount does.
    for _ in 0..5 {
        shell(&format!(
            "umount {dir}; {helper} {image} {dir} && touch {dir}/z"
        ));
    }
    varve(["umount", &dir]).expect(0, "");
    varve(["fsck", &image]).expect(0, ": clean");
}

/// mount(8) identifies a mount by the type in the mount table, `fuse.varve`.
#[test]
fn a_mount_is_remounted_by_the_type_it_is_shown_with() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    let (image, dir) = (&m.image, &m.dir);
    let helper = m.scratch.text("mount.fuse.varve");
    std::os::unix::fs::symlink(VARVE, &helper).unwrap();
    let server = m.server();
    let read_only =
        format!("! touch {dir}/x 2>/dev/null; grep -q '{dir} ro,' /proc/self/mountinfo");
    let writable = format!("touch {dir}/x; grep -q '{dir} rw,' /proc/self/mountinfo");
    let shown = "user_id=0,group_id=0,default_permissions,allow_other";
    // Named after the type, with the options that the mount table shows.
    shell(&format!(
        "{helper} {image} {dir} -o rw,{shown},remount,ro; {read_only}"
    ));
    shell(&format!(
        "{helper} {image} {dir} -o remount,rw,{shown}; {writable}"
    ));
    // As mount.fuse(8) calls it.
    shell(&format!(
        "{VARVE} {image} {dir} -o rw,remount,ro,dev,suid; {read_only}"
    ));
    shell(&format!(
        "{VARVE} {image} {dir} -t varve -o remount,rw; {writable}"
    ));
    // mount(8) itself, which remounts alone unless it finds a helper. In a namespace of
    // its own, so that the flags of the mount here stay.
    shell(&format!(
        "unshare --mount --propagation private bash -e -c '
             test ! -e /sbin/mount.fuse || mount --bind {VARVE} /sbin/mount.fuse
             mount -o remount,ro {dir}
             ! touch {dir}/y 2>/dev/null
             mount -o remount,rw {dir}
             touch {dir}/y'"
    ));
    assert_eq!(m.server(), server);
    m.umount();
    // It mounts as well.
    shell(&format!("{VARVE} {image} {dir} -o rw; {writable}"));
    varve([image.as_str(), "relative"]).expect(32, "relative");
    m.finish();
}

#[test]
fn a_mount_whose_server_does_not_answer_is_taken_away_by_force() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    let dir = &m.dir;
    shell(&format!(
        "echo kept >{dir}/kept; sync {dir}/kept; sync {dir}"
    ));
    let server = m.server();
    shell(&format!("kill -STOP {server}"));
    let waiting = std::process::Command::new("cat")
        .arg(m.path("asked"))
        .stderr(std::process::Stdio::null())
        .spawn();
    varve(["umount", "--force", dir]).expect(0, "");
    varve(["umount", dir]).expect(32, "nothing is mounted");
    // The server has ended; the reader that waited has an error.
    assert!(!Path::new(&format!("/proc/{server}/fd/0")).exists());
    assert!(!waiting.unwrap().wait().unwrap().success());
    m.mount();
    assert_eq!(fs::read(m.path("kept")).unwrap(), b"kept\n");
    // A server that answers, with the mount in use.
    let open = fs::File::open(m.path("kept")).unwrap();
    varve(["umount", "--timeout", "0", dir]).expect(32, "files are open");
    varve(["umount", "-f", dir]).expect(0, "");
    assert!(open.sync_all().is_err());
    drop(open);
    m.mount();
    assert_eq!(fs::read(m.path("kept")).unwrap(), b"kept\n");
    m.finish();
}

/// A stopped server has a request for which no process waits. Its answer is then
/// discarded by the unmounting process, which must not have anything that its caller
/// waits for.
#[test]
fn a_forced_unmount_leaves_nobody_behind_who_could_say_more() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::write(m.path("f"), vec![1; 1 << 20]).unwrap();
    m.remount_checked();
    // From here on the kernel knows that it need not report a close.
    fs::write(m.path("closed"), b"").unwrap();
    let file = fs::File::open(m.path("f")).unwrap();
    let server = m.server();
    shell(&format!("kill -STOP {server}"));
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed).unwrap();
    drop(file);
    varve(["umount", "--force", &m.dir]).expect(0, "");
    m.mount();
    assert_eq!(fs::read(m.path("f")).unwrap(), vec![1; 1 << 20]);
    m.finish();
}

/// A server returns memory, however it was started; see `cli/allocator.rs`.
#[test]
fn servers_are_started_with_a_thrifty_allocator() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let thrifty = |pid: &str| {
        let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        let mut words = environment.split('\0');
        words.any(|word| word == "MALLOC_ARENA_MAX=2")
    };
    assert!(thrifty(&mount.server()));
    mount.umount();
    let mut server = std::process::Command::new(VARVE)
        .args(["mount", "--foreground", &mount.image, &mount.dir])
        .spawn()
        .unwrap();
    while !fs::read_to_string("/proc/self/mounts")
        .unwrap()
        .contains(&mount.dir)
    {
        assert!(server.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    // A process that touches the mount waits until it is served: if it had been unmounted
    // before, the call would have failed.
    fs::read_dir(&mount.dir).unwrap();
    // The same process, so its starter still knows it.
    assert!(thrifty(&server.id().to_string()));
    mount.finish();
    assert!(server.wait().unwrap().success());
}
