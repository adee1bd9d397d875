//! A SQLite that leaves its journal out, and what kills leave of its databases.

use crate::support::{mounted::Mount, shell, varve};
use crate::{Helper, helper_argument, mount, mount_with};
use rusqlite::Connection;
use rustix::fs::inotify;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn database(mount: &Mount) -> PathBuf {
    mount.path("db")
}

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    let options = connection
        .prepare("PRAGMA compile_options")
        .unwrap()
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    let batch = options
        .iter()
        .any(|option| option == "ENABLE_BATCH_ATOMIC_WRITE");
    assert!(
        batch,
        "SQLite was built without LIBSQLITE3_FLAGS of .cargo/config.toml"
    );
    connection
        .execute_batch("PRAGMA synchronous=FULL; PRAGMA journal_mode=DELETE")
        .unwrap();
    connection
}

fn prepare(path: &Path) -> Connection {
    let connection = connect(path);
    // The first transaction of an empty database is always journaled.
    connection
        .execute_batch(
            "CREATE TABLE rows(n INTEGER PRIMARY KEY, bytes BLOB);
             CREATE TABLE last(n INTEGER); INSERT INTO last VALUES(0);",
        )
        .unwrap();
    connection
}

/// Inserts row `n`, of a size of its own, and says in another table that it did.
fn insert_one(connection: &Connection, n: i64) -> rusqlite::Result<()> {
    let bytes = vec![n as u8; (n * 7919 % 20_000) as usize];
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute("INSERT INTO rows VALUES(?1, ?2)", (n, bytes))?;
    connection.execute("UPDATE last SET n = ?1", [n])?;
    connection.execute_batch("COMMIT")
}

fn insert(connection: &Connection, n: i64) {
    insert_one(connection, n).unwrap();
}

/// Checks everything; answers how many rows there are.
fn check(path: &Path) -> i64 {
    let connection = connect(path);
    // All of it of one moment.
    connection.execute_batch("BEGIN").unwrap();
    let one = |query: &str| {
        connection
            .query_row(query, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let said: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(said, "ok");
    let rows = one("SELECT count(*) FROM rows");
    assert_eq!(one("SELECT n FROM last"), rows);
    assert_eq!(one("SELECT coalesce(max(n), 0) FROM rows"), rows);
    assert_eq!(
        one("SELECT count(*) FROM rows WHERE length(bytes) != n * 7919 % 20000"),
        0
    );
    rows
}

/// The names made in a directory since this was made.
struct Made(rustix::fd::OwnedFd);

impl Made {
    fn watch(directory: &str) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        let made = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&watch, directory, made).unwrap();
        Made(watch)
    }

    fn names(&self) -> Vec<String> {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut names = Vec::new();
        while let Ok(event) = events.next() {
            names.extend(
                event
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
        names
    }
}

fn count(mount: &Mount, what: &str) -> u64 {
    let all = varve(["stats", "--json", &mount.dir]).expect(0, "").json();
    all.pointer(what)
        .and_then(serde_json::Value::as_u64)
        .unwrap_or_else(|| panic!("{what}: {all:#}"))
}

#[test]
fn the_journal_never_appears_and_a_commit_is_one_flush() {
    let Some(m) = mount() else { return };
    let connection = prepare(&database(&m));
    insert(&connection, 1);
    let made = Made::watch(&m.dir);
    let before = (
        count(&m, "/transactions/committed"),
        count(&m, "/device/flushes/requests"),
    );
    for n in 2..102 {
        insert(&connection, n);
    }
    let after = (
        count(&m, "/transactions/committed"),
        count(&m, "/device/flushes/requests"),
    );
    assert_eq!(after.0 - before.0, 100);
    let flushes = after.1 - before.1;
    assert!(
        (100..=103).contains(&flushes),
        "{flushes} flushes for 100 commits"
    );
    // Growing by much, shrinking, and everything anew.
    connection
        .execute_batch(
            "CREATE TABLE large AS WITH RECURSIVE n(i) AS
                 (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
                 SELECT i, randomblob(1000) AS bytes FROM n;
             UPDATE large SET bytes = randomblob(900);
             DROP TABLE large; VACUUM;",
        )
        .unwrap();
    drop(connection);
    assert_eq!(made.names(), Vec::<String>::new());
    assert_eq!(check(&database(&m)), 101);
    m.remount_checked();
    assert_eq!(check(&database(&m)), 101);
    m.finish();
}

#[test]
fn where_the_mount_does_not_offer_it_there_is_a_journal() {
    let Some(m) = mount_with("64M", "rw") else {
        return;
    };
    let connection = prepare(&database(&m));
    let made = Made::watch(&m.dir);
    insert(&connection, 1);
    assert_eq!(made.names(), ["db-journal"]);
    drop(connection);
    m.finish();
}

/// Inserts rows until it is killed, and tells each.
#[test]
#[ignore = "started by others"]
fn writer() {
    let Some(path) = helper_argument() else {
        return;
    };
    let connection = connect(&path);
    let next = "SELECT n + 1 FROM last";
    let mut n = connection.query_row(next, [], |row| row.get(0)).unwrap();
    while insert_one(&connection, n).is_ok() {
        crate::answer(&n.to_string());
        n += 1;
    }
}

/// Has rows written for a moment, then has `end` happen; answers the last that was
/// told.
fn write_until(path: &Path, moment: Duration, end: impl FnOnce(Helper) -> Option<Helper>) -> i64 {
    let mut writer = Helper::new("sqlite::writer", path);
    let mut last = writer.hear().expect("a first row").parse().unwrap();
    std::thread::sleep(moment);
    // What it tells meanwhile waits in the pipe.
    let mut ended = end(writer);
    while let Some(said) = ended.as_mut().and_then(Helper::hear) {
        last = said.parse().unwrap();
    }
    last
}

fn moment() -> Duration {
    Duration::from_micros(rand::random_range(0..60_000))
}

#[test]
fn a_program_that_is_killed_leaves_whole_transactions() {
    let Some(m) = mount() else { return };
    let path = database(&m);
    drop(prepare(&path));
    for _ in 0..12 {
        let told = write_until(&path, moment(), |mut writer| {
            writer.process.kill().unwrap();
            Some(writer)
        });
        // At once, with what the kernel has in its cache.
        let found = check(&path);
        assert!(
            found == told || found == told + 1,
            "{told} told, {found} found"
        );
        assert!(!m.path("db-journal").exists());
    }
    let found = check(&path);
    m.remount_checked();
    assert_eq!(check(&path), found);
    m.finish();
}

#[test]
fn a_server_that_is_killed_leaves_whole_transactions() {
    let Some(m) = mount() else { return };
    let path = database(&m);
    drop(prepare(&path));
    for _ in 0..8 {
        let server = m.server();
        let told = write_until(&path, moment(), |writer| {
            shell(&format!("kill -9 {server}"));
            Some(writer)
        });
        shell(&format!("umount -l {}", m.dir));
        m.mount();
        assert!(!m.path("db-journal").exists());
        let found = check(&path);
        assert!(
            found == told || found == told + 1,
            "{told} told, {found} found"
        );
    }
    m.finish();
}

#[test]
fn two_writers_and_a_reader_of_one_database() {
    let Some(m) = mount() else { return };
    let path = database(&m);
    let connection = prepare(&path);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let connection = connect(&path);
                for _ in 0..30 {
                    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
                    let next = "SELECT n + 1 FROM last";
                    let n: i64 = connection.query_row(next, [], |row| row.get(0)).unwrap();
                    let bytes = vec![n as u8; (n * 7919 % 20_000) as usize];
                    connection
                        .execute("INSERT INTO rows VALUES(?1, ?2)", (n, bytes))
                        .unwrap();
                    connection.execute("UPDATE last SET n = ?1", [n]).unwrap();
                    connection.execute_batch("COMMIT").unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..10 {
                check(&path);
            }
        });
    });
    drop(connection);
    assert_eq!(check(&path), 60);
    m.finish();
}

#[test]
fn a_transaction_larger_than_memory_needs_no_journal_either() {
    let Some(m) = mount() else { return };
    let path = database(&m);
    let connection = prepare(&path);
    let made = Made::watch(&m.dir);
    // All of it stays in the cache of SQLite until the commit.
    connection
        .execute_batch(
            "PRAGMA cache_size=-100000;
             CREATE TABLE large AS WITH RECURSIVE n(i) AS
                 (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                 SELECT i, randomblob(1000) AS bytes FROM n",
        )
        .unwrap();
    assert_eq!(made.names(), [""; 0]);
    insert(&connection, 1);
    drop(connection);
    m.remount_checked();
    assert_eq!(check(&path), 1);
    m.finish();
}

#[test]
fn a_full_volume_refuses_a_transaction_as_a_whole() {
    let Some(m) = mount_with("32M", "atomic") else {
        return;
    };
    let path = database(&m);
    let connection = prepare(&path);
    insert(&connection, 1);
    std::fs::write(m.path("filler"), vec![1; 18 << 20]).unwrap();
    let mut n = 2;
    let error = loop {
        let large = "INSERT INTO rows VALUES(?1, zeroblob(?1 * 7919 % 20000)); ";
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let inserted = connection.execute(large, [n]).and_then(|_| {
            connection.execute("UPDATE last SET n = ?1", [n])?;
            connection.execute_batch("COMMIT")
        });
        match inserted {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
        assert!(n < 20_000, "it never fills");
    };
    eprintln!("row {n}: {error}");
    let _ = connection.execute_batch("ROLLBACK");
    drop(connection);
    assert_eq!(check(&path), n - 1);
    // What is removed makes room.
    let connection = connect(&path);
    connection
        .execute_batch("BEGIN; DELETE FROM rows WHERE n > 10; UPDATE last SET n = 10; COMMIT")
        .unwrap();
    insert(&connection, 11);
    drop(connection);
    assert_eq!(check(&path), 11);
    m.finish();
}
