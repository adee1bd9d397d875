//! The program `varve-lab`, which `varve lab` runs: the experiments of the laboratory.

mod age;
mod list;
mod replay;
mod report;
mod run;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use varve_console::output;

/// Run the experiments of the laboratory, replay traces through it, age file systems.
#[derive(Parser)]
#[command(
    name = "varve-lab",
    bin_name = "varve lab",
    version,
    arg_required_else_help = true
)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::List),
    Run(run::Run),
    Replay(replay::Replay),
    Report(report::Report),
    Age(Box<age::Age>),
}

fn main() -> ExitCode {
    output::log_to_stderr();
    let lab: Lab = match output::arguments() {
        Ok(lab) => lab,
        Err(code) => return code,
    };
    output::exit(match lab.command {
        Command::List(command) => Ok(command.run()),
        Command::Run(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Age(command) => command.run(),
    })
}
