//! Effects of `varve txn` on the rest of the host: other mounts, working directories,
//! readers, watchers, and processes that a command leaves running.
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

mod support;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::mounted::{Mount, lacks, no_fuse};
use support::{Answer, Scratch, VARVE, shell};

fn run(mount: &Mount, script: &str) -> Answer {
    let mut command = Command::new(VARVE);
    command.args(["txn", "run", &mount.dir]);
    command.args(["--", "bash", "-e", "-u", "-c", script]);
    command.env_remove("VARVE_LOG").current_dir("/");
    Answer::from(command.output().unwrap())
}

fn text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn nothing_to_mount_with() -> bool {
    no_fuse() || lacks("root", rustix::process::geteuid().is_root())
}

/// Mounts that a test makes below a mount, unmounted again in any case.
struct Mounts(Vec<String>);

impl Mounts {
    fn new() -> Self {
        Mounts(Vec::new())
    }

    fn tmpfs(&mut self, at: &str) {
        shell(&format!("mount -t tmpfs none {at}; echo kept > {at}/kept"));
        self.0.push(at.into());
    }

    fn bind(&mut self, what: &str, at: &str) {
        shell(&format!("mount --bind {what} {at}"));
        self.0.push(at.into());
    }

    /// Records that a mount has moved to another path.
    fn is_at(&mut self, before: &str, now: &str) {
        let moved = self.0.iter_mut().find(|at| *at == before);
        now.clone_into(moved.expect("it was mounted"));
    }

    /// Checks that all of them still exist, and can be unmounted.
    fn unmount(mut self) {
        while let Some(at) = self.0.pop() {
            shell(&format!("umount {at}"));
        }
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in self.0.iter().rev() {
            let _ = Command::new("umount").args(["-l", at]).status();
        }
    }
}

/// A shell in some directory, which prints that directory on request.
struct Shell {
    process: std::process::Child,
}

impl Shell {
    fn at(directory: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; exec /bin/pwd -P"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command
            .current_dir(directory)
            .stderr(Stdio::piped())
            .spawn();
        Shell {
            process: process.unwrap(),
        }
    }

    fn place(self) -> Answer {
        // Its input ends, and the shell continues.
        Answer::from(self.process.wait_with_output().unwrap())
    }
}

#[test]
fn a_commit_leaves_mounts_below_and_working_directories_alone() {
    if nothing_to_mount_with() {
        return;
    }
    let mount = Mount::new("64M");
    let at = |name: &str| format!("{}/{name}", mount.dir);
    shell(&format!(
        "cd {}; mkdir -p a/b w/x; echo old > file; echo old > w/x/file",
        mount.dir
    ));
    let other = mount.scratch.text("other");
    let elsewhere = mount.scratch.text("elsewhere");
    shell(&format!("echo other > {other}; mkdir {elsewhere}"));
    let mut mounts = Mounts::new();
    mounts.tmpfs(&at("a/b"));
    mounts.bind(&at("w"), &elsewhere);
    let shells = [Shell::at(&at("w/x")), Shell::at(&at("w"))];
    let script = format!(
        "cd {}; touch a/new; chmod 700 a; touch w/new w/x/new; chmod 711 w; echo new > w/x/file; \
         echo new > file",
        mount.dir
    );
    run(&mount, &script).expect(0, "");
    assert_eq!(text(at("a/b/kept")), "kept\n");
    assert_eq!(text(at("file")), "new\n");
    for (shell, place) in shells.into_iter().zip([at("w/x"), at("w")]) {
        shell.place().expect(0, &format!("{place}\n"));
    }
    assert_eq!(text(format!("{elsewhere}/x/file")), "new\n");
    let table = text("/proc/self/mountinfo");
    let line = table.lines().find(|line| line.contains(&elsewhere));
    assert!(line.is_some_and(|line| line.contains(" /w ")), "{line:?}");
    mounts.unmount();
    mount.finish();
}

/// In the transaction the name refers to the file mounted there, so another name is used.
#[test]
fn a_file_that_is_mounted_on_is_changed_and_what_is_mounted_stays() {
    if nothing_to_mount_with() {
        return;
    }
    let mount = Mount::new("64M");
    let at = |name: &str| format!("{}/{name}", mount.dir);
    let other = mount.scratch.text("other");
    shell(&format!(
        "echo other > {other}; echo old > {0}; ln {0} {1}",
        at("file"),
        at("second")
    ));
    shell(&format!("echo old > {}", at("renamed")));
    let held = File::open(mount.path("file")).unwrap();
    let renamed = File::open(mount.path("renamed")).unwrap();
    let mut mounts = Mounts::new();
    mounts.bind(&other, &at("file"));
    let long = "longer".repeat(100);
    let script = "echo $LONG > second; echo $LONG > renamed; mkdir d; mv renamed d/new";
    let script = format!("cd {}; LONG={long}; {script}", mount.dir);
    run(&mount, &script).expect(0, "");
    assert_eq!(renamed.metadata().unwrap().len(), long.len() as u64 + 1);
    assert_eq!(text(at("file")), "other\n");
    assert_eq!(held.metadata().unwrap().len(), long.len() as u64 + 1);
    mounts.unmount();
    assert_eq!(text(at("file")), format!("{long}\n"));
    drop((held, renamed));
    mount.finish();
}

#[test]
fn a_moved_directory_takes_along_what_is_mounted_below_and_who_is_there() {
    if nothing_to_mount_with() {
        return;
    }
    let mount = Mount::new("64M");
    let at = |name: &str| format!("{}/{name}", mount.dir);
    shell(&format!(
        "cd {}; mkdir -p a/b/c to gone chain/1/t chain/2/t",
        mount.dir
    ));
    let mut mounts = Mounts::new();
    for place in ["a/b/c", "chain/1/t", "chain/2/t"] {
        mounts.tmpfs(&at(place));
        shell(&format!("echo {place} > {}/place", at(place)));
    }
    let shells = [Shell::at(&at("a/b")), Shell::at(&at("gone"))];
    let script = format!(
        "cd {}; mv a/b to/new; rmdir gone; mkdir gone; touch gone/new; mkdir a/b; \
         cd chain; mv 2 3; mv 1 2; mkdir 1",
        mount.dir
    );
    run(&mount, &script).expect(0, "");
    mounts.is_at(&at("chain/2/t"), &at("chain/3/t"));
    mounts.is_at(&at("chain/1/t"), &at("chain/2/t"));
    assert_eq!(text(at("chain/3/t/place")), "chain/2/t\n");
    assert_eq!(text(at("chain/2/t/place")), "chain/1/t\n");
    mounts.is_at(&at("a/b/c"), &at("to/new/c"));
    let [moved, gone] = shells.map(Shell::place);
    moved.expect(0, &format!("{}\n", at("to/new")));
    assert_ne!(gone.code, 0, "another directory has its name");
    assert_eq!(text(at("to/new/c/kept")), "kept\n");
    assert_eq!(fs::read_dir(at("a/b")).unwrap().count(), 0);
    assert!(Path::new(&at("gone/new")).exists());
    mounts.unmount();
    mount.finish();
}

#[test]
fn directories_that_exchange_names_keep_what_is_mounted_below_both() {
    if nothing_to_mount_with() {
        return;
    }
    let mount = Mount::new("64M");
    let at = |name: &str| format!("{}/{name}", mount.dir);
    let mut mounts = Mounts::new();
    for place in ["a", "other/b", "1", "2", "3"] {
        shell(&format!("mkdir -p {}/t", at(place)));
        mounts.tmpfs(&at(&format!("{place}/t")));
        shell(&format!("echo {place} > {}/t/place", at(place)));
    }
    let shells = ["a", "other/b", "1"].map(|place| Shell::at(&at(place)));
    let exchange = "import ctypes; assert ctypes.CDLL(None).renameat2(-100, b\"a\", -100, \
                    b\"other/b\", 2) == 0";
    let script = format!(
        "cd {}; python3 -c '{exchange}'; mv 1 aside; mv 2 1; mv 3 2; mv aside 3",
        mount.dir
    );
    run(&mount, &script).expect(0, "");
    for (before, now) in [
        ("a", "other/b"),
        ("other/b", "a"),
        ("1", "3"),
        ("2", "1"),
        ("3", "2"),
    ] {
        let place = text(at(&format!("{now}/t/place")));
        assert_eq!(place, format!("{before}\n"));
    }
    for (shell, now) in shells.into_iter().zip(["other/b", "a", "3"]) {
        shell.place().expect(0, &format!("{}\n", at(now)));
    }
    mounts.unmount();
    // The name under which one of them was set aside is nowhere.
    let left = shell(&format!("ls -A {}", mount.dir));
    assert_eq!(left, "1\n2\n3\na\nother\n");
    mount.finish();
}

#[test]
fn mounts_below_are_shown_inside_and_are_no_part_of_it() {
    if nothing_to_mount_with() {
        return;
    }
    let mount = Mount::new("64M");
    let at = |name: &str| format!("{}/{name}", mount.dir);
    shell(&format!(
        "cd {}; mkdir -p a/t/beneath part w; echo beneath > file",
        mount.dir
    ));
    let other = mount.scratch.text("other");
    shell(&format!("echo other > {other}"));
    let mut mounts = Mounts::new();
    mounts.tmpfs(&at("a/t"));
    shell(&format!("mkdir {}", at("a/t/u")));
    mounts.tmpfs(&at("a/t/u"));
    mounts.bind(&other, &at("file"));
    mounts.bind(&at("w"), &at("part"));
    let script = format!(
        "cd {}; cat file a/t/kept a/t/u/kept; echo in > a/t/u/in; echo changed > file; \
         echo through > part/through; cat w/through; if rmdir a/t 2>/dev/null; then false; fi",
        mount.dir
    );
    let seen = "other\nkept\nkept\nthrough\n";
    run(&mount, &format!("{script}; exit 3")).expect(3, seen);
    // Mounts are not part of the transaction, except those of the volume itself.
    assert_eq!(
        (text(at("a/t/u/in")), text(&other)),
        ("in\n".into(), "changed\n".into())
    );
    assert!(!mount.path("w/through").exists());
    let seen = "changed\nkept\nkept\nthrough\n";
    run(&mount, &format!("{script}; echo new > a/new")).expect(0, seen);
    assert_eq!(text(at("w/through")), "through\n");
    assert_eq!(text(at("part/through")), "through\n");
    // A held transaction, and the commands that join it, too.
    let begun = Command::new(VARVE)
        .args(["txn", "begin", &mount.dir])
        .output();
    let id = String::from_utf8(begun.unwrap().stdout).unwrap();
    let held = |arguments: &[&str]| {
        let all = [&["txn"], arguments].concat();
        Answer::from(
            Command::new(VARVE)
                .args(all)
                .current_dir("/")
                .output()
                .unwrap(),
        )
    };
    let file = at("a/t/kept");
    held(&["run", "--id", id.trim(), "--", "cat", &file]).expect(0, "kept\n");
    held(&["commit", id.trim()]).expect(0, "");
    mounts.unmount();
    assert_eq!(text(at("file")), "beneath\n");
    assert_eq!(fs::read_dir(at("a/t")).unwrap().count(), 1);
    mount.finish();
}

#[test]
fn what_is_left_running_finds_a_dead_view_and_not_what_is_beneath() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let (go, told) = (mount.scratch.text("go"), mount.scratch.text("told"));
    for end in ["true", "false"] {
        let late = format!("{}/late", mount.dir);
        let script = format!(
            "cd {}; setsid bash -c 'while [ ! -e {go} ]; do sleep 0.01; done; \
             echo by path > {late}; echo \"created: $?\"; echo relative > late; \
             echo \"relative: $?\"; cat {}/now; echo \"read: $?\"; mv {told}.new {told}' \
             > {told}.new 2>/dev/null & echo now > now; {end}",
            mount.dir, mount.dir
        );
        let code = i32::from(end != "true");
        run(&mount, &script).expect(code, "");
        fs::write(&go, "").unwrap();
        let over = Instant::now() + Duration::from_secs(60);
        while !Path::new(&told).exists() {
            assert!(Instant::now() < over, "the child that was left: no end");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(text(&told), "created: 1\nrelative: 1\nread: 1\n");
        assert!(!mount.path("late").exists());
        fs::remove_file(&go).unwrap();
        fs::remove_file(&told).unwrap();
    }
    mount.umount();
    assert_eq!(
        fs::read_dir(&mount.dir).unwrap().count(),
        0,
        "beneath the mount"
    );
    mount.mount();
    assert_eq!(text(mount.path("now")), "now\n");
    mount.finish();
}

/// Number of files of each kind.
const FILES: u32 = 60;

/// A script that makes a version: files `f` of one page, full of the version's number,
/// which are their mode and time as well; files `s` of a size that rises and falls; and a
/// directory in which one file has the version's name.
fn make(mount: &Mount, version: u32) -> String {
    format!(
        "cd {}; mkdir -p d; page=$(printf '{version} %.0s' {{1..900}}); \
         for i in {{1..{FILES}}}; do printf %s \"$page\" > f$i; done; truncate -s {} s{{1..{FILES}}}; \
         chmod {version:o} f*; touch -d @{version} f*; \
         if [ -e d/* ]; then mv d/* d/{version}; else touch d/{version}; fi",
        mount.dir,
        size_of(version)
    )
}

fn size_of(version: u32) -> u64 {
    u64::from(version) * if version.is_multiple_of(2) { 1 } else { 5000 }
}

/// Reads one property of one file: the version that it shows.
fn look(mount: &Mount, kind: &str, open: &[[File; 2]], number: u32) -> u32 {
    let path = mount.path(&format!("f{}", number + 1));
    let [file, sized] = &open[number as usize];
    let content = |file: &File| {
        let mut bytes = [0; 8192];
        let length = file.read_at(&mut bytes, 0).unwrap();
        let text = std::str::from_utf8(&bytes[..length]).unwrap();
        let versions: BTreeSet<&str> = text.split_whitespace().collect();
        assert_eq!((versions.len(), length), (1, 3600), "{kind} {number}");
        versions.first().unwrap().parse().unwrap()
    };
    match kind {
        "path" => content(&File::open(path).unwrap()),
        "open" => content(file),
        "mode" => fs::metadata(path).unwrap().permissions().mode() & 0o777,
        "time" => u32::try_from(file.metadata().unwrap().mtime()).unwrap(),
        "size" => {
            let size = u32::try_from(sized.metadata().unwrap().len()).unwrap();
            if size > 5000 { size / 5000 } else { size }
        }
        _ => {
            let names = fs::read_dir(mount.path("d")).unwrap();
            let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
            let names: BTreeSet<u32> = names.map(|name| name.parse().unwrap()).collect();
            // A listing is at least two requests, and the file may be renamed between them.
            // It has been seen as the first of them showed it.
            let (first, last) = (*names.first().unwrap(), *names.last().unwrap());
            assert_eq!(last - first + 1, names.len() as u32, "{names:?}");
            assert!(names.len() <= 2, "{names:?}");
            first
        }
    }
}

/// Several readers read all properties in random order: once one has seen a version, no
/// later read sees an older one.
fn readers_see_all_of_a_commit_or_nothing(options: &str) {
    let scratch = Scratch::new();
    let image = scratch.volume("image", "128M");
    let mount = Mount::with_options(scratch, image, options);
    // Three digits each, and modes that allow every user to read.
    let versions = 0o444..0o444 + 4;
    shell(&make(&mount, versions.start));
    let (newest, looks, over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for kind in [
            "path", "open", "mode", "time", "size", "names", "path", "open",
        ] {
            let (mount, newest, looks, over) = (&mount, &newest, &looks, &over);
            scope.spawn(move || {
                let open = (1..=FILES).map(|i| {
                    ["f", "s"].map(|kind| File::open(mount.path(&format!("{kind}{i}"))).unwrap())
                });
                let open: Vec<[File; 2]> = open.collect();
                let mut number = 0;
                while !over.load(SeqCst) {
                    number = (number + 7) % FILES;
                    let before = newest.load(SeqCst);
                    let seen = look(mount, kind, &open, number);
                    assert!(seen >= before, "{kind} {number}: {seen} after {before}");
                    newest.fetch_max(seen, SeqCst);
                    looks.fetch_add(1, SeqCst);
                }
            });
        }
        // If a step fails, the readers end as well.
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for version in versions.clone().skip(1) {
                run(&mount, &make(&mount, version)).expect(0, "");
                let before = looks.load(SeqCst);
                let end = Instant::now() + Duration::from_secs(5);
                while looks.load(SeqCst) < before + 200 && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }));
        over.store(true, SeqCst);
        made.unwrap();
    });
    assert_eq!(newest.load(SeqCst), versions.end - 1);
    mount.finish();
}

#[test]
fn readers_outside_see_all_of_a_commit_or_nothing() {
    if no_fuse() {
        return;
    }
    readers_see_all_of_a_commit_or_nothing("cache=64M");
}

#[test]
fn readers_outside_see_all_of_a_commit_or_nothing_without_write_back() {
    if no_fuse() {
        return;
    }
    readers_see_all_of_a_commit_or_nothing("cache=64M,order=strict");
}

/// Events of a directory and of two files in it, as `NAME EVENT`.
fn events_of_a_commit(mount: &Mount) -> BTreeSet<String> {
    let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
    let watcher = inotify::init(flags).unwrap();
    let all = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MODIFY
        | WatchFlags::MOVE
        | WatchFlags::DELETE_SELF;
    let mut watched = std::collections::HashMap::new();
    for name in ["d", "d/written", "d/removed"] {
        let number = inotify::add_watch(&watcher, mount.path(name), all).unwrap();
        watched.insert(number, name);
    }
    let script = "rm removed; echo longer > written; echo new > made; mv moved elsewhere; \
                  echo longer > other";
    run(mount, &format!("cd {}/d; {script}", mount.dir)).expect(0, "");
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watcher, &mut buffer);
    let mut seen = BTreeSet::new();
    while let Ok(event) = events.next() {
        let name = event
            .file_name()
            .map(|name| name.to_str().unwrap().to_owned());
        let place = watched[&event.wd()];
        let what = ReadFlags::from_bits_retain(event.events().bits());
        seen.insert(format!("{place} {} {what:?}", name.unwrap_or_default()));
    }
    seen
}

/// As in `docs/design/transactions.md`: a watched file is in use, and its content is
/// invalidated in the kernel through the mount.
#[test]
fn watchers_outside_see_writes_to_what_they_watch() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    shell(&format!(
        "cd {}; mkdir d; cd d; for f in removed written moved other; do echo old > $f; done",
        mount.dir
    ));
    let seen = events_of_a_commit(&mount);
    let writes = seen.iter().filter(|event| event.contains("MODIFY"));
    let writes: Vec<&str> = writes
        .map(|event| event.split(' ').next().unwrap())
        .collect();
    assert!(writes.contains(&"d/written"), "{seen:?}");
    assert_eq!(text(mount.path("d/written")), "longer\n");
    mount.finish();
}
