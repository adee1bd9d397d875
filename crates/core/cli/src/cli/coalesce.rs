//! `varve coalesce`: stores the blocks of files in order; also the server's side of it.
//!
//! | question | answer |
//! |---|---|
//! | `{"coalesce": {"inode": 7, "from": 0, "bytes": 4194304, "thorough": false}}` | `moved_bytes`, `runs_before`, `runs_after`, `damaged`, `next`, `short_of_room`; ENOENT if there is no such file |

use super::output::{self, Failure, Outcome, Progress};
use super::{mount_table, size};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use varve_fs::InodeNo;
use varve_fuse::Errno;
use varve_lfs::Lfs;
use varve_lfs::policy::{Coalescing, File};

/// Most bytes moved by one request: other requests do not wait for it, but it occupies a
/// serving thread.
const STEP_BYTES: u64 = 4 << 20;

/// Put the blocks of files of a mounted volume in order.
///
/// Files that are updated at random are stored in pieces, and reading them in order takes
/// a request for each. This moves blocks where that pays, the largest files first, and
/// skips data written within the last minute. It stops before the cleaner would have to
/// work for it.
#[derive(clap::Args)]
pub struct Coalesce {
    /// Files, or directories with all files in them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Most bytes moved per second; 0 for no limit.
    #[arg(long, default_value = "32M", value_parser = size::parse)]
    rate: u64,
    /// Move all files that are in more than one piece, even those written a moment ago.
    #[arg(long)]
    thorough: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Sums over all files.
#[derive(Default)]
struct Done {
    files: u64,
    /// Files that were skipped because they were written a moment ago.
    fresh: u64,
    moved_bytes: u64,
    runs: (u64, u64),
    damaged: u64,
}

impl Coalesce {
    pub fn run(self) -> Outcome {
        let mut files: BTreeMap<PathBuf, BTreeMap<u64, File>> = BTreeMap::new();
        for path in &self.paths {
            let mount = mount_table::containing(path).map_err(Failure::with(1))?;
            let found = files.entry(mount.directory).or_default();
            let failed = |error| Failure::new(1, format_args!("{}: {error}", path.display()));
            walk(path, found).map_err(failed)?;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ns = now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        let policy = policy(self.thorough);
        let mut done = Done::default();
        let progress = Progress::bytes("coalescing");
        for (root, found) in files {
            let found: Vec<File> = found.into_values().collect();
            let chosen = policy.choose(&found, now_ns);
            done.fresh += (found.len() - chosen.len()) as u64;
            let all: u64 = chosen.iter().map(|file| file.bytes).sum();
            let mut seen = 0;
            for file in chosen {
                progress.at(seen, all);
                self.file(&root, file, &mut done)?;
                seen += file.bytes;
            }
        }
        progress.finish();
        self.tell(&done);
        Ok(0)
    }

    /// Moves the blocks of a file, step by step.
    fn file(&self, root: &Path, file: File, done: &mut Done) -> Result<(), Failure> {
        let mut from = Some(0);
        done.files += 1;
        while let Some(at) = from {
            let begun = Instant::now();
            let question = json!({"coalesce": {
                "inode": file.number, "from": at, "bytes": STEP_BYTES, "thorough": self.thorough,
            }});
            let answer = match varve_fuse::ask(root, &question.to_string()) {
                Ok(answer) => answer,
                // The file was removed meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error) if is_not_answered(&error) => {
                    let shown = root.display();
                    let text = format_args!(
                        "the volume mounted on {shown} has no segmented log: there is nothing to \
                         put in order"
                    );
                    return Err(Failure::new(1, text));
                }
                Err(error) => {
                    let shown = root.display();
                    let text = format_args!("{shown}, inode {}: {error}", file.number);
                    return Err(Failure::new(1, text));
                }
            };
            let answer: Value = serde_json::from_str(&answer).map_err(Failure::with(1))?;
            let count = |name: &str| answer[name].as_u64().unwrap_or(0);
            done.moved_bytes += count("moved_bytes");
            done.runs.0 += count("runs_before");
            done.runs.1 += count("runs_after");
            done.damaged += count("damaged");
            if answer["short_of_room"] == true {
                self.tell(done);
                let text = "clean segments are low: free some room, or let the cleaner go first";
                return Err(Failure::new(1, text));
            }
            from = answer["next"].as_u64();
            if let Some(due) = (count("moved_bytes") * 1000).checked_div(self.rate) {
                let due = Duration::from_millis(due);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
        Ok(())
    }

    fn tell(&self, done: &Done) {
        if self.json {
            output::json(&json!({
                "files": done.files,
                "passed_over": done.fresh,
                "moved_bytes": done.moved_bytes,
                "runs_before": done.runs.0,
                "runs_after": done.runs.1,
                "damaged_extents": done.damaged,
            }));
            return;
        }
        let moved = size::show(done.moved_bytes);
        let (before, after) = done.runs;
        let files = done.files;
        output::line(format_args!(
            "{files} files looked at, {moved} moved, {before} pieces before, {after} after"
        ));
        if done.fresh > 0 {
            let fresh = done.fresh;
            output::line(format_args!(
                "{fresh} files passed over: they were written within the last minute and may fall \
                 apart again; --thorough takes them, too"
            ));
        }
        if done.damaged > 0 {
            let damaged = done.damaged;
            output::line(format_args!(
                "{damaged} extents left alone as damaged; `varve scrub` names them"
            ));
        }
    }
}

fn policy(thorough: bool) -> Coalescing {
    match thorough {
        true => Coalescing::thorough(),
        false => Coalescing::default(),
    }
}

/// True if the server does not know the request.
fn is_not_answered(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOTTY.raw_os_error())
}

/// All regular files at and below `path`, on the same volume, once each.
fn walk(path: &Path, found: &mut BTreeMap<u64, File>) -> std::io::Result<()> {
    let top = path.metadata()?;
    let mut waiting = vec![path.to_owned()];
    while let Some(at) = waiting.pop() {
        // A file removed meanwhile is skipped.
        let Ok(metadata) = at.symlink_metadata() else {
            continue;
        };
        if metadata.dev() != top.dev() {
            continue;
        }
        if metadata.is_dir() {
            let entries = match std::fs::read_dir(&at) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries?,
            };
            waiting.extend(entries.flatten().map(|entry| entry.path()));
        } else if metadata.is_file() {
            let written = metadata.mtime().saturating_mul(1_000_000_000);
            let file = File {
                number: metadata.ino(),
                bytes: metadata.len(),
                written_ns: written.saturating_add(metadata.mtime_nsec()),
            };
            found.insert(file.number, file);
        }
    }
    Ok(())
}

/// The server's answer, or `None` for another request.
pub fn answer(question: &Value, layout: &Lfs) -> Option<Result<Value, Errno>> {
    let asked = question.get("coalesce")?;
    let number = |name: &str| asked[name].as_u64();
    let (Some(inode), Some(from), Some(bytes)) = (number("inode"), number("from"), number("bytes"))
    else {
        return Some(Err(Errno(rustix::io::Errno::INVAL.raw_os_error())));
    };
    let policy = policy(asked["thorough"] == true);
    let bytes = bytes.min(STEP_BYTES);
    let done = layout
        .cleaner()
        .coalesce(&policy, InodeNo(inode), from, bytes);
    let told = done.map(|done| {
        json!({
            "moved_bytes": done.moved_bytes,
            "runs_before": done.runs.0,
            "runs_after": done.runs.1,
            "damaged": done.damaged,
            "next": done.next,
            "short_of_room": done.short_of_room,
        })
    });
    Some(told.map_err(|error| Errno::from(varve_fs::Error::from(error))))
}
