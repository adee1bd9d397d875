//! The program `varve-bench`, which `varve bench` runs: measures the library, or any
//! mounted directory.

mod bench;
mod command;

use std::process::ExitCode;
use varve_console::output;

fn main() -> ExitCode {
    output::log_to_stderr();
    match output::arguments::<command::BenchCommand>() {
        Ok(command) => output::exit(command.run()),
        Err(code) => code,
    }
}
