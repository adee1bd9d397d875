//! `varve stats`: the counters of a mount, or the state of a volume.

use super::output::{self, Failure, Outcome};
use super::{exporter, mount_table, prometheus};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use varve::VolumeOptions;
use varve::admin::{self, JobStatus, Statistics, Tree, Verifier};
use varve_ffs::Ffs;
use varve_fs::{FileSystem, FsStatistics, StatFs};
use varve_lfs::cleaner::pace::Gauge;
use varve_lfs::policy::TransferModel;
use varve_lfs::{Lfs, STEPS, Utilisation};
use varve_vlfs::Vlfs;

/// Print the counters of a mount, or the state of a volume that is not mounted.
#[derive(clap::Args)]
pub struct Stats {
    /// The mount's directory, or the image file or block device. Several with
    /// --prometheus, --textfile and --listen.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print Prometheus' text format.
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
    /// Write Prometheus' text format into this file, which is replaced as a whole: for
    /// the textfile collector of node_exporter, which reads *.prom.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "prometheus"])]
    textfile: Option<PathBuf>,
    /// Answer GET /metrics at this address and port, such as 127.0.0.1:9810, until the
    /// process is ended. Mounts only. Every client that reaches the port is answered:
    /// there is neither encryption nor a password.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        conflicts_with_all = ["json", "prometheus", "textfile"]
    )]
    listen: Option<String>,
}

impl Stats {
    pub fn run(mut self) -> Outcome {
        let mut seen = std::collections::BTreeSet::new();
        self.targets.retain(|target| seen.insert(target.clone()));
        if let Some(address) = &self.listen {
            return exporter::serve(address, &self.targets);
        }
        if self.prometheus || self.textfile.is_some() {
            return self.metrics();
        }
        let [target] = &self.targets[..] else {
            let text = "give one target; several can be had with --prometheus";
            return Err(Failure::new(2, text));
        };
        let value = of_target(target)?;
        match self.json {
            true => output::json(&value),
            false => print(&value, ""),
        }
        Ok(0)
    }

    /// Prints the targets that answer. Fails if some do not, with the first reason.
    fn metrics(self) -> Outcome {
        let (mut answers, mut problem) = (Vec::new(), None);
        for target in self.targets {
            let answer = of_target(&target);
            let known = answer.map_err(|failure| problem.get_or_insert(failure).code());
            answers.push((target, known.ok()));
        }
        let text = prometheus::text(&answers);
        match &self.textfile {
            Some(path) => replace(path, &text).map_err(|error| {
                let shown = path.display();
                Failure::new(1, format_args!("cannot write {shown}: {error}"))
            })?,
            None => text.lines().for_each(output::line),
        }
        problem.map_or(Ok(0), Err)
    }
}

/// Writes a file next to `path` and renames it to `path`, so that a reader sees the old
/// text or the new one. The temporary name begins with a dot and has another ending, so
/// that no collector takes it for a file of metrics.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let name = path.file_name().ok_or(std::io::ErrorKind::IsADirectory)?;
    let own = [
        b".",
        name.as_bytes(),
        b".",
        std::process::id().to_string().as_bytes(),
    ]
    .concat();
    let beside = path.with_file_name(std::ffi::OsStr::from_bytes(&own));
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn of_target(target: &Path) -> Result<Value, Failure> {
    match target.is_dir() {
        true => of_mount(target),
        false => of_volume(target),
    }
}

/// The statistics from the server of a mount.
pub fn of_mount(directory: &Path) -> Result<Value, Failure> {
    let text = varve_fuse::query_statistics(directory)
        .map_err(|error| Failure::new(1, mount_table::no_answer(directory, &error)))?;
    serde_json::from_str(&text).map_err(Failure::with(1))
}

fn of_volume(path: &Path) -> Result<Value, Failure> {
    let volume = VolumeOptions::new().read_only(true).open(path)?;
    Ok(match admin::tree(&volume) {
        Tree::Log(fs) => {
            let mut all = describe(&Statistics::of(fs));
            add_health(&mut all, fs.layout(), admin::verifier(&volume));
            all
        }
        Tree::VirtualLog(fs) => describe_virtual_log(fs),
        Tree::InPlace(fs) => describe_in_place(fs),
    })
}

/// Prints one line per number, with the path of its members.
fn print(value: &Value, prefix: &str) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let dot = if prefix.is_empty() { "" } else { "." };
                print(member, &format!("{prefix}{dot}{name}"));
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for (number, member) in list.iter().enumerate() {
                print(member, &format!("{prefix}.{number}"));
            }
        }
        Value::String(text) => output::line(format_args!("{prefix} {text}")),
        other => output::line(format_args!("{prefix} {other}")),
    }
}

/// Adds the health of the volume: failures of the device and their outcome, whether the
/// volume takes changes, and the findings of verifications.
pub fn add_health(all: &mut Value, layout: &Lfs, verifier: &Verifier) {
    all["device"] = device(layout);
    let snapshots = layout.snapshot_space();
    all["snapshots"] = json!({
        "named": snapshots.named,
        "automatic": snapshots.automatic,
        "kept_bytes": snapshots.kept_bytes,
        "reserved_bytes": snapshots.reserved_bytes,
    });
    let stopped = layout.stopped();
    all["state"] = json!({
        "read_only": u8::from(stopped.is_some()),
        "reason": stopped,
    });
    let Gauge {
        clean, low, high, ..
    } = layout.space().cleaning_gauge();
    all["cleaner"] = json!({
        "clean_segments": clean,
        "begins_below": low,
        "ends_at": high,
        "debt_segments": if clean < low { high.saturating_sub(clean) } else { 0 },
    });
    all["verification"] = job(verifier.tree());
    all["scrub"] = job(verifier.scrub());
}

fn device(layout: &Lfs) -> Value {
    let s = layout.statistics();
    json!({
        "reads": {
            "requests": s.device_reads,
            "retries": s.read_retries,
            "cured": s.reads_cured,
            "failed": s.reads_failed,
        },
        "writes": {
            "requests": s.device_writes,
            "retries": s.write_retries,
            "cured": s.writes_cured,
            "failed": s.writes_failed,
            "relocated": s.relocated_partials,
        },
        "flushes": {
            "requests": s.flushes,
            "failed": s.flushes_failed,
        },
        "checksums": {
            "retries": s.checksum_retries,
            "cured": s.checksums_cured,
            "failed": s.checksum_failures,
        },
        "last_failures": layout.failures(),
    })
}

fn job(status: Option<JobStatus>) -> Value {
    let Some(status) = status else {
        return json!({"state": "none"});
    };
    let mut value = json!(status.progress);
    value["state"] = match &status.report {
        None => "running".into(),
        Some(report) => json!(report.outcome),
    };
    if let Some(report) = &status.report {
        value["errors"] = report.found.into();
        if let Some(first) = report.errors.first() {
            value["first_error"] = first.to_string().into();
        }
    }
    value
}

fn by_cause(causes: &[(&'static str, u64)]) -> Map<String, Value> {
    let member = |(cause, bytes): &(&str, u64)| ((*cause).to_owned(), (*bytes).into());
    causes.iter().map(member).collect()
}

/// Counts of segments by utilisation, named by the upper end of each step.
fn by_step(counts: &[u64; STEPS]) -> Map<String, Value> {
    let name = |step: usize| format!("{:.1}", (step + 1) as f64 / STEPS as f64);
    let counts = counts.iter().enumerate();
    counts
        .map(|(step, count)| (name(step), (*count).into()))
        .collect()
}

fn segments(utilisation: &Utilisation) -> Value {
    json!({
        "clean": utilisation.clean,
        "open": utilisation.open,
        "empty": utilisation.empty,
        "by_utilisation": by_step(&utilisation.used),
        "utilisation": utilisation.overall(),
    })
}

/// The file system's counters.
fn tree(t: &FsStatistics) -> Value {
    json!({
        "hits": t.hits,
        "misses": t.misses,
        "read_ahead_blocks": t.read_ahead_blocks,
        "layout_reads": t.layout_reads,
        "groups": t.groups,
        "group_blocks": t.group_blocks,
        "group_bytes": t.group_bytes,
        "group_inodes": t.group_inodes,
        "small_groups": t.small_groups,
        "commits": t.commits,
        "shared_captures": t.shared_captures,
        "stalls": t.stalls,
        "damaged_blocks": t.damaged_blocks,
        "lookups": t.lookups,
        "passages": t.passages,
        "reads": t.reads,
        "read_bytes": t.read_bytes,
        "writes": t.writes,
        "written_bytes": t.written_bytes,
        "creates": t.creates,
        "unlinks": t.unlinks,
        "renames": t.renames,
        "setattrs": t.setattrs,
        "fsyncs": t.fsyncs,
        "frees": t.frees,
        "dirty_bytes": t.dirty_bytes,
        "cached_bytes": t.cached_bytes,
        "vnodes": t.vnodes,
    })
}

/// Outcomes of transactions.
fn transactions(t: &FsStatistics) -> Value {
    json!({
        "open": t.transactions_open,
        "begun": t.transactions,
        "committed": t.transaction_commits,
        "conflicts": t.transaction_conflicts,
        "refused": t.transaction_refusals,
        "aborted": t.transaction_aborts,
        "locks": {
            "granted": t.locks.granted,
            "waiting": t.locks.waiting,
            "waits": t.locks.waits,
            "deadlocks": t.locks.deadlocks,
            "timeouts": t.locks.timeouts,
            "longest_wait_ns": t.locks.longest_wait_ns,
        },
        "spilled_blocks": t.transaction_spilled_blocks,
    })
}

/// The counters of a volume on the virtual log.
pub fn describe_virtual_log(fs: &FileSystem<Vlfs>) -> Value {
    json!({
        "virtual_log": fs.layout().statistics(),
        "tree": tree(&fs.statistics()),
        "space": space(&fs.statfs(), fs.layout().superblock().block_bytes.get()),
    })
}

/// The counters of a volume that is updated in place.
pub fn describe_in_place(fs: &FileSystem<Ffs>) -> Value {
    json!({
        "policy": fs.layout().policy().name(),
        "in_place": fs.layout().statistics(),
        "tree": tree(&fs.statistics()),
        "space": space(&fs.statfs(), fs.layout().superblock().block_bytes.get()),
    })
}

/// Space on a volume.
fn space(room: &StatFs, block_bytes: u32) -> Value {
    let bytes = |blocks: u64| blocks * u64::from(block_bytes);
    json!({
        "bytes": bytes(room.blocks),
        "bytes_free": bytes(room.free),
        "blocks": room.blocks,
        "free": room.free,
        "files": room.files,
        "files_free": room.files_free,
    })
}

/// The counters of a volume, layer by layer.
pub fn describe(statistics: &Statistics) -> Value {
    let layout: Map<String, Value> = statistics
        .layout
        .named()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    let (t, l) = (&statistics.tree, &statistics.layout);
    let mut cleaned = by_step(&l.cleaned_by_utilisation);
    cleaned.insert("empty".into(), l.segments_emptied.into());
    json!({
        "layout": layout,
        "tree": tree(t),
        "transactions": transactions(t),
        "space": space(&statistics.space, statistics.block_bytes),
        "written_by_cause": by_cause(&l.written_by_cause()),
        "read_by_cause": by_cause(&l.read_by_cause()),
        "segments": segments(&statistics.utilisation),
        "cleaned_by_utilisation": cleaned,
        "write_cost": l.write_cost(),
        "overall_write_cost": l.overall_write_cost(&TransferModel::ATLAS_10K),
        "write_amplification": l.write_amplification(),
    })
}
