//! Runs the built binary and checks its output.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod mounted;
pub mod nbd;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The command under test.
pub const VARVE: &str = env!("CARGO_BIN_EXE_varve");

/// The result of a run.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Answer {
    pub fn from(output: Output) -> Self {
        Answer {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code, and that the output contains a text.
    #[track_caller]
    pub fn expect(self, code: i32, said: &str) -> Self {
        let found = self.out.contains(said) || self.err.contains(said);
        assert!(
            self.code == code && found,
            "want {code}, `{said}`: {self:#?}"
        );
        if code != 0 && !self.err.contains("--help") {
            // fsck prints its findings on stdout; a failure is one line.
            assert!(self.err.lines().count() <= 1, "{}", self.err);
        }
        self
    }

    /// The standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// Runs `varve` with these arguments.
pub fn varve<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Answer {
    let mut command = Command::new(VARVE);
    command
        .args(arguments)
        .env_remove("VARVE_LOG")
        .env_remove("RUST_LOG");
    Answer::from(command.output().unwrap())
}

/// All commands of the program, with their groups' names before them, from its help.
pub fn commands() -> Vec<String> {
    fn below(above: &[&str], found: &mut Vec<String>) {
        let help = varve([above, &["--help"]].concat()).expect(0, "Usage:").out;
        let listed = help.lines().skip_while(|line| *line != "Commands:");
        let listed = listed.skip(1).take_while(|line| !line.is_empty());
        let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names: Vec<&str> = names
            .filter(|name| !name.is_empty() && *name != "help")
            .collect();
        if names.is_empty() {
            found.push(above.join(" "));
        }
        for name in names {
            below(&[above, &[name]].concat(), found);
        }
    }
    let mut found = Vec::new();
    below(&[], &mut found);
    found
}

/// Unmounts `dir`. Other tests of this process start programs, which have copies of all
/// its open files from fork to exec, even of those closed meanwhile: the command tries a
/// busy mount again.
#[track_caller]
pub fn umount(dir: &str) {
    varve(["umount", dir]).expect(0, "");
}

/// Runs a shell script; `-e` is set. It must succeed.
#[track_caller]
pub fn shell(script: &str) -> String {
    let output = Command::new("bash")
        .args(["-e", "-u", "-o", "pipefail", "-c", script])
        .output()
        .unwrap();
    let answer = Answer::from(output);
    assert!(answer.code == 0, "{script}\n{}\n{}", answer.out, answer.err);
    answer.out
}

/// True if the program can be found.
pub fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).exists())
}

/// A directory that is removed at the end.
pub struct Scratch {
    pub dir: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Scratch {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path in it, as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A new volume of `size`, made by the command.
    pub fn volume(&self, name: &str, size: &str) -> String {
        let image = self.text(name);
        varve(["mkfs", &image, "--size", size]).expect(0, "segments");
        image
    }
}
