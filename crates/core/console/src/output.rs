//! Output for people and scripts: failures, JSON, logs, progress.
//!
//! All output passes through this module, which escapes control characters (`visible`):
//! names, labels and hosts may have been written to a volume by another user.

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// The failure of a command: a message in one line, and the exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

/// The result of a command: its exit code, or its failure.
pub type Outcome = Result<u8, Failure>;

impl Failure {
    /// Creates a failure with this exit code.
    pub fn new(code: u8, message: impl Display) -> Self {
        // The message is one line, even if a part of it has several.
        let message = message.to_string().replace('\n', " ");
        Failure { code, message }
    }

    /// Returns a function for `map_err` that gives any error this exit code.
    pub fn with<E: Display>(code: u8) -> impl Fn(E) -> Self {
        move |error| Failure::new(code, error)
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the same failure with another exit code.
    pub fn coded(self, code: u8) -> Self {
        Failure { code, ..self }
    }

    /// Prints the failure to the standard error, and returns its exit code.
    pub fn report(&self) -> ExitCode {
        note(format_args!("varve: {}", self.message));
        ExitCode::from(self.code)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    /// Converts an error into a failure with exit code 1 and the error's message.
    fn from(error: E) -> Self {
        Failure::new(1, error)
    }
}

/// Returns true for a character that controls a terminal, or that changes the order or
/// the lines of text: controls, line separators, direction marks, invisible tags.
fn is_control(c: char) -> bool {
    let format = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    (c.is_control() && c != '\t') || format
}

/// Escapes control characters as `\n`, `\x1b` or `\u{202e}`, so that no name becomes a
/// command to the terminal or a line of its own.
fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_control(c) => shown.push(c),
            '\n' => shown += "\\n",
            '\r' => shown += "\\r",
            c if c.is_ascii() => shown += &format!("\\x{:02x}", u32::from(c)),
            c => shown += &format!("\\u{{{:x}}}", u32::from(c)),
        }
    }
    shown.into()
}

/// Returns an argument in a form that messages may show.
pub fn argument(given: &OsStr) -> OsString {
    match given.to_str() {
        Some(text) => visible(text).into_owned().into(),
        None => given.as_bytes().escape_ascii().to_string().into(),
    }
}

/// Parses the arguments of this process. An error is printed, with the arguments that
/// it repeats escaped.
///
/// # Errors
/// The exit code: 2 for wrong usage, success after `--help` and `--version`.
pub fn arguments<P: clap::Parser>() -> Result<P, ExitCode> {
    let given: Vec<OsString> = std::env::args_os().collect();
    P::try_parse_from(&given).map_err(|error| {
        if !error.use_stderr() {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let shown = given.iter().map(|given| argument(given));
        let error = P::try_parse_from(shown).err().unwrap_or(error);
        notes(error.render().to_string().trim_end());
        ExitCode::from(2)
    })
}

/// Ends a program with the result of its command; a failure is printed.
pub fn exit(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}

/// Prints a line. If the reader of the pipe has ended (`| head`), the process exits
/// quietly.
pub fn line(text: impl Display) {
    if writeln!(io::stdout(), "{}", visible(&text.to_string())).is_err() {
        std::process::exit(0);
    }
}

/// Prints text of several lines. A newline in a name must already be escaped.
pub fn lines(text: impl Display) {
    text.to_string().split('\n').for_each(line);
}

/// Prints a line to the standard error.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", visible(&text.to_string()));
}

/// Prints text of several lines to the standard error.
pub fn notes(text: impl Display) {
    text.to_string().split('\n').for_each(note);
}

/// True if the standard output is a terminal.
pub fn is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// The standard output for the content of a file, which is not escaped.
pub fn content() -> impl std::io::Write {
    std::io::stdout().lock()
}

/// Prints JSON: indented on a terminal, in one line otherwise.
pub fn json(value: &Value) {
    let text = match io::stdout().is_terminal() {
        true => format!("{value:#}"),
        false => value.to_string(),
    };
    lines(visible_json(&text));
}

/// Escapes the control characters that JSON permits unescaped in its strings.
fn visible_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_control(c) && c != '\n' {
            true => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter();
                units.for_each(|unit| shown += &format!("\\u{unit:04x}"));
            }
            false => shown.push(c),
        }
    }
    shown
}

/// The writer for logs: an event is a line.
struct Log;

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        note(text.strip_suffix('\n').unwrap_or(&text));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends logs to stderr, filtered as `VARVE_LOG` or `RUST_LOG` says; warnings if
/// neither is set.
pub fn log_to_stderr() {
    let filter = ["VARVE_LOG", "RUST_LOG"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "warn".into());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(|| Log)
        .with_ansi(false)
        .with_target(false);
    // This fails only if a subscriber was set before.
    let _ = subscriber.try_init();
}

/// A progress bar on a terminal, and no output elsewhere.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a bar that counts bytes.
    pub fn bytes(what: &'static str) -> Self {
        Self::new(what, "{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}")
    }

    /// Creates a bar that counts items.
    pub fn count(what: &'static str) -> Self {
        Self::new(what, "{msg} [{wide_bar}] {pos}/{len} {eta}")
    }

    /// Creates a bar that counts items and shows a text of [`Progress::say`] in place
    /// of the remaining time.
    pub fn left(what: &'static str) -> Self {
        Self::new(what, "[{wide_bar}] {pos}/{len} {msg}")
    }

    fn new(what: &'static str, template: &str) -> Self {
        // The bar draws nothing unless the output is a terminal.
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template(template).expect("the template is ours");
        bar.set_style(style);
        bar.set_message(what);
        Progress { bar }
    }

    /// Changes the text of the bar.
    pub fn say(&self, what: &str) {
        self.bar.set_message(visible(what).into_owned());
    }

    /// Shows the progress: `done` of `total`.
    pub fn at(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line that changes on a terminal, and no output elsewhere.
pub struct Spinner {
    bar: ProgressBar,
}

impl Spinner {
    /// Creates a line that begins with `what`.
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{prefix} {elapsed} {msg}");
        bar.set_style(style.expect("the template is ours"));
        bar.set_prefix(what);
        Spinner { bar }
    }

    /// Replaces the end of the line by `text`.
    pub fn say(&self, text: impl Display) {
        self.bar
            .set_message(visible(&text.to_string()).into_owned());
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_commands_a_terminal_is_escaped() {
        let name = "a\x1b[31m\u{9b}0m\r\n\x07\x7f\u{202e}\u{2028}é\u{301}\t\\";
        let shown = r"a\x1b[31m\u{9b}0m\r\n\x07\x7f\u{202e}\u{2028}";
        assert_eq!(visible(name), format!("{shown}é\u{301}\t\\"));
        let json = serde_json::json!({ "name": name, "tag": "\u{e0041}" });
        for text in [json.to_string(), format!("{json:#}")] {
            let escaped = visible_json(&text);
            assert!(!escaped.replace('\n', "").contains(is_control), "{escaped}");
            assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), json);
        }
    }

    /// Files that print without this module, each with the reason.
    const ALLOWED: [(&str, &str); 7] = [
        ("src/output.rs", "this module"),
        (
            "cli/daemon.rs",
            "fixed words, to the process that waits for them",
        ),
        ("cli/ship.rs", "a stream, for a program"),
        ("cli/tp/dump.rs", "bytes that are encoded"),
        ("cli/top/mod.rs", "asks what it is"),
        ("varve-lab/run.rs", "asks what it is"),
        ("cli/umount.rs", "what another of this program has printed"),
    ];

    fn look(directory: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look(&path, found);
                continue;
            }
            let shown = path.to_str().unwrap();
            if ALLOWED.iter().any(|(allowed, _)| shown.ends_with(allowed)) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let prints = ["print!(", "println!(", "io::stdout()", "io::stderr()"];
            let lines = text.lines().filter(|line| !line.trim().starts_with("//"));
            let lines = lines.filter(|line| prints.iter().any(|word| line.contains(word)));
            found.extend(lines.map(|line| format!("{shown}: {line}")));
        }
    }

    #[test]
    fn nothing_is_printed_past_this_module() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = own
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").exists())
            .unwrap();
        let mut found = Vec::new();
        for programs in [
            "crates/core/console/src",
            "crates/core/cli/src",
            "study/lab/src/bin",
            "study/bench/src",
            "proof/prove/src/bin",
        ] {
            look(&root.join(programs), &mut found);
        }
        // The help that clap prints in colours contains none of the arguments.
        assert!(found.is_empty(), "{found:#?}");
    }
}
