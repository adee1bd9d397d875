//! SQLite, through its command-line program, in one process for all transactions.
//!
//! The state is the digest of the whole content (`.sha3sum`). The checker is `PRAGMA
//! integrity_check`, after SQLite's own recovery from its journal.

use super::{Application, Diary, State, output};
use crate::random::Random;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// SQLite with one kind of journal.
pub struct Sqlite {
    name: &'static str,
    /// Pragmas of every connection that writes.
    pragmas: &'static str,
    /// True if a commit is durable when it returns.
    synced: bool,
}

impl Sqlite {
    /// A write-ahead log that is synced at every commit, and often checkpointed.
    pub const WAL: Sqlite = Sqlite {
        name: "sqlite, write-ahead log",
        pragmas: "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; \
                  PRAGMA wal_autocheckpoint=25;",
        synced: true,
    };
    /// A rollback journal. EXTRA syncs the directory after the journal is removed, which
    /// makes the last commit durable.
    pub const ROLLBACK: Sqlite = Sqlite {
        name: "sqlite, rollback journal",
        pragmas: "PRAGMA journal_mode=DELETE; PRAGMA synchronous=EXTRA; PRAGMA cache_size=10;",
        synced: true,
    };
    /// Nothing is synced; consistency relies on the order of writes.
    pub const UNSYNCED: Sqlite = Sqlite {
        name: "sqlite, never synced, order=strict",
        pragmas: "PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF; PRAGMA cache_size=10;",
        synced: false,
    };
}

const DATABASE: &str = "data.db";

/// Returns one transaction on a few scattered pages.
fn transaction(step: u64, random: &mut Random) -> String {
    let (rows, bytes) = (1 + random.below(12), 20 + random.below(700));
    let (changed, removed) = (random.below(7), random.below(13));
    format!(
        "BEGIN; INSERT INTO ledger VALUES({step});
         INSERT INTO t(n, v) SELECT {step}, hex(zeroblob({bytes})) || value \
           FROM generate_series(1, {rows});
         UPDATE t SET v = v || {step}, n = {step} WHERE id % 7 = {changed};
         DELETE FROM t WHERE id % 13 = {removed}; COMMIT;"
    )
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new("sqlite3");
    command.args(["-batch", "-bail", "-init", "/dev/null"]);
    command.arg(dir.join(DATABASE));
    command
}

impl Application for Sqlite {
    fn name(&self) -> &'static str {
        self.name
    }

    fn program(&self) -> Option<&'static str> {
        Some("sqlite3")
    }

    fn strict_order(&self) -> bool {
        !self.synced
    }

    fn prepare(&self, dir: &Path) -> Result<State, String> {
        let script = format!(
            "{} CREATE TABLE ledger(n INTEGER PRIMARY KEY);
             CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, v TEXT);
             CREATE INDEX by_n ON t(n, v);
             INSERT INTO t(n, v) SELECT 0, hex(zeroblob(200)) FROM generate_series(1, 150);",
            self.pragmas
        );
        output(command(dir).arg(script))?;
        output(command(dir).arg(".sha3sum")).map(|said| said.trim().to_owned())
    }

    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String> {
        let mut shell = Shell::start(dir)?;
        shell.ask(self.pragmas)?;
        for step in 1..=steps {
            shell.ask(&transaction(step, random))?;
            let mut digest = || shell.ask(".sha3sum");
            match self.synced {
                true => diary.durable_step(digest)?,
                false => diary.done(digest()?),
            }
            if !self.synced && step % 8 == 0 {
                super::sync_directory(dir)?;
                diary.durable();
            }
        }
        shell.end()
    }

    fn check(&self, dir: &Path) -> Result<State, String> {
        let said = output(command(dir).args(["PRAGMA integrity_check;", ".sha3sum"]))?;
        match said.split_once('\n') {
            Some(("ok", digest)) => Ok(digest.trim().to_owned()),
            _ => Err(format!("integrity_check: {said}")),
        }
    }
}

/// A running `sqlite3`.
struct Shell {
    process: Child,
    answers: BufReader<ChildStdout>,
}

const END: &str = "end of answer";

impl Shell {
    fn start(dir: &Path) -> Result<Self, String> {
        let mut process = command(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("sqlite3: {error}"))?;
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Shell { process, answers })
    }

    /// Sends a script, waits until it is done, and returns the output.
    fn ask(&mut self, script: &str) -> Result<String, String> {
        let stdin = self.process.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{script}\nSELECT '{END}';")
            .map_err(|error| format!("sqlite3: {error}"))?;
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line);
            match read.map_err(|error| format!("sqlite3: {error}"))? {
                0 => return Err(format!("sqlite3 ended at {script}: {answer}")),
                _ if line.trim_end() == END => return Ok(answer.trim().to_owned()),
                _ => answer.push_str(&line),
            }
        }
    }

    fn end(mut self) -> Result<(), String> {
        drop(self.process.stdin.take());
        let status = self.process.wait();
        match status.map_err(|error| format!("sqlite3: {error}"))? {
            status if status.success() => Ok(()),
            status => Err(format!("sqlite3: {status}")),
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
