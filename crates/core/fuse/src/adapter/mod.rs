//! One request, one file-system call.
//!
//! - Node 1 is the root and node 2 the ifile, whose inode numbers are the
//!   other way round; every other node is its inode number.
//! - Every reply that names an inode retains it once; FORGET releases.
//! - The kernel checks permissions (`default_permissions`), so callers are
//!   passed on as checked.
//!
//! The kernel holds a directory's lock while it looks names up, shared, and
//! while it changes them, exclusively. Between a look-up and the retain that
//! follows it, the inode can therefore not go away.

mod asker;
mod attributes;
mod cached_writes;
mod content;
mod convert;
mod directories;
mod durable;
mod file_flags;
mod invalidate;
mod ioctls;
mod later;
mod maintenance;
mod names;
mod respell;
mod seek;
mod snapshots;
mod view;
mod xattrs;

pub use invalidate::BLOCK_COUNT_LAG;
pub use later::Later;
pub use snapshots::SNAPSHOTS;

use crate::caches::{BlockCounts, DirectWrites, Merge, Merging};
use crate::calls::{IoctlHandler, StatisticsSource};
use crate::counters::RequestCounters;
use crate::errno::Errno;
use crate::negotiate::{Negotiated, Wishes, negotiate};
use crate::opens::Opens;
use crate::options::{MountOptions, Synchronous};
use crate::protocol::{Opcode, capability};
use crate::reply::Reply;
use crate::request::Request;
use crate::shutdown::Shutdown;
use crate::space::{ATTRIBUTES_VALID_S, Patience, WriteErrors};
use crate::view::{FoundNames, Locks, LostWrites};
use snapshots::Snapshots;
use std::sync::{Arc, OnceLock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout};

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Answer with the reply's body.
    Reply,
    /// Answer with an error number.
    Error(Errno),
    /// Nobody expects an answer.
    Silent,
    /// To be finished by [`Adapter::finish`], on a thread that does not serve
    /// requests.
    Later(Later),
}

/// Translates requests to calls of one file system.
pub struct Adapter<L: Layout> {
    fs: Arc<FileSystem<L>>,
    negotiated: OnceLock<Negotiated>,
    wishes: Wishes,
    /// Nothing changes, so the kernel holds no dirty pages.
    read_only: bool,
    /// Seconds the kernel may trust attributes; endless under write-back, see
    /// `full.rs`.
    attr_valid_s: u64,
    /// Seconds the kernel may trust names. 0 where names fold case: one
    /// change then affects spellings the kernel does not connect.
    entry_valid_s: u64,
    birth_times: bool,
    extended_attributes: bool,
    opens: Opens,
    /// Which changes are durable when they are answered.
    synchronous: Synchronous,
    shutdown: Shutdown,
    write_errors: WriteErrors,
    direct: DirectWrites,
    merging: Merging,
    block_counts: BlockCounts,
    /// In the view of a transaction.
    names: Option<FoundNames>,
    lost: LostWrites,
    locks: Option<Locks>,
    /// The directory of snapshots in the root, if the mount has it.
    snapshots: Option<Snapshots<L>>,
    counters: RequestCounters,
    statistics: Option<StatisticsSource>,
    ioctl: Option<IoctlHandler>,
}

/// The result of a translated request: success means the reply is filled in.
type Done = Result<(), Errno>;

impl<L: Layout> Adapter<L> {
    /// An adapter that awaits INIT.
    pub fn new(fs: Arc<FileSystem<L>>, options: &MountOptions) -> Self {
        let folds_case = fs.layout().geometry().case_fold;
        // What cannot be read will say so when somebody looks.
        let asks_opens = options.ask_opens
            || options.dsync
            || options.snapshot_directory
            || options.outside.is_some()
            || fs.is_guarded().unwrap_or(true);
        Adapter {
            fs,
            negotiated: OnceLock::new(),
            wishes: Wishes {
                write_back: options.write_back(),
                acl: options.acl,
                ring: options.uring,
                idmap: options.idmap,
                locks: options.outside.is_some(),
            },
            read_only: options.read_only,
            attr_valid_s: if options.write_back() {
                ATTRIBUTES_VALID_S
            } else {
                options.trust_s
            },
            entry_valid_s: if folds_case { 0 } else { options.trust_s },
            birth_times: options.birth_times,
            extended_attributes: options.extended_attributes,
            opens: Opens::new(asks_opens, options.dsync, options.outside.is_some()),
            synchronous: options.synchronous,
            shutdown: Shutdown::default(),
            write_errors: WriteErrors::default(),
            direct: DirectWrites::default(),
            merging: Merging::default(),
            block_counts: BlockCounts::default(),
            locks: options.outside.as_ref().map(Locks::new),
            names: options.note_names.then(FoundNames::default),
            lost: LostWrites::default(),
            snapshots: options.snapshot_directory.then(Snapshots::default),
            counters: RequestCounters::new(),
            statistics: options.statistics.clone(),
            ioctl: options.ioctl.clone(),
        }
    }

    /// The file system behind the mount.
    pub fn file_system(&self) -> &FileSystem<L> {
        &self.fs
    }

    /// Begins the merge of a commit that changes these regular files.
    pub(crate) fn begin_merge(&self, files: &[InodeNo]) -> Merge<'_> {
        self.merging.begin(files)
    }

    /// Requests by kind.
    pub fn counters(&self) -> &RequestCounters {
        &self.counters
    }

    /// True once INIT was answered.
    pub fn is_initialised(&self) -> bool {
        self.negotiated.get().is_some()
    }

    fn has(&self, capability: u64) -> bool {
        self.negotiated.get().is_some_and(|n| n.has(capability))
    }

    /// True if the protocol's minor version in use is at least `minor`.
    fn speaks(&self, minor: u32) -> bool {
        self.negotiated.get().is_some_and(|n| n.minor >= minor)
    }

    pub(crate) fn over_io_uring(&self) -> bool {
        self.has(capability::OVER_IO_URING)
    }

    pub(crate) fn write_back(&self) -> bool {
        self.has(capability::WRITEBACK_CACHE)
    }

    /// Serves one request. Returns its number and what to do with `reply`.
    pub fn handle(&self, bytes: &[u8], reply: &mut Reply) -> (u64, Outcome) {
        let mut request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(header) => {
                reply.clear();
                self.counters.malformed();
                let outcome = header.map_or(Outcome::Silent, |_| Outcome::Error(Errno::INVALID));
                return (header.map_or(0, |h| h.unique), outcome);
            }
        };
        let opcode = request.opcode();
        self.counters.request(opcode);
        let begun = std::time::Instant::now();
        let removal = self.fs.latest_held_removal();
        request.patience = removal.map(Patience::with_removals);
        let outcome = self.attempt(&request, reply);
        self.counters.latency(opcode, begun.elapsed());
        (request.header.unique, outcome)
    }

    /// Serves a request as far as it can be served now.
    fn attempt(&self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        reply.clear();
        let (opcode, pid) = (request.opcode(), request.header.pid);
        if let Some(until) = self.merging.pauses(opcode, request.inode(), pid) {
            return Later::retry(request, Patience::until(until));
        }
        let errno = match self.serve(opcode, request, reply) {
            Ok(outcome) => return outcome,
            Err(errno) => errno,
        };
        self.take_back(reply);
        // GETATTR reports the error of another request, which has waited itself.
        let reports = matches!(opcode, Some(Opcode::Getattr | Opcode::Statx));
        if let Some(patience) = request.patience
            && errno == Errno::NO_SPACE
            && !reports
        {
            return Later::retry(request, patience);
        }
        self.note_lost(request, errno);
        // These are answers: the kernel asks in order to hear them.
        let expected = [Errno::NOT_FOUND, Errno::NOT_IMPLEMENTED, Errno::NO_DATA];
        if !expected.contains(&errno) {
            self.counters.failed();
        }
        Outcome::Error(errno)
    }

    /// Repeats a request that waited. The space of files that the kernel has forgotten before
    /// this call is free.
    fn try_again(&self, request: &[u8], patience: Patience, reply: &mut Reply) -> Outcome {
        let Ok(mut request) = Request::parse(request) else {
            return Outcome::Error(Errno::INVALID); // it was parsed before
        };
        request.patience = patience.next(|removal| self.fs.awaits_release(removal));
        self.attempt(&request, reply)
    }

    fn dispatch(
        &self,
        opcode: Option<Opcode>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Errno> {
        let Some(opcode) = opcode else {
            return Err(Errno::NOT_IMPLEMENTED);
        };
        if !self.is_initialised() && opcode != Opcode::Init {
            return Err(Errno(libc::EIO));
        }
        if self.shutdown.refuses(opcode, request.header.nodeid) {
            return Err(Errno(libc::EIO));
        }
        if let Some(done) = self.in_snapshots(opcode, request, reply) {
            return done.map(|()| Outcome::Reply);
        }
        match opcode {
            Opcode::Forget | Opcode::BatchForget => {
                // Nobody listens to an error; a malformed one only leaks.
                let _ = self.forget(opcode, request);
                return Ok(Outcome::Silent);
            }
            Opcode::NotifyReply => return Ok(Outcome::Silent),
            Opcode::Lseek => return self.seek(request, reply),
            Opcode::Write => return self.write(request, reply),
            Opcode::Ioctl => return self.ioctl(request, reply),
            Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw => {
                return self.lock(opcode, request, reply);
            }
            Opcode::Interrupt if self.locks.is_some() => {
                self.interrupt(request)?;
                return Ok(Outcome::Silent);
            }
            Opcode::Flush if self.locks.is_some() || self.names.is_some() => {
                self.flush(request)?;
            }
            Opcode::Init => self.init(request, reply)?,
            Opcode::Lookup => self.lookup(request, reply)?,
            Opcode::Getattr => return self.getattr(request, reply),
            Opcode::Setattr => self.setattr(request, reply)?,
            Opcode::Statx => self.statx(request, reply)?,
            Opcode::Readlink => self.readlink(request, reply)?,
            Opcode::Symlink => self.symlink(request, reply)?,
            Opcode::Mknod => self.mknod(request, reply)?,
            Opcode::Mkdir => self.mkdir(request, reply)?,
            Opcode::Create => self.create(request, reply)?,
            Opcode::Tmpfile => self.tmpfile(request, reply)?,
            Opcode::Link => self.link(request, reply)?,
            Opcode::Unlink => self.unlink(request)?,
            Opcode::Rmdir => self.rmdir(request)?,
            Opcode::Rename | Opcode::Rename2 => self.rename(opcode, request)?,
            Opcode::Open => self.open_file(request, reply)?,
            Opcode::Opendir => self.open(capability::NO_OPENDIR_SUPPORT, reply)?,
            Opcode::Read => self.read(request, reply)?,
            Opcode::Fsync => self.fsync(request)?,
            Opcode::Fsyncdir => self.fsyncdir(request)?,
            Opcode::Syncfs => self.fs.sync()?,
            Opcode::Fallocate => self.fallocate(request)?,
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
                self.copy_file_range(opcode, request, reply)?;
            }
            Opcode::Readdir => self.readdir(request, reply)?,
            Opcode::Readdirplus => self.readdirplus(request, reply)?,
            Opcode::Getxattr | Opcode::Setxattr | Opcode::Listxattr | Opcode::Removexattr
                if !self.extended_attributes =>
            {
                return Err(Errno::NOT_IMPLEMENTED);
            }
            Opcode::Getxattr => self.getxattr(request, reply)?,
            Opcode::Setxattr if self.respell(request)? => {}
            Opcode::Setxattr => self.setxattr(request)?,
            Opcode::Listxattr => self.listxattr(request, reply)?,
            Opcode::Removexattr => self.removexattr(request)?,
            Opcode::Statfs => self.statfs(reply),
            Opcode::Release => self.release_file(request)?,
            Opcode::Releasedir | Opcode::Destroy => {}
            // ENOSYS makes the kernel stop asking: a flush has nothing to do but to end
            // locks and to report lost writes, interrupts concern nothing but locks.
            Opcode::Flush
            | Opcode::Interrupt
            | Opcode::Access
            | Opcode::Bmap
            | Opcode::Poll
            | Opcode::Setupmapping
            | Opcode::Removemapping => return Err(Errno::NOT_IMPLEMENTED),
        }
        Ok(Outcome::Reply)
    }

    fn init(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let (body, agreed) = negotiate(&mut request.arguments(), self.wishes)?;
        reply.put(&body);
        if let Some(agreed) = agreed
            && self.negotiated.set(agreed).is_err()
        {
            return Err(Errno(libc::EIO));
        }
        Ok(())
    }

    /// Releases what an undelivered reply would have handed to the kernel.
    pub(crate) fn take_back(&self, reply: &Reply) {
        for &ino in reply.retained() {
            self.fs.release(ino, 1);
        }
    }

    /// The caller of what makes a file. The umask is the kernel's to apply,
    /// unless access lists are in force: those may take its place.
    fn maker(&self, request: &Request<'_>, umask: u32) -> Caller {
        let umask = if self.has(capability::DONT_MASK) {
            umask & 0o777
        } else {
            0
        };
        Caller {
            umask,
            ..self.caller(request)
        }
    }

    fn caller(&self, request: &Request<'_>) -> Caller {
        Caller {
            uid: request.header.uid,
            gid: request.header.gid,
            groups: Vec::new(),
            checked: true,
            umask: 0,
        }
    }
}
