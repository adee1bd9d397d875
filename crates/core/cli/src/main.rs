//! The `varve` command.

mod cli;

use std::process::ExitCode;

// Bugs that the proof harness plants must not be compiled into a release.
const _: () = assert!(!varve_fs::planted::COMPILED || cfg!(debug_assertions));
const _: () = assert!(!varve_device::sync::MODEL || cfg!(debug_assertions));

fn main() -> ExitCode {
    cli::main()
}
