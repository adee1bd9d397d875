//! A mount served by a process of its own: for tests that signal or kill the
//! server, and for maps. A process must not map files it serves itself: the
//! kernel writes pages back while it holds the map's lock, and the serving
//! threads need that lock to allocate memory.
//!
//! The server is the test program again, whose test `server_process` calls
//! [`serve_if_asked`].

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;
use varve_fs::{Caller, InodeNo};
use varve_fuse::{MountOptions, Session, signals};

const SERVE_AT: &str = "VARVE_FUSE_TEST_SERVE_AT";
const OPTIONS: &str = "VARVE_FUSE_TEST_OPTIONS";

/// In the process that [`Server::start`] made: serves until the mount ends.
pub fn serve_if_asked() {
    let Some(at) = std::env::var_os(SERVE_AT) else {
        return;
    };
    let mut options = MountOptions::default();
    for word in std::env::var(OPTIONS).unwrap().split_whitespace() {
        assert!(options.apply(word), "{word}");
    }
    let fs = super::file_system(Default::default(), Default::default());
    let session = Session::new(std::sync::Arc::clone(&fs), &PathBuf::from(at), options).unwrap();
    let grace = Duration::from_secs(1);
    let _watch = signals::unmount_on_termination(session.unmounter(), grace).unwrap();
    println!("\nserving");
    let end = session.run().unwrap();
    if let Ok(found) = fs.lookup(&Caller::root(), InodeNo::ROOT, b"f") {
        let mut content = vec![0; found.size as usize];
        fs.read(found.ino, 0, &mut content).unwrap();
        println!("\nheld {}", digest(&content));
    }
    println!("\nended {end:?}");
}

/// Tells two contents apart (FNV-1a).
pub fn digest(content: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    content.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A server process, killed and cleared away when dropped.
pub struct Server {
    pub child: Child,
    output: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
    /// Dropped when the test is over.
    _over: Sender<()>,
}

impl Server {
    pub fn start(options: &str) -> Self {
        Self::start_as(options, None)
    }

    /// As an ordinary user, who cannot mount directly.
    pub fn start_as(options: &str, user: Option<u32>) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("varve-fuse-")
            .tempdir()
            .unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some(user) = user {
            std::os::unix::fs::chown(directory.path(), Some(user), Some(user)).unwrap();
            command.uid(user).gid(user).current_dir("/");
        }
        let mut child = command
            .args(["--exact", "server_process", "--nocapture"])
            .env(SERVE_AT, directory.path())
            .env(OPTIONS, options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Server {
            child,
            output,
            _over: super::watched(directory.path()),
            directory,
        };
        server.expect("serving");
        server
    }

    /// Waits until the server says this.
    pub fn expect(&mut self, line: &str) {
        let mut said = String::new();
        while self.output.read_line(&mut said).unwrap() > 0 {
            if said.trim() == line {
                return;
            }
            said.clear();
        }
        panic!("the server never said {line:?}");
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = varve_fuse::unmount(self.directory.path());
    }
}
