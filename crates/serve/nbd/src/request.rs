//! Checking the header of a request: the action, or the reason of a refusal.
//!
//! The check is a pure function, so that it can be fuzzed alone. Invariant: an accepted
//! request is within the export, consists of its blocks, and has at most
//! [`REQUEST_BYTES_MAX`] bytes if it transfers bytes.
//!
//! A request that does not consist of announced blocks is refused with EINVAL, as the
//! protocol advises. To serve it, the server would have to read a block, change a part
//! and write it, under a lock over all connections: a client's write would then affect
//! bytes that it did not name, and a torn write could lose them. No client in use sends
//! such requests once it knows the block size, and clients that never ask for it send
//! whole sectors.

use crate::protocol::{Errno, REQUEST_MAGIC, RequestHeader, command};

/// Maximum number of bytes of a read or a write, which every client may send.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// The sizes and agreements against which requests are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measures {
    /// Size of the export, in bytes.
    pub size: u64,
    /// Size of the smallest request, in bytes; a power of two.
    pub block: u32,
    /// True if writes are refused.
    pub read_only: bool,
    /// True if answers are structured replies.
    pub structured: bool,
    /// True if the client may ask for block status.
    pub allocation: bool,
}

/// The action that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send bytes.
    Read {
        /// The flag DF: in one chunk.
        whole: bool,
    },
    /// Receive bytes and write them.
    Write,
    /// Make acknowledged writes durable.
    Flush,
    /// Discard a range.
    Trim,
    /// Write zeros.
    Zero {
        /// True without NO_HOLE: the zeros need not be stored.
        may_punch: bool,
        /// FAST_ZERO: only if it is faster than a write.
        fast: bool,
    },
    /// Report the extents that are stored.
    Status {
        /// The flag REQ_ONE: only one extent.
        one: bool,
    },
}

/// A valid request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The action.
    pub action: Action,
    /// The client's identifier of the request.
    pub cookie: u64,
    /// Byte address of the range.
    pub offset: u64,
    /// Length of the range, in bytes.
    pub length: u32,
    /// True if it must be durable before the answer.
    pub fua: bool,
}

/// The result of checking a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// The request is valid.
    Serve(Request),
    /// The request is refused. The payload that follows must be dropped.
    Refuse {
        /// The client's identifier of the request.
        cookie: u64,
        /// Error number of the answer.
        errno: Errno,
        /// Reason, for people.
        why: &'static str,
        /// Number of bytes of payload that follow.
        payload: u32,
        /// True for a READ, whose answer has its own form.
        read: bool,
    },
    /// The client ends the connection.
    Disconnect,
    /// The bytes that follow cannot be interpreted any more: the connection must end.
    Fatal(&'static str),
}

/// Checks a header.
pub fn judge(header: &RequestHeader, measures: &Measures) -> Judged {
    if header.magic.get() != REQUEST_MAGIC {
        return Judged::Fatal("a request without its magic number");
    }
    let (kind, length) = (header.kind.get(), header.length.get());
    if kind == command::DISC {
        return Judged::Disconnect;
    }
    let write = kind == command::WRITE;
    if write && length > REQUEST_BYTES_MAX {
        return Judged::Fatal("a write of more than 32 MiB");
    }
    match action(header, measures) {
        Ok(action) => Judged::Serve(Request {
            action,
            cookie: header.cookie.get(),
            offset: header.offset.get(),
            length,
            fua: header.flags.get() & command::FLAG_FUA != 0,
        }),
        Err((errno, why)) => Judged::Refuse {
            cookie: header.cookie.get(),
            errno,
            why,
            payload: if write { length } else { 0 },
            read: kind == command::READ,
        },
    }
}

type Refusal = (Errno, &'static str);

fn action(header: &RequestHeader, measures: &Measures) -> Result<Action, Refusal> {
    let flags = header.flags.get();
    let has = |flag: u16| flags & flag != 0;
    let (action, allowed) = match header.kind.get() {
        command::READ => {
            let whole = has(command::FLAG_DF);
            let df = if measures.structured {
                command::FLAG_DF
            } else {
                0
            };
            (Action::Read { whole }, df)
        }
        command::WRITE => (Action::Write, 0),
        command::FLUSH => (Action::Flush, 0),
        command::TRIM => (Action::Trim, 0),
        command::WRITE_ZEROES => {
            let action = Action::Zero {
                may_punch: !has(command::FLAG_NO_HOLE),
                fast: has(command::FLAG_FAST_ZERO),
            };
            (action, command::FLAG_NO_HOLE | command::FLAG_FAST_ZERO)
        }
        command::BLOCK_STATUS if measures.allocation => {
            let one = has(command::FLAG_REQ_ONE);
            (Action::Status { one }, command::FLAG_REQ_ONE)
        }
        command::BLOCK_STATUS => {
            return Err((Errno::Invalid, "no metadata context was negotiated"));
        }
        _ => return Err((Errno::Invalid, "an unknown request")),
    };
    if flags & !(allowed | command::FLAG_FUA) != 0 {
        return Err((Errno::Invalid, "a flag that this request does not have"));
    }
    check_range(action, header.offset.get(), header.length.get(), measures)?;
    Ok(action)
}

fn check_range(
    action: Action,
    offset: u64,
    length: u32,
    measures: &Measures,
) -> Result<(), Refusal> {
    let changes = matches!(action, Action::Write | Action::Trim | Action::Zero { .. });
    if changes && measures.read_only {
        return Err((Errno::NotPermitted, "the export is read-only"));
    }
    if action == Action::Flush {
        return match (offset, length) {
            (0, 0) => Ok(()),
            _ => Err((Errno::Invalid, "a flush with an offset or a length")),
        };
    }
    let block = u64::from(measures.block);
    if !offset.is_multiple_of(block) || !u64::from(length).is_multiple_of(block) {
        return Err((Errno::Invalid, "not a multiple of the block size"));
    }
    let end = offset.checked_add(u64::from(length));
    if end.is_none_or(|end| end > measures.size) {
        let errno = match action {
            Action::Write | Action::Zero { .. } => Errno::Space,
            _ => Errno::Invalid,
        };
        return Err((errno, "beyond the end of the export"));
    }
    match action {
        Action::Read { .. } if length > REQUEST_BYTES_MAX => {
            Err((Errno::Invalid, "a read of more than 32 MiB"))
        }
        Action::Status { .. } if length == 0 => Err((Errno::Invalid, "nothing is asked about")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURES: Measures = Measures {
        size: 1 << 30,
        block: 512,
        read_only: false,
        structured: true,
        allocation: true,
    };

    fn header(kind: u16, flags: u16, offset: u64, length: u32) -> RequestHeader {
        RequestHeader {
            magic: REQUEST_MAGIC.into(),
            flags: flags.into(),
            kind: kind.into(),
            cookie: 7.into(),
            offset: offset.into(),
            length: length.into(),
        }
    }

    fn errno(judged: Judged) -> Option<Errno> {
        match judged {
            Judged::Refuse { errno, .. } => Some(errno),
            _ => None,
        }
    }

    #[test]
    fn ranges_are_held_to_the_export_and_its_blocks() {
        let judged = |kind, offset, length| judge(&header(kind, 0, offset, length), &MEASURES);
        for kind in [command::READ, command::WRITE, command::TRIM] {
            assert!(matches!(judged(kind, 0, 512), Judged::Serve(_)));
            assert!(matches!(
                judged(kind, (1 << 30) - 512, 512),
                Judged::Serve(_)
            ));
            assert!(matches!(judged(kind, 1 << 30, 0), Judged::Serve(_)));
            assert_eq!(errno(judged(kind, 1, 512)), Some(Errno::Invalid));
            assert_eq!(errno(judged(kind, 0, 100)), Some(Errno::Invalid));
            let beyond = match kind {
                command::WRITE => Errno::Space,
                _ => Errno::Invalid,
            };
            assert_eq!(errno(judged(kind, 1 << 30, 512)), Some(beyond));
            assert_eq!(errno(judged(kind, u64::MAX - 511, 1024)), Some(beyond));
        }
        assert_eq!(errno(judged(command::FLUSH, 0, 512)), Some(Errno::Invalid));
        assert_eq!(
            errno(judged(command::BLOCK_STATUS, 0, 0)),
            Some(Errno::Invalid)
        );
        let long = REQUEST_BYTES_MAX + 512;
        assert_eq!(errno(judged(command::READ, 0, long)), Some(Errno::Invalid));
        assert!(matches!(judged(command::WRITE, 0, long), Judged::Fatal(_)));
        assert!(matches!(
            judged(command::TRIM, 0, 1 << 30),
            Judged::Serve(_)
        ));
    }

    #[test]
    fn flags_belong_to_their_requests() {
        let judged = |kind, flags| errno(judge(&header(kind, flags, 0, 512), &MEASURES));
        for kind in [
            command::READ,
            command::WRITE,
            command::TRIM,
            command::WRITE_ZEROES,
        ] {
            assert_eq!(judged(kind, command::FLAG_FUA), None);
            assert_eq!(judged(kind, 1 << 9), Some(Errno::Invalid));
        }
        assert_eq!(judged(command::READ, command::FLAG_DF), None);
        assert_eq!(
            judged(command::WRITE, command::FLAG_DF),
            Some(Errno::Invalid)
        );
        assert_eq!(
            judged(command::READ, command::FLAG_NO_HOLE),
            Some(Errno::Invalid)
        );
        let zero = command::FLAG_NO_HOLE | command::FLAG_FAST_ZERO;
        assert_eq!(judged(command::WRITE_ZEROES, zero), None);
        let plain = Measures {
            structured: false,
            allocation: false,
            ..MEASURES
        };
        let judged = |kind, flags| errno(judge(&header(kind, flags, 0, 512), &plain));
        assert_eq!(
            judged(command::READ, command::FLAG_DF),
            Some(Errno::Invalid)
        );
        assert_eq!(judged(command::BLOCK_STATUS, 0), Some(Errno::Invalid));
    }

    #[test]
    fn a_read_only_export_refuses_changes_and_nothing_else() {
        let measures = Measures {
            read_only: true,
            ..MEASURES
        };
        for kind in 0..20 {
            let length = if kind == command::FLUSH { 0 } else { 512 };
            let judged = judge(&header(kind, 0, 0, length), &measures);
            match kind {
                command::WRITE => assert!(matches!(
                    judged,
                    Judged::Refuse {
                        errno: Errno::NotPermitted,
                        payload: 512,
                        ..
                    }
                )),
                command::TRIM | command::WRITE_ZEROES => {
                    assert_eq!(errno(judged), Some(Errno::NotPermitted));
                }
                command::READ | command::FLUSH | command::BLOCK_STATUS => {
                    assert!(matches!(judged, Judged::Serve(_)));
                }
                command::DISC => assert_eq!(judged, Judged::Disconnect),
                _ => assert_eq!(errno(judged), Some(Errno::Invalid)),
            }
        }
        let mut wrong = header(command::READ, 0, 0, 512);
        wrong.magic = 1.into();
        assert!(matches!(judge(&wrong, &MEASURES), Judged::Fatal(_)));
    }
}
