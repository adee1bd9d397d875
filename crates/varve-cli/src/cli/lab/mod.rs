//! `varve lab`: the experiments of the laboratory.

mod list;
mod replay;
mod report;
mod run;

use super::output::Outcome;
use clap::Subcommand;

/// Run the experiments of the laboratory, and replay traces through it.
#[derive(clap::Args)]
pub struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    List(list::List),
    Run(run::Run),
    Replay(replay::Replay),
    Report(report::Report),
}

impl Lab {
    pub fn run(self) -> Outcome {
        match self.command {
            LabCommand::List(command) => Ok(command.run()),
            LabCommand::Run(command) => command.run(),
            LabCommand::Replay(command) => command.run(),
            LabCommand::Report(command) => command.run(),
        }
    }
}
