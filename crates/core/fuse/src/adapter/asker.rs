//! Who asks, where requests do not say.
//!
//! With `ALLOW_IDMAP` only requests that make an inode name a user, as the
//! idmapped mount they come through sees him; all others carry an invalid one.
//! Few of them have to know: ioctls, and what clears set-id bits. The asking
//! thread waits for the answer and cannot end before, so that its number is not
//! given to another, and `/proc` tells its user as it was when it asked.

use super::Adapter;
use crate::request::Request;
use varve_fs::{Caller, Layout};

/// No user, no group.
pub(super) const NOBODY: u32 = u32::MAX;

impl<L: Layout> Adapter<L> {
    /// The caller of a request, looked up if need be; nobody if that is not to
    /// be found, as from another PID namespace.
    pub(super) fn asker(&self, request: &Request<'_>) -> Caller {
        let mut caller = self.caller(request);
        if caller.uid == NOBODY
            && let Some((uid, gid)) = credentials(request.header.pid)
        {
            (caller.uid, caller.gid) = (uid, gid);
        }
        caller
    }
}

/// User and group with which a thread looks at files.
fn credentials(pid: u32) -> Option<(u32, u32)> {
    if pid == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((last_of(&status, "Uid:")?, last_of(&status, "Gid:")?))
}

/// The supplementary groups of a thread.
pub(super) fn groups(pid: u32) -> Option<Vec<u32>> {
    if pid == 0 {
        return None;
    }
    groups_in(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn groups_in(status: &str) -> Option<Vec<u32>> {
    let found = status
        .lines()
        .find_map(|text| text.strip_prefix("Groups:"))?;
    let groups = found.split_whitespace().map(|group| group.parse().ok());
    groups.collect()
}

/// The last of the four identifiers in a line: that for files.
fn last_of(status: &str, line: &str) -> Option<u32> {
    let found = status.lines().find_map(|text| text.strip_prefix(line))?;
    found.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifiers_for_files_are_taken() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n";
        assert_eq!(last_of(status, "Uid:"), Some(4));
        assert_eq!(last_of(status, "Gid:"), Some(8));
        assert_eq!(last_of("Uid:\t1\n", "Uid:"), None);
        assert_eq!(credentials(0), None);
        assert_eq!(groups_in("Groups:\t4 24 \n"), Some(vec![4, 24]));
        assert_eq!(groups_in("Groups:\t \n"), Some(vec![]));
        assert_eq!(groups_in("Uid:\t1\n"), None);
        let own = (rustix::process::geteuid(), rustix::process::getegid());
        let found = credentials(std::process::id()).unwrap();
        assert_eq!(found, (own.0.as_raw(), own.1.as_raw()));
    }
}
