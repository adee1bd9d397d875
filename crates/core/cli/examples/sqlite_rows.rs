//! One row a transaction into a SQLite table, durable: how many a second.
//!
//! `sqlite_rows DATABASE JOURNAL_MODE SECONDS`; what `scripts/bench-sqlite-atomic.sh`
//! runs. The database is made if it is not there, and filled with 100,000 rows first.

use rusqlite::Connection;
use std::time::{Duration, Instant};

const ROWS: i64 = 100_000;

fn main() -> rusqlite::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, database, mode, seconds] = &arguments[..] else {
        eprintln!("sqlite_rows DATABASE JOURNAL_MODE SECONDS");
        std::process::exit(2);
    };
    let seconds = seconds.parse().map(Duration::from_secs_f64);
    let connection = Connection::open(database)?;
    let journal = format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL");
    connection.execute_batch(&journal)?;
    fill(&connection)?;
    let mut insert = connection.prepare("INSERT INTO rows(bytes) VALUES(randomblob(100))")?;
    let mut update = connection.prepare("UPDATE rows SET bytes = randomblob(100) WHERE n = ?1")?;
    // The first transactions make what is kept afterwards.
    for _ in 0..20 {
        insert.execute([])?;
    }
    let (inserts, longest) = measure(seconds.clone().unwrap_or_default(), |_| {
        insert.execute([]).map(|_| ())
    })?;
    let anywhere = |i: i64| i.wrapping_mul(2_654_435_761).rem_euclid(ROWS) + 1;
    let (updates, _) = measure(seconds.unwrap_or_default(), |i| {
        update.execute([anywhere(i)]).map(|_| ())
    })?;
    println!("insert/s {inserts:.0} update/s {updates:.0} longest_insert_ms {longest:.2}");
    Ok(())
}

fn fill(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS rows(n INTEGER PRIMARY KEY, bytes BLOB)")?;
    let rows: i64 = connection.query_row("SELECT count(*) FROM rows", [], |row| row.get(0))?;
    if rows >= ROWS {
        return Ok(());
    }
    connection.execute_batch(&format!(
        "INSERT INTO rows(bytes) WITH RECURSIVE n(i) AS
             (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
             SELECT randomblob(100) FROM n"
    ))
}

/// How many a second, and how long the longest took in milliseconds.
fn measure(
    time: Duration,
    mut once: impl FnMut(i64) -> rusqlite::Result<()>,
) -> rusqlite::Result<(f64, f64)> {
    let begun = Instant::now();
    let (mut done, mut longest) = (0, Duration::ZERO);
    while begun.elapsed() < time {
        let one = Instant::now();
        once(done)?;
        longest = longest.max(one.elapsed());
        done += 1;
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    Ok((rate, longest.as_secs_f64() * 1000.0))
}
