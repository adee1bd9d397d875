//! A mounted file system in memory, for tests that make real system calls.
#![allow(dead_code, reason = "each program uses its own part")]

pub mod aio;
pub mod handles;
pub mod ioctls;
pub mod kernel;
pub mod map;
pub mod server;

use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use varve_device::HostClock;
use varve_fs::{FileSystem, MemoryLayout, MemoryOptions, Options};
use varve_fuse::{Adapter, End, MountOptions, Session, Unmounter};

/// True if tests can mount. Without `/dev/fuse` they skip, loudly; in CI they
/// fail.
pub fn can_mount() -> bool {
    let present = Path::new("/dev/fuse").exists();
    let root = rustix::process::geteuid().is_root();
    if present && root {
        return true;
    }
    let why = if present { "not root" } else { "no /dev/fuse" };
    assert!(std::env::var_os("CI").is_none(), "cannot mount: {why}");
    eprintln!("=== SKIPPED: {why}; this test mounts a file system and proved NOTHING ===");
    false
}

/// A fresh file system in memory.
pub fn file_system(layout: MemoryOptions, options: Options) -> Arc<FileSystem<MemoryLayout>> {
    let clock = Arc::new(HostClock::default());
    let layout = MemoryLayout::new(layout);
    FileSystem::format(&layout, &*clock, (0, 0)).expect("format");
    Arc::new(FileSystem::mount(Arc::new(layout), clock, options).expect("mount the file system"))
}

/// How long a test may take before its connection is cut, so that whoever waits
/// for it gets an error instead of waiting for ever.
const PATIENCE: Duration = Duration::from_secs(150);

/// A mount that is served by this process and unmounted when dropped.
pub struct Mounted {
    pub fs: Arc<FileSystem<MemoryLayout>>,
    pub adapter: Arc<Adapter<MemoryLayout>>,
    pub unmounter: Unmounter,
    server: Option<JoinHandle<std::io::Result<End>>>,
    directory: TempDir,
    /// Dropped when the test is over.
    _over: Sender<()>,
}

impl Mounted {
    /// With default options; nothing if this machine cannot mount.
    pub fn new() -> Option<Self> {
        Self::with(MountOptions::default())
    }

    /// With write-back, or in strict order.
    pub fn ordered(strict_order: bool) -> Option<Self> {
        Self::with(MountOptions {
            strict_order,
            ..MountOptions::default()
        })
    }

    pub fn with(options: MountOptions) -> Option<Self> {
        can_mount().then(|| {
            let fs = file_system(MemoryOptions::default(), Options::default());
            Self::serve(fs, options)
        })
    }

    pub fn serve(fs: Arc<FileSystem<MemoryLayout>>, options: MountOptions) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("varve-fuse-")
            .tempdir()
            .unwrap();
        open_to_all(directory.path());
        let session = Session::new(Arc::clone(&fs), directory.path(), options).expect("mount");
        let (adapter, unmounter) = (session.adapter(), session.unmounter());
        let server = std::thread::spawn(move || session.run());
        let over = watched(directory.path());
        Mounted {
            fs,
            adapter,
            unmounter,
            server: Some(server),
            directory,
            _over: over,
        }
    }

    /// The mount's root.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// A path inside the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Requests of one kind so far.
    pub fn requests(&self, kind: &str) -> u64 {
        self.adapter.counters().of(kind)
    }

    /// What `work` costs, by kind.
    pub fn cost(&self, work: impl FnOnce()) -> Cost {
        let before = self.counts();
        work();
        self.settle();
        let after = self.counts();
        let spent = after
            .iter()
            .map(|(kind, n)| (kind.clone(), n - before.get(kind).unwrap_or(&0)));
        Cost(spent.filter(|(_, n)| *n > 0).collect())
    }

    /// Waits for what follows earlier calls without their waiting for it:
    /// FORGET, RELEASE, background writes.
    pub fn settle(&self) {
        let mut before = self.counts();
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let after = self.counts();
            if after == before {
                return;
            }
            before = after;
        }
    }

    fn counts(&self) -> std::collections::BTreeMap<String, u64> {
        let text = self.adapter.statistics_text();
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let kinds = all["requests"].as_object().unwrap();
        kinds
            .iter()
            .map(|(kind, n)| (kind.clone(), n.as_u64().unwrap()))
            .collect()
    }

    /// Unmounts and returns how the session ended.
    pub fn unmount(mut self) -> std::io::Result<End> {
        self.unmounter.shut_down(Duration::from_secs(5))?;
        self.server.take().unwrap().join().unwrap()
    }

    /// Waits for a session that something else ends.
    pub fn ended(mut self) -> std::io::Result<End> {
        self.server.take().unwrap().join().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = self.unmounter.shut_down(Duration::from_millis(500));
            let _ = server.join();
        }
    }
}

/// Has the mount's connection cut unless the test is over in time: when it
/// drops what it gets here.
pub fn watched(mountpoint: &Path) -> Sender<()> {
    let (over, is_over) = channel();
    let mountpoint = mountpoint.to_owned();
    std::thread::spawn(move || watch(&is_over, &mountpoint));
    over
}

/// Cuts the connection of a test that takes too long.
fn watch(is_over: &Receiver<()>, mountpoint: &Path) {
    if is_over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        eprintln!("=== cut after {PATIENCE:?}: {} ===", mountpoint.display());
        let _ = rustix::mount::unmount(mountpoint, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

/// Requests by kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Cost(std::collections::BTreeMap<String, u64>);

impl Cost {
    pub fn of(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }

    /// All but those that forget: they come when the kernel finds the time.
    pub fn total(&self) -> u64 {
        let forgets = self.of("forget") + self.of("batch_forget");
        self.0.values().sum::<u64>() - forgets
    }
}

/// Lets every user into `path`.
pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Runs `work` as a user without other groups. Linux keeps credentials per thread,
/// so the rest of the process goes on as root.
pub fn as_user<T: Send>(id: u32, work: impl FnOnce() -> T + Send) -> T {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        work.join().unwrap()
    })
}
