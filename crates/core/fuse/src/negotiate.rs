//! Which capabilities are agreed on at `INIT`, and why.
//!
//! | capability | why |
//! |---|---|
//! | `WRITEBACK_CACHE` | writes cost no request of their own; off for `order=strict` and read-only mounts |
//! | `HANDLE_KILLPRIV_V2` | we clear set-id bits, so the kernel need not ask for `security.capability` before each write |
//! | `NO_OPEN`, `NO_OPENDIR` | announced by the kernel; we answer ENOSYS once, to CREATE as well, and see no OPEN or RELEASE again; not to OPEN and CREATE where file flags are to be looked at |
//! | `PARALLEL_DIROPS` | look-ups and readdir in one directory run side by side |
//! | `READDIRPLUS`, `_AUTO` | a listing brings attributes when the caller seems to want them |
//! | `EXPLICIT_INVAL_DATA` | all changes come through the kernel: it never drops pages because a time changed |
//! | `MAX_PAGES`, `BIG_WRITES` | requests of 256 KiB |
//! | `EXPORT_SUPPORT` | file handles outlive the inode cache; `.` and `..` can be looked up |
//! | `POSIX_ACL`, `DONT_MASK`, `SETXATTR_EXT` | only with `-o acl`: the kernel then asks for each file's access list, and we apply the umask or what a directory bequeaths |
//! | `OVER_IO_URING` | where the host has it: requests come on the CPU that asks |
//! | `ALLOW_IDMAP` | only with `-o idmap`: requests lose their user, see `adapter/asker.rs` |
//! | `POSIX_LOCKS`, `FLOCK_LOCKS` | only for the view of a transaction, see `adapter/locks.rs`. Elsewhere the kernel keeps locks itself: they cost no request, and opens and closes need none |
//! | `ABORT_ERROR` | an aborted connection is told apart from an unmounted one |
//!
//! Left out: `ATOMIC_O_TRUNC` (there is no OPEN to
//! carry it), `AUTO_INVAL_DATA` (as above).

use crate::errno::Errno;
use crate::protocol::capability as cap;
use crate::protocol::{InitExtIn, InitIn, InitOut, MAJOR, MAX_PAYLOAD_BYTES, MINOR, MINOR_MIN};
use crate::request::Arguments;

/// Requests the kernel may have queued in the background: write-back,
/// read-ahead and asynchronous direct I/O.
pub(crate) const MAX_BACKGROUND: u16 = 64;
/// Of these, the number above which the kernel calls us congested.
const CONGESTION_THRESHOLD: u16 = 48;

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// The minor version both sides speak.
    pub(crate) minor: u32,
    /// Capabilities in force.
    pub(crate) capabilities: u64,
}

impl Negotiated {
    /// True if all of `capabilities` are in force.
    pub(crate) fn has(&self, capabilities: u64) -> bool {
        self.capabilities & capabilities == capabilities
    }
}

/// What the mount's options have to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// The kernel may hold writes back.
    pub(crate) write_back: bool,
    /// Access lists are in force.
    pub(crate) acl: bool,
    /// There are queues for requests over io_uring.
    pub(crate) ring: bool,
    /// The mount may be mounted elsewhere with other owners.
    pub(crate) idmap: bool,
    /// Locks of files are asked for.
    pub(crate) locks: bool,
}

/// What we ask for, where the kernel offers it.
fn wanted(wishes: Wishes) -> u64 {
    let mut wanted = cap::ASYNC_READ
        | cap::EXPORT_SUPPORT
        | cap::BIG_WRITES
        | cap::HAS_IOCTL_DIR
        | cap::DO_READDIRPLUS
        | cap::READDIRPLUS_AUTO
        | cap::ASYNC_DIO
        | cap::NO_OPEN_SUPPORT
        | cap::PARALLEL_DIROPS
        | cap::ABORT_ERROR
        | cap::MAX_PAGES
        | cap::CACHE_SYMLINKS
        | cap::NO_OPENDIR_SUPPORT
        | cap::EXPLICIT_INVAL_DATA
        | cap::HANDLE_KILLPRIV_V2
        | cap::INIT_EXT
        | cap::DIRECT_IO_ALLOW_MMAP;
    if wishes.write_back {
        wanted |= cap::WRITEBACK_CACHE;
    }
    if wishes.ring {
        wanted |= cap::OVER_IO_URING;
    }
    if wishes.idmap {
        wanted |= cap::ALLOW_IDMAP;
    }
    if wishes.locks {
        wanted |= cap::POSIX_LOCKS | cap::FLOCK_LOCKS;
    }
    if wishes.acl {
        wanted |= cap::POSIX_ACL | cap::DONT_MASK | cap::SETXATTR_EXT;
    }
    wanted
}

/// Answers an `INIT`.
///
/// A kernel of a newer major version gets our own version, and will try again
/// with it: `Ok((reply, None))`.
///
/// # Errors
/// EINVAL if the request is malformed, EPROTO for a kernel that is too old.
pub(crate) fn negotiate(
    arguments: &mut Arguments<'_>,
    wishes: Wishes,
) -> Result<(InitOut, Option<Negotiated>), Errno> {
    let init: InitIn = arguments.take()?;
    let mut reply = InitOut {
        major: MAJOR,
        minor: MINOR,
        ..InitOut::default()
    };
    if init.major > MAJOR {
        return Ok((reply, None));
    }
    if init.major < MAJOR || init.minor < MINOR_MIN {
        return Err(Errno(libc::EPROTO));
    }
    let mut offered = u64::from(init.flags);
    if offered & cap::INIT_EXT != 0 {
        let extended: InitExtIn = arguments.take()?;
        offered |= u64::from(extended.flags2) << 32;
    }
    let agreed = offered & wanted(wishes);
    reply.max_readahead = init.max_readahead.max(MAX_PAYLOAD_BYTES as u32);
    reply.flags = agreed as u32;
    reply.flags2 = (agreed >> 32) as u32;
    reply.max_background = MAX_BACKGROUND;
    reply.congestion_threshold = CONGESTION_THRESHOLD;
    reply.max_write = MAX_PAYLOAD_BYTES as u32;
    reply.max_pages = (MAX_PAYLOAD_BYTES / 4096) as u16;
    reply.time_gran = 1;
    let negotiated = Negotiated {
        minor: init.minor.min(MINOR),
        capabilities: agreed,
    };
    Ok((reply, Some(negotiated)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::InHeader;
    use crate::request::Request;
    use zerocopy::IntoBytes;

    fn init(major: u32, minor: u32, offered: u64) -> Vec<u8> {
        let body = InitIn {
            major,
            minor,
            max_readahead: 131_072,
            flags: offered as u32,
        };
        let extended = InitExtIn {
            flags2: (offered >> 32) as u32,
            unused: [0; 11],
        };
        let header = InHeader {
            len: 104,
            opcode: 26,
            ..InHeader::default()
        };
        [header.as_bytes(), body.as_bytes(), extended.as_bytes()].concat()
    }

    fn answer(bytes: &[u8], write_back: bool) -> Result<(InitOut, Option<Negotiated>), Errno> {
        negotiate(
            &mut Request::parse(bytes).ok().unwrap().arguments(),
            Wishes {
                write_back,
                acl: false,
                ring: false,
                idmap: false,
                locks: false,
            },
        )
    }

    #[test]
    fn only_what_is_offered_is_agreed() {
        let offered = cap::INIT_EXT | cap::WRITEBACK_CACHE | cap::DIRECT_IO_ALLOW_MMAP;
        let (reply, agreed) = answer(&init(7, 45, offered), true).unwrap();
        assert_eq!(agreed.unwrap().capabilities, offered);
        assert_eq!(reply.flags2, 1 << 4);
        let (_, agreed) = answer(&init(7, 45, offered), false).unwrap();
        assert!(!agreed.unwrap().has(cap::WRITEBACK_CACHE));
    }

    #[test]
    fn versions_are_checked() {
        assert!(answer(&init(8, 0, 0), true).unwrap().1.is_none());
        assert!(answer(&init(7, 30, 0), true).is_err());
        assert!(answer(&init(6, 99, 0), true).is_err());
    }
}
