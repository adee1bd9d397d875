//! `varve scrub`: verifies a mounted volume, all data included.
//!
//! The server does the work; this command polls its progress. Exit codes are those of
//! fsck(8): 0 nothing found, 4 damage, 8 the scrub itself failed or was not complete, 16
//! wrong usage, 32 cancelled.

use super::mount_table::whole_mount;
use super::output::{self, Failure, Outcome, Progress};
use super::{scrub_server, size};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const DAMAGED: u8 = 4;
const FAILED: u8 = 8;
const CANCELLED: u8 = 32;
/// Interval at which the server is polled.
const INTERVAL: Duration = Duration::from_millis(200);

/// Verify all contents of a mounted volume.
///
/// Every live block is read from the device and compared with its checksum, and the tree,
/// its pointers and its accounts are checked, while the volume is in service. Programs
/// that use it have priority. Ctrl-C ends it.
#[derive(clap::Args)]
pub struct Scrub {
    /// The directory on which a volume is mounted.
    directory: PathBuf,
    /// Most bytes read per second; 0 for no limit.
    #[arg(long, default_value = "200M", value_parser = size::parse)]
    rate: u64,
    /// Make the volume read-only for damaged data, too. Damaged metadata always does.
    #[arg(long)]
    strict: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Only print the state of the running scrub, or of the last one.
    #[arg(long, conflicts_with_all = ["strict", "cancel"])]
    status: bool,
    /// End the running scrub.
    #[arg(long, conflicts_with = "strict")]
    cancel: bool,
}

impl Scrub {
    pub fn run(self) -> Outcome {
        if !self.directory.is_dir() {
            let shown = self.directory.display();
            let text = format_args!(
                "{shown} is no directory; a volume that is not mounted is checked by \
                 `varve fsck --data {shown}`"
            );
            return Err(Failure::new(FAILED, text));
        }
        if self.cancel {
            self.ask(&json!({"cancel": true}))?;
            return Ok(0);
        }
        if self.status {
            let status = self.ask(&json!({"status": 0}))?;
            if status["number"].is_null() {
                let text = "nothing has been scrubbed since the volume was mounted";
                return Err(Failure::new(FAILED, text));
            }
            return self.tell(&status);
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        varve_fuse::signals::note_termination(&interrupted).map_err(Failure::with(FAILED))?;
        let start = json!({"start": {"rate": self.rate, "strict": self.strict}});
        let number = self.ask(&start)?["number"].clone();
        let progress = Progress::bytes("scrubbing");
        loop {
            if interrupted.swap(false, Relaxed) {
                self.ask(&json!({"cancel": true}))?;
            }
            let status = self.ask(&json!({"status": 0}))?;
            if status["number"] != number {
                let text = "another scrub has begun since: this one's result is gone";
                return Err(Failure::new(FAILED, text));
            }
            if status["state"] != "running" {
                progress.finish();
                return self.tell(&status);
            }
            let p = &status["progress"];
            let stage = p["stage"].as_str().unwrap_or_default().to_owned();
            progress.say(&stage);
            let count = |name: &str| p[name].as_u64().unwrap_or(0);
            progress.at(count("done"), count("total"));
            std::thread::sleep(INTERVAL);
        }
    }

    fn ask(&self, question: &Value) -> Result<Value, Failure> {
        whole_mount(&self.directory, "a scrub").map_err(Failure::with(FAILED))?;
        let asked = varve_fuse::ask(&self.directory, &question.to_string());
        let answer = asked.map_err(|error| {
            let shown = self.directory.display();
            let code = error
                .raw_os_error()
                .map(rustix::io::Errno::from_raw_os_error);
            use rustix::io::Errno;
            let text = match code {
                Some(Errno::NOTTY) => format!(
                    "{shown} has a layout that cannot be scrubbed while it is mounted; unmount it \
                     and check it by `varve fsck --data`"
                ),
                Some(Errno::PERM) => {
                    format!("only root and whoever mounted {shown} may scrub it")
                }
                Some(Errno::BUSY) => format!(
                    "a scrub of {shown} is running; `varve scrub --status {shown}` tells how far \
                     it is, --cancel ends it"
                ),
                _ => format!("cannot ask {shown}: {error}"),
            };
            Failure::new(FAILED, text)
        })?;
        let answer: Value = serde_json::from_str(&answer).map_err(Failure::with(FAILED))?;
        match answer["refused"].as_str() {
            Some(why) => {
                let shown = self.directory.display();
                Err(Failure::new(FAILED, format_args!("{shown}: {why}")))
            }
            None => Ok(answer),
        }
    }

    /// Fetches all findings, page by page, and prints them.
    fn tell(&self, status: &Value) -> Outcome {
        let mut whole = status.clone();
        let mut items = Vec::new();
        let mut page = status.clone();
        loop {
            items.extend(page["items"].as_array().cloned().unwrap_or_default());
            match page["next"].as_u64() {
                None => break,
                Some(next) => page = self.ask(&json!({"status": next}))?,
            }
        }
        scrub_server::assemble(&mut whole, items);
        match self.json {
            true => output::json(&whole),
            false => print(&whole),
        }
        Ok(match whole["outcome"].as_str() {
            _ if whole["found"].as_u64().unwrap_or(0) > 0 => DAMAGED,
            Some("complete") => 0,
            Some("cancelled") => CANCELLED,
            // Still running, or not everything could be compared.
            _ if whole["state"] == "running" => 0,
            _ => FAILED,
        })
    }
}

fn print(status: &Value) {
    let list = |name: &str| status[name].as_array().cloned().unwrap_or_default();
    for (name, word) in [("errors", "error"), ("warnings", "warning")] {
        for finding in list(name) {
            let text = finding["shown"].as_str().unwrap_or_default();
            output::line(format_args!("{word}: {text}"));
        }
    }
    for file in list("files") {
        let inode = file["inode"].as_u64().unwrap_or(0);
        let shown = match file["path"].as_str() {
            Some(path) => format!("{path} (inode {inode})"),
            None => format!("inode {inode}"),
        };
        for range in file["ranges"].as_array().into_iter().flatten() {
            let number = |name: &str| range[name].as_u64().unwrap_or(0);
            let (offset, end) = (number("offset"), number("offset") + number("length"));
            let problem = range["problem"].as_str().unwrap_or_default();
            output::line(format_args!(
                "bad data: {shown}: bytes {offset} to {}: {problem}",
                end.saturating_sub(1)
            ));
        }
    }
    let p = &status["progress"];
    let count = |name: &str| p[name].as_u64().unwrap_or(0);
    let seconds = count("elapsed_ns") as f64 / 1e9;
    output::line(format_args!(
        "{} inodes, {} directories, {} of data verified in {seconds:.1} s; {} found",
        count("inodes"),
        count("directories"),
        size::show(count("data_bytes")),
        match status["found"].as_u64().unwrap_or_else(|| count("errors")) {
            0 => "no damage".into(),
            1 => "1 damage".into(),
            found => format!("{found} damages"),
        }
    ));
    let note = match (status["state"].as_str(), status["outcome"].as_str()) {
        (Some("running"), _) => "still running",
        (_, Some("cancelled")) => "cancelled: not everything was looked at",
        (_, Some("unsettled")) => {
            "the volume was too short of room to compare names, links and accounts; run \
             `varve fsck` once it is unmounted"
        }
        _ => "",
    };
    if !note.is_empty() {
        output::line(note);
    }
    if let Some(reason) = status["read_only"].as_str() {
        output::line(format_args!("the volume takes no more changes: {reason}"));
    }
}
