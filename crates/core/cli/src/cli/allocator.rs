//! Settings of the C library's allocator for a server.
//!
//! Left to itself, glibc gives each of a server's threads a heap of its own,
//! keeps what they free, and takes ever larger blocks from these heaps. A
//! server of `--cache 16M` that is entitled to 80 MiB then grows to 145. These
//! settings are read when a program starts, so it has to be started with them.
//! Other C libraries ignore them.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Variables of mallopt(3). What the user has set stays.
const SETTINGS: [(&str, &str); 3] = [
    // Heaps; small blocks are mostly taken from a thread's own store.
    ("MALLOC_ARENA_MAX", "2"),
    // From so many bytes on, a block is a map of its own, and given back.
    ("MALLOC_MMAP_THRESHOLD_", "262144"),
    // So many free bytes at a heap's end are given back.
    ("MALLOC_TRIM_THRESHOLD_", "4194304"),
];

fn missing() -> impl Iterator<Item = (&'static str, &'static str)> {
    let unset = |(name, _): &(&str, &str)| std::env::var_os(name).is_none();
    SETTINGS.into_iter().filter(unset)
}

/// Gives `command` the settings.
pub fn settle(command: &mut Command) {
    command.envs(missing());
}

/// Starts this program anew, in this process, if it lacks the settings. If that
/// fails, it goes on without.
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
