//! `varve txn`: transactions for any program.

mod below;
mod held;
mod holder;
mod run;
mod view;

use super::mount_table::{self, Entry};
use super::output::{self, Failure, Outcome};
use super::size;
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Run programs in transactions of a mounted volume, and manage the transactions.
#[derive(clap::Args)]
pub struct Txn {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(run::Run),
    Shell(run::Shell),
    Begin(held::Begin),
    Commit(held::Commit),
    List(List),
    Abort(Abort),
}

impl Txn {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Run(run) => run.run(),
            Action::Shell(shell) => shell.run(),
            Action::Begin(begin) => begin.run(),
            Action::Commit(commit) => commit.run(),
            Action::List(list) => list.run(),
            Action::Abort(abort) => abort.run(),
        }
    }
}

/// Show the open transactions of programs.
#[derive(clap::Args)]
pub struct List {
    /// The directory on which a volume is mounted, or one below.
    directory: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl List {
    fn run(self) -> Outcome {
        let entry = mount_of(&self.directory).map_err(Failure::with(1))?;
        let mut answer = ask(&entry.directory, &json!({})).map_err(Failure::with(1))?;
        for one in answer["open"].as_array_mut().into_iter().flatten() {
            if let Some(state) = one["held"].as_str().and_then(held::state) {
                one["inside"] = state["inside"].clone();
                one["left_s"] = state["left_s"].clone();
            }
        }
        if self.json {
            output::json(&answer);
            return Ok(0);
        }
        let open = answer["open"].as_array().map_or(&[][..], Vec::as_slice);
        if open.is_empty() {
            output::line("no transactions");
        }
        for one in open {
            let number = |name: &str| one[name].as_u64().unwrap_or(0);
            let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            output::line(format_args!(
                "{}: {}, {:.1} s, process {} ({}), {} files changed, {}{}{}",
                number("id"),
                text("isolation"),
                number("age_ms") as f64 / 1e3,
                number("pid"),
                text("command"),
                number("files"),
                size::show(number("bytes")),
                if one["locks"] == true {
                    ", has locks of files"
                } else {
                    ""
                },
                how_held(one)
            ));
        }
        Ok(0)
    }
}

/// The name of a held transaction, the commands in it, and its remaining time.
fn how_held(one: &Value) -> String {
    let Some(name) = one["held"].as_str() else {
        return String::new();
    };
    let Some(inside) = one["inside"].as_array() else {
        // The holder of another user answers only that user.
        return format!("; held as {name}");
    };
    let inside: Vec<&str> = inside.iter().filter_map(Value::as_str).collect();
    let within = match &inside[..] {
        [] => "nobody in it".into(),
        all => format!("in it: {}", all.join(", ")),
    };
    let left = one["left_s"].as_u64();
    let left = left.map_or(String::new(), |left| format!(", ends in {left} s"));
    format!("; held as {name}, {within}{left}")
}

/// End a transaction and drop its changes.
///
/// The command that runs in it is killed, and `varve txn run` ends with 125.
#[derive(clap::Args)]
pub struct Abort {
    /// The directory on which a volume is mounted, or one below; without a number, the
    /// name of a transaction of `varve txn begin`.
    #[arg(value_name = "DIRECTORY|NAME")]
    what: PathBuf,
    /// Its number, as `varve txn list` shows it.
    number: Option<u64>,
}

impl Abort {
    fn run(self) -> Outcome {
        let Some(id) = self.number else {
            let aborted = held::abort(&self.what.to_string_lossy());
            return aborted.map(|()| 0).map_err(Failure::with(1));
        };
        let entry = mount_of(&self.what).map_err(Failure::with(1))?;
        ask(&entry.directory, &json!({ "abort": id })).map_err(Failure::with(1))?;
        Ok(0)
    }
}

/// The transactions that keep a mount from being unmounted, because they have locks of
/// its files, in words. Asks the server.
pub fn locking(root: &Path) -> Vec<String> {
    let answer = ask(root, &json!({})).unwrap_or_default();
    let open = answer["open"].as_array().into_iter().flatten();
    open.filter(|one| one["locks"] == true)
        .map(|one| {
            let command = one["command"].as_str().unwrap_or_default().escape_debug();
            let (id, pid) = (&one["id"], &one["pid"]);
            format!("transaction {id} (process {pid}, {command}, locks of files)")
        })
        .collect()
}

/// The mount that contains `directory`.
fn mount_of(directory: &Path) -> Result<Entry, String> {
    let shown = directory.display();
    if directory.exists() && !directory.is_dir() {
        return Err(format!("{shown} is no directory"));
    }
    mount_table::containing(directory)
}

/// Sends a request about its transactions to the server of a mount.
fn ask(root: &Path, asked: &Value) -> Result<Value, String> {
    use rustix::io::Errno;
    let shown = root.display();
    let question = json!({ "transactions": asked }).to_string();
    let answer = varve_fuse::ask(root, &question).map_err(|error| {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOTTY | Errno::INVAL) => {
                format!("the server of {shown} is of a version without transactions")
            }
            Some(Errno::PERM) => {
                format!("only root and whoever mounted {shown} may use transactions there")
            }
            _ => format!("cannot ask {shown}: {error}"),
        }
    })?;
    let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    match answer["refused"].as_str() {
        Some(why) => Err(format!("{shown}: {why}")),
        None => Ok(answer),
    }
}
