//! Settings of the C library's allocator for a server.
//!
//! By default glibc gives each of a server's threads a heap of its own, keeps the memory
//! that they free, and takes ever larger blocks from these heaps. A server with `--cache
//! 16M`, which may use 80 MiB, then grows to 145. The settings are read when a program
//! starts, so it has to be started with them. Other C libraries ignore them.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Variables of mallopt(3). Values set by the user are kept.
const SETTINGS: [(&str, &str); 3] = [
    // Number of heaps; small blocks are mostly taken from a thread's own cache.
    ("MALLOC_ARENA_MAX", "2"),
    // Bytes from which on a block is a mapping of its own, and is unmapped when freed.
    ("MALLOC_MMAP_THRESHOLD_", "262144"),
    // Free bytes at a heap's end beyond which they are returned.
    ("MALLOC_TRIM_THRESHOLD_", "4194304"),
];

fn missing() -> impl Iterator<Item = (&'static str, &'static str)> {
    let unset = |(name, _): &(&str, &str)| std::env::var_os(name).is_none();
    SETTINGS.into_iter().filter(unset)
}

/// Adds the settings to the environment of `command`.
pub fn settle(command: &mut Command) {
    command.envs(missing());
}

/// Executes this program again, in this process, if it lacks the settings. If that fails,
/// the program continues without them.
pub fn settle_self() {
    if missing().next().is_none() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut again = Command::new(program);
    let mut arguments = std::env::args_os();
    if let Some(name) = arguments.next() {
        again.arg0(name); // it may be called as `mount.varve`
    }
    settle(&mut again);
    let error = again.args(arguments).exec();
    tracing::debug!(%error, "not started anew");
}
