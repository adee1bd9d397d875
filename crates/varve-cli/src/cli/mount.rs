//! `varve mount`: mounts a volume.
//!
//! Exit codes are those of mount(8): 0 mounted, 1 wrong usage, 2 the system
//! failed, 32 the mount failed.

use super::mount_options::Chosen;
use super::output::{Failure, Outcome};
use super::{allocator, calls, daemon, mount_table, size, stats};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve::{IoMode, Statistics, VirtualLogVolume, Volume};
use varve_fs::{FileSystem, Layout};
use varve_fuse::{End, MountOptions, Session, signals};

const USAGE: u8 = 1;
const FAILED: u8 = 32;
/// How long the volume's last server may take to let go of it.
const RELEASE: Duration = Duration::from_secs(5);
/// How long a mount in use is waited for when the server is told to end.
const GRACE: Duration = Duration::from_secs(10);

/// Mount a volume on a directory.
///
/// Returns once the mount is live. Unmount it with `varve umount DIR` or
/// umount(8); a SIGTERM to the server does so, too.
#[derive(clap::Args)]
pub struct Mount {
    /// The image file or block device.
    volume: PathBuf,
    /// The directory to mount it on.
    directory: PathBuf,
    /// Options as in mount(8): ro, noatime, nosuid, nodev, noexec, acl,
    /// discard, noverify, order=strict, cache=SIZE, io=MODE, cleaner=POLICY
    /// (or off), cleaner-low=PERCENT, cleaner-high=PERCENT,
    /// cleaner-idle=SECONDS, heads=N and more.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Refuse changes.
    #[arg(short, long)]
    read_only: bool,
    /// Bytes of memory for the volume's data and metadata; 128M by default.
    #[arg(long, value_parser = size::parse)]
    cache: Option<u64>,
    /// How the image is read and written: direct, buffered or sync.
    #[arg(long, value_parser = super::io_mode)]
    io: Option<IoMode>,
    /// Serve the mount in this process, until it is unmounted.
    #[arg(short, long)]
    foreground: bool,
    /// In the background, append the server's messages to this file.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Serve in this process and tell the parent when the mount is live.
    #[arg(long, hide = true)]
    background_server: bool,
    /// Flags that mount(8) hands to its helpers; they change nothing here.
    #[arg(short = 's', hide = true)]
    sloppy: bool,
    #[arg(short = 'n', hide = true)]
    no_table: bool,
    #[arg(short = 'v', hide = true)]
    verbose: bool,
    #[arg(short = 't', hide = true)]
    kind: Option<String>,
}

impl Mount {
    /// `arguments` are the program's own, to start it again with.
    pub fn run(mut self, arguments: &[OsString]) -> Outcome {
        let chosen = self.choose()?;
        if chosen.remount {
            return self.remount(&chosen);
        }
        if self.background_server {
            daemon::detach();
        } else if !self.foreground {
            // Whatever is wrong with the directory is better said by us.
            self.check_directory()?;
            let mut again = arguments[1..].to_vec();
            again.insert(1, "--background-server".into());
            return daemon::start(&again);
        } else {
            allocator::settle_self();
        }
        self.volume = absolute(&self.volume)?;
        self.directory = absolute(&self.directory)?;
        if let Some(log) = &mut self.log {
            *log = std::path::absolute(&*log).map_err(Failure::with(USAGE))?;
        }
        self.check_directory()?;
        self.serve(chosen)
    }

    /// What `mount -o remount` asks for. The kernel takes care of the flags,
    /// the server of what is said about its cleaner; nothing is started.
    fn remount(&self, chosen: &Chosen) -> Outcome {
        let shown = self.directory.display();
        let mounted = mount_table::mount_at(&self.directory).filter(|e| e.is_varve());
        let Some(entry) = mounted else {
            let text = format_args!("nothing of Varve is mounted on {shown} to remount");
            return Err(Failure::new(FAILED, text));
        };
        varve_fuse::remount(&entry.directory, &chosen.mount).map_err(|error| {
            let advice = match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => {
                    "; files are open for writing there"
                }
                _ => "",
            };
            let text = format_args!("cannot remount {shown}: {error}{advice}");
            Failure::new(FAILED, text)
        })?;
        if !chosen.cleaner.is_empty() {
            super::cleaner::set(&entry.directory, &chosen.cleaner)?;
        }
        Ok(0)
    }

    fn choose(&self) -> Result<Chosen, Failure> {
        let mut chosen = Chosen::default();
        for list in &self.options {
            let help = "`varve help mount` lists some, mount(8) the others";
            chosen
                .apply(list)
                .map_err(|problem| Failure::new(USAGE, format_args!("{problem}; {help}")))?;
        }
        if self.read_only {
            chosen.set_read_only();
        }
        if let Some(cache) = self.cache {
            chosen.volume.cache_bytes = cache;
        }
        if let Some(io) = self.io {
            chosen.set_io(io);
        }
        Ok(chosen)
    }

    fn check_directory(&self) -> Result<(), Failure> {
        let shown = self.directory.display();
        if let Some(entry) = mount_table::mount_at(&self.directory).filter(|e| e.is_varve()) {
            let text = format!(
                "{} is mounted on {shown} already; unmount it first: varve umount {shown}",
                entry.source.display()
            );
            return Err(Failure::new(FAILED, text));
        }
        match std::fs::metadata(&self.directory) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(Failure::new(
                FAILED,
                format_args!("{shown} is not a directory; name one to mount on"),
            )),
            Err(error) => Err(Failure::new(
                FAILED,
                format_args!("cannot mount on {shown}: {error}"),
            )),
        }
    }

    /// Opens the volume, mounts it, and serves it until it is unmounted.
    fn serve(self, mut chosen: Chosen) -> Outcome {
        if varve::is_virtual_log(&self.volume) {
            return self.serve_virtual_log(chosen);
        }
        let volume = self
            .open(&chosen)
            .map_err(|error| Failure::from(error).coded(FAILED))?;
        self.opened(volume.read_only_reason(), &mut chosen);
        let counted = Arc::clone(volume.file_system());
        let verifier = Arc::clone(volume.verifier());
        chosen.mount.statistics = Some(Arc::new(move || {
            let mut all = stats::describe(&Statistics::of(&counted));
            stats::add_health(&mut all, counted.layout(), &verifier);
            all.to_string()
        }));
        let fs = Arc::clone(volume.file_system());
        chosen.mount.ioctl = Some(calls::handler(Arc::clone(volume.verifier()), fs));
        let fs = Arc::clone(volume.file_system());
        self.serve_tree(volume, fs, chosen.mount)
    }

    /// The same for a volume on the virtual log: nothing is cleaned, and nobody
    /// is asked by ioctl.
    fn serve_virtual_log(self, mut chosen: Chosen) -> Outcome {
        let volume = self
            .open_patiently(|| VirtualLogVolume::open(&self.volume, &chosen.volume))
            .map_err(|error| Failure::from(error).coded(FAILED))?;
        self.opened(volume.read_only_reason(), &mut chosen);
        let counted = Arc::clone(volume.file_system());
        chosen.mount.statistics = Some(Arc::new(move || {
            let all = serde_json::json!({
                "virtual_log": counted.layout().statistics(),
                "tree": stats::tree(&counted.statistics()),
                "space": stats::space(&counted.statfs()),
            });
            all.to_string()
        }));
        let fs = Arc::clone(volume.file_system());
        self.serve_tree(volume, fs, chosen.mount)
    }

    /// Says why an open volume takes no changes, if so, and mounts it so.
    fn opened(&self, read_only: Option<String>, chosen: &mut Chosen) {
        if let Some(reason) = read_only.filter(|_| !chosen.volume.read_only) {
            tracing::warn!(volume = %self.volume.display(), "mounted read-only: {reason}");
            chosen.set_read_only();
        }
        chosen.mount.source = self.volume.display().to_string();
    }

    /// Mounts the tree of an open volume, serves it until it is unmounted, and
    /// closes the volume.
    fn serve_tree<L: Layout>(
        self,
        volume: impl Served,
        fs: Arc<FileSystem<L>>,
        options: MountOptions,
    ) -> Outcome {
        let session = match Session::new(fs, &self.directory, options) {
            Ok(session) => session,
            Err(error) => {
                let failure = self.mount_failed(&error);
                volume.close()?;
                return Err(failure);
            }
        };
        let watch = signals::unmount_on_termination(session.unmounter(), GRACE)
            .map_err(Failure::with(FAILED))?;
        if self.background_server {
            daemon::say_live(self.log.as_deref()).map_err(Failure::with(2))?;
        }
        let ended = session.run();
        drop(watch);
        finish(volume, ended)
    }

    /// umount(8) returns while the server may still be writing its last
    /// checkpoint: a volume that is in use, but mounted nowhere, is waited for.
    fn open(&self, chosen: &Chosen) -> varve::Result<Volume> {
        self.open_patiently(|| Volume::open(&self.volume, &chosen.volume))
    }

    fn open_patiently<V>(&self, open: impl Fn() -> varve::Result<V>) -> varve::Result<V> {
        let until = Instant::now() + RELEASE;
        loop {
            match open() {
                Err(varve::Error::InUse { .. })
                    if mount_table::mount_of(&self.volume).is_none() && Instant::now() < until =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                outcome => return outcome,
            }
        }
    }

    fn mount_failed(&self, error: &std::io::Error) -> Failure {
        let (volume, directory) = (self.volume.display(), self.directory.display());
        Failure::new(
            FAILED,
            format_args!("cannot mount {volume} on {directory}: {error}"),
        )
    }
}

/// An open volume, of either layout.
trait Served {
    fn close(self) -> varve::Result<()>;
    fn abandon(self);
}

impl Served for Volume {
    fn close(self) -> varve::Result<()> {
        Volume::close(self)
    }

    fn abandon(self) {
        Volume::abandon(self);
    }
}

impl Served for VirtualLogVolume {
    fn close(self) -> varve::Result<()> {
        VirtualLogVolume::close(self)
    }

    fn abandon(self) {
        VirtualLogVolume::abandon(self);
    }
}

/// Closes the volume, unless what it holds in memory is not to be trusted.
fn finish(volume: impl Served, ended: std::io::Result<End>) -> Outcome {
    match ended {
        Ok(End::ShutDown) => {
            volume.abandon();
            Ok(0)
        }
        Ok(end) => {
            if end == End::Aborted {
                tracing::warn!("the connection was cut: what the kernel still held is lost");
            }
            volume
                .close()
                .map_err(|error| Failure::from(error).coded(FAILED))?;
            Ok(0)
        }
        Err(error) => {
            tracing::error!(%error, "the server stopped");
            volume.abandon();
            Err(Failure::new(FAILED, error))
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    daemon::absolute(path).map_err(|error| {
        Failure::new(
            FAILED,
            format_args!("cannot open {}: {error}", path.display()),
        )
    })
}
