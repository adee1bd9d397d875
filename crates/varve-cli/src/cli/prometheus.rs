//! Counters in Prometheus' text format, version 0.0.4.
//!
//! A number under `a.b` becomes `varve_a_b`, with `_total` if it only grows;
//! the requests of a mount become one metric with the kind as a label, and so
//! do bytes by cause and segments by utilisation. The volume's path, or the mount's directory, is the label `target`.

use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// What goes down as well as up.
const GAUGES: [&str; 15] = [
    "space_blocks",
    "space_free",
    "space_files",
    "space_files_free",
    "tree_dirty_bytes",
    "tree_cached_bytes",
    "tree_vnodes",
    "segments_clean",
    "segments_open",
    "segments_empty",
    "segments_by_utilisation",
    "segments_utilisation",
    "write_cost",
    "overall_write_cost",
    "write_amplification",
];

/// Objects whose members are values of one label, and that label.
const LABELLED: [(&str, &str); 5] = [
    ("requests", "kind"),
    ("written_by_cause", "cause"),
    ("read_by_cause", "cause"),
    ("segments_by_utilisation", "utilisation"),
    ("cleaned_by_utilisation", "utilisation"),
];

/// Beginnings of names that tell how something stands.
const STATES: [&str; 5] = ["state_", "verification_", "scrub_", "latency_", "cleaner_"];

/// The numbers of `value` as metrics of `target`.
pub fn text(value: &Value, target: &Path) -> String {
    let mut metrics = Metrics {
        target: escape(&target.to_string_lossy()),
        text: String::new(),
    };
    metrics.add("", value);
    metrics.text
}

struct Metrics {
    target: String,
    text: String,
}

impl Metrics {
    fn add(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(members) if let Some(label) = label_of(name) => {
                let gauge = GAUGES.contains(&name);
                let full = match gauge {
                    true => name.to_owned(),
                    false => format!("{name}_total"),
                };
                self.head(&full, if gauge { "gauge" } else { "counter" });
                for (kind, count) in members {
                    if let Value::Number(count) = count {
                        let (target, kind) = (&self.target, escape(kind));
                        let labels = format!("target=\"{target}\",{label}=\"{kind}\"");
                        self.sample(&full, &labels, count);
                    }
                }
            }
            Value::Object(members) => {
                for (member, value) in members {
                    let separator = if name.is_empty() { "" } else { "_" };
                    self.add(&format!("{name}{separator}{member}"), value);
                }
            }
            Value::Number(number) => {
                let gauge =
                    GAUGES.contains(&name) || STATES.iter().any(|state| name.starts_with(state));
                let full = match gauge || name.ends_with("_total") {
                    true => name.to_owned(),
                    false => format!("{name}_total"),
                };
                // The sum over all kinds would count each request twice.
                if name == "requests_total" {
                    return;
                }
                self.head(&full, if gauge { "gauge" } else { "counter" });
                let labels = format!("target=\"{}\"", self.target);
                self.sample(&full, &labels, number);
            }
            _ => {}
        }
    }

    fn head(&mut self, name: &str, kind: &str) {
        let _ = writeln!(self.text, "# TYPE varve_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, number: &serde_json::Number) {
        let _ = writeln!(self.text, "varve_{name}{{{labels}}} {number}");
    }
}

fn label_of(name: &str) -> Option<&'static str> {
    let of = LABELLED.iter().find(|(object, _)| *object == name);
    of.map(|(_, label)| *label)
}

/// A label's value between quotes.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_become_metrics_and_the_rest_is_left_out() {
        let value = json!({
            "layout": {"checkpoints": 3},
            "protocol": {"version": "7.45", "capabilities": ["a"]},
            "requests": {"create": 2, "write": 5},
            "requests_total": 7,
            "space": {"free": 10},
            "written_by_cause": {"data": 4},
            "segments": {"by_utilisation": {"0.1": 3}, "clean": 2},
            "write_cost": 1.5,
        });
        let expected = concat!(
            "# TYPE varve_layout_checkpoints_total counter\n",
            "varve_layout_checkpoints_total{target=\"/a \\\"b\\\"\"} 3\n",
            "# TYPE varve_requests_total counter\n",
            "varve_requests_total{target=\"/a \\\"b\\\"\",kind=\"create\"} 2\n",
            "varve_requests_total{target=\"/a \\\"b\\\"\",kind=\"write\"} 5\n",
            "# TYPE varve_segments_by_utilisation gauge\n",
            "varve_segments_by_utilisation{target=\"/a \\\"b\\\"\",utilisation=\"0.1\"} 3\n",
            "# TYPE varve_segments_clean gauge\n",
            "varve_segments_clean{target=\"/a \\\"b\\\"\"} 2\n",
            "# TYPE varve_space_free gauge\n",
            "varve_space_free{target=\"/a \\\"b\\\"\"} 10\n",
            "# TYPE varve_write_cost gauge\n",
            "varve_write_cost{target=\"/a \\\"b\\\"\"} 1.5\n",
            "# TYPE varve_written_by_cause_total counter\n",
            "varve_written_by_cause_total{target=\"/a \\\"b\\\"\",cause=\"data\"} 4\n",
        );
        assert_eq!(text(&value, Path::new("/a \"b\"")), expected);
    }
}
