//! The `varve` command.

mod cli;

use std::process::ExitCode;

// What the proof harness plants must never reach anybody's volume.
const _: () = assert!(!varve_fs::planted::COMPILED || cfg!(debug_assertions));
const _: () = assert!(!varve_device::sync::MODEL || cfg!(debug_assertions));

fn main() -> ExitCode {
    cli::main()
}
