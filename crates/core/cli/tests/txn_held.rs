//! `varve txn begin`: transactions that several programs join one after the other, on a
//! real mount.
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::mounted::{Mount, lacks, no_fuse};
use support::{Answer, Scratch, VARVE, has, shell, varve};

fn begin(mount: &Mount, options: &[&str]) -> String {
    let begun = varve([&["txn", "begin", &*mount.dir], options].concat()).expect(0, "");
    begun.out.trim().to_owned()
}

/// A script in the root of the mount, in a transaction of this name.
fn script(mount: &Mount, id: &str, script: &str) -> Command {
    let mut command = Command::new(VARVE);
    command.args(["txn", "run", "--id", id, "--", "bash", "-e", "-u", "-c"]);
    command.arg(script).env_remove("VARVE_LOG");
    command.current_dir(&mount.dir);
    command
}

fn run(mount: &Mount, id: &str, what: &str) -> Answer {
    Answer::from(script(mount, id, what).output().unwrap())
}

/// A command that has begun when `mark` exists, and waits until it is killed or released.
fn waiting(mount: &Mount, id: &str, mark: &str) -> Child {
    let outside = mount.scratch.text(mark);
    let what = format!(
        "echo dirty > {mark}; touch {outside}; while [ ! -e {outside}.go ]; do sleep 0.01; done"
    );
    let mut command = script(mount, id, &what);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until("it runs", || mount.scratch.path(mark).exists());
    child
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(child: Child) -> Answer {
    Answer::from(child.wait_with_output().unwrap())
}

fn list(mount: &Mount) -> Vec<Value> {
    let listed = varve(["txn", "list", "--json", &mount.dir]).expect(0, "");
    listed.json()["open"].as_array().unwrap().clone()
}

fn names(mount: &Mount) -> Vec<String> {
    let entries = fs::read_dir(&mount.dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn aborts(mount: &Mount, cause: &str) -> u64 {
    let all = varve(["stats", "--json", &mount.dir]).expect(0, "").json();
    all["transactions"]["aborted_by"][cause].as_u64().unwrap()
}

fn kill(process: &str) {
    shell(&format!("kill -KILL {process}"));
}

#[test]
fn commands_follow_each_other_and_commit_as_one() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("old"), "old").unwrap();
    let id = begin(&mount, &[]);
    let first = format!("test $VARVE_TRANSACTION = {id}; mkdir d; echo 1 > d/a; rm old");
    run(&mount, &id, &first).expect(0, "");
    // The changes of a command that failed are part of it.
    run(&mount, &id, "test ! -e old; echo 2 >> d/a; exit 7").expect(7, "");
    run(&mount, &id, "mv d/a a; rmdir d; test $(wc -l < a) = 2").expect(0, "");
    let shell = script(&mount, &id, "");
    let mut shell = Command::new(shell.get_program());
    shell
        .args(["txn", "shell", "--id", &id])
        .env("SHELL", "/bin/true");
    assert!(shell.status().unwrap().success());
    assert_eq!(names(&mount), ["old"], "nobody sees it yet");
    let listed = list(&mount);
    assert_eq!((listed.len(), listed[0]["held"].as_str()), (1, Some(&*id)));
    assert!(listed[0]["left_s"].as_u64().unwrap() > 3500);
    varve(["txn", "list", &mount.dir]).expect(0, &format!("held as {id}, nobody in it, ends in"));
    varve(["txn", "commit", &id]).expect(0, "");
    assert_eq!(names(&mount), ["a"]);
    assert_eq!(fs::read_to_string(mount.path("a")).unwrap(), "1\n2\n");
    assert!(list(&mount).is_empty());
    varve(["txn", "commit", &id]).expect(125, "there is no transaction");
    run(&mount, &id, "true").expect(125, "there is no transaction");
    varve(["txn", "abort", &id]).expect(1, "there is no transaction");
    mount.remount_checked();
    assert_eq!(names(&mount), ["a"]);
    mount.finish();
}

#[test]
fn commands_at_the_same_time_see_each_other() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let id = begin(&mount, &["--isolation", "serializable"]);
    let waits = "while [ ! -e ping ]; do sleep 0.01; done; echo pong > pong";
    let mut one = script(&mount, &id, waits);
    let one = one.stderr(Stdio::piped()).spawn().unwrap();
    until("it is in it", || list(&mount)[0]["inside"][0] == "bash");
    assert!(
        list(&mount)[0]["left_s"].is_null(),
        "not while somebody is in it"
    );
    varve(["txn", "commit", &id]).expect(125, "still in it: bash");
    run(
        &mount,
        &id,
        "echo ping > ping; while [ ! -e pong ]; do sleep 0.01; done",
    )
    .expect(0, "");
    end(one).expect(0, "");
    let other = begin(&mount, &[]);
    run(&mount, &other, "test ! -e ping; echo other > other").expect(0, "");
    varve(["txn", "commit", &id]).expect(0, "");
    varve(["txn", "commit", &other]).expect(0, "");
    assert_eq!(names(&mount), ["other", "ping", "pong"]);
    mount.finish();
}

#[test]
fn a_conflict_is_found_at_the_commit() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    fs::write(mount.path("x"), "old").unwrap();
    let id = begin(&mount, &[]);
    run(&mount, &id, "echo mine > x; echo y > y").expect(0, "");
    fs::write(mount.path("x"), "theirs").unwrap();
    varve(["txn", "commit", &id]).expect(75, "nothing was changed");
    assert_eq!(names(&mount), ["x"]);
    varve(["txn", "commit", &id]).expect(125, "there is no transaction");
    assert!(list(&mount).is_empty());
    mount.finish();
}

#[test]
fn an_abort_ends_what_runs_in_it() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let id = begin(&mount, &[]);
    let inside = waiting(&mount, &id, "a");
    varve(["txn", "abort", &id]).expect(0, "");
    end(inside).expect(125, "was ended: it was aborted");
    // By its number, as an operator does.
    let id = begin(&mount, &[]);
    let inside = waiting(&mount, &id, "b");
    let number = list(&mount)[0]["id"].to_string();
    varve(["txn", "abort", &mount.dir, &number]).expect(0, "");
    end(inside).expect(125, "was ended");
    until("it is gone", || list(&mount).is_empty());
    assert_eq!(names(&mount), [""; 0]);
    mount.finish();
}

#[test]
fn what_nobody_comes_for_is_aborted() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let id = begin(&mount, &["--idle", "0.3"]);
    run(&mount, &id, "echo x > x; sleep 0.6").expect(0, "");
    until("it is gone", || list(&mount).is_empty());
    run(&mount, &id, "true").expect(125, "there is no transaction");
    assert_eq!(aborts(&mount, "idle"), 1);
    let id = begin(&mount, &["--timeout", "0.5"]);
    let inside = waiting(&mount, &id, "a");
    end(inside).expect(125, "its time was over");
    until("it is gone", || list(&mount).is_empty());
    assert_eq!(aborts(&mount, "timeout"), 1);
    // The command's own time limit is not the transaction's.
    let id = begin(&mount, &[]);
    let slow = [
        "txn",
        "run",
        "--id",
        &id,
        "--timeout",
        "0.2",
        "--",
        "sleep",
        "1000",
    ];
    varve(slow).expect(124, "the transaction goes on");
    run(&mount, &id, "echo z > z").expect(0, "");
    varve(["txn", "commit", &id]).expect(0, "");
    assert_eq!(names(&mount), ["z"]);
    mount.finish();
}

#[test]
fn a_holder_that_is_killed_is_an_abort() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let id = begin(&mount, &[]);
    let inside = waiting(&mount, &id, "a");
    kill(&list(&mount)[0]["pid"].to_string());
    end(inside).expect(125, "its holder ended");
    until("it is gone", || list(&mount).is_empty());
    assert_eq!(aborts(&mount, "lost_client"), 1);
    run(&mount, &id, "true").expect(125, "there is no transaction");
    assert_eq!(names(&mount), [""; 0]);
    // A client that joined and is killed does not affect the transaction.
    let id = begin(&mount, &[]);
    let mut inside = waiting(&mount, &id, "b");
    inside.kill().unwrap();
    inside.wait().unwrap();
    // Its child processes remain, in namespaces that keep other mounts in use where
    // mounts are private.
    fs::write(mount.scratch.path("b.go"), "").unwrap();
    until("nobody is in it", || {
        list(&mount)[0]["inside"].as_array().unwrap().is_empty()
    });
    varve(["txn", "commit", &id]).expect(0, "");
    assert_eq!(fs::read_to_string(mount.path("b")).unwrap(), "dirty\n");
    mount.finish();
}

#[test]
fn a_server_that_is_killed_ends_the_holder_and_who_is_in_it() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let id = begin(&mount, &[]);
    run(&mount, &id, "head -c 3000000 /dev/zero > big").expect(0, "");
    let inside = waiting(&mount, &id, "a");
    let holder = list(&mount)[0]["pid"].to_string();
    kill(&mount.server());
    end(inside).expect(125, "the server ended");
    until("the holder ends", || {
        !fs::exists(format!("/proc/{holder}")).unwrap()
    });
    varve(["txn", "commit", &id]).expect(125, "there is no transaction");
    shell(&format!("umount -l {}", mount.dir));
    mount.mount();
    assert_eq!(names(&mount), [""; 0]);
    mount.finish();
}

#[test]
fn a_mount_goes_although_a_transaction_is_held() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    let id = begin(&mount, &[]);
    run(&mount, &id, "echo x > x").expect(0, "");
    let inside = waiting(&mount, &id, "a");
    mount.umount();
    end(inside).expect(125, "was ended");
    run(&mount, &id, "true").expect(125, "there is no transaction");
    mount.mount();
    assert_eq!(names(&mount), [""; 0]);
    mount.finish();
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    varve(["txn", "begin", "/"]).expect(125, "not on a mounted Varve volume");
    for time in ["0", "-1", "1e300", "NaN"] {
        let idle = format!("--idle={time}");
        varve(["txn", "begin", &mount.dir, &idle]).expect(2, "above 0");
    }
    varve(["txn", "run", "--id", "x", &mount.dir, "--", "true"]).expect(2, "cannot be used with");
    varve(["txn", "run", "--id", "x", "--retries", "1", "--", "true"])
        .expect(2, "cannot be used with");
    varve(["txn", "run", "--", "true"]).expect(2, "<DIRECTORY>");
    let long = "x".repeat(300);
    for id in ["no-such", "", &*long] {
        varve(["txn", "commit", id]).expect(125, "transaction");
        varve(["txn", "run", "--id", id, "--", "true"]).expect(125, "transaction");
    }
    let id = begin(&mount, &[]);
    varve(["txn", "run", "--id", &id, "--", "/no/such/program"]).expect(127, "No such file");
    let within = format!("! {VARVE} txn begin . 2>e; cat e >&2; exit 1");
    run(&mount, &id, &within).expect(1, "this is the view of a transaction");
    varve(["txn", "abort", &id]).expect(0, "");
    mount.umount();
    mount.mount_with(&["-r"]);
    varve(["txn", "begin", &mount.dir]).expect(125, "read-only");
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
fn a_user_hands_over_transactions_on_a_mount_of_his() {
    if no_fuse() || lacks("setpriv", has("setpriv")) || lacks("fusermount3", has("fusermount3")) {
        return;
    }
    if lacks("root", rustix::process::geteuid().is_root()) {
        return;
    }
    let open = fs::metadata("/dev/fuse").unwrap().permissions().mode() & 0o006 == 0o006;
    // fusermount3 opens /dev/fuse itself, and accepts no other device file.
    let _device = (!open).then(OpenDevice::new);
    let scratch = Scratch::new();
    let (image, program, dir) = (
        scratch.text("image"),
        scratch.text("varve"),
        scratch.text("mnt"),
    );
    fs::copy(VARVE, &program).unwrap();
    fs::create_dir(&dir).unwrap();
    let path = scratch.path("");
    shell(&format!(
        "chown -R nobody:nogroup {0}; chmod 755 {0}",
        path.display()
    ));
    // With --no-new-privs fusermount3 mounts nothing.
    let mounter = "setpriv --reuid nobody --regid nogroup --clear-groups";
    let user = format!("{mounter} --no-new-privs {program} txn");
    shell(&format!(
        "cd /; {mounter} {program} mkfs {image} --size 64M; {mounter} {program} mount {image} {dir}"
    ));
    let begun = shell(&format!("cd /; {user} begin {dir}"));
    let id = begun.trim();
    let seen = shell(&format!(
        "cd /; {user} run --id {id} -- sh -e -c 'cd {dir}; echo x > x; mkdir d'; \
         {user} run --id {id} -- sh -e -c 'mv {dir}/x {dir}/d/; id -u; stat -c %u {dir}/d/x'; \
         {mounter} ls {dir}; {user} list {dir} | grep -c 'held as {id}, nobody in it'"
    ));
    let uid = shell("id -u nobody");
    assert_eq!(seen, format!("{0}\n{0}\n1\n", uid.trim()));
    // Not even root, because the user's namespaces are others.
    varve(["txn", "commit", id]).expect(125, "is another user's");
    varve(["txn", "run", "--id", id, "--", "true"]).expect(125, "is another user's");
    shell(&format!("cd /; {user} commit {id}"));
    assert_eq!(
        shell(&format!("{mounter} ls {dir} {dir}/d")),
        format!("{dir}:\nd\n\n{dir}/d:\nx\n")
    );
    shell(&format!("cd /; {mounter} {program} umount {dir}"));
    varve(["fsck", "--data", &image]).expect(0, "clean");
}
