//! `varve archive`: images of a volume in a folder, which share their segments.
//!
//! | file | |
//! |---|---|
//! | `source.rs` | the volume's side: which segments an image has, and their bytes |
//! | `manifest.rs` | the objects in the target |
//! | `restore.rs` | making an image of an archive |
//!
//! `docs/design/archive.md` has the design.

mod manifest;
mod restore;
pub mod source;
#[cfg(test)]
mod tests;

use super::output::{self, Failure, Outcome};
use super::size;
use super::snapshot::{Part, Place};
use manifest::{Manifest, Stored};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_lfs::format::crc32c;
use varve_object::{FolderStore, Store, StoreUrl};

const FAILED: u8 = 1;
const DAMAGED: u8 = 4;

/// Archive a volume in a folder, segment by segment, or restore one.
///
/// Each archive is the volume at one checkpoint, with all its snapshots. Segments that the
/// folder has from an earlier archive are not written again. On a mount, segments that the
/// cleaner reads meanwhile are not read a second time. An archive exists once its manifest
/// is written, last: one that was interrupted is continued by the next. Exit code 4: a
/// block failed its checksum, and the archive has it as it is on the device.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Archive {
    #[command(subcommand)]
    command: Option<Command>,
    /// An image or block device that is not mounted, or a directory on a mount.
    #[arg(required = true)]
    volume: Option<PathBuf>,
    /// The folder of the archives, made if it is missing, or the URL of a store.
    #[arg(long, value_name = "FOLDER", required = true)]
    to: Option<PathBuf>,
    /// Print as JSON what was archived.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    Restore(restore::Restore),
}

/// The store of a folder or a URL.
fn store_of(target: &Path) -> Result<Arc<dyn Store>, Failure> {
    if !StoreUrl::is_url(target) {
        let folder = FolderStore::open(target).map_err(Failure::with(FAILED))?;
        return Ok(Arc::new(folder));
    }
    let url = target.to_str().unwrap_or_default().parse::<StoreUrl>();
    let store = url.and_then(|url| url.open());
    store.map_err(Failure::with(FAILED))
}

impl Archive {
    pub fn run(self) -> Outcome {
        let (volume, to) = match (self.command, self.volume, self.to) {
            (Some(Command::Restore(command)), ..) => return command.run(),
            (None, Some(volume), Some(to)) => (volume, to),
            _ => return Err(Failure::new(2, "name a volume, and a folder with --to")),
        };
        let store = store_of(&to)?;
        let place = Place::of(&volume)?;
        let mut ask = |question: &Value, emit: Emit<'_>| place.ask(question, true, emit);
        let done = archive(&*store, &mut ask)?;
        match self.json {
            true => output::json(&done),
            false => output::line(format_args!(
                "{}: checkpoint {}, {} segments, of which {} were written ({}), {} as the cleaner \
                 read them",
                to.display(),
                done["serial"],
                done["segments"],
                done["written"],
                size::show(done["bytes"].as_u64().unwrap_or(0)),
                done["read_by_cleaner"]
            )),
        }
        match done["damaged"].as_array() {
            Some(damaged) if !damaged.is_empty() => {
                let damaged: Vec<String> = damaged.iter().map(Value::to_string).collect();
                output::notes(format!(
                    "{}: blocks of the segments {} fail their checksums; `varve scrub` names \
                     the files",
                    volume.display(),
                    damaged.join(", ")
                ));
                Ok(DAMAGED)
            }
            _ => Ok(0),
        }
    }
}

type Emit<'a> = super::snapshot::Emit<'a>;

/// Asks a volume, and hands the parts of the answer on.
type Ask<'a> = &'a mut dyn FnMut(&Value, Emit<'_>) -> Result<Value, Failure>;

/// Archives the volume that `ask` asks.
fn archive(store: &dyn Store, ask: Ask<'_>) -> Result<Value, Failure> {
    let failed = Failure::with::<varve_object::StoreError>(FAILED);
    let identity = ask(&json!({"archive": {"identity": true}}), &mut |_| Ok(()))?;
    let tag = identity["tag"].as_str().unwrap_or_default().to_owned();
    let former = former(store, &tag).map_err(&failed)?;
    let mut target = Target {
        store,
        tag,
        former: BTreeMap::new(),
        stored: BTreeMap::new(),
        next: None,
        written: (0, 0),
        is_of_another: false,
    };
    let mut question = json!({"archive": {}});
    if let Some(former) = former {
        question = json!({"archive": {"opened": former.opened, "heads": former.heads}});
        target.former = former
            .segments
            .iter()
            .map(|one| (one.segment, *one))
            .collect();
    }
    let mut done = ask(&question, &mut |part| target.take(part));
    if target.is_of_another {
        // The former archive is of a copy of this volume: nothing of it is relied on.
        target.stored.clear();
        done = ask(&json!({"archive": {}}), &mut |part| target.take(part));
    }
    let done = done?;
    let mut parts = done.clone();
    let mut segments = Vec::new();
    for pair in done["segments"].as_array().into_iter().flatten() {
        let number = pair[0].as_u64().unwrap_or_default() as u32;
        let stored = target.stored.get(&number);
        let stored = stored.filter(|stored| pair[1] == stored.incarnation);
        let missing = || Failure::new(FAILED, format_args!("segment {number} was not received"));
        segments.push(*stored.ok_or_else(missing)?);
    }
    parts["segments"] = serde_json::to_value(&segments).unwrap_or_default();
    let manifest: Manifest = serde_json::from_value(parts).map_err(Failure::with(FAILED))?;
    manifest.create(store).map_err(failed)?;
    Ok(json!({
        "serial": manifest.serial,
        "segments": segments.len(),
        "written": target.written.0,
        "bytes": target.written.1,
        "read": done["read"],
        "read_by_cleaner": done["read_by_cleaner"],
        "damaged": done["damaged"],
    }))
}

/// The newest manifest that can be read and of which every segment is listed.
fn former(store: &dyn Store, tag: &str) -> Result<Option<Manifest>, varve_object::StoreError> {
    let listed = store.list(&format!("{tag}/segments/"), "")?;
    let listed: BTreeMap<String, u64> = listed.into_iter().map(|o| (o.name, o.bytes)).collect();
    let names = Manifest::list(store, tag)?;
    let mut manifests = names
        .iter()
        .rev()
        .filter_map(|name| Manifest::get(store, name).ok());
    Ok(manifests.find(|manifest| {
        let is_there = |one: &Stored| listed.get(&one.name(tag)) == Some(&one.bytes);
        manifest.segments.iter().all(is_there)
    }))
}

/// The archive that is being written.
struct Target<'a> {
    store: &'a dyn Store,
    tag: String,
    /// Segments of the former archive.
    former: BTreeMap<u32, Stored>,
    /// Segments that the target has.
    stored: BTreeMap<u32, Stored>,
    /// The segment whose bytes are next.
    next: Option<Stored>,
    /// Segments and bytes written.
    written: (u64, u64),
    /// A segment differs from the one in the former archive.
    is_of_another: bool,
}

impl Target<'_> {
    fn take(&mut self, part: Part<'_>) -> Result<(), String> {
        match part {
            Part::Item(item) => self.note(&item),
            Part::Bytes(bytes) => {
                let mut stored = self.next.take().ok_or("bytes of no segment")?;
                (stored.bytes, stored.crc) = (bytes.len() as u64, crc32c(bytes));
                let created = manifest::create(self.store, &stored.name(&self.tag), &[bytes]);
                created.map_err(|error| error.to_string())?;
                self.written.0 += 1;
                self.written.1 += stored.bytes;
                self.stored.insert(stored.segment, stored);
                Ok(())
            }
        }
    }

    fn note(&mut self, item: &Value) -> Result<(), String> {
        let number = |name: &str| item[name].as_u64().and_then(|n| u32::try_from(n).ok());
        let incarnation = number("incarnation").unwrap_or_default();
        if let Some(segment) = number("segment") {
            self.next = Some(Stored {
                segment,
                incarnation,
                bytes: 0,
                crc: 0,
                head: number("head"),
                closed: item["closed"] == true,
            });
        } else if let Some(known) = number("known") {
            let former = self.former.get(&known).filter(|former| {
                let is_same = former.head.is_some() && former.head == number("head");
                former.closed && former.incarnation == incarnation && is_same
            });
            let Some(former) = former else {
                self.is_of_another = true;
                return Err(format!("segment {known} is not in the former archive"));
            };
            self.stored.insert(known, *former);
        }
        Ok(())
    }
}
