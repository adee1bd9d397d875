//! The command line: one file per subcommand.
//!
//! Exit codes are those of the standard commands: mount(8) for `mount` and `umount`,
//! fsck(8) for `fsck`; elsewhere 0 is success, 1 failure, 2 wrong usage. A failure is one
//! line on stderr: the object, the cause, the next step.

mod allocator;
mod archive;
mod calls;
mod cleaner;
mod cleaner_server;
mod coalesce;
mod daemon;
mod dump;
#[cfg(test)]
mod earned;
mod exporter;
mod external;
mod ffs;
mod free_map;
mod fsck;
mod generate;
mod helpers;
mod info;
mod mkfs;
mod mount;
mod mount_options;
mod mount_table;
mod prometheus;
mod protect;
mod reception;
mod remounts;
mod rename;
mod replay;
mod resize;
mod resize_server;
mod salvage;
mod scan;
mod scrub;
mod scrub_server;
mod server;
mod ship;
mod ship_server;
#[cfg(test)]
mod shown;
mod snapshot;
mod stats;
mod top;
mod top_server;
mod tp;
mod tune;
mod txn;
mod txn_server;
mod umount;
mod users;
mod utilisation;
mod vld;
mod vlfs;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use varve_console::{output, size};

/// A log-structured file system.
#[derive(Parser)]
#[command(name = "varve", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Mkfs(mkfs::Mkfs),
    Mount(mount::Mount),
    Umount(umount::Umount),
    Info(info::Info),
    Dump(dump::Dump),
    Fsck(fsck::Fsck),
    Salvage(salvage::Salvage),
    Tune(tune::Tune),
    Resize(resize::Resize),
    Snapshot(snapshot::Snapshot),
    Diff(snapshot::diff::Diff),
    Undelete(snapshot::undelete::Undelete),
    Versions(snapshot::versions::Versions),
    Rollback(snapshot::rollback::Rollback),
    Archive(archive::Archive),
    Tar(scan::tar::Tar),
    Cp(scan::cp::Cp),
    Send(snapshot::send::Send),
    Receive(snapshot::receive::Receive),
    Ship(ship::Ship),
    Replay(replay::Replay),
    Scrub(scrub::Scrub),
    Cleaner(cleaner::Cleaner),
    Stats(stats::Stats),
    Top(top::Top),
    Coalesce(coalesce::Coalesce),
    Protect(protect::Protect),
    Rename(rename::Rename),
    Txn(txn::Txn),
    Bench(external::Bench),
    Lab(external::Lab),
    Tp(tp::Tp),
    Vld(vld::Vld),
    Manual(generate::Manual),
    Completions(generate::Completions),
    Prove(external::Prove),
}

/// Runs the command of the arguments.
pub fn main() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().collect();
    let (command, arguments) = match helpers::parse(given.clone()) {
        Ok(parsed) => parsed,
        Err((error, usage)) => {
            if error.use_stderr() {
                refuse(error, given);
                return ExitCode::from(usage);
            }
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    output::log_to_stderr();
    let result = match command {
        Command::Mkfs(command) => command.run(),
        Command::Mount(command) => command.run(&arguments),
        Command::Umount(command) => command.run(),
        Command::Info(command) => command.run(),
        Command::Dump(command) => command.run(),
        Command::Fsck(command) => command.run(),
        Command::Salvage(command) => command.run(),
        Command::Tune(command) => command.run(),
        Command::Resize(command) => command.run(),
        Command::Snapshot(command) => command.run(),
        Command::Diff(command) => command.run(),
        Command::Undelete(command) => command.run(),
        Command::Versions(command) => command.run(),
        Command::Rollback(command) => command.run(),
        Command::Archive(command) => command.run(),
        Command::Tar(command) => command.run(),
        Command::Cp(command) => command.run(),
        Command::Send(command) => command.run(),
        Command::Receive(command) => command.run(),
        Command::Ship(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Scrub(command) => command.run(),
        Command::Cleaner(command) => command.run(),
        Command::Stats(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Coalesce(command) => command.run(),
        Command::Protect(command) => command.run(),
        Command::Rename(command) => command.run(),
        Command::Txn(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Lab(command) => command.run(),
        Command::Tp(command) => command.run(),
        Command::Vld(command) => command.run(),
        Command::Manual(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Prove(command) => command.run(),
    };
    output::exit(result)
}

/// Prints the error of the arguments, in which they are repeated: escaped.
fn refuse(error: clap::Error, given: Vec<OsString>) {
    let shown = given
        .into_iter()
        .map(|argument| output::argument(&argument));
    let error = helpers::parse(shown.collect()).map_or_else(|(error, _)| error, |_| error);
    output::notes(error.render().to_string().trim_end());
}
