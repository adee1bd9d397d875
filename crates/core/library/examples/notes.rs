//! A notebook in a volume: creates the volume if it is missing, adds a note, makes it
//! durable, and prints all notes.
//!
//! ```sh
//! cargo run --example notes                       # in a temporary image
//! cargo run --example notes notes.img "Buy ink."  # in one that stays
//! ```

use std::env;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use varve::{OpenOptions, Volume};

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let mut arguments = env::args_os().skip(1);
    let image = arguments
        .next()
        .map_or_else(|| scratch.path().join("notes.img"), PathBuf::from);
    let note = arguments
        .next()
        .map_or("The log is never dry.".into(), |text| {
            text.to_string_lossy().into_owned()
        });

    let volume = match image.exists() {
        true => Volume::open(&image)?,
        false => Volume::create(&image, 64 << 20)?,
    };
    volume.create_dir_all("/notes")?;
    let mut book = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&volume, "/notes/book.txt")?;
    writeln!(book, "{note}")?;
    book.sync_all()?; // survives a power cut from here on
    drop(book);
    volume.close()?;

    let volume = Volume::open(&image)?;
    let text = volume.read_to_string("/notes/book.txt")?;
    print!("{text}");
    let last = text.lines().last();
    if last != note.lines().last() {
        return Err(format!("wrote {note:?}, and the last line is {last:?}").into());
    }
    Ok(())
}
