//! A user's own files: a list of sizes, or what happened to them.
//!
//! One a line. `SIZE PATH` and `+ SIZE PATH` are a file that is made, or made anew,
//! with so many bytes; `> SIZE PATH` one that grows by them; `- PATH` one that is
//! removed. A path's directory is what is before its last `/`. Empty lines and those
//! that begin with `#` say nothing. `find DIR -type f -printf '%s %p\n'` makes a list.

use super::volume::Volume;
use std::collections::HashMap;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file with so many bytes.
    Made(u64, String),
    /// It has so many more.
    Grown(u64, String),
    /// It is gone.
    Removed(String),
}

/// Reads a list.
///
/// # Errors
/// Says which line is wrong.
pub fn parse(text: &str) -> Result<Vec<Event>, String> {
    let lines = text.lines().zip(1..);
    let told = lines.filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    told.map(|(line, nth)| {
        event(line).ok_or_else(|| format!("line {nth}: no size and path: {line:?}"))
    })
    .collect()
}

fn event(line: &str) -> Option<Event> {
    if let Some(path) = line.strip_prefix("- ") {
        return Some(Event::Removed(path.to_owned()));
    }
    let sized = |rest: &str| {
        let (size, path) = rest.split_once(' ')?;
        (!path.is_empty()).then_some((size.parse().ok()?, path.to_owned()))
    };
    if let Some(rest) = line.strip_prefix("> ") {
        let (size, path) = sized(rest)?;
        return Some(Event::Grown(size, path));
    }
    let (size, path) = sized(line.strip_prefix("+ ").unwrap_or(line))?;
    Some(Event::Made(size, path))
}

/// Plays events on a volume, which counts those that find no room.
pub(super) fn play(volume: &mut Volume, events: &[Event]) {
    let mut directories: HashMap<&str, usize> = HashMap::new();
    let mut files: HashMap<&str, u64> = HashMap::new();
    for event in events {
        match event {
            Event::Made(bytes, path) => {
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                let directory = directories.get(parent).copied();
                let directory = directory.unwrap_or_else(|| volume.mkdir());
                directories.insert(parent, directory);
                if let Some(old) = files.remove(path.as_str()) {
                    volume.remove(old);
                }
                if let Ok(file) = volume.create(directory, *bytes) {
                    files.insert(path, file);
                }
            }
            Event::Grown(bytes, path) => {
                if let Some(&file) = files.get(path.as_str()) {
                    let _ = volume.grow(file, *bytes);
                }
            }
            Event::Removed(path) => {
                if let Some(old) = files.remove(path.as_str()) {
                    volume.remove(old);
                }
            }
        }
    }
}
