//! Locks. The kernel implements them; the tests check that they are allowed.

use crate::mount::{Layout, Mount, Table, file};
use crate::support::shell;
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

on_every_layout! {
    flock_is_between_open_files_and_posix_locks_between_processes,
}

/// A lock on the whole file in another process, until it is ended.
struct Other(std::process::Child);

/// Set in the process that takes a lock for a test: the file to lock.
const HOLD: &str = "VARVE_TEST_HOLD_LOCK";

impl Other {
    fn lock(path: &Path) -> Self {
        use std::io::Read;
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["locks::hold_a_lock", "--exact", "--nocapture", "--quiet"])
            .env(HOLD, path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The harness prints a text, then the process with the lock does.
        let mut said = [0];
        while said != *b"#" {
            child
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut said)
                .unwrap();
        }
        Other(child)
    }

    fn release(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// Not a test of its own: the process that [`Other`] starts.
#[test]
fn hold_a_lock() {
    let Some(path) = std::env::var_os(HOLD) else {
        return;
    };
    let file = File::options().read(true).write(true).open(path).unwrap();
    fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
    println!("#");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

fn flock_is_between_open_files_and_posix_locks_between_processes(on: Layout) {
    let Some(m) = Mount::new(on) else { return };
    let (path, mut table) = (m.path("f"), Table::default());
    let one = file(&path, b"x", 0o644);
    let two = File::options().read(true).write(true).open(&path).unwrap();
    let (exclusive, shared) = (
        FlockOperation::NonBlockingLockExclusive,
        FlockOperation::NonBlockingLockShared,
    );
    let would_block = Err(Errno::AGAIN);
    table.row("flock", flock(&one, exclusive), Ok(()));
    table.row("flock, other file", flock(&two, shared), would_block);
    let busy = shell(&format!("flock -n {} true || echo busy", path.display()));
    table.row("flock, other process", busy.trim(), "busy");
    table.row("unlock", flock(&one, FlockOperation::Unlock), Ok(()));
    table.row("flock, shared", flock(&two, shared), Ok(()));
    table.row("flock, shared too", flock(&one, shared), Ok(()));

    table.row("posix", fcntl_lock(&one, exclusive), Ok(()));
    table.row("posix, same process", fcntl_lock(&two, exclusive), Ok(()));
    table.row(
        "unlock",
        fcntl_lock(&two, FlockOperation::NonBlockingUnlock),
        Ok(()),
    );
    let other = Other::lock(&path);
    table.row(
        "posix, other process",
        fcntl_lock(&one, exclusive),
        would_block,
    );
    table.row("posix, shared", fcntl_lock(&one, shared), would_block);
    other.release();
    table.row("posix, released", fcntl_lock(&one, exclusive), Ok(()));
    table.end();
}
