//! What people and scripts see: failures, JSON, logs, progress.

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Why a command failed, in one line, and its exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

/// What a command answers: its exit code.
pub type Outcome = Result<u8, Failure>;

impl Failure {
    /// A failure with this exit code.
    pub fn new(code: u8, message: impl Display) -> Self {
        // One line, whatever the message was made of.
        let message = message.to_string().replace('\n', " ");
        Failure { code, message }
    }

    /// For `map_err`: any error, with this exit code.
    pub fn with<E: Display>(code: u8) -> impl Fn(E) -> Self {
        move |error| Failure::new(code, error)
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same failure with another exit code.
    pub fn coded(self, code: u8) -> Self {
        Failure { code, ..self }
    }

    /// Prints it.
    pub fn report(&self) -> ExitCode {
        let _ = writeln!(std::io::stderr(), "varve: {}", self.message);
        ExitCode::from(self.code)
    }
}

impl From<varve::Error> for Failure {
    fn from(error: varve::Error) -> Self {
        Failure::new(1, error)
    }
}

/// Prints a line. A reader that has gone away (`| head`) ends the process
/// quietly.
pub fn line(text: impl Display) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Prints JSON: indented for people, in one line for pipes.
pub fn json(value: &Value) {
    match std::io::stdout().is_terminal() {
        true => line(format_args!("{value:#}")),
        false => line(value),
    }
}

/// Sends logs to stderr, as `VARVE_LOG` or `RUST_LOG` says; warnings if
/// neither is set.
pub fn log_to_stderr() {
    let filter = ["VARVE_LOG", "RUST_LOG"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "warn".into());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // Fails only if one was set before.
    let _ = subscriber.try_init();
}

/// A bar on a terminal, nothing elsewhere.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar that counts bytes.
    pub fn bytes(what: &'static str) -> Self {
        Self::new(what, "{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}")
    }

    /// A bar that counts things.
    pub fn count(what: &'static str) -> Self {
        Self::new(what, "{msg} [{wide_bar}] {pos}/{len} {eta}")
    }

    /// A bar that counts things, whose time left is said by [`Progress::say`].
    pub fn left(what: &'static str) -> Self {
        Self::new(what, "[{wide_bar}] {pos}/{len} {msg}")
    }

    fn new(what: &'static str, template: &str) -> Self {
        // On anything but a terminal it draws nothing.
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template(template).expect("the template is ours");
        bar.set_style(style);
        bar.set_message(what);
        Progress { bar }
    }

    /// Changes what stands before the bar.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Shows how far it is.
    pub fn at(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line that changes on a terminal, nothing elsewhere.
pub struct Spinner {
    bar: ProgressBar,
}

impl Spinner {
    /// A line that begins with `what`.
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{prefix} {elapsed} {msg}");
        bar.set_style(style.expect("the template is ours"));
        bar.set_prefix(what);
        Spinner { bar }
    }

    /// Goes on with `text`.
    pub fn say(&self, text: impl Display) {
        self.bar.set_message(text.to_string());
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
