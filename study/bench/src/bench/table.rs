//! Results as one table: each file system beside the baseline.
//!
//! Several runs of one phase are reduced to their median. Rates are better
//! when larger, latencies when smaller; the ratio is always "times as good as
//! the baseline", so above 1 is good in every row.

use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;

/// A row: what it is called, where its number comes from.
struct Row {
    label: &'static str,
    workload: &'static str,
    phase: &'static str,
    field: &'static str,
    /// Smaller is better.
    latency: bool,
}

const fn rate(
    label: &'static str,
    workload: &'static str,
    phase: &'static str,
    field: &'static str,
) -> Row {
    Row {
        label,
        workload,
        phase,
        field,
        latency: false,
    }
}

const fn latency(
    label: &'static str,
    workload: &'static str,
    phase: &'static str,
    field: &'static str,
) -> Row {
    Row {
        label,
        workload,
        phase,
        field,
        latency: true,
    }
}

const OPS: &str = "ops_per_s";
const MB: &str = "MB_per_s";

const ROWS: &[Row] = &[
    rate("create, acknowledged, files/s", "smallfile", "create", OPS),
    // Computed: create and create_sync together.
    rate(
        "create, durable, files/s",
        "smallfile",
        "create_durable",
        OPS,
    ),
    rate("read cold, files/s", "smallfile", "read", OPS),
    rate("read warm, files/s", "smallfile", "read_warm", OPS),
    rate("stat cold, files/s", "smallfile", "stat", OPS),
    rate("stat warm, files/s", "smallfile", "stat_warm", OPS),
    rate(
        "readdir cold, entries/s",
        "smallfile",
        "readdir",
        "entries_per_s",
    ),
    rate(
        "readdir and stat cold, entries/s",
        "smallfile",
        "readdir_stat",
        "entries_per_s",
    ),
    rate("delete cold, files/s", "smallfile", "delete", OPS),
    latency("create p99, us", "smallfile", "create", "p99_us"),
    rate("create, MB/s", "sizes", "create", MB),
    rate("read cold, MB/s", "sizes", "read", MB),
    rate("overwrite cold, MB/s", "sizes", "overwrite", MB),
    rate("delete cold, files/s", "sizes", "delete", OPS),
    rate("sequential write, MB/s", "largefile", "write_seq", MB),
    rate("sequential read, MB/s", "largefile", "read_seq", MB),
    rate("random write, MB/s", "largefile", "write_rand", MB),
    rate("random read, MB/s", "largefile", "read_rand", MB),
    rate(
        "random read, 16 threads, MB/s",
        "largefile",
        "read_rand_together",
        MB,
    ),
    rate(
        "re-read after random write, MB/s",
        "largefile",
        "reread_seq",
        MB,
    ),
    rate("warm re-read, MB/s", "largefile", "reread_warm", MB),
    rate("durable updates/s", "fsyncupdate", "update", OPS),
    latency("durable update p50, us", "fsyncupdate", "update", "p50_us"),
    latency("durable update p99, us", "fsyncupdate", "update", "p99_us"),
    rate("transactions/s", "tpcb", "txn", "tps"),
    latency("transaction p50, us", "tpcb", "txn", "p50_us"),
    latency("transaction p99, us", "tpcb", "txn", "p99_us"),
    rate("mkdir/s", "metadata", "mkdir", OPS),
    rate("create/s", "metadata", "create", OPS),
    rate("stat/s", "metadata", "stat_warm", OPS),
    rate("link/s", "metadata", "link", OPS),
    rate("symlink/s", "metadata", "symlink", OPS),
    rate("rename/s", "metadata", "rename", OPS),
    rate("unlink/s", "metadata", "unlink", OPS),
    rate("rmdir/s", "metadata", "rmdir", OPS),
    rate("cached stat/s", "cached", "stat", OPS),
    rate("cached open, read, close/s", "cached", "read", OPS),
    rate("fill, MB/s", "fillaging", "fill", MB),
    rate("overwrite, first tenth, MB/s", "fillaging", "age_0", MB),
    rate("overwrite, last tenth, MB/s", "fillaging", "age_9", MB),
    rate("overwrite, whole, MB/s", "fillaging", "age_total", MB),
    latency("sync p50, us", "fillaging", "age_total", "sync_p50_us"),
    latency("sync longest, us", "fillaging", "age_total", "sync_max_us"),
    rate("read back, MB/s", "fillaging", "aged_read", MB),
    rate(
        "accounts scanned before, /s",
        "scan",
        "scan_before",
        "accounts_per_s",
    ),
    rate("transactions/s", "scan", "transactions", "tps"),
    rate(
        "accounts scanned after, /s",
        "scan",
        "scan_after",
        "accounts_per_s",
    ),
    rate("passes/s", "andrew", "pass", OPS),
    rate("mkdir, calls/s", "andrew", "mkdir", OPS),
    rate("copy, calls/s", "andrew", "copy", OPS),
    rate("stat, calls/s", "andrew", "stat", OPS),
    rate("grep, calls/s", "andrew", "grep", OPS),
    rate("compile, calls/s", "andrew", "compile", OPS),
    rate("passes/s, all users", "multiandrew", "pass", OPS),
    rate("load in random order, MB/s", "supercomputer", "load", MB),
    rate("read, MB/s", "supercomputer", "read", MB),
    rate("write, MB/s", "supercomputer", "write", MB),
    rate("write, MB/s", "bandwidth", "write", MB),
    rate("read cold, MB/s", "bandwidth", "read", MB),
    rate("create, MB/s", "bigfile", "create", MB),
    rate("copy cold, MB/s", "bigfile", "copy", MB),
    rate("remove, files/s", "bigfile", "remove", OPS),
    rate("fill, calls/s", "office", "fill", OPS),
    rate("steps/s", "office", "mix", OPS),
    rate("read, MB/s", "office", "mix_read", MB),
    rate("write, MB/s", "office", "mix_write", MB),
    rate("remove, files/s", "office", "mix_remove", OPS),
];

/// The parameter that tells variants of a workload apart.
fn variant(line: &Value) -> String {
    let member = match line["workload"].as_str() {
        Some("smallfile" | "sizes" | "bandwidth") => "file_size",
        Some("largefile") => "unit",
        Some("fsyncupdate" | "metadata" | "cached") => "threads",
        Some("tpcb") => "sync",
        Some("fillaging") => "util",
        Some("scan") => "accounts",
        Some("andrew" | "multiandrew") => "users",
        Some("supercomputer") => "application",
        Some("bigfile") => "set_bytes",
        Some("office") => "live_bytes",
        _ => return String::new(),
    };
    match &line[member] {
        Value::Null => String::new(),
        Value::Number(number) => match member {
            "util" => format!("{number} %"),
            "threads" | "users" | "accounts" => format!("{number} {member}"),
            _ => match number.as_u64().unwrap_or(0) {
                bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
                bytes => format!("{} KiB", bytes >> 10),
            },
        },
        Value::String(name) => name.clone(),
        other => format!("{member} {other}"),
    }
}

#[derive(Default)]
struct Results {
    systems: Vec<String>,
    /// Workload and variant, in order of appearance.
    variants: Vec<(String, String)>,
    /// By system, workload, variant, phase.
    lines: HashMap<(String, String, String, String), Vec<Value>>,
    errors: Vec<String>,
}

impl Results {
    fn add(&mut self, line: Value) {
        let text = |member: &str| line[member].as_str().unwrap_or_default().to_owned();
        let (system, workload, phase) = (text("fs"), text("workload"), text("phase"));
        if let Some(error) = line["error"].as_str() {
            let error = format!("- {system} {workload} {phase}: {error}");
            self.errors.push(error);
            return;
        }
        let variant = variant(&line);
        if !self.systems.contains(&system) {
            self.systems.push(system.clone());
        }
        let pair = (workload.clone(), variant.clone());
        if !variant.is_empty() && !self.variants.contains(&pair) {
            self.variants.push(pair);
        }
        let key = (system, workload, variant, phase);
        self.lines.entry(key).or_default().push(line);
    }

    fn median(&self, system: &str, row: &Row, variant: &str) -> Option<f64> {
        if row.phase == "create_durable" {
            let get = |phase, field| {
                let row = Row {
                    phase,
                    field,
                    ..*row
                };
                self.median(system, &row, variant)
            };
            let seconds = get("create", "seconds")? + get("create_sync", "seconds")?;
            return Some(get("create", "ops")? / seconds);
        }
        let key = (
            system.to_owned(),
            row.workload.to_owned(),
            variant.to_owned(),
            row.phase.to_owned(),
        );
        let lines = self.lines.get(&key)?;
        let mut values: Vec<f64> = lines.iter().filter_map(|l| l[row.field].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            n if n % 2 == 1 => Some(values[middle]),
            _ => Some((values[middle - 1] + values[middle]) / 2.0),
        }
    }
}

/// Four significant figures at most, with a suffix for thousands.
fn number(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{:.2}M", v / 1e6),
        v if v >= 9999.5 => format!("{:.0}k", v / 1e3),
        v if v >= 100.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

/// A Markdown table of JSON lines; `baseline` names the file system that the
/// others are divided by, the first one seen if it is absent.
///
/// # Errors
/// Says which line is no JSON.
pub fn ratio_table(text: &str, baseline: Option<&str>) -> Result<String, String> {
    let mut results = Results::default();
    for (number, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            let line = serde_json::from_str(line)
                .map_err(|error| format!("line {}: {error}", number + 1))?;
            results.add(line);
        }
    }
    let first = results.systems.first().cloned().unwrap_or_default();
    let baseline = baseline.map_or(first, str::to_owned);
    let mut table = String::new();
    for (workload, variant) in &results.variants {
        let rows = ROWS.iter().filter(|row| row.workload == workload);
        let lines: Vec<String> = rows
            .filter_map(|row| table_line(&results, row, variant, &baseline))
            .collect();
        if !lines.is_empty() {
            let _ = writeln!(table, "\n### {workload}, {variant}\n");
            let _ = writeln!(table, "| | {} |", results.systems.join(" | "));
            let _ = writeln!(table, "|---|{}", "---:|".repeat(results.systems.len()));
            let _ = writeln!(table, "{}", lines.join("\n"));
        }
    }
    if !results.errors.is_empty() {
        let _ = writeln!(table, "\n### Errors\n\n{}", results.errors.join("\n"));
    }
    Ok(table)
}

fn table_line(results: &Results, row: &Row, variant: &str, baseline: &str) -> Option<String> {
    let base = results.median(baseline, row, variant);
    let mut any = false;
    let cells: Vec<String> = results
        .systems
        .iter()
        .map(|system| match results.median(system, row, variant) {
            None => "-".into(),
            Some(value) => {
                any = true;
                match base {
                    Some(base) if system != baseline && value > 0.0 && base > 0.0 => {
                        let times = if row.latency {
                            base / value
                        } else {
                            value / base
                        };
                        format!("{} ({times:.2}x)", number(value))
                    }
                    _ => number(value),
                }
            }
        })
        .collect();
    any.then(|| format!("| {} | {} |", row.label, cells.join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_say_how_many_times_as_good() {
        let text = r#"
{"fs":"ext4","run":1,"workload":"fsyncupdate","phase":"update","ops_per_s":5000,"p50_us":200,"p99_us":400,"threads":1}
{"fs":"varve-lib","run":1,"workload":"fsyncupdate","phase":"update","ops_per_s":10000,"p50_us":100,"p99_us":800,"threads":1}
{"fs":"varve-lib","run":2,"workload":"fsyncupdate","phase":"update","ops_per_s":12000,"p50_us":100,"p99_us":800,"threads":1}
{"fs":"x","run":1,"workload":"tpcb","phase":"txn","error":"no"}
"#;
        let table = ratio_table(text, None).unwrap();
        assert!(
            table.contains("| durable updates/s | 5000 | 11k (2.20x) |"),
            "{table}"
        );
        assert!(table.contains("| durable update p50, us | 200 | 100 (2.00x) |"));
        assert!(table.contains("| durable update p99, us | 400 | 800 (0.50x) |"));
        assert!(table.contains("- x tpcb txn: no"));
        assert!(ratio_table("{", None).unwrap_err().starts_with("line 1"));
    }
}
