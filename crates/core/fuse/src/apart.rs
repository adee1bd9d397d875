//! Threads that do not keep their own connection open.
//!
//! The kernel answers some calls on a mount only when the server has answered
//! the kernel: statfs(2), syncfs(2), also umount(2), which writes back first.
//! A server that makes such a call itself waits for its own threads. If it is
//! killed then, these are gone, but the wait cannot be interrupted; it would
//! end when the kernel cuts the connection, which it does when the last
//! descriptor of it is closed; and that stays open for as long as any thread
//! shares the descriptors. What is left is a process that cannot be killed and
//! a mount that answers nobody.
//!
//! So such calls are made by a thread with descriptors of its own, and the
//! connection is not among them.

use crate::sys;
use std::io;

/// Runs `work` on a thread of its own, which has no descriptors but the
/// standard streams, and waits for it.
///
/// # Errors
/// Those of `work`, and if no thread can be started.
pub(crate) fn run<R: Send>(work: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("varve-apart".into())
            .spawn_scoped(scope, || {
                if let Err(error) = sys::leave_descriptors() {
                    // Before Linux 5.9: then a kill can leave a dead mount.
                    tracing::debug!(%error, "descriptors stay shared");
                }
                work()
            })?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Keeps this process's descriptors, but for the standard streams, from all
/// programs that it starts from now on: also those it inherited itself, which
/// their makers may not have marked. A server that stays would hold on to
/// locks and pipes of whoever started it.
///
/// # Errors
/// ENOSYS or EINVAL before Linux 5.11.
pub fn pass_on_no_descriptors() -> io::Result<()> {
    sys::pass_on_no_descriptors()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn descriptors_are_left_and_others_keep_them() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let seen = run(|| {
            writer.write_all(b"x").unwrap_err();
            std::fs::read_dir("/proc/thread-self/fd").map(Iterator::count)
        });
        // The streams, as far as they are open, and that of the listing.
        assert!(seen.unwrap() <= 4);
        writer.write_all(b"y").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "y");
    }
}
