//! What a mount may choose.

use crate::calls::{IoctlHandler, StatisticsSource};
use crate::outside::Outside;
use std::ffi::OsString;
use std::sync::Arc;

/// Which changes are durable when the program that made them goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Those that it asks for, by fsync and the like.
    #[default]
    Nothing,
    /// Made, moved and removed names, too.
    Names,
    /// All but what maps of files change. The kernel holds no writes back then.
    Everything,
}

/// Choices made at mount.
#[derive(Clone)]
pub struct MountOptions {
    /// What the mount table shows as the source. Default `varve`.
    pub source: OsString,
    /// Refuse changes. Default off.
    pub read_only: bool,
    /// Let other users in. Default: on if we are root.
    pub allow_other: bool,
    /// Ignore set-id bits. Default off; fusermount3 forces it on.
    pub no_suid: bool,
    /// Ignore device files. Default off; fusermount3 forces it on.
    pub no_dev: bool,
    /// Refuse to run programs. Default off.
    pub no_exec: bool,
    /// Show `noatime` in the mount table. The file system itself decides
    /// what a read does to the access time. Default off.
    pub no_atime: bool,
    /// Show `strictatime` in the mount table, where we mount directly; as above,
    /// the file system decides. Default off.
    pub strict_atime: bool,
    /// The same for `nodiratime`. Default off.
    pub no_dir_atime: bool,
    /// After a crash data survives as a prefix of its order, too: turns the
    /// kernel's write-back cache off. Default off.
    pub strict_order: bool,
    /// Tell when files were made. Costs whoever asks for it one request per
    /// file and hour, as the protocol's usual attributes leave it out.
    /// Default on.
    pub birth_times: bool,
    /// Keep extended attributes. Without them the kernel need not ask after
    /// each creation whether a file that is written has capabilities: one
    /// request less per new file. Default on.
    pub extended_attributes: bool,
    /// Access lists are in force. They cost everybody requests: whenever the
    /// kernel checks a file's group permissions it wants to see its list.
    /// Without this they can be neither seen nor set. Default off.
    pub acl: bool,
    /// The kernel asks before it opens a file, so that files can be immutable,
    /// append-only or synchronous. Costs a request for each open and one for
    /// each last close. On volumes with such files it is so in any case.
    /// Default off.
    pub ask_opens: bool,
    /// What is written to a file that was opened with O_DSYNC or O_SYNC passes the
    /// kernel's cache: durable in the write itself, several side by side in one file.
    /// The kernel holds nothing back then, since such writes would not change the times
    /// that it keeps, and asks before it opens a file. Default off.
    pub dsync: bool,
    /// Which changes are durable without an fsync. Default: none.
    pub synchronous: Synchronous,
    /// Let the mount be mounted elsewhere with other owners (idmapped mounts),
    /// where the kernel can: Linux 6.12. Who asks for an ioctl from another PID
    /// namespace is nobody then. Default off.
    pub idmap: bool,
    /// Seconds the kernel may trust a name it was told and, without write-back,
    /// an attribute. Every change comes through the mount, so this only bounds
    /// what a bug can do. Default 3600.
    pub trust_s: u64,
    /// Most serving threads. They start as they are needed. Default: four per
    /// processor, at least 4, at most 16.
    pub threads_max: usize,
    /// Requests come over io_uring where the host has that, which saves a
    /// wake-up on another CPU each. If we are root, it is turned on for all
    /// file systems mounted from now on. Default on.
    pub uring: bool,
    /// KiB the kernel reads ahead of a sequential reader, where we may set
    /// it. Default 1024.
    pub read_ahead_kib: u32,
    /// Most bytes the kernel may hold back from us, where we may bound it; no
    /// more than a sixty-fourth part of the volume in any case. Twice as much
    /// room is kept on the volume, so that what the kernel accepted fits.
    /// Default 64 MiB.
    pub held_bytes_max: u64,
    /// Remember by which names files were found, and whether a held write failed
    /// ([`crate::Adapter::name_of`], [`crate::Adapter::lost`]). Default off.
    pub note_names: bool,
    /// Locks of files are taken on these files as well, so that they exclude the rest of
    /// the host. The kernel then sends a request for each open and each close. Default none: the kernel
    /// keeps locks itself.
    pub outside: Option<Arc<Outside>>,
    /// The root has a directory [`crate::SNAPSHOTS`] with the snapshots of the volume, which
    /// listings omit. The kernel then asks before it opens a file, as with `ask_opens`.
    /// Default off.
    pub snapshot_directory: bool,
    /// More to say in the statistics: a JSON object, merged into ours.
    pub statistics: Option<StatisticsSource>,
    /// Answers ioctls on the mount's root that this crate does not know.
    pub ioctl: Option<IoctlHandler>,
}

impl Default for MountOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        MountOptions {
            source: "varve".into(),
            read_only: false,
            allow_other: rustix::process::geteuid().is_root(),
            no_suid: false,
            no_dev: false,
            no_exec: false,
            no_atime: false,
            strict_atime: false,
            no_dir_atime: false,
            strict_order: false,
            birth_times: true,
            acl: false,
            extended_attributes: true,
            ask_opens: false,
            dsync: false,
            synchronous: Synchronous::Nothing,
            idmap: false,
            trust_s: 3600,
            threads_max: (4 * processors).clamp(4, 16),
            uring: true,
            read_ahead_kib: 1024,
            held_bytes_max: 64 << 20,
            note_names: false,
            outside: None,
            snapshot_directory: false,
            statistics: None,
            ioctl: None,
        }
    }
}

impl MountOptions {
    /// Applies one word of a `-o` list. False if it is not ours to know.
    pub fn apply(&mut self, option: &str) -> bool {
        match option {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "suid" | "nosuid" => self.no_suid = option == "nosuid",
            "dev" | "nodev" => self.no_dev = option == "nodev",
            "exec" | "noexec" => self.no_exec = option == "noexec",
            "noatime" | "atime" | "relatime" | "strictatime" | "nostrictatime" => {
                self.no_atime = option == "noatime";
                self.strict_atime = option == "strictatime";
            }
            "diratime" | "nodiratime" => self.no_dir_atime = option == "nodiratime",
            "allow_other" => self.allow_other = true,
            "btime" | "nobtime" => self.birth_times = option == "btime",
            "xattr" | "noxattr" => self.extended_attributes = option == "xattr",
            "uring" | "nouring" => self.uring = option == "uring",
            "acl" | "noacl" => self.acl = option == "acl",
            "chattr" | "nochattr" => self.ask_opens = option == "chattr",
            "dsync" | "nodsync" => self.dsync = option == "dsync",
            "snapdir" | "nosnapdir" => self.snapshot_directory = option == "snapdir",
            "sync" => self.synchronous = Synchronous::Everything,
            "dirsync" if self.synchronous == Synchronous::Everything => {}
            "dirsync" => self.synchronous = Synchronous::Names,
            "async" => self.synchronous = Synchronous::Nothing,
            "idmap" | "noidmap" => self.idmap = option == "idmap",
            "order=strict" => self.strict_order = true,
            // Always so: the kernel checks permissions.
            "defaults" | "default_permissions" => {}
            _ => return false,
        }
        true
    }

    /// True if the kernel may hold writes back.
    pub(crate) fn write_back(&self) -> bool {
        let is_synchronous = self.synchronous == Synchronous::Everything;
        !self.read_only && !self.strict_order && !self.dsync && !is_synchronous
    }
}
