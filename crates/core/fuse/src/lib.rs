//! Mounts a Varve file system.
//!
//! The kernel sends requests over `/dev/fuse`; this crate translates each one
//! to a call of [`varve_fs::FileSystem`] and decides nothing.
//!
//! | module | its part |
//! |---|---|
//! | `protocol` | the kernel's structs and numbers, declared once |
//! | `request`, `reply` | bytes to arguments, results to bytes |
//! | [`transport`], `ring` | the seam: how requests come and replies go; over the device or over io_uring |
//! | `adapter` | one request, one file-system call |
//! | `negotiate` | which capabilities are agreed on, and why |
//! | [`mount`](MountOptions), `device`, `bdi` | mount(2) or fusermount3, unmounting, the kernel's knobs |
//! | [`Kernel`], [`handover`] | what the kernel of a mount is told of changes that came another way; descriptors for sessions of other namespaces |
//! | [`Outside`] | files of a mount as other programs of the host have them: locks, running programs |
//! | `session`, `pool`, `errands`, `unmounter` | a mount from beginning to end, the threads that serve it, and what those leave to others |
//! | [`statistics`](query_statistics), [`question`](ask), [`exchange`](exchange()) | requests by kind, and what else the server can tell and do, over ioctls on the mount's root |
//!
//! Why not the `fuser` crate (0.18): it knows no opcode above 47, so
//! `SYNCFS`, `TMPFILE`, `STATX` and `COPY_FILE_RANGE_64` get ENOSYS before a
//! file system sees them, and its `setattr` does not pass on the kill flag,
//! which a change of owner or size needs under `HANDLE_KILLPRIV_V2`.

mod adapter;
mod apart;
mod aside;
mod bdi;
mod caches;
mod calls;
mod counters;
mod device;
mod end;
mod errands;
mod errno;
mod exchange;
pub mod handover;
mod kernel;
mod latency;
mod mount;
mod negotiate;
mod nodes;
mod opens;
mod options;
mod outside;
mod pool;
mod protocol;
mod question;
mod reply;
mod request;
mod ring;
mod session;
mod settle;
mod shutdown;
pub mod signals;
mod space;
mod statistics;
mod sys;
pub mod transport;
mod unmounter;
mod view;

pub use adapter::{Adapter, BLOCK_COUNT_LAG, Later, Outcome, SNAPSHOTS};
pub use apart::pass_on_no_descriptors;
pub use calls::{
    EXCHANGE_BYTES, IoctlHandler, IoctlRequest, QUESTION_BYTES, RESPELL, StatisticsSource,
    VARVE_IOC_ASK, VARVE_IOC_EXCHANGE, VARVE_IOC_STATS,
};
pub use counters::RequestCounters;
pub use end::End;
pub use errno::Errno;
pub use exchange::exchange;
pub use kernel::{Commit, Kernel};
pub use latency::{LATENCY_STEPS, LATENCY_STEPS_PER_OCTAVE, latency_step_end_us, latency_us};
pub use mount::{
    detach, enter_mounts, force_unmount, held_mounts, join_mounts, mount_device, own_mounts,
    remount, unmount,
};
pub use options::{MountOptions, Synchronous};
pub use outside::{InUse, Kept, Outside};
pub use question::{answer, ask, text as question_text};
pub use reply::Reply;
pub use session::Session;
pub use statistics::query_statistics;
pub use unmounter::Unmounter;
