//! Threads that work on one volume, each with its own handle: they replace files so that
//! a reader finds either the old or the new content, and append to a common log.
//!
//! ```sh
//! cargo run --release --example many_threads [IMAGE]
//! ```

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use std::{env, thread};
use varve::{OpenOptions, Volume};

const WRITERS: usize = 4;
const ROUNDS: usize = 200;

/// Writes a second file and renames it over the first atomically.
fn replace(volume: &Volume, path: &str, content: &str) -> varve::Result<()> {
    let beside = format!("{path}.new");
    volume.write(&beside, content)?;
    volume.rename(&beside, path)
}

fn write(volume: &Volume, writer: usize) -> std::io::Result<()> {
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open(volume, "/log")?;
    for round in 0..ROUNDS {
        let line = format!("writer {writer}, round {round}\n");
        replace(volume, &format!("/state/{writer}"), &line.repeat(100))?;
        log.write_all(line.as_bytes())?; // atomic among all appending threads
    }
    log.sync_data()?;
    Ok(())
}

/// Reads the files that the writers replace. Returns the number of files found.
fn read(volume: &Volume) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let mut found = 0;
    for round in 0..ROUNDS * 4 {
        let path = format!("/state/{}", round % WRITERS);
        if !volume.exists(&path)? {
            continue;
        }
        let content = volume.read_to_string(&path)?;
        let first = content.lines().next().ok_or("an empty file")?;
        if content.lines().count() != 100 || content.lines().any(|line| line != first) {
            return Err(format!("{path} is torn").into());
        }
        found += 1;
    }
    Ok(found)
}

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let image = env::args_os().nth(1).map(PathBuf::from);
    let image = image.unwrap_or_else(|| scratch.path().join("threads.img"));
    let volume = Volume::create(&image, 256 << 20)?;
    volume.create_dir("/state")?;

    let begun = Instant::now();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let volume = volume.clone();
        writers.push(thread::spawn(move || write(&volume, writer)));
    }
    let reader = volume.clone();
    let reader = thread::spawn(move || read(&reader));
    for writer in writers {
        writer.join().expect("a writer panicked")?;
    }
    let found = reader.join().expect("the reader panicked");
    let found = found.map_err(|error| error.to_string())?;

    let lines = volume.read_to_string("/log")?.lines().count();
    assert_eq!(lines, WRITERS * ROUNDS, "lines of the log");
    assert_eq!(volume.close()?, 0, "handles that are left");
    println!(
        "{lines} files replaced in {:?}, {found} read meanwhile, none torn",
        begun.elapsed()
    );
    Ok(())
}
