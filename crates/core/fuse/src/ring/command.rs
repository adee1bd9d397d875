//! What travels through a ring: the kernel's structs.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Hands an entry to a queue for the first time.
pub(super) const REGISTER: u32 = 1;
/// Answers a request and waits for the next.
pub(super) const COMMIT_AND_FETCH: u32 = 2;
/// `IORING_OP_URING_CMD`.
const URING_CMD: u8 = 46;

/// `struct io_uring_sqe` of 128 bytes, as a command to a driver.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub(super) struct Submission {
    opcode: u8,
    flags: u8,
    priority: u16,
    descriptor: i32,
    command: u32,
    unused: u32,
    address: u64,
    length: u32,
    command_flags: u32,
    user_data: u64,
    buffer: u16,
    personality: u16,
    splice: u32,
    /// `struct fuse_uring_cmd_req`.
    entry_flags: u64,
    commit_id: u64,
    queue: u16,
    padding: [u8; 6],
    rest: [u8; 56],
}

const _: () = assert!(size_of::<Submission>() == 128);

impl Submission {
    /// A command about one entry of `queue`. `address` is that of the two
    /// vectors that name its memory, which only registering looks at.
    pub(super) fn new(
        descriptor: i32,
        command: u32,
        queue: u16,
        address: u64,
        commit_id: u64,
    ) -> Self {
        Submission {
            opcode: URING_CMD,
            flags: 0,
            priority: 0,
            descriptor,
            command,
            unused: 0,
            address,
            length: if address == 0 { 0 } else { 2 },
            command_flags: 0,
            user_data: 0,
            buffer: 0,
            personality: 0,
            splice: 0,
            entry_flags: 0,
            commit_id,
            queue,
            padding: [0; 6],
            rest: [0; 56],
        }
    }
}

/// `struct fuse_uring_req_header`: all of a request but its variable part, and
/// in the same place the header of the answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(super) struct Headers {
    /// The request's header, or the answer's.
    pub(super) in_out: [u8; 128],
    /// The operation's fixed part.
    pub(super) operation: [u8; 128],
    flags: u64,
    /// Names the request when it is answered.
    pub(super) commit_id: u64,
    /// Bytes of the variable part, in either direction.
    pub(super) payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

const _: () = assert!(size_of::<Headers>() == 288);
