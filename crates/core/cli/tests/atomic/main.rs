//! Atomic writes on a mount with `-o atomic`: their ioctls, used rightly and wrongly
//! (`ioctls.rs`), random operations beside a model (`model.rs`), and a SQLite that
//! leaves its journal out (`sqlite.rs`).
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

#[path = "../../../fuse/tests/support/ioctls.rs"]
mod call;
#[path = "../../../fuse/tests/support/map.rs"]
mod map;
#[path = "../support/mod.rs"]
mod support;

mod ioctls;
mod model;
mod sqlite;

use rustix::io::Errno;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use support::Scratch;
use support::mounted::{Mount, no_fuse};

const START: u32 = 1;
const COMMIT: u32 = 2;
const ABORT: u32 = 5;

/// A mount on which files are written atomically; nothing, loudly, where nobody can
/// mount.
fn mount() -> Option<Mount> {
    mount_with("64M", "atomic")
}

fn mount_with(size: &str, options: &str) -> Option<Mount> {
    if no_fuse() {
        return None;
    }
    let scratch = Scratch::new();
    let image = scratch.volume("image", size);
    Some(Mount::with_options(
        scratch,
        image,
        &format!("{options},cache=64M"),
    ))
}

fn open(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

#[track_caller]
fn call(file: &File, number: u32) {
    assert_eq!(call::atomic(file, number), Ok(()), "ioctl {number}");
}

/// This program once more, as another process: it does what it is told line by line.
struct Helper {
    process: Child,
    tell: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
}

impl Helper {
    /// One that runs the ignored test `role`, with this argument.
    fn new(role: &str, argument: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                role,
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("VARVE_TEST_HELPER", argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tell = process.stdin.take();
        let hear = BufReader::new(process.stdout.take().unwrap());
        Helper {
            process,
            tell,
            hear,
        }
    }

    /// The next answer; none once it has ended.
    fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.hear.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            // The test harness talks, too, and not only in lines of its own.
            if let Some((_, answer)) = line.rsplit_once('>') {
                return Some(answer.trim().to_owned());
            }
        }
    }

    #[track_caller]
    fn ask(&mut self, what: &str) -> String {
        let tell = self.tell.as_mut().unwrap();
        writeln!(tell, "{what}").unwrap();
        self.hear().expect("an answer")
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.tell.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// In a helper: its argument, unless it is a test run that asked for all that is
/// ignored.
fn helper_argument() -> Option<std::path::PathBuf> {
    std::env::var_os("VARVE_TEST_HELPER").map(Into::into)
}

fn answer(text: &str) {
    println!(">{text}");
    std::io::stdout().flush().unwrap();
}

/// A process that opens a file and calls ioctls by their numbers, or writes (`w BYTE
/// OFFSET LENGTH`).
#[test]
#[ignore = "started by others"]
fn caller() {
    use std::os::unix::fs::FileExt;
    let Some(path) = helper_argument() else {
        return;
    };
    let file = open(&path);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let said = match words[..] {
            ["w", byte, offset, length] => {
                let bytes = vec![byte.as_bytes()[0]; length.parse().unwrap()];
                let written = file.write_all_at(&bytes, offset.parse().unwrap());
                written.map_or_else(|e| e.to_string(), |()| "ok".into())
            }
            [number] => match call::atomic(&file, number.parse().unwrap()) {
                Ok(()) => "ok".into(),
                Err(error) => error.raw_os_error().to_string(),
            },
            _ => panic!("{line}"),
        };
        answer(&said);
    }
}

fn code(error: Errno) -> String {
    error.raw_os_error().to_string()
}
