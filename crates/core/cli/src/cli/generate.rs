//! Manual pages and completions, generated from the definitions of the command line.

use super::output::{Failure, Outcome};
use super::{Cli, helpers};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use varve_fsck::inspect::utc;

/// Write the manual pages below a directory: varve(1) and one page for each
/// command, and those of the helpers, such as mount.varve(8).
#[derive(clap::Args)]
pub struct Manual {
    /// The target directory, for example /usr/local/share/man; man1 and man8 are made
    /// there.
    directory: PathBuf,
}

impl Manual {
    pub fn run(self) -> Outcome {
        let mut cli = Cli::command().disable_help_subcommand(true);
        cli.build();
        let written = commands(&cli, &self.directory.join("man1"))
            .and_then(|()| of_helpers(&self.directory.join("man8")));
        written.map_err(|error| {
            let shown = self.directory.display();
            let text = format_args!("cannot write manual pages to {shown}: {error}");
            Failure::new(1, text)
        })?;
        Ok(0)
    }
}

/// Writes one page for a command, and one for each subcommand.
fn commands(command: &Command, directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let shown = |below: &&Command| !below.is_hide_set();
    let below: Vec<&Command> = command.get_subcommands().filter(shown).collect();
    below.iter().try_for_each(|c| commands(c, directory))?;
    let mut parts = Vec::new();
    let man = Man::new(command.clone());
    if !below.is_empty() {
        man.render_subcommands_section(&mut parts)?;
    }
    page(command, 1, &parts, directory)
}

fn of_helpers(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let more = [
        include_str!("../../assets/man/mount.varve"),
        include_str!("../../assets/man/fsck.varve"),
        include_str!("../../assets/man/mkfs.varve"),
    ];
    let pages = helpers::commands().into_iter().zip(more);
    pages
        .into_iter()
        .try_for_each(|(command, more)| page(&command, 8, more.as_bytes(), directory))
}

/// Writes a page: the command's definition, and `more`.
fn page(command: &Command, section: u32, more: &[u8], directory: &Path) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let man = Man::new(command.clone());
    let (title, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    text.extend(more);
    let text = String::from_utf8_lossy(&text);
    // Some checkers warn of an empty line between line breaks.
    let text = text.replace("\n.br\n\n.br\n", "\n.sp\n");
    let source = format!("\"varve {version}\" \"Varve\"");
    let head = format!(".TH \"{title}\" \"{section}\" \"{}\" {source}\n", date());
    std::fs::write(directory.join(format!("{name}.{section}")), head + &text)
}

/// Today's date, or that of `SOURCE_DATE_EPOCH`, so that a build is reproducible.
fn date() -> String {
    let wanted = std::env::var("SOURCE_DATE_EPOCH").ok();
    let wanted = wanted.and_then(|seconds| seconds.parse::<u64>().ok());
    let now = || UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let ns = i64::try_from(wanted.unwrap_or_else(now).saturating_mul(1_000_000_000));
    utc(ns.unwrap_or(0)).split(' ').take(1).collect()
}

/// Print a script with which a shell completes commands and options.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "varve", &mut script);
        let script = String::from_utf8_lossy(&script);
        script.lines().for_each(super::output::line);
        Ok(0)
    }
}
