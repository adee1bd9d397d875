//! Commands that are separate programs: `varve lab` runs `varve-lab`, as git runs its
//! own. The program is searched for in the directory of `varve` first, then on PATH, so
//! that one build never runs another build's program.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use varve_console::{Failure, Outcome};

macro_rules! external {
    ($($(#[$about:meta])* $name:ident, $program:literal, $package:literal;)*) => {$(
        $(#[$about])*
        #[derive(clap::Args)]
        #[command(disable_help_flag = true)]
        pub struct $name {
            /// The arguments of the program; `--help` lists them.
            #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
            arguments: Vec<OsString>,
        }

        impl $name {
            pub fn run(self) -> Outcome {
                execute($program, $package, self.arguments)
            }
        }
    )*};
}

external! {
    /// Measure the library, or any mounted directory (the program varve-bench).
    Bench, "varve-bench", "varve-bench";
    /// Run the experiments of the laboratory, replay traces, age file systems (the
    /// program varve-lab).
    Lab, "varve-lab", "varve-lab";
    /// Put this build to the proof: crashes, faults, crafted images (the program
    /// varve-prove).
    Prove, "varve-prove", "varve-prove";
}

/// Replaces this process by the program; returns only if that is impossible.
fn execute(program: &str, package: &str, arguments: Vec<OsString>) -> Outcome {
    let own = std::env::current_exe().ok();
    let sibling = own.and_then(|own| Some(own.parent()?.join(program)));
    let found = sibling.filter(|path| path.exists());
    let path = found.map_or_else(|| program.into(), OsString::from);
    let error = Command::new(&path).args(arguments).exec();
    let text = match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "the program {program} is neither next to varve nor on PATH; \
             `cargo build --profile dist -p {package}` builds it"
        ),
        _ => format!("cannot run {}: {error}", path.display()),
    };
    Err(Failure::new(1, text))
}
