//! The server's side of `varve scrub`, and the assembly of its answers, which are sent in
//! pages.
//!
//! | question | answer |
//! |---|---|
//! | `{"start": {"rate": 0, "strict": false}}` | `{"number": 1}`, or EBUSY |
//! | `{"status": 0}` | the state of the scrub; once it is over, the findings from item 0 on, and `next` if there is more |
//! | `{"cancel": true}` | `{}` |

use serde_json::{Map, Value, json};
use varve::admin::{JobStatus, ScrubOptions, Verifier};
use varve_fsck::check::Finding;
use varve_fsck::verify::{BadFile, BadRange, Verification};
use varve_fuse::{Errno, QUESTION_BYTES};
use varve_lfs::Lfs;

/// Bytes of findings in one answer; the rest of it needs less than the remainder.
const PAGE_BYTES: usize = QUESTION_BYTES - 4096;

/// Answers requests about `verifier`, which verifies `layout`.
///
/// # Errors
/// EBUSY, or EINVAL for an invalid request.
pub fn answer(question: &Value, verifier: &Verifier, layout: &Lfs) -> Result<Value, Errno> {
    if let Some(start) = question.get("start") {
        let options = ScrubOptions {
            rate: start["rate"].as_u64().unwrap_or(0),
            strict: start["strict"].as_bool().unwrap_or(false),
        };
        let busy = Errno(rustix::io::Errno::BUSY.raw_os_error());
        Ok(json!({"number": verifier.start_scrub(options).ok_or(busy)?}))
    } else if let Some(from) = question["status"].as_u64() {
        Ok(status(verifier.scrub(), layout.stopped(), from))
    } else if question["cancel"] == true {
        verifier.cancel_scrub();
        Ok(json!({}))
    } else {
        Err(Errno(rustix::io::Errno::INVAL.raw_os_error()))
    }
}

fn status(scrub: Option<JobStatus>, stopped: Option<String>, from: u64) -> Value {
    let Some(scrub) = scrub else {
        return json!({"number": null});
    };
    let mut answer = json!({
        "number": scrub.number,
        "state": if scrub.report.is_some() { "over" } else { "running" },
        "progress": scrub.progress,
        "read_only": stopped,
    });
    if let Some(report) = &scrub.report {
        answer["outcome"] = json!(report.outcome);
        answer["found"] = report.found.into();
        let (items, next) = page(report, from);
        answer["items"] = items.into();
        answer["next"] = json!(next);
    }
    answer
}

/// A finding, and its list.
enum Item<'r> {
    Finding(&'static str, &'r Finding),
    Range(&'r BadFile, &'r BadRange),
}

impl Item<'_> {
    fn to_json(&self) -> Value {
        match self {
            Item::Finding(list, finding) => {
                let mut value = json!(finding);
                value["shown"] = finding.to_string().into();
                json!([list, value])
            }
            Item::Range(file, range) => {
                let value = json!({"inode": file.inode, "path": file.path, "range": range});
                json!(["files", value])
            }
        }
    }
}

/// The items from number `from` on that fit an answer, and the number of the first that
/// does not.
fn page(report: &Verification, from: u64) -> (Vec<Value>, Option<u64>) {
    let errors = report.errors.iter().map(|f| Item::Finding("errors", f));
    let warnings = report.warnings.iter();
    let warnings = warnings.map(|f| Item::Finding("warnings", f));
    let files = report.files.iter();
    let ranges = files.flat_map(|file| file.ranges.iter().map(move |r| Item::Range(file, r)));
    let all = errors.chain(warnings).chain(ranges);
    let mut bytes = 0;
    let mut items = Vec::new();
    for (number, item) in (0..).zip(all).skip(from as usize) {
        let item = item.to_json();
        bytes += item.to_string().len() + 1;
        if bytes > PAGE_BYTES && !items.is_empty() {
            return (items, Some(number));
        }
        items.push(item);
    }
    (items, None)
}

/// Sorts items into `errors`, `warnings` and `files` of their answer.
pub fn assemble(answer: &mut Value, items: Vec<Value>) {
    let mut lists: [Vec<Value>; 2] = Default::default();
    let mut files: Vec<Map<String, Value>> = Vec::new();
    for item in items {
        let Value::Array(mut pair) = item else {
            continue;
        };
        let (Some(value), Some(list)) = (pair.pop(), pair.pop()) else {
            continue;
        };
        match list.as_str() {
            Some("errors") => lists[0].push(value),
            Some("warnings") => lists[1].push(value),
            _ => {
                if files
                    .last()
                    .is_none_or(|file| file["inode"] != value["inode"])
                {
                    let mut file = Map::new();
                    file.insert("inode".into(), value["inode"].clone());
                    file.insert("path".into(), value["path"].clone());
                    file.insert("ranges".into(), json!([]));
                    files.push(file);
                }
                if let Some(Value::Array(ranges)) =
                    files.last_mut().and_then(|file| file.get_mut("ranges"))
                {
                    ranges.push(value["range"].clone());
                }
            }
        }
    }
    let [errors, warnings] = lists;
    answer["errors"] = errors.into();
    answer["warnings"] = warnings.into();
    answer["files"] = json!(files);
    if let Value::Object(members) = answer {
        members.remove("items");
        members.remove("next");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_pages_is_put_together_again() {
        let files: Vec<BadFile> = (0..40)
            .map(|inode| BadFile {
                inode,
                path: Some("/a/long/path".repeat(20)),
                ranges: (0..20)
                    .map(|n| BadRange {
                        offset: n * 8192,
                        length: 4096,
                        sector: n,
                        problem: "at sector 1 the checksum is wrong".into(),
                    })
                    .collect(),
            })
            .collect();
        let mut report = Verification::default();
        report.files.clone_from(&files);
        let (mut items, mut next) = (Vec::new(), Some(0));
        let mut pages = 0;
        while let Some(from) = next {
            let (more, then) = page(&report, from);
            assert!(json!(more).to_string().len() < PAGE_BYTES + 1024);
            items.extend(more);
            next = then;
            pages += 1;
        }
        assert!(pages > 10);
        let mut answer = json!({});
        assemble(&mut answer, items);
        assert_eq!(answer["files"], json!(files));
    }
}
