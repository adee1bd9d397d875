//! `varve vld`: virtual log disks, and devices served over the network block
//! device protocol.

mod create;
mod info;
mod keeper;
mod medium;
mod pace;
mod serve;
mod signals;
mod statistics;

use super::output::Outcome;
use clap::Subcommand;

/// Virtual log disks: a written block is placed near the head.
#[derive(clap::Args)]
pub struct Vld {
    #[command(subcommand)]
    command: VldCommand,
}

#[derive(Subcommand)]
enum VldCommand {
    Create(create::Create),
    Serve(Box<serve::Serve>),
    Info(info::Info),
}

impl Vld {
    pub fn run(self) -> Outcome {
        match self.command {
            VldCommand::Create(command) => command.run(),
            VldCommand::Serve(command) => command.run(),
            VldCommand::Info(command) => command.run(),
        }
    }
}
