//! Proof of `varve txn run`: histories of programs are judged, and servers and clients
//! are killed while books are kept.
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use support::mounted::{Mount, no_fuse};
use support::{VARVE, shell, varve};
use varve_prove::random::Random;
use varve_prove::transactions::history::{Action, Level, Outcome, Record};
use varve_prove::transactions::judge;

/// A script in a transaction, with its standard output recorded.
fn script(mount: &Mount, options: &[&str], script: &str) -> Child {
    try_script(mount, options, script).unwrap()
}

/// As [`script`], where the mount may have ended.
fn try_script(mount: &Mount, options: &[&str], script: &str) -> io::Result<Child> {
    let mut command = Command::new(VARVE);
    command.args(["txn", "run"]).args(options).arg(&mount.dir);
    command.args(["--", "bash", "-e", "-u", "-c", script]);
    command.env_remove("VARVE_LOG").current_dir(&mount.dir);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn()
}

/// Lists of numbers, in order: two that are appended to, one in a file that a rename
/// replaces, one in a symbolic link that is removed and made anew.
const LISTS: u64 = 4;
const REPLACED: u32 = 2;
const LINK: u32 = 3;
/// Lists that are changed only outside of transactions: by an append, by a rename.
const OUTSIDE: [u32; 2] = [4, 5];
const ALL: u32 = 6;
const CLIENTS: u64 = 3;
const TRANSACTIONS: u64 = 14;

fn list(text: &str) -> Vec<u64> {
    // A link needs a target, so its list begins with a dot.
    let words = text.split_whitespace().filter(|word| *word != ".");
    words.map(|word| word.parse().unwrap()).collect()
}

fn adds(object: u32, value: u64) -> String {
    match object {
        // Another file gets the name.
        REPLACED => format!("{{ cat 2; echo {value}; }} > new{value}; mv new{value} 2\n"),
        LINK => format!("old=$(readlink 3); rm 3; ln -s \"$old {value}\" 3\n"),
        _ => format!("echo {value} >> {object}\n"),
    }
}

/// A script that reads lists and appends to them, and the plan of its operations.
fn draw(random: &mut Random, values: &AtomicU64) -> (String, Vec<(u32, Option<u64>)>) {
    let (mut text, mut plan) = (String::new(), Vec::new());
    for _ in 0..=random.below(3) {
        let object = random.below(ALL.into()) as u32;
        // A line of its own for each list that was read.
        let read = if object == LINK { "readlink" } else { "cat" };
        text.push_str(&format!("echo $({read} {object})\n"));
        plan.push((object, None));
        if u64::from(object) < LISTS && !random.once_in(3) {
            let value = values.fetch_add(1, SeqCst);
            text.push_str(&adds(object, value));
            plan.push((object, Some(value)));
        }
    }
    (text, plan)
}

/// The actions of a script, from its plan and its output.
fn done(plan: Vec<(u32, Option<u64>)>, said: &[u8]) -> Vec<Action> {
    let said = std::str::from_utf8(said).unwrap();
    let mut said = said.lines();
    let mut actions = Vec::new();
    for (object, value) in plan {
        match value {
            Some(value) => actions.push(Action::Append { object, value }),
            None => {
                let Some(line) = said.next() else { break };
                let values = list(line);
                actions.push(Action::Read { object, values });
            }
        }
    }
    actions
}

/// Reads lists and appends to them; returns the actions.
fn transact(
    mount: &Mount,
    isolation: &str,
    random: &mut Random,
    values: &AtomicU64,
) -> (Vec<Action>, i32) {
    let (mut text, plan) = draw(random, values);
    let ends = random.once_in(10);
    text.push_str(if ends { "exit 9\n" } else { "" });
    let output = script(mount, &["--isolation", isolation], &text)
        .wait_with_output()
        .unwrap();
    let actions = done(plan, &output.stdout);
    (actions, output.status.code().unwrap_or(-1))
}

/// As `transact`, in a held transaction, by two programs one after the other.
fn transact_held(
    mount: &Mount,
    isolation: &str,
    random: &mut Random,
    values: &AtomicU64,
) -> (Vec<Action>, i32) {
    let begun = varve(["txn", "begin", "--isolation", isolation, &mount.dir]).expect(0, "");
    let id = begun.out.trim();
    let mut actions = Vec::new();
    for _ in 0..2 {
        let (text, plan) = draw(random, values);
        let mut command = Command::new(VARVE);
        command.args([
            "txn", "run", "--id", id, "--", "bash", "-e", "-u", "-c", &text,
        ]);
        let command = command.env_remove("VARVE_LOG").current_dir(&mount.dir);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{text}{output:?}");
        actions.extend(done(plan, &output.stdout));
    }
    if random.once_in(6) {
        varve(["txn", "abort", id]).expect(0, "");
        return (actions, 9);
    }
    (actions, varve(["txn", "commit", id]).code)
}

/// Appends a number to a list of its own, outside of transactions, and makes it durable:
/// data that only the kernel has is in no snapshot.
fn add_outside(mount: &Mount, object: u32, value: u64) -> Vec<Action> {
    let path = mount.path(&object.to_string());
    let mut file = if object == OUTSIDE[0] {
        fs::OpenOptions::new().append(true).open(&path).unwrap()
    } else {
        let old = fs::read_to_string(&path).unwrap();
        let mut new = fs::File::create(mount.path("outside")).unwrap();
        new.write_all(old.as_bytes()).unwrap();
        new
    };
    file.write_all(format!("{value}\n").as_bytes()).unwrap();
    file.sync_all().unwrap();
    if object != OUTSIDE[0] {
        fs::rename(mount.path("outside"), &path).unwrap();
    }
    vec![Action::Append { object, value }]
}

fn look(mount: &Mount) -> Vec<Action> {
    let read = |object: u32| {
        let path = mount.path(&object.to_string());
        let text = match object {
            LINK => fs::read_link(path).unwrap().into_os_string().into_string(),
            _ => Ok(fs::read_to_string(path).unwrap()),
        };
        let values = list(&text.unwrap());
        Action::Read { object, values }
    };
    (0..ALL).map(read).collect()
}

fn history(isolation: &str, level: Level) {
    let mount = Mount::new("128M");
    for object in (0..ALL).filter(|object| *object != LINK) {
        fs::write(mount.path(&object.to_string()), "").unwrap();
    }
    std::os::unix::fs::symlink(".", mount.path(&LINK.to_string())).unwrap();
    let (clock, values) = (AtomicU64::new(0), AtomicU64::new(1));
    let now = || clock.fetch_add(1, SeqCst);
    let records = Mutex::new(Vec::new());
    let record = |work: &mut dyn FnMut() -> (Vec<Action>, i32)| {
        let begun = now();
        let (actions, code) = work();
        let outcome = match code {
            0 => Outcome::Committed,
            9 | 75 => Outcome::Aborted,
            other => panic!("ended with {other}"),
        };
        let ended = now();
        records.lock().unwrap().push(Record {
            begun,
            ended,
            actions,
            outcome,
        });
    };
    let working = AtomicU64::new(CLIENTS);
    std::thread::scope(|scope| {
        let (mount, values, record, working) = (&mount, &values, &record, &working);
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let _ends = Ends(working);
                let mut random = Random::new(client + 1);
                for turn in 0..TRANSACTIONS {
                    let transact = match client == 0 && turn % 2 == 0 {
                        true => transact_held,
                        false => transact,
                    };
                    record(&mut || transact(mount, isolation, &mut random, values));
                }
            });
        }
        scope.spawn(move || {
            for turn in 0.. {
                if working.load(SeqCst) == 0 {
                    break;
                }
                let value = values.fetch_add(1, SeqCst);
                record(&mut || (add_outside(mount, OUTSIDE[turn % 2], value), 0));
                std::thread::sleep(Duration::from_millis(60));
            }
        });
    });
    record(&mut || (look(&mount), 0));
    mount.remount_checked();
    record(&mut || (look(&mount), 0));
    let records = records.into_inner().unwrap();
    let judgement = judge(&records, level);
    assert!(judgement.found.is_empty(), "{:#?}", judgement.found);
    // Those of the programs.
    let all = (CLIENTS * TRANSACTIONS) as usize;
    let committed = judgement.committed - (records.len() - all);
    eprintln!(
        "{isolation}: {committed} of {all} committed, {} outside, {} dependencies, {} write skews",
        records.len() - all - 2,
        judgement.edges,
        judgement.skews
    );
    assert!(committed > 8 && committed < all, "they did not meet");
    mount.finish();
}

/// Decrements the number of running threads, in any case.
struct Ends<'a>(&'a AtomicU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn programs_see_snapshots() {
    if !no_fuse() {
        history("snapshot", Level::Snapshot);
    }
}

#[test]
fn programs_are_serializable() {
    if !no_fuse() {
        history("serializable", Level::Serializable);
    }
}

/// Accounts, tellers and branches, each a file.
const BOOKS: [(&str, u64); 3] = [("account", 8), ("teller", 4), ("branch", 2)];

/// Keeps books until `stop`, which is set before the server is killed; acknowledged
/// commits are appended to `told`.
fn keep(
    mount: &Mount,
    client: u64,
    stop: &AtomicBool,
    told: &Mutex<BTreeSet<u64>>,
    killed: &AtomicU64,
) {
    let mut random = Random::new(client);
    for sequence in 0.. {
        if stop.load(SeqCst) {
            return;
        }
        let (number, delta) = (
            client * 1_000_000 + sequence,
            random.below(200) as i64 - 100,
        );
        let mut text = String::new();
        for (book, count) in BOOKS {
            let file = format!("{book}{}", random.below(count));
            text.push_str(&format!(
                "b=$(cat {file}); echo $((b + {delta})) > {file}\n"
            ));
        }
        text.push_str(&format!("echo {number} {delta} >> history\n"));
        let mut child = match try_script(mount, &["--retries", "3"], &text) {
            Ok(child) => child,
            Err(error) => {
                assert!(stop.load(SeqCst), "client {client}: {error}");
                return;
            }
        };
        if random.once_in(4) {
            std::thread::sleep(Duration::from_millis(random.below(60)));
            child.kill().unwrap();
            killed.fetch_add(1, SeqCst);
        }
        if child.wait().unwrap().success() {
            told.lock().unwrap().insert(number);
        }
    }
}

/// Checks that the books agree, and no acknowledged commit is missing; returns the number
/// of entries.
fn audit(mount: &Mount, told: &BTreeSet<u64>) -> usize {
    let number = |name: &str| -> i64 {
        let text = fs::read_to_string(mount.path(name)).unwrap();
        text.trim()
            .parse()
            .unwrap_or_else(|_| panic!("{name}: {text:?}"))
    };
    let (mut entries, mut sum) = (BTreeSet::new(), 0);
    for line in fs::read_to_string(mount.path("history")).unwrap().lines() {
        let (number, delta) = line.split_once(' ').expect("a whole line");
        assert!(
            entries.insert(number.parse::<u64>().unwrap()),
            "{number} twice"
        );
        sum += delta.parse::<i64>().unwrap();
    }
    for (book, count) in BOOKS {
        let all: i64 = (0..count).map(|at| number(&format!("{book}{at}"))).sum();
        assert_eq!(all, sum, "{book}");
    }
    let missing: Vec<_> = told.difference(&entries).collect();
    assert!(missing.is_empty(), "committed, and gone: {missing:?}");
    entries.len()
}

#[test]
fn the_books_agree_whoever_is_killed() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("128M");
    for (book, count) in BOOKS {
        (0..count).for_each(|at| fs::write(mount.path(&format!("{book}{at}")), "0\n").unwrap());
    }
    fs::write(mount.path("history"), "").unwrap();
    shell(&format!("sync -f {}", mount.dir));
    let (told, killed) = (Mutex::new(BTreeSet::new()), AtomicU64::new(0));
    for round in 0..3 {
        let stop = AtomicBool::new(false);
        let before = told.lock().unwrap().len();
        std::thread::scope(|scope| {
            for client in 0..3 {
                let (mount, stop, told, killed) = (&mount, &stop, &told, &killed);
                scope.spawn(move || keep(mount, 1 + round * 10 + client, stop, told, killed));
            }
            std::thread::sleep(Duration::from_millis(500));
            while told.lock().unwrap().len() < before + 4 {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, SeqCst);
            shell(&format!("kill -KILL {}", mount.server()));
        });
        mount.umount();
        varve(["fsck", "--data", &mount.image]).expect(0, "0 errors");
        mount.mount();
        let told = told.lock().unwrap();
        let entries = audit(&mount, &told);
        eprintln!(
            "server killed {} times, clients {}: {} committed, {entries} in the history",
            round + 1,
            killed.load(SeqCst),
            told.len()
        );
    }
    mount.finish();
}

/// A transaction that writes more than fits is refused at its commit, and leaves nothing;
/// one that removes succeeds.
#[test]
fn a_full_volume_refuses_all_of_a_program_or_nothing() {
    if no_fuse() {
        return;
    }
    let mount = Mount::new("64M");
    shell(&format!(
        "cd {}; mkdir d; echo old > d/kept; dd if=/dev/zero of=filler bs=64k conv=fsync 2>&- || true; \
         for i in $(seq 200); do echo x > small$i; done 2>&- || true; truncate -s -2M filler; sync -f .",
        mount.dir
    ));
    let names = || {
        shell(&format!(
            "cd {}; find . -printf '%p %s\\n' | sort",
            mount.dir
        ))
    };
    let before = names();
    let text = "echo new > d/kept; \
                for i in $(seq 20); do head -c 300000 /dev/urandom > d/n$i; done";
    let code = script(&mount, &[], text).wait().unwrap().code();
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    assert_eq!(names(), before, "something is left");
    assert_eq!(fs::read_to_string(mount.path("d/kept")).unwrap(), "old\n");
    let mut child = script(&mount, &[], "rm filler d/kept");
    assert!(child.wait().unwrap().success(), "a removal was refused");
    assert!(!mount.path("filler").exists() && !mount.path("d/kept").exists());
    // The space it freed is available to the next one.
    let mut child = script(
        &mount,
        &["--retries", "3"],
        "head -c 4000000 /dev/urandom > again",
    );
    assert!(child.wait().unwrap().success());
    mount.finish();
}
