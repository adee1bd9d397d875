//! Requests over io_uring: to a thread on the CPU that asks.
//!
//! Over `/dev/fuse` a request wakes whichever thread waits longest, mostly on
//! another CPU, and that costs more than serving it. Here each CPU has a queue
//! of its own in the kernel, and a crew of threads bound to that CPU serves it
//! (see [`Crew`]). FORGET
//! and INTERRUPT, INIT before all others, and what we tell the kernel unasked
//! still go over the device.
//!
//! Once agreed on at INIT, the kernel holds every request back until each
//! possible CPU's queue has an entry. So everything that may fail is tried
//! before the answer to INIT, and a failure afterwards ends the mount.
//!
//! Source: `Documentation/filesystems/fuse/fuse-io-uring.rst` and
//! `include/uapi/linux/fuse.h` of Linux 6.14 and later.

mod command;
mod crew;
mod hops;
mod queue;
mod rings;

pub(crate) use crew::Crew;
use hops::Hops;
pub(crate) use queue::Queue;

use crate::transport::DevFuse;
use std::fs;
use std::io;
use std::sync::Arc;

/// Most CPUs at work with which rings are used. Each takes two threads or more,
/// each of these three buffers once it has carried large requests.
const CPUS_MAX: usize = 32;

/// Lets the kernel offer the ring to file systems mounted from now on. Only
/// root may; without it, an administrator has to.
pub(crate) fn allow() {
    const KNOB: &str = "/sys/module/fuse/parameters/enable_uring";
    let off = fs::read_to_string(KNOB).is_ok_and(|value| value.trim() == "N");
    if off && let Err(error) = fs::write(KNOB, "Y") {
        tracing::debug!(%error, "FUSE over io_uring stays off");
    }
}

/// The crew of one CPU, and queues for its threads.
pub(crate) type Post = (Crew, Vec<Queue>);

/// Crews for every possible CPU, of `threads` in all if that gives each
/// enough.
///
/// # Errors
/// If the host has no rings for us, or too many CPUs.
pub(crate) fn posts(device: &Arc<DevFuse>, threads: usize) -> io::Result<Vec<Post>> {
    let online = cpus("online")?;
    if online > CPUS_MAX {
        let why = format!("{online} CPUs would take too much memory");
        return Err(io::Error::other(why));
    }
    // The kernel wants a queue for each that it may ever have.
    let cpus = cpus("possible")?;
    let each = (threads / cpus.max(1)).max(crew::SERVING_MIN);
    let hops = Arc::new(Hops::new());
    (0..cpus)
        .map(|cpu| {
            let crew = Crew::new(device, &hops, cpu as u16, each);
            let queues = crew.first_queues()?;
            Ok((crew, queues))
        })
        .collect()
}

/// CPUs in a state, up to the last of them.
fn cpus(state: &str) -> io::Result<usize> {
    let ranges = fs::read_to_string(format!("/sys/devices/system/cpu/{state}"))?;
    last_of(&ranges)
        .map(|last| last + 1)
        .ok_or_else(|| io::Error::other(format!("no list of CPUs: {ranges:?}")))
}

/// The last number of a list such as `0-3,8`.
fn last_of(ranges: &str) -> Option<usize> {
    let last = ranges.trim().rsplit([',', '-']).next()?;
    last.parse().ok().filter(|&last| last < 1 << 16)
}

#[cfg(test)]
mod tests {
    use super::last_of;

    #[test]
    fn lists_of_cpus_are_understood() {
        assert_eq!(last_of("0\n"), Some(0));
        assert_eq!(last_of("0-3\n"), Some(3));
        assert_eq!(last_of("0-3,8"), Some(8));
        assert_eq!(last_of(""), None);
        assert_eq!(last_of("0-99999999"), None);
    }
}
