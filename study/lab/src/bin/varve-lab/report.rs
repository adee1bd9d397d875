//! `varve lab report`: all results as one page.

use std::path::PathBuf;
use varve_console::output::{self, Failure, Outcome};

/// Make one page of HTML of all results in a directory.
///
/// The page holds everything: pictures, verdicts beside what the papers state,
/// the data to save. It loads nothing and needs no script.
#[derive(clap::Args)]
pub struct Report {
    /// Where `varve lab run` put its results.
    #[arg(value_name = "DIR", default_value = "lab")]
    directory: PathBuf,
    /// Where the page goes; DIR/report.html by default.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Report {
    pub fn run(self) -> Outcome {
        let page = varve_lab::page::page(&self.directory).map_err(Failure::with(1))?;
        let out = self
            .out
            .unwrap_or_else(|| self.directory.join("report.html"));
        std::fs::write(&out, page)
            .map_err(|error| Failure::new(1, format_args!("{}: {error}", out.display())))?;
        output::line(format_args!("{}", out.display()));
        Ok(0)
    }
}
