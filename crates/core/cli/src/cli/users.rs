//! The processes that use a mount, and its other mounts: they prevent it from being
//! unmounted, and its server from closing the volume.
//!
//! All of it is read from `/proc`, and no path on the mount is opened, because the server
//! may not answer.

use super::mount_table::{self, Entry};
use super::server::{name_of, processes};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Most users that a message names.
const NAMED_MAX: usize = 3;

/// Text that names the users of the mount at a directory, `transactions` among them; empty
/// if none is found.
pub fn of_mount(entry: &Entry, transactions: Vec<String>) -> String {
    let below = mount_table::below(&entry.directory);
    let mounts = below
        .iter()
        .map(|below| format!("a mount on {}", below.directory.display()));
    let mut all = transactions;
    all.extend(mounts);
    let mut tables = Tables::default();
    for pid in processes() {
        let Some(mounts) = tables.of(pid, entry) else {
            continue;
        };
        if let Some(how) = use_by(pid, entry, mounts) {
            all.push(format!("process {pid} ({}, {how})", name_of(pid)));
        }
    }
    listed(&all)
}

/// Text that names the mounts of the same file system in other mount namespaces; empty if
/// there are none.
pub fn of_other_namespaces(entry: &Entry) -> String {
    let own = namespace_of("self");
    let mut tables = Tables::default();
    for pid in processes() {
        tables.of(pid, entry);
    }
    let others = tables
        .seen
        .into_iter()
        .filter(|(namespace, _)| Some(namespace) != own.as_ref());
    let all: Vec<String> = others
        .filter_map(|(_, (pid, mounts))| {
            let (_, directory) = mounts.first()?;
            let shown = directory.display();
            Some(format!("of process {pid} ({}) on {shown}", name_of(pid)))
        })
        .collect();
    listed(&all)
}

/// Identifiers and directories of mounts.
type Mounts = Vec<(u32, PathBuf)>;

/// Mounts of a file system, by mount namespace; each namespace is read once, through the
/// first process that is seen in it.
#[derive(Default)]
struct Tables {
    seen: HashMap<PathBuf, (i32, Mounts)>,
}

impl Tables {
    /// Mounts of `entry`'s file system that a process sees.
    fn of(&mut self, pid: i32, entry: &Entry) -> Option<&Mounts> {
        let namespace = namespace_of(&pid.to_string())?;
        let (_, mounts) = self.seen.entry(namespace).or_insert_with(|| {
            let table = mount_table::of_process(pid).into_iter();
            let ours = table.filter(|e| (e.major, e.minor) == (entry.major, entry.minor));
            (pid, ours.map(|e| (e.id, e.directory)).collect())
        });
        Some(mounts)
    }
}

fn namespace_of(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// The use of one of these mounts by a process, if it uses one.
fn use_by(pid: i32, entry: &Entry, mounts: &Mounts) -> Option<String> {
    if mounts.is_empty() {
        return None;
    }
    let leads_there = |name: &str| {
        let path = fs::read_link(format!("/proc/{pid}/{name}")).ok()?;
        let inside = mounts
            .iter()
            .any(|(_, directory)| path.starts_with(directory));
        inside.then_some(path)
    };
    if let Some(path) = leads_there("cwd") {
        return Some(format!("working directory {}", path.display()));
    }
    if leads_there("root").is_some_and(|root| root != Path::new("/")) {
        return Some("root directory".into());
    }
    if let Some(name) = open_file(pid, mounts) {
        let path = fs::read_link(format!("/proc/{pid}/fd/{}", name.display())).ok()?;
        return Some(format!("open file {}", path.display()));
    }
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let device = format!("{:02x}:{:02x}", entry.major, entry.minor);
    let is_mapped = maps.split(|byte| *byte == b'\n').any(|line| {
        let field = line.split(|byte| *byte == b' ').nth(3);
        field == Some(device.as_bytes())
    });
    is_mapped.then(|| "a mapped file".into())
}

/// An open descriptor of a process on one of these mounts.
fn open_file(pid: i32, mounts: &Mounts) -> Option<OsString> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?.flatten();
    let mut on_mount = descriptors.filter(|descriptor| {
        let about = fs::read(descriptor.path()).unwrap_or_default();
        let about = String::from_utf8_lossy(&about);
        let mut lines = about.lines();
        let mount = lines.find_map(|line| line.strip_prefix("mnt_id:"));
        let mount = mount.and_then(|id| id.trim().parse::<u32>().ok());
        mounts.iter().any(|(id, _)| Some(*id) == mount)
    });
    on_mount.next().map(|descriptor| descriptor.file_name())
}

/// The first few, and the number of the rest.
fn listed(all: &[String]) -> String {
    let mut text = all[..all.len().min(NAMED_MAX)].join(", ");
    if all.len() > NAMED_MAX {
        let _ = write!(text, " and {} more", all.len() - NAMED_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_named() {
        let all = ["a", "b", "c", "d", "e"].map(String::from);
        assert_eq!(listed(&[]), "");
        assert_eq!(listed(&all[..3]), "a, b, c");
        assert_eq!(listed(&all), "a, b, c and 2 more");
    }
}
