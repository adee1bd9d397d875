//! Counters in Prometheus' text format, version 0.0.4.
//!
//! The `catalogue` states which number of `varve stats` becomes which metric. The
//! volume's path, or the mount's directory, is the label `target`; a target that could
//! not be queried has only `varve_up` 0.

mod catalogue;

use catalogue::{Kind, Metric, metrics};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The answer of one target; `None` if it did not answer.
pub type Answer = (PathBuf, Option<Value>);

/// The numbers of all targets as metrics.
pub fn text(answers: &[Answer]) -> String {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    head(&mut text, "build_info", "gauge", "The version of varve.");
    let _ = writeln!(text, "varve_build_info{{version=\"{version}\"}} 1");
    let help = "1 if the target answered.";
    head(&mut text, "up", "gauge", help);
    for (target, value) in answers {
        let (target, up) = (escape_path(target), u8::from(value.is_some()));
        let _ = writeln!(text, "varve_up{{target=\"{target}\"}} {up}");
    }
    for metric in metrics() {
        let mut samples = String::new();
        for (target, value) in answers {
            let target = format!("target=\"{}\"", escape_path(target));
            for (label, found) in find(metric.path, value.iter().collect()) {
                let labels = match metric.label {
                    "" => target.clone(),
                    name => format!("{target},{name}=\"{}\"", escape(&label)),
                };
                sample(&mut samples, metric, &labels, found);
            }
        }
        if !samples.is_empty() {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            head(&mut text, metric.name, kind, metric.help);
            text += &samples;
        }
    }
    text
}

/// The values at a path, each with the name that matches its `*`.
fn find<'a>(path: &str, from: Vec<&'a Value>) -> Vec<(String, &'a Value)> {
    let mut found: Vec<(String, &Value)> = from.into_iter().map(|v| (String::new(), v)).collect();
    for part in path.split('.') {
        let below = |(label, value): (String, &'a Value)| -> Vec<(String, &'a Value)> {
            match (part, value.as_object()) {
                (_, None) => vec![],
                ("*", Some(members)) => members.iter().map(|(n, v)| (n.clone(), v)).collect(),
                (name, Some(members)) => {
                    members.get(name).map(|v| (label, v)).into_iter().collect()
                }
            }
        };
        found = found.into_iter().flat_map(below).collect();
    }
    found
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP varve_{name} {help}");
    let _ = writeln!(text, "# TYPE varve_{name} {kind}");
}

/// Writes a sample; a value that is no number is left out.
fn sample(text: &mut String, metric: &Metric, labels: &str, value: &Value) {
    let name = metric.name;
    if metric.kind == Kind::Histogram {
        return histogram(text, name, labels, value);
    }
    let Value::Number(number) = value else { return };
    let _ = match (metric.is_nanoseconds(), number.as_f64()) {
        (true, Some(ns)) => writeln!(text, "varve_{name}{{{labels}}} {}", ns / 1e9),
        _ => writeln!(text, "varve_{name}{{{labels}}} {number}"),
    };
}

/// Writes a histogram. Its buckets are octaves, though a mount counts by quarters of one,
/// so that a volume has a hundred series, not four hundred.
fn histogram(text: &mut String, name: &str, labels: &str, value: &Value) {
    let Some(steps) = value["steps"].as_array() else {
        return;
    };
    let count = |steps: &[Value]| steps.iter().filter_map(Value::as_u64).sum::<u64>();
    let per_octave = varve_fuse::LATENCY_STEPS_PER_OCTAVE;
    for end in (per_octave..varve_fuse::LATENCY_STEPS).step_by(per_octave) {
        let seconds = varve_fuse::latency_step_end_us(end - 1) as f64 / 1e6;
        let below = count(&steps[..end.min(steps.len())]);
        let _ = writeln!(
            text,
            "varve_{name}_bucket{{{labels},le=\"{seconds}\"}} {below}"
        );
    }
    let (all, sum) = (count(steps), value["sum_us"].as_u64().unwrap_or(0));
    let _ = writeln!(text, "varve_{name}_bucket{{{labels},le=\"+Inf\"}} {all}");
    let _ = writeln!(text, "varve_{name}_sum{{{labels}}} {}", sum as f64 / 1e6);
    let _ = writeln!(text, "varve_{name}_count{{{labels}}} {all}");
}

fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// Escapes a label's value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
