//! `varve txn`: programs in transactions of a real mount.
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

mod support;

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::mounted::{Mount, lacks, no_fuse};
use support::{Answer, Scratch, VARVE, has, shell, umount, varve};

/// Runs a script in a transaction, in the root of the mount.
fn run(mount: &Mount, options: &[&str], script: &str) -> Answer {
    Answer::from(command(mount, options, script).output().unwrap())
}

fn command(mount: &Mount, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(VARVE);
    command.args(["txn", "run"]).args(options).arg(&mount.dir);
    command.args(["--", "bash", "-e", "-u", "-c", script]);
    command.env_remove("VARVE_LOG").current_dir(&mount.dir);
    command
}

/// A transaction in which a script waits until its gate is opened.
struct Held {
    client: Child,
    gate: String,
}

impl Held {
    /// Runs `before`, waits, then runs `after`.
    fn new(mount: &Mount, options: &[&str], before: &str, after: &str) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let gate = mount.scratch.text(&format!("gate{number}"));
        let script = format!(
            "{before}\n echo $$ > {gate}.new; mv {gate}.new {gate}.here\n \
             while [ ! -e {gate}.go ]; do sleep 0.01; done\n {after}"
        );
        let mut command = command(mount, options, &script);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let client = command.spawn().unwrap();
        let held = Held { client, gate };
        wait_for("the script", || {
            Path::new(&format!("{}.here", held.gate)).exists()
        });
        held
    }

    /// The process of the script.
    fn script(&self) -> String {
        let pid = fs::read_to_string(format!("{}.here", self.gate)).unwrap();
        pid.trim().to_owned()
    }

    fn go(&self) {
        fs::write(format!("{}.go", self.gate), "").unwrap();
    }

    fn end(self) -> Answer {
        Answer::from(self.client.wait_with_output().unwrap())
    }

    fn finish(self) -> Answer {
        self.go();
        self.end()
    }
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(signal: &str, process: &str) {
    let status = Command::new("kill").args([signal, process]).status();
    assert!(status.unwrap().success());
}

fn statistics(mount: &Mount) -> serde_json::Value {
    let all = varve(["stats", "--json", &mount.dir]).expect(0, "").json();
    all["transactions"].clone()
}

fn text(mount: &Mount, name: &str) -> String {
    fs::read_to_string(mount.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn names(mount: &Mount) -> Vec<String> {
    let entries = fs::read_dir(&mount.dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_a_script_does_is_there_as_a_whole_or_not_at_all() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("128M");
    shell(&format!(
        "cd {}; echo old > a; echo b > b; mkdir d; echo c > d/c",
        mount.dir
    ));
    let script = "for i in $(seq 300); do mkdir -p n/$((i % 7)); echo $i > n/$((i % 7))/$i; done; \
                  echo new > a; rm b; mv d/c moved; rmdir d; ln -s a l; ln a hard; test -e moved";
    run(&mount, &[], &format!("{script}; exit 3")).expect(3, "");
    assert_eq!(names(&mount), ["a", "b", "d"]);
    assert_eq!(
        (text(&mount, "a"), text(&mount, "d/c")),
        ("old\n".into(), "c\n".into())
    );
    run(&mount, &[], script).expect(0, "");
    let check = || {
        assert_eq!(names(&mount), ["a", "hard", "l", "moved", "n"]);
        assert_eq!(
            (text(&mount, "l"), text(&mount, "moved")),
            ("new\n".into(), "c\n".into())
        );
        assert_eq!(fs::metadata(mount.path("hard")).unwrap().nlink(), 2);
        for i in 1..=300 {
            assert_eq!(text(&mount, &format!("n/{}/{i}", i % 7)), format!("{i}\n"));
        }
    };
    check();
    mount.remount_checked();
    check();
    mount.finish();
}

#[test]
fn nobody_sees_anything_before_the_end() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("a"), "old").unwrap();
    let held = Held::new(
        &mount,
        &[],
        "echo -n mine > m; echo -n longer > a; cat a",
        "cat a; test ! -e theirs",
    );
    assert_eq!(names(&mount), ["a"]);
    assert_eq!(text(&mount, "a"), "old");
    fs::write(mount.path("theirs"), "t").unwrap();
    let listed = varve(["txn", "list", &mount.dir, "--json"])
        .expect(0, "")
        .json();
    assert_eq!(listed["open"][0]["command"], "bash");
    assert_eq!(listed["open"][0]["files"], 3, "a, m and the root: {listed}");
    assert_eq!(listed["open"][0]["pid"], held.client.id());
    varve(["txn", "list", &mount.dir]).expect(0, "3 files changed");
    assert_eq!(statistics(&mount)["open"], 1);
    held.finish().expect(0, "longerlonger");
    assert_eq!(names(&mount), ["a", "m", "theirs"]);
    assert_eq!(text(&mount, "a"), "longer");
    varve(["txn", "list", &mount.dir]).expect(0, "no transactions");
    mount.finish();
}

#[test]
fn of_two_that_change_the_same_the_second_has_to_begin_again() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("a"), "0\n").unwrap();
    let add = "echo $(($(cat a) + 10)) > a";
    let held = Held::new(&mount, &[], add, "");
    fs::write(mount.path("a"), "1\n").unwrap();
    held.finish().expect(75, "conflict").expect(75, "(a)");
    assert_eq!(text(&mount, "a"), "1\n");
    // The gate is open in the second attempt.
    let held = Held::new(&mount, &["--retries", "1"], add, "");
    fs::write(mount.path("a"), "2\n").unwrap();
    held.finish().expect(0, "");
    assert_eq!(text(&mount, "a"), "12\n");
    let counted = statistics(&mount);
    assert_eq!(
        (&counted["conflicts"], &counted["committed"]),
        (&2.into(), &1.into())
    );
    mount.finish();
}

#[test]
fn what_was_only_read_conflicts_if_that_is_asked_for() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    for (isolation, code) in [("snapshot", 0), ("serializable", 75)] {
        fs::write(mount.path("a"), "old").unwrap();
        let script = "cat a > b";
        let held = Held::new(&mount, &["--isolation", isolation], script, "");
        let listed = varve(["txn", "list", &mount.dir]).expect(0, isolation);
        assert!(listed.out.contains("(bash)"), "{listed:?}");
        fs::write(mount.path("a"), "new").unwrap();
        held.finish().expect(code, "");
        fs::write(mount.path("b"), "").unwrap();
    }
    mount.finish();
}

#[test]
fn two_at_once_that_change_different_things_both_commit() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::create_dir(mount.path("d")).unwrap();
    let first = Held::new(&mount, &[], "echo 1 > d/first", "test ! -e d/second");
    let second = Held::new(&mount, &[], "echo 2 > d/second", "test ! -e d/first");
    let third = Held::new(&mount, &[], "echo 3 > d/first", "");
    assert_eq!(statistics(&mount)["open"], 3);
    second.finish().expect(0, "");
    first.finish().expect(0, "");
    third.finish().expect(75, "the name first");
    assert_eq!(
        (text(&mount, "d/first"), text(&mount, "d/second")),
        ("1\n".into(), "2\n".into())
    );
    mount.finish();
}

#[test]
fn whoever_is_killed_leaves_nothing() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let held = Held::new(&mount, &[], "echo x > x", "");
    kill("-KILL", &held.script());
    held.end().expect(137, "");
    let mut held = Held::new(&mount, &[], "echo x > x", "echo still > x");
    held.client.kill().unwrap();
    held.client.wait().unwrap();
    wait_for("the abort", || statistics(&mount)["open"] == 0);
    held.go();
    assert_eq!(statistics(&mount)["aborted_by"]["lost_client"], 1);
    assert_eq!(names(&mount), [""; 0]);
    // Passed on: the script chooses its exit code.
    let held = Held::new(&mount, &[], "trap 'exit 9' TERM; echo x > x", "");
    kill("-TERM", &held.client.id().to_string());
    held.end().expect(9, "");
    let mut ignores = Command::new("nohup");
    ignores.args([VARVE, "txn", "run", &mount.dir, "--", "sh", "-c"]);
    ignores.args(["kill -HUP $PPID; kill -HUP $$; exit 8"]);
    assert_eq!(ignores.output().unwrap().status.code(), Some(8));
    assert_eq!(names(&mount), [""; 0]);
    let held = Held::new(&mount, &[], "echo x > x", "");
    kill("-KILL", &mount.server());
    held.end().expect(125, "nothing was changed");
    shell(&format!("umount -l {}", mount.dir));
    mount.mount();
    assert_eq!(names(&mount), [""; 0]);
    mount.finish();
}

/// Each round is written to twenty files, until the server is killed.
#[test]
fn a_server_that_is_killed_leaves_all_of_the_last_one_or_nothing() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("128M");
    fs::create_dir(mount.path("g")).unwrap();
    let done = mount.scratch.text("done");
    let generation = mount.scratch.path("generation.sh");
    let script = "cd \"$1\"; for k in $(seq 20); do echo $2 > g/$k; done; mv g/1 g/x; mv g/x g/1\n";
    fs::write(&generation, script).unwrap();
    for round in 0..5 {
        fs::write(&done, "0").unwrap();
        let script = format!(
            "n={round}000; while :; do n=$((n + 1)); \
             {VARVE} txn run {dir} -- bash -eu {} {dir} $n || exit 0; echo $n > {done}; done",
            generation.display(),
            dir = mount.dir
        );
        let mut writer = Command::new("bash");
        writer.args(["-c", &script]).stderr(Stdio::null());
        let mut writer = writer.spawn().unwrap();
        wait_for("a commit", || fs::read_to_string(&done).unwrap().len() > 2);
        std::thread::sleep(Duration::from_millis(37 * round));
        kill("-KILL", &mount.server());
        writer.wait().unwrap();
        shell(&format!("umount -l {}", mount.dir));
        mount.mount();
        let number = |text: &str| text.trim().parse::<u64>().unwrap();
        let found = (1..=20).map(|k| number(&text(&mount, &format!("g/{k}"))));
        let found: std::collections::BTreeSet<u64> = found.collect();
        let last = number(&fs::read_to_string(&done).unwrap());
        let either = [[last].into(), [last + 1].into()];
        assert!(either.contains(&found), "{last}: {found:?}");
    }
    mount.finish();
}

#[test]
fn nobodys_addition_is_lost() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("sum"), "000").unwrap();
    std::thread::scope(|scope| {
        let adder = || {
            for _ in 0..6 {
                let add = "n=$(cat sum); printf %03d $((10#$n + 1)) > sum";
                run(&mount, &["--retries", "1000"], add).expect(0, "");
            }
        };
        let adders = [(); 4].map(|()| scope.spawn(adder));
        let mut last = 0;
        while !adders.iter().all(|adder| adder.is_finished()) {
            let now: u32 = text(&mount, "sum").parse().unwrap();
            assert!(now >= last, "{last}, then {now}");
            last = now;
        }
    });
    assert_eq!(text(&mount, "sum"), "024");
    mount.finish();
}

#[test]
fn an_operator_ends_a_transaction() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let held = Held::new(&mount, &[], "echo x > x; sleep 1000 & sleep 1000 &", "");
    let id = varve(["txn", "list", &mount.dir, "--json"]).json()["open"][0]["id"].to_string();
    varve(["txn", "abort", &mount.dir, "77"]).expect(1, "there is no transaction 77");
    varve(["txn", "abort", &mount.dir, &id]).expect(0, "");
    held.end().expect(125, "by `varve txn abort`");
    assert_eq!(names(&mount), [""; 0]);
    assert_eq!(statistics(&mount)["aborted_by"]["operator"], 1);
    mount.finish();
}

#[test]
fn when_the_time_is_over_all_are_killed() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let pids = mount.scratch.text("pids");
    let script = format!(
        "echo x > x; setsid sleep 1000 & echo $! > {pids}; (sleep 1000 & echo $! >> {pids}; wait)"
    );
    let begun = Instant::now();
    run(&mount, &["--timeout", "0.5"], &script).expect(124, "the time was over");
    assert!(begun.elapsed() < Duration::from_secs(20));
    for pid in fs::read_to_string(&pids).unwrap().split_whitespace() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }
    assert_eq!(names(&mount), [""; 0]);
    assert_eq!(statistics(&mount)["aborted_by"]["timeout"], 1);
    run(&mount, &["--timeout", "100"], "echo x > x").expect(0, "");
    assert_eq!(names(&mount), ["x"]);
    mount.finish();
}

/// The mount's kernel caches are invalidated by a commit.
#[test]
fn readers_outside_see_the_commit_at_once() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    shell(&format!(
        "cd {}; head -c 20000 /dev/zero | tr '\\0' o > grown; cp grown cut; cp grown same; \
         mkdir d; echo 1 > d/in; echo n > new-name; ln -s old link",
        mount.dir
    ));
    let mut open: Vec<fs::File> = Vec::new();
    for name in ["grown", "cut", "same"] {
        let mut file = fs::File::open(mount.path(name)).unwrap();
        file.read_to_end(&mut Vec::new()).unwrap();
        open.push(file);
    }
    let _ = fs::metadata(mount.path("negative")).unwrap_err();
    let _ = fs::metadata(mount.path("d/negative")).unwrap_err();
    fs::read_dir(mount.path("d")).unwrap().for_each(drop);
    let wanted = [("grown", 30_000), ("cut", 5), ("same", 20_000)];
    let script = "for f in grown cut same; do head -c $1 /dev/zero | tr '\\0' N > $f; shift; done";
    let script = format!(
        "set -- 30000 5 20000; {script}; touch -d '2001-01-01 00:00 UTC' grown cut same; \
         echo now > negative; mkdir d/negative; chmod 640 same; rm d/in; \
         mv new-name newer; ln -sf new link"
    );
    run(&mount, &[], &script).expect(0, "");
    for (mut file, (name, bytes)) in open.into_iter().zip(wanted) {
        for metadata in [
            file.metadata().unwrap(),
            fs::metadata(mount.path(name)).unwrap(),
        ] {
            assert_eq!(metadata.len(), bytes, "{name}");
            assert_eq!(metadata.mtime(), 978_307_200, "{name}");
        }
        let mut content = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut content).unwrap();
        assert!(
            content.len() as u64 == bytes && content.bytes().all(|b| b == b'N'),
            "{name}"
        );
    }
    assert_eq!(text(&mount, "negative"), "now\n");
    assert!(fs::metadata(mount.path("d/negative")).unwrap().is_dir());
    assert_eq!(fs::read_dir(mount.path("d")).unwrap().count(), 1);
    assert!(fs::metadata(mount.path("d/in")).is_err());
    assert!(fs::metadata(mount.path("new-name")).is_err());
    assert_eq!(text(&mount, "newer"), "n\n");
    assert_eq!(fs::read_link(mount.path("link")).unwrap(), Path::new("new"));
    let mode = fs::metadata(mount.path("same"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    mount.remount_checked();
    assert_eq!(
        fs::metadata(mount.path("cut")).unwrap().mtime(),
        978_307_200
    );
    mount.finish();
}

#[test]
fn what_waits_in_the_kernel_outside_is_in_the_snapshot_or_a_conflict() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("a"), [b'0'; 8192]).unwrap();
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(mount.path("a"))
        .unwrap();
    file.write_all(b"first").unwrap();
    run(&mount, &[], "test $(head -c 5 a) = first").expect(0, "");
    // A page that the kernel has not written back when the commit compares.
    let page = "dd if=/dev/zero of=a bs=4096 count=1 conv=notrunc status=none";
    let held = Held::new(&mount, &[], page, "");
    file.write_all(b"second").unwrap();
    held.finish().expect(75, "the content");
    // Another page of the file does not conflict.
    let page = "printf third | dd of=a bs=4096 seek=1 conv=notrunc status=none";
    let held = Held::new(&mount, &[], page, "");
    file.write_all(b"fourth").unwrap();
    held.finish().expect(0, "");
    drop(file);
    mount.remount_checked();
    let content = text(&mount, "a");
    assert!(
        content.starts_with("firstsecondfourth0"),
        "{}",
        &content[..20]
    );
    assert!(content[4096..].starts_with("third0"));
    mount.finish();
}

#[test]
fn an_editor_saves_as_editors_do() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("f"), "before").unwrap();
    let mut reader = fs::File::open(mount.path("f")).unwrap();
    let save = "cp -p f f.bak; printf after > .f.swp; sync .f.swp; mv .f.swp f; \
                test $(cat f) = after; rm f.bak";
    run(&mount, &[], save).expect(0, "");
    assert_eq!(
        (text(&mount, "f"), names(&mount)),
        ("after".into(), vec!["f".into()])
    );
    let mut content = String::new();
    reader.read_to_string(&mut content).unwrap();
    assert_eq!(
        content, "before",
        "the file that was opened has no name any more"
    );
    drop(reader);
    mount.finish();
}

#[test]
fn git_and_tar_work_inside() {
    if no_fuse() || lacks("git", has("git")) || lacks("tar", has("tar")) {
        return;
    }
    let mount = Mount::new("128M");
    let work = mount.scratch.text("work");
    shell(&format!(
        "mkdir -p {work}/t; cd {work}/t; for i in $(seq 400); do mkdir -p $((i % 20)); \
         seq $i > $((i % 20))/f$i; done; ln -s 1/f1 l; tar cf ../t.tar ."
    ));
    run(
        &mount,
        &[],
        &format!("mkdir x; tar x -C x -f {work}/t.tar; exit 1"),
    )
    .expect(1, "");
    assert_eq!(names(&mount), [""; 0]);
    run(&mount, &[], &format!("mkdir x; tar x -C x -f {work}/t.tar")).expect(0, "");
    shell(&format!("diff -r {work}/t {}/x", mount.dir));
    let git = "git -c user.name=n -c user.email=e -c gc.auto=0";
    let script = format!("git init -q x; cd x; {git} add .; {git} commit -qm all");
    run(&mount, &[], &script).expect(0, "");
    let status = format!(
        "cd {}/x; {git} -c safe.directory='*' fsck --strict; {git} -c safe.directory='*' status --porcelain",
        mount.dir
    );
    assert_eq!(shell(&status), "");
    let script = "cd x; echo more >> 1/f1; git -c user.name=n -c user.email=e commit -qam more";
    run(&mount, &[], script).expect(0, "");
    assert_eq!(shell(&status), "");
    mount.finish();
}

#[test]
fn the_working_directory_stays_where_it_was() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::create_dir_all(mount.path("d/e")).unwrap();
    let below = mount.path("d/e");
    let mut command = Command::new(VARVE);
    command.args([
        "txn",
        "run",
        ".",
        "--",
        "sh",
        "-c",
        "pwd; echo x > x; echo y > ../y",
    ]);
    let answer = Answer::from(command.current_dir(&below).output().unwrap());
    answer.expect(0, &format!("{}\n", below.display()));
    assert_eq!(
        (text(&mount, "d/e/x"), text(&mount, "d/y")),
        ("x\n".into(), "y\n".into())
    );
    mount.finish();
}

#[test]
fn who_is_left_behind_does_not_hold_up_the_commit() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let (go, told) = (mount.scratch.text("go"), mount.scratch.text("told"));
    let script = format!(
        "(exec 7>open; echo before >&7; echo > {told}.0; while [ ! -e {go} ]; do sleep 0.01; done; \
         echo after >&7 || true; echo late > late || true; echo over > {told}) >/dev/null 2>&1 & \
         while [ ! -e {told}.0 ]; do sleep 0.01; done"
    );
    run(&mount, &[], &script).expect(0, "");
    assert_eq!(text(&mount, "open"), "before\n");
    fs::write(&go, "").unwrap();
    wait_for("the one who is left", || Path::new(&told).exists());
    assert_eq!(
        (text(&mount, "open"), names(&mount)),
        ("before\n".into(), vec!["open".into()])
    );
    mount.finish();
}

/// A program that does not write again receives the error when it closes the file.
#[test]
fn a_transaction_too_large_is_told_as_no_memory() {
    if no_fuse() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.volume("image", "64M");
    let mount = Mount::with_options(scratch, image, "cache=4M");
    // Python has the numbers of errors. The last write's data in the kernel's cache is
    // written by fsync or close.
    let script = "python3 - \"$PWD\" <<'END'
import errno, os, sys
told = set()
def call(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        told.add((what.__name__, errno.errorcode[error.errno]))
for number in range(60):
    file = call(os.open, f'f{number}', os.O_CREAT | os.O_WRONLY)
    if file is None:
        break
    call(os.write, file, b'x' * 1000000)
    if number % 2:
        call(os.fsync, file)
    call(os.close, file)
print(sorted(told))
END";
    let answer = run(&mount, &[], script);
    let told = answer.out.trim();
    assert!(
        !told.contains("EIO") && told.contains("('close', 'ENOMEM')"),
        "{answer:#?}"
    );
    assert!(told.contains("('fsync', 'ENOMEM')"), "{answer:#?}");
    let next = "mount with a larger one (`varve mount --cache SIZE`)";
    assert!(answer.err.contains(next), "{answer:#?}");
    answer.expect(125, "nothing was changed");
    assert_eq!(names(&mount), [""; 0]);
    // Names are never spilled; touch has the number of the error alone.
    run(&mount, &[], "seq 5000 | xargs touch 2>/dev/null").expect(123, next);
    assert_eq!(names(&mount), [""; 0]);
    mount.finish();
}

#[test]
fn a_write_that_was_lost_is_not_committed_without() {
    if no_fuse() {
        return;
    }
    // More than fits. Writers mostly receive the error when the kernel has taken more
    // than can be written; sometimes earlier, and then nothing is lost.
    let script = "echo x > x; for i in $(seq 12); do \
                  head -c 8M /dev/urandom > big$i || true; done 2>/dev/null; true";
    let is_lost = |_| {
        let mount = Mount::new("64M");
        let told = run(&mount, &[], script).expect(125, "nothing was changed");
        assert_eq!(names(&mount), [""; 0]);
        let is_lost = told.err.contains("a write came to nothing");
        assert!(
            is_lost || told.err.contains("no space left"),
            "{}",
            told.err
        );
        let counted = &statistics(&mount)["aborted_by"]["lost_write"];
        assert_eq!(counted.as_u64().unwrap_or(0), u64::from(is_lost));
        mount.finish();
        is_lost
    };
    assert!((0..10).any(is_lost), "no write came to nothing");
}

#[test]
fn a_mount_goes_although_a_transaction_is_open() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let held = Held::new(&mount, &[], "echo x > x", "");
    mount.umount();
    held.end().expect(125, "nothing was changed");
    mount.mount();
    assert_eq!(names(&mount), [""; 0]);
    mount.finish();
}

/// A /dev/fuse open to every user, for a while.
struct OpenDevice(fs::Permissions);

impl OpenDevice {
    fn new() -> Self {
        let before = fs::metadata("/dev/fuse").unwrap().permissions();
        fs::set_permissions("/dev/fuse", fs::Permissions::from_mode(0o666)).unwrap();
        OpenDevice(before)
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let _ = fs::set_permissions("/dev/fuse", self.0.clone());
    }
}

#[test]
fn a_user_has_transactions_on_a_mount_of_his() {
    if no_fuse() || lacks("setpriv", has("setpriv")) || lacks("fusermount3", has("fusermount3")) {
        return;
    }
    let open = fs::metadata("/dev/fuse").unwrap().permissions().mode() & 0o006 == 0o006;
    let is_root = rustix::process::geteuid().is_root();
    if lacks("a /dev/fuse for everybody, or root", open || is_root) {
        return;
    }
    // fusermount3 opens /dev/fuse itself, and accepts no other device file.
    let _device = (is_root && !open).then(OpenDevice::new);
    let scratch = Scratch::new();
    let image = scratch.text("image");
    let program = scratch.text("varve");
    fs::copy(VARVE, &program).unwrap();
    let dir = scratch.text("mnt");
    fs::create_dir(&dir).unwrap();
    let as_user = match is_root {
        true => "setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs",
        false => "",
    };
    // With --no-new-privs fusermount3 mounts nothing.
    let as_mounter = as_user.trim_end_matches("--no-new-privs");
    if is_root {
        let path = scratch.path("");
        shell(&format!(
            "chown -R nobody:nogroup {0}; chmod 755 {0}",
            path.display()
        ));
    }
    shell(&format!(
        "cd /; {as_user} {program} mkfs {image} --size 64M; {as_mounter} {program} mount {image} {dir}"
    ));
    let script = "echo x > x; id -u; mkdir d; mv x d; chmod 600 d/x; touch d/y";
    let uid = shell(&format!(
        "cd {}; {as_user} {program} txn run {dir} -- sh -e -c 'cd {dir}; {script}'",
        scratch.text("")
    ));
    let seen = shell(&format!(
        "{as_mounter} stat -c '%u %a' {dir}/d/x; {as_mounter} ls {dir}/d"
    ));
    assert_eq!(seen, format!("{} 600\nx\ny\n", uid.trim()));
    let refused = shell(&format!(
        "{as_user} {program} txn run {dir} -- sh -c 'echo z > {dir}/z; exit 5' || echo $?"
    ));
    assert_eq!(refused, "5\n");
    assert_eq!(shell(&format!("{as_mounter} ls {dir}")), "d\n");
    // A server of an ordinary user finds files by their paths.
    let locked = shell(&format!(
        "cd /; {as_user} flock {dir}/d/x {program} txn run {dir} -- flock -n {dir}/d/x true || echo $?"
    ));
    assert_eq!(locked, "1\n");
    shell(&format!("{as_mounter} {program} umount {dir}"));
    varve(["fsck", "--data", &image]).expect(0, "clean");
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let dir = mount.dir.as_str();
    varve(["txn", "run", "/", "--", "true"]).expect(125, "not on a mounted Varve volume");
    varve(["txn", "run", &mount.image, "--", "true"]).expect(125, "is no directory");
    varve(["txn", "run", "/no/such", "--", "true"]).expect(125, "No such file");
    varve(["txn", "run", dir]).expect(2, "--help");
    varve(["txn", "run", dir, "true"]).expect(2, "--help");
    varve(["txn", "run", dir, "--timeout", "0", "--", "true"]).expect(2, "above 0");
    varve(["txn", "run", dir, "--isolation", "none", "--", "true"]).expect(2, "snapshot");
    varve(["txn", "run", dir, "--", "/no/such/program"]).expect(127, "No such file");
    varve(["txn", "run", dir, "--", "/"]).expect(126, "Permission denied");
    let nested = format!("! {VARVE} txn run . -- true 2>e; cat e >&2; exit 1");
    run(&mount, &[], &nested).expect(1, "this is the view of a transaction");
    assert_eq!(statistics(&mount)["open"], 0);
    assert_eq!(statistics(&mount)["committed"], 0);
    mount.umount();
    mount.mount_with(&["-r"]);
    varve(["txn", "run", dir, "--", "true"]).expect(125, "read-only");
    mount.finish();

    for layout in ["vlfs", "ffs"] {
        let scratch = Scratch::new();
        let (image, dir) = (scratch.text("image"), scratch.text("mnt"));
        fs::create_dir(&dir).unwrap();
        varve(["mkfs", &image, "--size", "32M", "--layout", layout]).expect(0, "");
        varve(["mount", &image, &dir]).expect(0, "");
        let none = format!("layout {layout} has no transactions");
        varve(["txn", "run", &dir, "--", "true"]).expect(125, &none);
        varve(["txn", "begin", &dir]).expect(125, &none);
        varve(["txn", "list", &dir]).expect(1, &none);
        let file = format!("{dir}/file");
        fs::write(&file, "x").unwrap();
        varve(["protect", &file]).expect(1, "no transactions here to protect it from");
        varve(["protect", "--show", &file]).expect(0, "unprotected");
        umount(&dir);
    }
}

/// Most bytes of memory that a process has taken.
fn peak_bytes(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn five_times_the_cache_commits_and_aborts_in_the_promised_memory() {
    if no_fuse() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.volume("image", "2G");
    let mount = Mount::of(scratch, image);
    mount.umount();
    mount.mount_with(&["--cache", "64M"]);
    let script = "for n in 1 2 3 4 5; do
                      head -c 32M /dev/zero | tr '\\0' $n > f$n
                      dd if=/dev/zero of=old bs=1M count=32 seek=$((32 * n)) conv=notrunc status=none
                  done
                  cmp -n 1000 f3 <(head -c 1000 /dev/zero | tr '\\0' 3)";
    shell(&format!("head -c 180M /dev/urandom > {}/old", mount.dir));
    let before = names(&mount);
    run(&mount, &[], &format!("{script}; exit 3")).expect(3, "");
    assert_eq!(names(&mount), before);
    run(&mount, &[], script).expect(0, "");
    assert_eq!(names(&mount), ["f1", "f2", "f3", "f4", "f5", "old"]);
    for n in 1..=5 {
        let bytes = fs::read(mount.path(&format!("f{n}"))).unwrap();
        assert!(bytes.len() == 32 << 20 && bytes.iter().all(|byte| *byte == b'0' + n));
    }
    let old = fs::read(mount.path("old")).unwrap();
    assert!(old[32 << 20..].iter().all(|byte| *byte == 0));
    assert!(old[..32 << 20].iter().any(|byte| *byte != 0));
    assert!(statistics(&mount)["spilled_blocks"].as_u64() > Some(80_000));
    let peak = peak_bytes(&mount.server());
    assert!(peak < (64 + 64) << 20, "{} MiB", peak >> 20);
    mount.finish();
}

/// Runs a shell in a transaction that reads these lines.
fn in_a_shell(mount: &Mount, lines: &str) -> Answer {
    let mut command = Command::new(VARVE);
    command.args(["txn", "shell"]).arg(&mount.dir);
    command.env("SHELL", "/bin/sh").env_remove("VARVE_LOG");
    command.current_dir(&mount.dir).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = command.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    Answer::from(shell.wait_with_output().unwrap())
}

#[test]
fn what_a_shell_did_is_there_unless_it_ended_with_a_code() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    in_a_shell(&mount, "echo 1 > a\nmkdir d\nexit 1\n").expect(1, "");
    assert!(names(&mount).is_empty());
    in_a_shell(&mount, "echo 1 > a\nmkdir d\n").expect(0, "");
    assert_eq!(names(&mount), ["a", "d"]);
    in_a_shell(&mount, "rm a\nexit 0\n").expect(0, "");
    assert_eq!(names(&mount), ["d"]);
    mount.remount_checked();
    assert_eq!(names(&mount), ["d"]);
    mount.finish();
}
