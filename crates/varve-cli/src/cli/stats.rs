//! `varve stats`: what a mount has done, or how a volume stands.

use super::output::{self, Failure, Outcome};
use super::prometheus;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use varve::VolumeOptions;
use varve::admin::{self, JobStatus, Statistics, Tree, Verifier};
use varve_fs::{FileSystem, FsStatistics, StatFs};
use varve_lfs::cleaner::pace::Gauge;
use varve_lfs::policy::TransferModel;
use varve_lfs::{Lfs, STEPS, Utilisation};
use varve_vlfs::Vlfs;

/// Print the counters of a mount, or the state of a volume that is not
/// mounted.
#[derive(clap::Args)]
pub struct Stats {
    /// The mount's directory, or the image file or block device.
    target: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// In Prometheus' text format.
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

impl Stats {
    pub fn run(self) -> Outcome {
        let value = match self.target.is_dir() {
            true => of_mount(&self.target)?,
            false => of_volume(&self.target)?,
        };
        if self.json {
            output::json(&value);
        } else if self.prometheus {
            let metrics = prometheus::text(&value, &self.target);
            metrics.lines().for_each(output::line);
        } else {
            print(&value, "");
        }
        Ok(0)
    }
}

/// What the server of a mount says.
pub fn of_mount(directory: &Path) -> Result<Value, Failure> {
    let text = varve_fuse::query_statistics(directory).map_err(|error| {
        let shown = directory.display();
        let advice = "it must be the directory a Varve volume is mounted on";
        match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NOTTY.raw_os_error() => {
                Failure::new(1, format_args!("{shown} is no Varve mount; {advice}"))
            }
            _ => Failure::new(1, format_args!("cannot ask {shown}: {error}; {advice}")),
        }
    })?;
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
    })
}

/// One line per number, with the path of its members.
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

/// Adds how the volume is: failures of the device and what became of them,
/// whether it takes changes, and what verifications found.
pub fn add_health(all: &mut Value, layout: &Lfs, verifier: &Verifier) {
    all["device"] = device(layout);
    let stopped = layout.stopped();
    all["state"] = json!({
        "read_only": u8::from(stopped.is_some()),
        "reason": stopped,
    });
    let Gauge {
        clean, low, high, ..
    } = layout.cleaning_gauge();
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

/// The counters of a volume on the virtual log.
pub fn describe_virtual_log(fs: &FileSystem<Vlfs>) -> Value {
    json!({
        "virtual_log": fs.layout().statistics(),
        "tree": tree(&fs.statistics()),
        "space": space(&fs.statfs()),
    })
}

/// Room on a volume.
fn space(room: &StatFs) -> Value {
    json!({
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
        "space": space(&statistics.space),
        "written_by_cause": by_cause(&l.written_by_cause()),
        "read_by_cause": by_cause(&l.read_by_cause()),
        "segments": segments(&statistics.utilisation),
        "cleaned_by_utilisation": cleaned,
        "write_cost": l.write_cost(),
        "overall_write_cost": l.overall_write_cost(&TransferModel::ATLAS_10K),
        "write_amplification": l.write_amplification(),
    })
}
