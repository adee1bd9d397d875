//! A file as a disk: large, mostly empty, with space reserved where it must be available,
//! and freed where it is no longer needed.
//!
//! ```sh
//! cargo run --example sparse [IMAGE]
//! ```

use std::env;
use std::error::Error;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use varve::{File, OpenOptions, Volume};

const MIB: u64 = 1 << 20;

/// Returns the ranges of bytes that contain data.
fn extents(file: &File) -> varve::Result<Vec<(u64, u64)>> {
    let mut extents = Vec::new();
    let mut at = 0;
    while let Some(begin) = file.next_data(at)? {
        at = file.next_hole(begin)?.expect("each file ends in a hole");
        extents.push((begin, at));
    }
    Ok(extents)
}

fn show(what: &str, file: &File) -> varve::Result<(Vec<(u64, u64)>, u64)> {
    let (metadata, extents) = (file.metadata()?, extents(file)?);
    let taken = metadata.blocks() * 512;
    println!(
        "{what}: {} MiB long, {} KiB taken, data at {extents:?}",
        metadata.len() / MIB,
        taken / 1024
    );
    Ok((extents, taken))
}

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let image = env::args_os().nth(1).map(PathBuf::from);
    let image = image.unwrap_or_else(|| scratch.path().join("sparse.img"));
    let volume = Volume::create(&image, 64 * MIB)?;
    let disk = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&volume, "/disk")?;

    // The file is larger than the volume, because holes take no space.
    disk.set_len(1024 * MIB)?;
    disk.write_all_at(&[1; 8192], 100 * MIB)?;
    disk.write_all_at(&[2; 4096], 900 * MIB)?;
    let (found, taken) = show("written", &disk)?;
    let first = (100 * MIB, 100 * MIB + 8192);
    let second = (900 * MIB, 900 * MIB + 4096);
    assert_eq!(found, [first, second]);
    assert!(taken < MIB);

    // Reserved space can be written even if the volume is full.
    disk.allocate(200 * MIB, 16 * MIB, false)?;
    let (found, taken) = show("reserved", &disk)?;
    assert_eq!(found, [first, second]);
    assert!(taken >= 16 * MIB);
    assert!(disk.allocate(300 * MIB, 100 * MIB, false).is_err());

    // Punching frees data and reservations.
    disk.punch(100 * MIB, 500 * MIB)?;
    let (found, taken) = show("punched", &disk)?;
    assert_eq!(found, [second]);
    assert!(taken < MIB);
    let mut zeros = [7; 8192];
    disk.read_exact_at(&mut zeros, 100 * MIB)?;
    assert_eq!(zeros, [0; 8192]);

    drop(disk);
    volume.close()?;
    Ok(())
}
