//! `varve txn` and the rest of the host: other users, running programs, locks.
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

mod support;

use std::fs::{self, File};
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use support::mounted::{Mount, lacks, no_fuse};
use support::{Answer, VARVE, has, shell, varve};

/// Connections of an ordinary user: more than a server's threads and places.
const MANY: usize = 600;

/// The abstract socket of the part of the server that the question names.
fn socket(mount: &Mount, part: &str) -> String {
    let question = serde_json::json!({ part: {"socket": true} }).to_string();
    let answer = varve_fuse::ask(Path::new(&mount.dir), &question).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["socket"].as_str().unwrap().to_owned()
}

fn threads_of(server: &str) -> usize {
    fs::read_dir(format!("/proc/{server}/task"))
        .unwrap()
        .count()
}

/// Connects many times as another user, and keeps the connections until the sender is
/// dropped. Returns the number of connections that the server has closed without an
/// answer.
fn crowd(name: &str) -> (usize, Sender<()>) {
    let (counted, count) = channel();
    let (leave, stay) = channel::<()>();
    let address = SocketAddr::from_abstract_name(name).unwrap();
    std::thread::spawn(move || {
        // The user of this thread only.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        let connect = || UnixStream::connect_addr(&address).unwrap();
        let connections: Vec<UnixStream> = std::iter::repeat_with(connect).take(MANY).collect();
        let closed = connections.iter().filter(|connection| {
            let patience = Some(Duration::from_secs(5));
            connection.set_read_timeout(patience).unwrap();
            (&mut &**connection)
                .read_to_end(&mut Vec::new())
                .is_ok_and(|bytes| bytes == 0)
        });
        counted.send(closed.count()).unwrap();
        let _ = stay.recv();
    });
    (count.recv().unwrap(), leave)
}

#[test]
fn an_ordinary_user_keeps_nobody_from_transactions_and_streams() {
    let is_root = rustix::process::geteuid().is_root();
    if no_fuse() || lacks("root, to be another user", is_root) {
        return;
    }
    let mount = Mount::new("64M");
    mount.umount();
    let position = varve(["replay", &mount.image, "--position", "--json"]);
    let position = position.expect(0, "").json();
    let since = position["mark"].as_str().unwrap();
    mount.mount();
    let names = ["transactions", "ship"].map(|part| socket(&mount, part));
    let server = mount.server();
    let before = threads_of(&server);
    let crowds = names.map(|name| crowd(&name));
    for (closed, _) in &crowds {
        assert_eq!(*closed, MANY);
    }
    let now = threads_of(&server);
    assert!(now < before + 8, "{before} threads before, {now} now");
    varve([
        "txn",
        "run",
        &mount.dir,
        "--",
        "touch",
        &mount.path("new").to_string_lossy(),
    ])
    .expect(0, "");
    assert!(mount.path("new").exists());
    let stream = mount.scratch.text("stream");
    varve(["ship", &mount.dir, "--since", since, "--to", &stream]).expect(0, "groups");
    drop(crowds);
    mount.finish();
}

/// Asserts that it failed, with this message of its last program.
#[track_caller]
fn refused(answer: &Answer, said: &str) {
    assert!(
        answer.code != 0 && answer.err.contains(said),
        "{said}: {answer:#?}"
    );
}

/// Runs a script in a transaction, in the root of the mount.
fn command(mount: &Mount, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(VARVE);
    command.args(["txn", "run"]).args(options).arg(&mount.dir);
    command.args(["--", "bash", "-e", "-u", "-c", script]);
    command.env_remove("VARVE_LOG").current_dir(&mount.dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(mount: &Mount, options: &[&str], script: &str) -> Answer {
    Answer::from(command(mount, options, script).output().unwrap())
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program that runs until its gate is opened, inside a transaction or outside.
struct Gated {
    child: Child,
    gate: String,
}

impl Gated {
    /// Starts it, and waits until its script has reached `ready`. The script has `$WAIT`,
    /// which waits for the gate.
    fn start(mount: &Mount, script: &str, inside: bool) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let gate = mount
            .scratch
            .text(&format!("gate{}", NUMBER.fetch_add(1, Relaxed)));
        let mut child = match inside {
            true => command(mount, &[], script),
            false => {
                let mut child = Command::new("bash");
                child
                    .args(["-e", "-u", "-c", script])
                    .current_dir(&mount.dir);
                child.stdout(Stdio::piped()).stderr(Stdio::piped());
                child
            }
        };
        let wait = format!("touch {gate}.here; while [ ! -e {gate} ]; do sleep 0.01; done");
        let child = child.env("WAIT", wait).spawn().unwrap();
        wait_for("the script", || Path::new(&format!("{gate}.here")).exists());
        Gated { child, gate }
    }

    fn inside(mount: &Mount, script: &str) -> Self {
        Gated::start(mount, script, true)
    }

    fn outside(mount: &Mount, script: &str) -> Self {
        Gated::start(mount, script, false)
    }

    fn finish(self) -> Answer {
        fs::write(&self.gate, "").unwrap();
        Answer::from(self.child.wait_with_output().unwrap())
    }
}

#[test]
fn a_running_program_is_not_overwritten() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let program = mount.path("program");
    fs::copy("/bin/sleep", &program).unwrap();
    let content = fs::read(&program).unwrap();
    let mut running = Command::new(&program).arg("600").spawn().unwrap();
    let overwrite = "echo other > new; cat new > program";
    run(&mount, &[], overwrite).expect(75, "program is a running program; nothing was changed");
    assert!(running.try_wait().unwrap().is_none(), "it was ended");
    assert!(fs::read(&program).unwrap() == content && !mount.path("new").exists());
    // Its name may refer to another file, and its attributes may change.
    run(&mount, &[], "chmod 700 program").expect(0, "");
    run(
        &mount,
        &[],
        "echo other > new; chmod 755 new; mv new program",
    )
    .expect(0, "");
    assert_eq!(fs::read(&program).unwrap(), b"other\n");
    assert!(running.try_wait().unwrap().is_none(), "it was ended");
    running.kill().unwrap();
    running.wait().unwrap();
    // A program that does not run can be written.
    fs::copy("/bin/sleep", &program).unwrap();
    run(&mount, &[], "cat /dev/null > program").expect(0, "");
    assert_eq!(fs::metadata(&program).unwrap().len(), 0);
    mount.finish();
}

/// Sets a lease of `file` for the kind that is given, and tells what became of it.
const LEASE: &str = "exec python3 -c '
import fcntl, os, signal, subprocess, sys
broken = []
signal.signal(signal.SIGIO, lambda *_: broken.append(1))
file = os.open(\"file\", os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, getattr(fcntl, sys.argv[1]))
subprocess.run([\"bash\", \"-c\", os.environ[\"WAIT\"]])
print(\"broken\" if broken else \"whole\")
' ";

/// A lease of either kind is one of the file's content: a commit that changes it is a
/// conflict, and the kernel notifies the holder, as for any writer that does not wait.
#[test]
fn a_commit_does_not_write_under_a_lease() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    for kind in ["F_RDLCK", "F_WRLCK"] {
        for (script, code, said) in [
            ("echo new > file", 75, "another process has a lease of file"),
            (
                "truncate -s 0 file",
                75,
                "another process has a lease of file",
            ),
            // Content and holder are untouched by these.
            ("cat file; chmod 600 file; ln file link; rm link", 0, ""),
            ("mv file away; echo new > file", 0, ""),
        ] {
            fs::write(mount.path("file"), b"content").unwrap();
            let holder = Gated::outside(&mount, &format!("{LEASE}{kind}"));
            run(&mount, &[], script).expect(code, said);
            let told = holder.finish();
            let wanted = if code == 75 { "broken\n" } else { "whole\n" };
            assert_eq!(
                (told.code, told.out.as_str()),
                (0, wanted),
                "{script}: {told:#?}"
            );
            if code == 75 {
                assert_eq!(fs::read(mount.path("file")).unwrap(), b"content");
                // The holder has given it up.
                run(&mount, &[], script).expect(0, "");
            }
        }
    }
    mount.finish();
}

#[test]
fn a_lock_of_others_is_met_inside() {
    if no_fuse() || lacks("flock", has("flock")) {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("file"), "x").unwrap();
    let holder = Gated::outside(&mount, "flock file bash -c \"$WAIT\"");
    run(&mount, &[], "flock -n file true").expect(1, "");
    run(&mount, &[], "flock -n -s file true").expect(1, "");
    // Its process may be killed, and its time may be over.
    run(
        &mount,
        &[],
        "! timeout -s KILL 0.5 flock file true; touch killed",
    )
    .expect(0, "");
    assert!(mount.path("killed").exists());
    run(&mount, &["--timeout", "1"], "flock file true").expect(124, "the time was over");
    // It waits as long as necessary.
    let waiting = "touch $OUT; flock file touch got";
    let mark = mount.scratch.text("mark");
    let waiting = command(&mount, &[], waiting)
        .env("OUT", &mark)
        .spawn()
        .unwrap();
    wait_for("the second script", || Path::new(&mark).exists());
    holder.finish().expect(0, "");
    Answer::from(waiting.wait_with_output().unwrap()).expect(0, "");
    assert!(mount.path("got").exists());
    // Shared locks are compatible.
    let holder = Gated::outside(&mount, "flock -s file bash -c \"$WAIT\"");
    run(&mount, &[], "flock -n -s file true").expect(0, "");
    run(&mount, &[], "flock -n file true").expect(1, "");
    holder.finish().expect(0, "");
    mount.finish();
}

#[test]
fn umount_names_the_transaction_whose_locks_keep_a_mount_busy() {
    if no_fuse() || lacks("flock", has("flock")) {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("file"), b"content").unwrap();
    let inside = Gated::inside(&mount, "flock file true; eval \"$WAIT\"");
    let list = varve(["txn", "list", "--json", &mount.dir])
        .expect(0, "")
        .json();
    let (id, pid) = (&list["open"][0]["id"], &list["open"][0]["pid"]);
    let named = format!("in use: transaction {id} (process {pid}, bash, locks of files)");
    varve(["umount", "--timeout", "0", &mount.dir]).expect(32, &named);
    inside.finish().expect(0, "");
    mount.finish();
}

#[test]
fn a_lock_of_a_transaction_is_kept_until_its_end() {
    if no_fuse() || lacks("flock", has("flock")) {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("file"), "x").unwrap();
    let tried = |options: &str| {
        shell(&format!(
            "cd {}; flock -n {options} file echo got || echo refused",
            mount.dir
        ))
    };
    for end in ["true", "false"] {
        // The lock was released; commands inside get it again.
        let script = format!(
            "flock file true; flock -n file true; \
             flock file bash -c '! flock -n file true'; eval \"$WAIT\"; {end}"
        );
        let inside = Gated::inside(&mount, &script);
        assert_eq!(tried(""), "refused\n");
        assert_eq!(tried("-s"), "refused\n");
        run(&mount, &[], "flock -n file true").expect(1, "");
        inside.finish().expect(i32::from(end == "false"), "");
        assert_eq!(tried(""), "got\n");
    }
    // A file that only the transaction has is locked as well, by commands inside.
    run(
        &mount,
        &[],
        "touch new; flock new bash -c '! flock -n new true'; flock -n new true",
    )
    .expect(0, "");
    mount.finish();
}

fn rows(mount: &Mount) -> String {
    shell(&format!(
        "cd {}; sqlite3 db 'select * from t order by x' 'pragma integrity_check'",
        mount.dir
    ))
}

/// A database of SQLite with one row.
fn database(mode: &str) -> Mount {
    let mount = Mount::new("64M");
    shell(&format!(
        "cd {}; sqlite3 db 'pragma journal_mode={mode}' 'create table t(x)' \
         'insert into t values(1)' 'pragma wal_checkpoint'",
        mount.dir
    ));
    mount
}

/// The database, opened outside; it does not wait for locks.
fn open(mount: &Mount) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(mount.path("db")).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection
}

#[test]
fn sqlite_with_a_journal_is_locked_on_both_sides() {
    if no_fuse() || lacks("sqlite3", has("sqlite3")) {
        return;
    }
    let mount = database("delete");
    let outsider = open(&mount);
    outsider
        .execute_batch("begin immediate; insert into t values(2)")
        .unwrap();
    let insert = "sqlite3 db 'insert into t values(3)'";
    refused(&run(&mount, &[], insert), "locked");
    outsider.execute_batch("commit").unwrap();
    let inside = Gated::inside(&mount, &format!("{insert}; eval \"$WAIT\""));
    let answer = outsider
        .execute_batch("insert into t values(4)")
        .unwrap_err();
    assert!(answer.to_string().contains("locked"), "{answer}");
    inside.finish().expect(0, "");
    outsider.execute_batch("insert into t values(5)").unwrap();
    assert_eq!(rows(&mount), "1\n2\n3\n5\nok\n");
    drop(outsider);
    mount.finish();
}

#[test]
fn what_sqlite_committed_to_its_log_outside_is_not_lost() {
    if no_fuse() || lacks("sqlite3", has("sqlite3")) {
        return;
    }
    let insert = |row: u32| format!("sqlite3 db 'insert into t values({row})'");
    // With an existing log, or one made meanwhile; closed, or still open.
    for (is_there, closes) in [(true, false), (false, false), (false, true)] {
        let mount = database("wal");
        let open = || open(&mount);
        let before = is_there.then(|| {
            let outsider = open();
            outsider.execute_batch("insert into t values(2)").unwrap();
            outsider
        });
        let inside = Gated::inside(&mount, &format!("eval \"$WAIT\"; {}", insert(3)));
        let outsider = before.unwrap_or_else(open);
        outsider.execute_batch("insert into t values(4)").unwrap();
        let outsider = (!closes).then_some(outsider);
        let answer = inside.finish();
        assert_ne!(answer.code, 0, "{is_there}, {closes}");
        let kept = if is_there {
            "1\n2\n4\nok\n"
        } else {
            "1\n4\nok\n"
        };
        assert_eq!(rows(&mount), kept, "{is_there}, {closes}");
        drop(outsider);
        assert_eq!(rows(&mount), kept, "{is_there}, {closes}");
        // Alone it commits, and other programs that start meanwhile wait.
        let inside = Gated::inside(&mount, &format!("{}; eval \"$WAIT\"", insert(5)));
        let answer = open().execute_batch("insert into t values(6)");
        assert!(answer.is_err(), "{is_there}, {closes}");
        inside.finish().expect(0, "");
        let kept = kept.replace("ok", "5\nok");
        assert_eq!(rows(&mount), kept, "{is_there}, {closes}");
        mount.finish();
    }
}

#[test]
fn git_s_lock_files_are_seen_on_both_sides() {
    if no_fuse() || lacks("git", has("git")) {
        return;
    }
    let mount = Mount::new("64M");
    shell(&format!(
        "cd {}; git init -q .; echo x > file; git add file",
        mount.dir
    ));
    let lock = mount.path(".git/index.lock");
    let add = "echo y > other; git add other";
    // It existed before.
    fs::write(&lock, "").unwrap();
    refused(&run(&mount, &[], add), "index.lock");
    fs::remove_file(&lock).unwrap();
    // It is made meanwhile.
    let inside = Gated::inside(&mount, &format!("eval \"$WAIT\"; {add}"));
    fs::write(&lock, "").unwrap();
    inside.finish().expect(75, "index.lock");
    fs::remove_file(&lock).unwrap();
    run(&mount, &[], add).expect(0, "");
    let staged = shell(&format!("cd {}; git ls-files", mount.dir));
    assert_eq!(staged, "file\nother\n");
    mount.finish();
}

#[test]
fn dpkg_s_lock_is_met_on_both_sides() {
    if no_fuse() || lacks("dpkg", has("dpkg")) {
        return;
    }
    let mount = Mount::new("64M");
    shell(&format!(
        "cd {}; mkdir -p var/lib/dpkg/info var/lib/dpkg/updates; \
         touch var/lib/dpkg/status var/lib/dpkg/lock var/lib/dpkg/lock-frontend",
        mount.dir
    ));
    let configure = "PATH=$PATH:/usr/sbin:/sbin dpkg --root=\"$PWD\" --log=/dev/null \
                     --force-not-root --configure -a";
    let outside = || {
        let script = format!("cd {}; {configure} || true", mount.dir);
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let file = File::options()
        .write(true)
        .open(mount.path("var/lib/dpkg/lock"))
        .unwrap();
    // As dpkg does.
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    refused(&run(&mount, &[], configure), "locked by another process");
    drop(file);
    let inside = Gated::inside(&mount, &format!("{configure}; eval \"$WAIT\""));
    let answer = outside();
    assert!(answer.contains("locked by another process"), "{answer}");
    inside.finish().expect(0, "");
    assert_eq!(outside(), "");
    mount.finish();
}
