//! A served device, and programs that its clients need.

use super::{Answer, VARVE};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// True if one of these programs is missing: the test is skipped, loudly, and
/// fails in CI.
pub fn lack(programs: &[&str]) -> bool {
    programs
        .iter()
        .any(|program| super::mounted::lacks(program, super::has(program)))
}

/// `varve vld serve`, killed when it is dropped.
pub struct Serving {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Its first line of output.
    pub said: serde_json::Value,
}

impl Serving {
    /// Starts it with `--json` and these arguments, and waits until it serves.
    pub fn new(arguments: &[&str]) -> Self {
        let mut child = Command::new(VARVE)
            .args(["vld", "serve", "--json"])
            .args(arguments)
            .env_remove("VARVE_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        if line.is_empty() {
            let ended = child.wait_with_output().unwrap();
            panic!("{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        let said = serde_json::from_str(&line).unwrap();
        Serving {
            child,
            output,
            said,
        }
    }

    pub fn uri(&self, nth: usize) -> String {
        self.said["uris"][nth].as_str().unwrap().to_owned()
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Ends it by a signal and waits: its exit code, its last line, and the rest.
    pub fn end(mut self) -> Answer {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM).unwrap();
        let mut out = String::new();
        self.output.read_to_string(&mut out).unwrap();
        let mut err = String::new();
        let mut errors = self.child.stderr.take().unwrap();
        errors.read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Answer { code, out, err }
    }

    /// Kills it, and waits until it has ended.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
