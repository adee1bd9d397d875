//! Manual pages and completions, from the definitions of the command line.

use super::Cli;
use super::output::{Failure, Outcome};
use clap::CommandFactory;
use std::path::PathBuf;

/// Write the manual pages into a directory: varve(1) and one page for each
/// command.
#[derive(clap::Args)]
pub struct Manual {
    /// Where to, for example /usr/local/share/man/man1.
    directory: PathBuf,
}

impl Manual {
    pub fn run(self) -> Outcome {
        clap_mangen::generate_to(Cli::command(), &self.directory).map_err(|error| {
            let shown = self.directory.display();
            Failure::new(
                1,
                format_args!("cannot write manual pages to {shown}: {error}"),
            )
        })?;
        Ok(0)
    }
}

/// Print what a shell needs to complete commands and options.
#[derive(clap::Args)]
pub struct Completions {
    /// Which shell.
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
