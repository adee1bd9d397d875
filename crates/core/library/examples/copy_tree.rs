//! Copies a directory of the host into a volume and back, and compares: names, content,
//! permission bits, times of modification, symbolic links.
//!
//! ```sh
//! cargo run --example copy_tree                       # this crate's source
//! cargo run --example copy_tree backup.img ~/letters
//! ```

use std::error::Error;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use varve::{FileTimes, Volume, VolumeOptions};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Copies the content of the host's `from` to `to`, a directory of the volume.
fn store(volume: &Volume, from: &Path, to: &Path) -> Outcome<()> {
    volume.create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            store(volume, &path, &target)?;
        } else if metadata.is_symlink() {
            volume.symlink(fs::read_link(&path)?, &target)?;
        } else if metadata.is_file() {
            let mut file = volume.create_file(&target)?;
            io::copy(&mut fs::File::open(&path)?, &mut file)?;
            file.set_permissions(metadata.permissions())?;
            file.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
        }
    }
    Ok(())
}

/// Copies the content of the volume's `from` to `to`, a directory of the host.
fn fetch(volume: &Volume, from: &Path, to: &Path) -> Outcome<u64> {
    fs::create_dir_all(to)?;
    let mut bytes = 0;
    for entry in volume.walk(from)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let target = to.join(path.strip_prefix(from)?);
        if kind.is_dir() {
            fs::create_dir(&target)?; // before its content
        } else if kind.is_symlink() {
            symlink(volume.read_link(&path)?, &target)?;
        } else {
            let (metadata, mut file) = (entry.metadata()?, fs::File::create(&target)?);
            bytes += io::copy(&mut volume.open_file(&path)?, &mut file)?;
            file.set_permissions(metadata.permissions())?;
            file.set_modified(metadata.modified()?)?;
        }
    }
    Ok(bytes)
}

/// Fails with the first difference between two directories of the host.
fn compare(one: &Path, other: &Path) -> Outcome<()> {
    for entry in fs::read_dir(one)? {
        let entry = entry?;
        let (left, right) = (entry.path(), other.join(entry.file_name()));
        let (a, b) = (entry.metadata()?, fs::symlink_metadata(&right)?);
        let same = if a.is_dir() {
            compare(&left, &right)?;
            b.is_dir()
        } else if a.is_symlink() {
            fs::read_link(&left)? == fs::read_link(&right)?
        } else {
            a.permissions() == b.permissions()
                && a.modified()? == b.modified()?
                && fs::read(&left)? == fs::read(&right)?
        };
        if !same {
            return Err(format!("{} came back otherwise", left.display()).into());
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let scratch = tempfile::tempdir()?;
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let image = arguments.next();
    let image = image.unwrap_or_else(|| scratch.path().join("tree.img"));
    let source = arguments.next();
    let source = source.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/src").into());

    let volume = VolumeOptions::new().size(1 << 30).create(&image)?;
    store(&volume, &source, Path::new("/copy"))?;
    volume.close()?;

    let volume = VolumeOptions::new().read_only(true).open(&image)?;
    let back = scratch.path().join("back");
    let bytes = fetch(&volume, Path::new("/copy"), &back)?;
    compare(&source, &back)?;
    println!("{bytes} bytes of {} came back alike", source.display());
    Ok(())
}
