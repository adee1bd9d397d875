//! Several real processes share one environment and are killed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use varve_tp::tpcb::{Store, Transfer};
use varve_tp::{Error, Options, SharedEnvironment, TableDefinition, is_shared};

const TABLE: TableDefinition<&str, u64> = TableDefinition::new("table");
const ACCOUNTS: u32 = 500;

fn options() -> Options {
    let mut options = Options::new();
    options.memory(1 << 20).segment(256 << 10);
    options
}

/// A process that runs commands, one per line, and answers with a line.
struct Other {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str, directory: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "processes::another_process",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("VARVE_TP_ROLE", role)
            .env("VARVE_TP_DIRECTORY", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let to = process.stdin.take().unwrap();
        let from = BufReader::new(process.stdout.take().unwrap());
        let mut other = Other { process, to, from };
        assert_eq!(other.hear(), "ready");
        other
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.to, "{what}").unwrap();
    }

    /// Reads the next line that is an answer, and not output of the test harness.
    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "it has died");
            if let Some((_, said)) = line.split_once("says ") {
                return said.trim_end().to_owned();
            }
        }
    }

    fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.hear()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn say(what: &str) {
    println!("says {what}");
}

/// Not a test: the body of the processes that the tests start.
#[test]
fn another_process() {
    let Ok(role) = std::env::var("VARVE_TP_ROLE") else {
        return;
    };
    let directory = std::env::var_os("VARVE_TP_DIRECTORY").unwrap();
    let environment = options().share(&directory).unwrap();
    say("ready");
    match role.as_str() {
        "told" => do_as_told(&environment),
        "bank" => work(&environment, Path::new(&directory)),
        role => panic!("no role is called {role}"),
    }
    // The harness would write to a closed pipe.
    drop(environment);
    std::process::exit(0);
}

/// Runs `get KEY` and `put KEY NUMBER` in a transaction, `commit`, `begin`.
fn do_as_told(environment: &SharedEnvironment) {
    let mut transaction = environment.begin_write().unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let done = match words[..] {
            ["begin"] => environment.begin_write().map(|begun| {
                transaction = begun;
                "done".to_owned()
            }),
            ["commit"] => {
                let next = environment.begin_write().unwrap();
                let old = std::mem::replace(&mut transaction, next);
                old.commit().map(|()| "done".to_owned())
            }
            ["get", key] => transaction
                .open_table(TABLE)
                .and_then(|table| table.get_for_update(key))
                .map(|found| format!("{found:?}")),
            ["put", key, number] => transaction
                .open_table(TABLE)
                .and_then(|table| table.insert(key, number.parse().unwrap()))
                .map(|_| "done".to_owned()),
            _ => panic!("told {line}"),
        };
        match done {
            Ok(done) => say(&done),
            Err(error) => say(&format!("error {error}")),
        }
    }
}

/// Runs transfers without end, and appends a byte to a file for each acknowledged one.
fn work(environment: &SharedEnvironment, directory: &Path) {
    let acknowledged = directory.join("acknowledged");
    let mut acknowledged = OpenOptions::new().append(true).open(acknowledged).unwrap();
    let mut random = u64::from(std::process::id());
    // This process must not outlive the one that started it.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        let transfer = Transfer::draw(&mut random, ACCOUNTS);
        match environment.transfer(&transfer) {
            Ok(()) => acknowledged.write_all(&[0]).unwrap(),
            Err(Error::HolderDied { .. }) => {}
            Err(error) if error.is_conflict() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn get(environment: &SharedEnvironment, key: &str) -> Option<u64> {
    let transaction = environment.begin_read().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.get(key).unwrap()
}

/// Does the same with a lock, when no other transaction has it.
fn get_locked(environment: &SharedEnvironment, key: &str) -> Option<u64> {
    let transaction = environment.begin_write().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.get_for_update(key).unwrap()
}

fn put(environment: &SharedEnvironment, key: &str, number: u64) {
    let transaction = environment.begin_write().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert(key, number).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_client_killed_with_locks_is_rolled_back() {
    let directory = tempfile::tempdir().unwrap();
    let here = options().share(directory.path()).unwrap();
    assert!(here.held().is_some());
    put(&here, "a", 1);
    put(&here, "b", 1);
    let mut other = Other::start("told", directory.path());
    assert_eq!(other.ask("put a 2"), "done");
    assert_eq!(other.ask("put c 2"), "done");
    other.kill();
    // This waits exactly until the other process's locks are released.
    assert_eq!(get_locked(&here, "a"), Some(1));
    assert_eq!(get(&here, "c"), None);
    // The transaction stops being active before its locks are released.
    assert_eq!(here.held().unwrap().statistics().active, 0);
}

#[test]
fn a_client_killed_while_it_waits_lets_go_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let here = options().share(directory.path()).unwrap();
    put(&here, "a", 1);
    put(&here, "b", 1);
    let transaction = here.begin_write().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert("a", 2).unwrap();
    let mut other = Other::start("told", directory.path());
    assert_eq!(other.ask("put b 3"), "done");
    // It waits for a lock that this process owns.
    other.tell("get a");
    let waiting = || here.held().unwrap().statistics().waiting;
    while waiting() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    other.kill();
    // Its lock is released although the one for which it waited is not.
    assert_eq!(get_locked(&here, "b"), Some(1));
    transaction.commit().unwrap();
    assert_eq!(get(&here, "a"), Some(2));
}

#[test]
fn another_takes_over_when_the_holder_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Other::start("told", directory.path());
    let here = options().share(directory.path()).unwrap();
    assert!(here.held().is_none() && is_shared(directory.path()));
    put(&here, "a", 1);
    assert_eq!(holder.ask("put b 1"), "done");
    let transaction = here.begin_write().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert("a", 2).unwrap();
    let (reading, waiting) = (here.begin_read().unwrap(), here.begin_write().unwrap());
    holder.kill();
    let error = table.insert("a", 3).unwrap_err();
    assert!(
        matches!(error, Error::HolderDied { committing: false }),
        "{error}"
    );
    let error = table.get("a").unwrap_err();
    assert!(matches!(error, Error::HolderDied { .. }), "{error}");
    let error = transaction.commit().unwrap_err();
    assert!(matches!(error, Error::HolderDied { .. }), "{error}");
    let error = waiting.commit().unwrap_err();
    assert!(
        matches!(error, Error::HolderDied { committing: true }),
        "{error}"
    );
    assert!(reading.open_table(TABLE).is_err());
    drop(reading);
    // The next call opens the environment again, in this process.
    assert_eq!(get(&here, "a"), Some(1));
    assert_eq!(get(&here, "b"), None);
    assert!(here.held().is_some());
    let mut other = Other::start("told", directory.path());
    assert_eq!(other.ask("get a"), "Some(1)");
    // A holder that closes the environment has the same effect on its clients.
    drop(here);
    assert!(other.ask("put a 9").contains("gone"));
    assert_eq!(other.ask("begin"), "done");
    assert_eq!(other.ask("get a"), "Some(1)");
}

/// A stopped holder still owns the lock of the environment and does not answer.
#[test]
fn a_stopped_holder_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Other::start("told", directory.path());
    let signal = |signal| {
        let process = holder.process.id().cast_signed();
        let process = rustix::process::Pid::from_raw(process).unwrap();
        rustix::process::kill_process(process, signal).unwrap();
    };
    let here = options().share(directory.path()).unwrap();
    put(&here, "a", 1);
    let transaction = here.begin_write().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert("a", 2).unwrap();
    // This idle connection would be used next.
    drop(here.begin_read().unwrap());
    signal(rustix::process::Signal::STOP);
    assert!(!is_shared(directory.path()));
    let error = options().share(directory.path()).unwrap_err();
    assert!(matches!(error, Error::InUse), "{error}");
    let error = table.get("a").unwrap_err();
    assert!(error.to_string().contains("gone or stopped"), "{error}");
    drop(transaction);
    let error = here.begin_write().unwrap_err();
    assert!(matches!(error, Error::InUse), "{error}");
    signal(rustix::process::Signal::CONT);
    assert_eq!(get(&here, "a"), Some(1));
    assert_eq!(holder.ask("get a"), "Some(1)");
}

/// The wait is longer than the permitted silence, so the holder must send signs of life.
#[test]
fn who_waits_long_for_a_lock_is_told_that_the_holder_lives() {
    let directory = tempfile::tempdir().unwrap();
    let here = options().share(directory.path()).unwrap();
    put(&here, "a", 1);
    let mut other = Other::start("told", directory.path());
    let transaction = here.begin_write().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert("a", 2).unwrap();
    other.tell("get a");
    std::thread::sleep(Duration::from_millis(5_500));
    transaction.commit().unwrap();
    assert_eq!(other.hear(), "Some(2)");
}

#[test]
fn a_deadlock_of_two_processes_ends() {
    let directory = tempfile::tempdir().unwrap();
    let here = options().share(directory.path()).unwrap();
    put(&here, "a", 1);
    let mut others = ["a", "b"].map(|_| Other::start("told", directory.path()));
    assert_eq!(others[0].ask("put a 2"), "done");
    assert_eq!(others[1].ask("put b 2"), "done");
    others[0].tell("put b 3");
    others[1].tell("put a 3");
    // One is aborted; the other gets its lock after the rollback.
    let waits = || here.held().unwrap().statistics().deadlocks;
    while waits() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let [one, two] = &mut others;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for (number, other) in [one, two].into_iter().enumerate() {
            let sender = sender.clone();
            scope.spawn(move || {
                let heard = other.hear();
                let lost = heard.contains("deadlock");
                if lost {
                    assert_eq!(other.ask("begin"), "done");
                }
                sender.send((number, lost, heard)).unwrap();
            });
        }
    });
    let mut heard: Vec<_> = receiver.try_iter().collect();
    heard.sort();
    let lost = heard.iter().filter(|(_, lost, _)| *lost).count();
    assert_eq!(lost, 1, "{heard:?}");
    let winner = usize::from(heard[0].1);
    assert_eq!(others[winner].ask("commit"), "done");
    let key = ["b", "a"][winner];
    assert_eq!(get(&here, key), Some(3));
}

/// Whichever process is killed, acknowledged transfers are complete, and no transfer is
/// partial.
#[test]
fn a_bank_of_processes_survives_their_deaths() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    File::create(path.join("acknowledged")).unwrap();
    options().share(path).unwrap().load(ACCOUNTS).unwrap();
    let acknowledged = || path.join("acknowledged").metadata().unwrap().len();
    let mut others: Vec<Other> = (0..4).map(|_| Other::start("bank", path)).collect();
    const KILLS: u64 = 6;
    for kill in 0..KILLS {
        let until = acknowledged() + 150;
        while acknowledged() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The oldest process is, or was, the holder.
        let at = if kill % 2 == 0 { 0 } else { 2 };
        others.remove(at).kill();
        others.push(Other::start("bank", path));
    }
    others.into_iter().for_each(Other::kill);
    let environment = options().open(path).unwrap();
    assert_eq!(environment.verify().unwrap().lost_pages, 0);
    let sums = environment.sums().unwrap();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    let transaction = environment.begin_read();
    let history = transaction.open_raw("history").unwrap();
    let there = history.iter().unwrap().count() as u64;
    // Each of four processes may have had one transfer in progress at each kill.
    let least = acknowledged();
    assert!(
        (least..=least + 4 * (KILLS + 4)).contains(&there),
        "{there}, {least}"
    );
}

/// Bytes from the socket are not trusted.
#[test]
fn a_holder_survives_what_is_no_request() {
    use std::os::unix::net::UnixStream;
    let directory = tempfile::tempdir().unwrap();
    let here = options().share(directory.path()).unwrap();
    let send = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(directory.path().join("socket")).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    assert!(send(b"GET / HTTP/1.1").is_empty());
    let hello = b"varvetp2".to_vec();
    for frame in [
        &[0xff, 0xff, 0xff, 0xff][..],
        &[0, 0, 0, 0],
        &[9, 0, 0, 0, 1],
        &[1, 0, 0, 0, 77],
        // A commit, a read and a savepoint without a transaction; a table number that
        // does not exist.
        &[2, 0, 0, 0, 10, 2],
        &[10, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 8],
        &[7, 0, 0, 0, 1, 1, 9, 7, 0, 0, 0],
        &[12, 0, 0, 0, 1, 1, 3, 0, 7, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let answer = send(&[&hello[..], frame].concat());
        assert!(answer.starts_with(b"varvetp2"), "{frame:?}");
    }
    put(&here, "a", 1);
    assert_eq!(get(&here, "a"), Some(1));
}

/// Whatever the modes of the socket and its directory are, the connections of another
/// user are closed, in any number, and do not prevent use of the environment.
#[test]
fn another_user_gets_no_session_and_takes_no_place() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can be another user");
        return;
    }
    // There are more connections than the limit.
    const MANY: usize = 1500;
    let directory = tempfile::tempdir().unwrap();
    let here = options().share(directory.path()).unwrap();
    let socket = directory.path().join("socket");
    for path in [directory.path(), &socket] {
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, everybody).unwrap();
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let crowd = std::thread::spawn(move || {
        // This changes the user of the thread only.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        for _ in 0..MANY {
            let mut stream = UnixStream::connect(&socket).unwrap();
            // The connection may be closed before the greeting is sent.
            let _ = stream.write_all(b"varvetp1");
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty());
        }
    });
    crowd.join().unwrap();
    assert!(threads() <= before + 8, "{before}, then {}", threads());
    put(&here, "a", 1);
    let mut other = Other::start("told", directory.path());
    assert_eq!(other.ask("get a"), "Some(1)");
    other.kill();
}

/// Long values, ranges from either end, records, savepoints: the results are equal with
/// and without the socket.
#[test]
fn calls_are_the_same_here_and_there() {
    use varve_tp::RecordsDefinition;
    const WORDS: TableDefinition<u32, &[u8]> = TableDefinition::new("words");
    const LINES: RecordsDefinition<&str> = RecordsDefinition::new("lines");
    let directory = tempfile::tempdir().unwrap();
    // The path is longer than a socket's may be.
    let path = directory.path().join("d".repeat(120));
    let here = options().share(&path).unwrap();
    let there = options().share(&path).unwrap();
    assert!(here.held().is_some() && there.held().is_none());
    for (round, environment) in [&here, &there].into_iter().enumerate() {
        let transaction = environment.begin_write().unwrap();
        let table = transaction.open_table(WORDS).unwrap();
        for number in 0..3_000u32 {
            table.insert_later(number, &number.to_be_bytes()).unwrap();
        }
        let long = vec![7; 300_000];
        assert_eq!(table.insert(5_000, &long).unwrap(), round == 1);
        let savepoint = transaction.savepoint().unwrap();
        assert!(table.remove(3).unwrap());
        assert!(!table.remove(30_000).unwrap());
        transaction.rollback_to(savepoint).unwrap();
        let table = transaction.open_table(WORDS).unwrap();
        assert_eq!(table.get(5_000).unwrap(), Some(long));
        let lines = transaction.open_records(LINES).unwrap();
        assert_eq!(lines.append("one").unwrap(), 2 * round as u64);
        lines.append_later("two").unwrap();
        lines.set(2 * round as u64, "first").unwrap();
        assert!(matches!(lines.set(90, ""), Err(Error::NoRecord(90))));
        assert!(lines.remove(2 * round as u64 + 1).unwrap());
        assert_eq!(lines.get(0).unwrap().unwrap(), "first");
        assert_eq!(lines.range(..).count(), round + 1);
        transaction.commit().unwrap();
        let transaction = environment.begin_read().unwrap();
        let table = transaction.open_table(WORDS).unwrap();
        let keys: Vec<u32> = table.range(10..2_500).map(|row| row.unwrap().0).collect();
        assert!(keys.iter().copied().eq(10..2_500));
        let back: Vec<u32> = table
            .range(10..2_500)
            .rev()
            .map(|row| row.unwrap().0)
            .collect();
        assert!(back.iter().copied().eq((10..2_500).rev()));
        let mut both = table.iter();
        let mut seen = Vec::new();
        while let (Some(front), Some(back)) = (both.next(), both.next_back()) {
            seen.extend([front.unwrap().0, back.unwrap().0]);
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() >= 3_000, "{}", seen.len());
        assert!(matches!(table.insert(1, b""), Err(Error::ReadOnly)));
        let wrong: TableDefinition<u64, u64> = TableDefinition::new("words");
        let refused = transaction.open_table(wrong).unwrap_err();
        assert!(matches!(refused, Error::WrongType { .. }), "{refused}");
        let none: TableDefinition<u64, u64> = TableDefinition::new("none");
        assert!(matches!(
            transaction.open_table(none),
            Err(Error::NoTable(_))
        ));
    }
    // An aborted transaction creates no table for later ones.
    let made: TableDefinition<u8, u8> = TableDefinition::new("made");
    let transaction = there.begin_write().unwrap();
    transaction.open_table(made).unwrap();
    transaction.abort().unwrap();
    let transaction = there.begin_read().unwrap();
    assert!(matches!(
        transaction.open_table(made),
        Err(Error::NoTable(_))
    ));
    let copy = directory.path().join("copy");
    drop(transaction);
    there.backup(&copy).unwrap();
    let copy = options().open(&copy).unwrap();
    assert_eq!(copy.verify().unwrap().tables, 3);
    let not_shared = options().share(directory.path().join("copy")).unwrap_err();
    assert!(matches!(not_shared, Error::InUse), "{not_shared}");
}

/// A table that was created again is not read with its former types.
#[test]
fn a_table_made_anew_with_other_types_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let here = options().share(directory.path()).unwrap();
    let there = options().share(directory.path()).unwrap();
    put(&there, "a", 1);
    assert_eq!(get(&there, "a"), Some(1));
    let other: TableDefinition<u64, &str> = TableDefinition::new(TABLE.name());
    let transaction = here.held().unwrap().begin_write();
    transaction.drop_table(TABLE.name()).unwrap();
    let table = transaction.open_table(other).unwrap();
    table.insert(1, "a").unwrap();
    transaction.commit().unwrap();
    let transaction = there.begin_read().unwrap();
    let read = transaction
        .open_table(TABLE)
        .and_then(|table| table.get("a"));
    assert!(matches!(read, Err(Error::WrongType { .. })), "{read:?}");
    let again = transaction.open_table(other).unwrap();
    assert_eq!(again.get(1).unwrap().unwrap(), "a");
}

/// If the function of an index panics, the session ends and the client gets an error, but
/// the holder continues.
#[test]
fn a_session_that_panics_is_ended() {
    const BY_NUMBER: varve_tp::IndexDefinition<u64, &str, u64> =
        varve_tp::IndexDefinition::new(TABLE, "by number");
    let directory = tempfile::tempdir().unwrap();
    let mut options = options();
    options.index(BY_NUMBER, |_, number, keys| {
        assert!(*number != 7, "planted");
        keys.add(*number);
    });
    let here = options.share(directory.path()).unwrap();
    let there = options.share(directory.path()).unwrap();
    put(&there, "a", 1);
    let transaction = there.begin_write().unwrap();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert("a", 6).unwrap();
    let error = table.insert("b", 7).unwrap_err();
    assert!(matches!(error, Error::HolderDied { .. }), "{error}");
    drop(transaction);
    assert_eq!(get_locked(&here, "a"), Some(1));
    put(&there, "a", 8);
    assert_eq!(get(&here, "a"), Some(8));
}
