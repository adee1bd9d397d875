//! `varve lab`: the experiments of the laboratory.

mod list;
mod replay;
mod report;
mod run;

use super::ageing::Age;
use super::output::Outcome;
use clap::Subcommand;

/// Run the experiments of the laboratory, replay traces through it, age file systems.
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
    Age(Box<Age>),
}

impl Lab {
    pub fn run(self) -> Outcome {
        match self.command {
            LabCommand::List(command) => Ok(command.run()),
            LabCommand::Run(command) => command.run(),
            LabCommand::Replay(command) => command.run(),
            LabCommand::Report(command) => command.run(),
            LabCommand::Age(command) => command.run(),
        }
    }
}
