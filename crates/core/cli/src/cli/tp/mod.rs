//! `varve tp`: record stores with transactions (`docs/guide/records.md`).

mod bench;
mod check;
mod copies;
mod dump;
mod init;
mod load;
mod place;
mod text;

use super::output::Outcome;
use clap::Subcommand;

/// Make, fill, check and measure record stores with transactions: environments of
/// varve-tp, in a directory of the host or of a volume.
#[derive(clap::Args)]
pub struct Tp {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Init(init::Init),
    Load(load::Load),
    Dump(dump::Dump),
    Verify(check::Verify),
    Recover(check::Recover),
    Stats(check::Stats),
    Bench(bench::Bench),
    Backup(copies::Backup),
    Follow(copies::Follow),
    Restore(copies::Restore),
}

impl Tp {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Init(command) => command.run(),
            Action::Load(command) => command.run(),
            Action::Dump(command) => command.run(),
            Action::Verify(command) => command.run(),
            Action::Recover(command) => command.run(),
            Action::Stats(command) => command.run(),
            Action::Bench(command) => command.run(),
            Action::Backup(command) => command.run(),
            Action::Follow(command) => command.run(),
            Action::Restore(command) => command.run(),
        }
    }
}
