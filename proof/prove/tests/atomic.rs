//! Atomic writes under crash: files written by the ioctls of F2FS, and a SQLite that
//! leaves its journal out. Without /dev/fuse skipped loudly, but fails in CI.

#[path = "../../../crates/core/fuse/tests/support/ioctls.rs"]
mod ioctls;

use rusqlite::Connection;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use varve_prove::applications::{Application, Diary, Extent, State, explore, missing};
use varve_prove::random::{Random, announce_seed, scaled};

/// One file of pages of which each step writes some anew, all with its number, and
/// sets the size.
struct Pages {
    name: &'static str,
    /// Without it steps are torn, which must be noticed.
    atomic: bool,
}

const ATOMIC: Pages = Pages {
    name: "pages, written atomically",
    atomic: true,
};
const PLAIN: Pages = Pages {
    name: "pages, written as ever",
    atomic: false,
};

const PAGE: u64 = 4096;
const PAGES_MAX: u64 = 40;

/// Number and size, and how many pages are of each step.
fn describe(file: &File) -> std::io::Result<State> {
    let size = file.metadata()?.len();
    let mut content = vec![0; size as usize];
    file.read_exact_at(&mut content, 0)?;
    let mut state = format!("{size} bytes:");
    for page in content.chunks(PAGE as usize) {
        let whole = page.iter().all(|byte| *byte == page[0]);
        let step = if whole {
            page[0].to_string()
        } else {
            "torn".into()
        };
        state = format!("{state} {step}");
    }
    Ok(state)
}

impl Pages {
    fn call(&self, file: &File, number: u32) -> std::io::Result<()> {
        match self.atomic {
            true => Ok(ioctls::atomic(file, number)?),
            false if number == 2 => file.sync_all(),
            false => Ok(()),
        }
    }

    fn step(&self, file: &File, step: u8, random: &mut Random) -> std::io::Result<()> {
        self.call(file, 1)?;
        for _ in 0..1 + random.below(12) {
            let page = random.below(PAGES_MAX);
            file.write_all_at(&[step; PAGE as usize], page * PAGE)?;
            if random.once_in(4) {
                // It comes to the server now, and is not to be durable.
                file.sync_data()?;
            }
        }
        if random.once_in(3) {
            file.set_len(random.below(PAGES_MAX) * PAGE)?;
        }
        self.call(file, 2)
    }
}

impl Application for Pages {
    fn name(&self) -> &'static str {
        self.name
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn writes_atomically(&self) -> bool {
        self.atomic
    }

    fn prepare(&self, dir: &Path) -> Result<State, String> {
        let made = File::create_new(dir.join("pages"));
        made.and_then(|file| describe(&file))
            .map_err(|e| e.to_string())
    }

    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String> {
        let path = dir.join("pages");
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|e| e.to_string())?;
        for step in 1..=steps {
            let done = self.step(&file, step as u8, random);
            done.map_err(|error| format!("step {step}: {error}"))?;
            diary.durable_step(|| describe(&file).map_err(|e| e.to_string()))?;
        }
        Ok(())
    }

    fn check(&self, dir: &Path) -> Result<State, String> {
        let file = File::open(dir.join("pages"));
        file.and_then(|file| describe(&file))
            .map_err(|e| e.to_string())
    }
}

/// SQLite with batch atomic writes: a crash never leaves a journal.
struct Batch;

fn connect(dir: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(dir.join("db"))?;
    connection.execute_batch("PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL")?;
    Ok(connection)
}

fn rows(connection: &Connection) -> rusqlite::Result<State> {
    let mut all = connection.prepare("SELECT n, length(v), v FROM t ORDER BY n")?;
    let mut state = String::new();
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let (n, length, first): (i64, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        state = format!("{state} {n}:{length}:{}", first[0]);
    }
    Ok(state)
}

fn transact(connection: &Connection, step: u64, random: &mut Random) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    for _ in 0..1 + random.below(4) {
        let value = vec![step as u8; 1 + random.below(9000) as usize];
        let n = random.below(30) as i64;
        match random.below(4) {
            0 => connection.execute("DELETE FROM t WHERE n = ?1", [n])?,
            _ => connection.execute("INSERT OR REPLACE INTO t VALUES(?1, ?2)", (n, value))?,
        };
    }
    connection.execute(
        "INSERT OR REPLACE INTO t VALUES(100, ?1)",
        [vec![step as u8]],
    )?;
    connection.execute_batch("COMMIT")?;
    if random.once_in(8) {
        connection.execute_batch("VACUUM")?;
    }
    Ok(())
}

impl Application for Batch {
    fn name(&self) -> &'static str {
        "sqlite without a journal"
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn writes_atomically(&self) -> bool {
        true
    }

    fn prepare(&self, dir: &Path) -> Result<State, String> {
        let prepared = connect(dir).and_then(|connection| {
            connection.execute_batch("CREATE TABLE t(n INTEGER PRIMARY KEY, v BLOB)")?;
            rows(&connection)
        });
        prepared.map_err(|error| error.to_string())
    }

    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String> {
        let connection = connect(dir).map_err(|error| error.to_string())?;
        for step in 1..=steps {
            transact(&connection, step, random).map_err(|error| format!("{step}: {error}"))?;
            diary.durable_step(|| rows(&connection).map_err(|error| error.to_string()))?;
        }
        Ok(())
    }

    fn check(&self, dir: &Path) -> Result<State, String> {
        if dir.join("db-journal").exists() {
            return Err("there is a journal".into());
        }
        let checked = connect(dir).and_then(|connection| {
            let said: String =
                connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            Ok((said, rows(&connection)?))
        });
        match checked.map_err(|error| error.to_string())? {
            (said, state) if said == "ok" => Ok(state),
            (said, _) => Err(format!("integrity_check: {said}")),
        }
    }
}

fn skipped(application: &dyn Application) -> bool {
    let Some(missing) = missing(application) else {
        return false;
    };
    assert!(std::env::var_os("CI").is_none(), "CI must have {missing}");
    eprintln!("SKIPPED: {missing}");
    true
}

fn extent(seed: u64) -> Extent {
    Extent {
        steps: 24,
        cuts: 40,
        seed,
        lie_one_in: 0,
    }
}

/// One at a time: a mount that begins gives up copies of what this process has open,
/// and to close a file is to give up its atomic write.
static ALONE: Mutex<()> = Mutex::new(());

fn survives(test: &str, application: &dyn Application) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = announce_seed(test, 1);
    if skipped(application) {
        return;
    }
    for recording in 0..scaled(1) {
        match explore(application, &extent(seed + recording)) {
            Ok(explored) => eprintln!("{}: {:?}", application.name(), explored.counts),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn files_written_atomically() {
    survives("files_written_atomically", &ATOMIC);
}

#[test]
fn sqlite_without_a_journal() {
    survives("sqlite_without_a_journal", &Batch);
}

/// A check that cannot fail proves nothing.
#[test]
fn torn_steps_and_lying_flushes_are_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = announce_seed("torn_steps_and_lying_flushes_are_noticed", 1);
    if skipped(&PLAIN) {
        return;
    }
    let found = (0..8).find_map(|more| explore(&PLAIN, &extent(seed + more)).err());
    assert!(found.is_some(), "nobody notices torn steps");
    for application in [&ATOMIC as &dyn Application, &Batch] {
        let lying = Extent {
            lie_one_in: 4,
            ..extent(seed)
        };
        let explored = explore(application, &lying);
        let explored = explored.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(
            explored.broken > 0,
            "{}: nothing noticed",
            application.name()
        );
    }
}
