//! `varve mount`: mounts a volume.
//!
//! Exit codes are those of mount(8): 0 mounted, 1 wrong usage, 2 system error, 32 the
//! mount failed.

use super::mount_options::Chosen;
use super::output::{Failure, Outcome};
use super::ship_server::Streams;
use super::snapshot::{Snapshots, mounts};
use super::txn_server::Transactions;
use super::{allocator, calls, daemon, mount_options, mount_table, remounts, stats, umount};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use varve::admin::{self, Statistics, Tree, Verifier};
use varve::{IoMode, Volume};
use varve_fs::{FileSystem, Layout};
use varve_fuse::{End, MountOptions, SNAPSHOTS, Session, signals};
use varve_lfs::Lfs;

const USAGE: u8 = 1;
const FAILED: u8 = 32;
/// Longest time for sending a stream its end, once the volume is closed.
const STREAMS_END: Duration = Duration::from_secs(5);
/// Longest wait for a mount in use when the server receives a signal to end.
const GRACE: Duration = Duration::from_secs(10);

/// Mount a volume on a directory.
///
/// Returns once the mount is live. Unmount it with `varve umount DIR` or umount(8); a
/// SIGTERM to the server does so, too.
#[derive(clap::Args)]
pub struct Mount {
    /// The image file or block device.
    volume: PathBuf,
    /// The directory on which to mount it.
    directory: PathBuf,
    /// Options as in mount(8): ro, noatime, nosuid, nodev, noexec, acl,
    /// discard, noverify, order=strict, sync, dirsync, cache=SIZE, io=MODE, cleaner=POLICY
    /// (or off), cleaner-low=PERCENT, cleaner-high=PERCENT,
    /// cleaner-idle=SECONDS and more.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<OsString>,
    /// Refuse changes.
    #[arg(short, long)]
    read_only: bool,
    /// Bytes of memory for the volume's data and metadata; 128M by default.
    #[arg(long, value_parser = mount_options::cache)]
    cache: Option<u64>,
    /// How the image is read and written: direct, buffered or sync.
    #[arg(long)]
    io: Option<IoMode>,
    /// Serve the mount in this process, until it is unmounted.
    #[arg(short, long)]
    foreground: bool,
    /// In the background, append the server's messages to this file.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Serve in this process and notify the parent when the mount is live.
    #[arg(long, hide = true)]
    background_server: bool,
    /// A request of mount(8) to its helpers (see `helpers`).
    #[arg(long, hide = true)]
    fake: bool,
    #[arg(long, hide = true)]
    sloppy: bool,
    #[arg(long, hide = true)]
    namespace: Option<PathBuf>,
}

impl Mount {
    /// Runs the command; `arguments` are the program's own, with which it is started
    /// again.
    pub fn run(mut self, arguments: &[OsString]) -> Outcome {
        let chosen = self.choose()?;
        if chosen.remount {
            self.enter_namespace()?;
            return match self.fake {
                true => Ok(0),
                false => self.remount(&chosen),
            };
        }
        if !self.background_server
            && !self.fake
            && let Some(name) = &chosen.snapshot
            && let Some(entry) = mount_table::mount_of(&self.volume)
        {
            self.enter_namespace()?;
            self.settle_directory()?;
            let mounted = mounts::mount(&entry, &self.directory, name, &chosen.mount);
            let failed = |why| {
                let (volume, directory) = (self.volume.display(), self.directory.display());
                let text =
                    format_args!("cannot mount a snapshot of {volume} on {directory}: {why}");
                Failure::new(FAILED, text)
            };
            return mounted.map(|()| 0).map_err(failed);
        }
        if self.background_server {
            daemon::detach();
        } else if self.fake || !self.foreground {
            // A problem with the directory is reported better here than by the kernel.
            if self.namespace.is_none() {
                self.check_directory()?;
            }
            if self.fake {
                return Ok(0);
            }
            let mut again = arguments[1..].to_vec();
            again.insert(1, "--background-server".into());
            return daemon::start(&again);
        } else {
            allocator::settle_self();
        }
        self.volume = absolute(&self.volume)?;
        if let Some(log) = &mut self.log {
            *log = std::path::absolute(&*log).map_err(Failure::with(USAGE))?;
        }
        if self.namespace.is_none() {
            self.settle_directory()?;
        }
        self.serve(chosen)
    }

    fn settle_directory(&mut self) -> Result<(), Failure> {
        self.directory = absolute(&self.directory)?;
        self.check_directory()
    }

    /// Moves this thread, and those it starts later, to the requested mount namespace.
    fn enter_namespace(&self) -> Result<(), Failure> {
        self.namespace.as_deref().map_or(Ok(()), enter)
    }

    /// Handles `mount -o remount`. The kernel applies the flags, the server the cleaner's
    /// settings; no process is started.
    fn remount(&self, chosen: &Chosen) -> Outcome {
        let shown = self.directory.display();
        let entry = mount_table::varve_at(&self.directory).map_err(Failure::with(FAILED))?;
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
        let mut chosen = Chosen {
            sloppy: self.sloppy,
            ..Chosen::default()
        };
        for list in &self.options {
            let help = "`varve help mount` lists some, mount(8) the others";
            chosen
                .apply(&list.to_string_lossy())
                .map_err(|problem| Failure::new(USAGE, format_args!("{problem}; {help}")))?;
        }
        if self.read_only {
            chosen.set_read_only();
        }
        if let Some(cache) = self.cache {
            chosen.set_cache(cache);
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
    fn serve(mut self, mut chosen: Chosen) -> Outcome {
        chosen.warn_of_cache();
        let volume = self
            .open(&chosen)
            .map_err(|error| Failure::from(error).coded(FAILED))?;
        if self.namespace.is_some()
            && let Err(failure) = self
                .enter_namespace()
                .and_then(|()| self.settle_directory())
        {
            volume.close()?;
            return Err(failure);
        }
        if let Some(reason) = volume.read_only_reason()
            && !chosen.mount.read_only
        {
            tracing::warn!(volume = %self.volume.display(), "mounted read-only: {reason}");
            chosen.set_read_only();
        }
        let mut mount = chosen.mount;
        mount.source = self.volume.clone().into();
        if let Some(name) = &chosen.snapshot {
            return self.serve_snapshot(volume, name, mount);
        }
        let tree = admin::tree(&volume).clone();
        if mount.snapshot_directory
            && let Err(why) = may_have_snapshot_directory(&tree)
        {
            volume.close()?;
            let text = format_args!(
                "cannot mount {} with `snapdir`: {why}",
                self.volume.display()
            );
            return Err(Failure::new(FAILED, text));
        }
        match tree {
            Tree::Log(fs) => {
                let transactions = Transactions::new(Arc::clone(&fs));
                let plain = mount.clone();
                let streams = Streams::new(Arc::clone(&fs));
                let apart = (&transactions, &streams);
                answers_of_log(&mut mount, &fs, admin::verifier(&volume), apart);
                let outcome = self.serve_tree(volume, fs, mount, |session| {
                    transactions.mounted(session.kernel(), plain);
                });
                streams.finish(STREAMS_END);
                outcome
            }
            // This layout has no cleaner.
            Tree::VirtualLog(fs) => {
                let counted = Arc::clone(&fs);
                mount.statistics = Some(Arc::new(move || {
                    stats::describe_virtual_log(&counted).to_string()
                }));
                mount.ioctl = Some(calls::handler_without_transactions(
                    calls::NOT_ON_VIRTUAL_LOG,
                ));
                self.serve_tree(volume, fs, mount, |_| {})
            }
            Tree::InPlace(fs) => {
                let counted = Arc::clone(&fs);
                mount.statistics = Some(Arc::new(move || {
                    stats::describe_in_place(&counted).to_string()
                }));
                mount.ioctl = Some(calls::handler_without_transactions(calls::NOT_IN_PLACE));
                self.serve_tree(volume, fs, mount, |_| {})
            }
        }
    }

    /// Mounts a snapshot of an open volume, which no other process has open.
    fn serve_snapshot(self, volume: Volume, name: &str, mount: MountOptions) -> Outcome {
        let tree = admin::tree(&volume).clone();
        let opened = match tree.log() {
            Some(fs) => mounts::open(fs, name),
            None => Err(varve_fs::Error::NoSnapshots.to_string()),
        };
        match opened {
            Ok(snapshot) => {
                let tree = Arc::clone(snapshot.tree());
                self.serve_tree(volume, tree, mounts::answering_nothing(mount), |_| {})
            }
            Err(why) => {
                volume.close()?;
                let shown = self.volume.display();
                Err(Failure::new(
                    FAILED,
                    format_args!("cannot mount {shown}: {why}"),
                ))
            }
        }
    }

    /// Mounts the tree of an open volume, serves it until it is unmounted, and closes the
    /// volume.
    fn serve_tree<L: Layout>(
        self,
        volume: Volume,
        fs: Arc<FileSystem<L>>,
        options: MountOptions,
        mounted: impl FnOnce(&Session<L>),
    ) -> Outcome {
        let (read_only, synced) = (options.read_only, Arc::clone(&fs));
        let session = match Session::new(fs, &self.directory, options) {
            Ok(session) => session,
            Err(error) => {
                let failure = self.mount_failed(&error);
                volume.close()?;
                return Err(failure);
            }
        };
        mounted(&session);
        let watch = signals::unmount_on_termination(session.unmounter(), GRACE)
            .map_err(Failure::with(FAILED))?;
        let remounts = (!read_only).then(|| self.watch_remounts(synced)).flatten();
        if self.background_server {
            daemon::say_live(self.log.as_deref()).map_err(Failure::with(2))?;
        }
        let ended = session.run();
        drop((watch, remounts));
        finish(volume, ended)
    }

    /// Makes everything durable when the mount becomes read-only.
    fn watch_remounts<L: Layout>(&self, fs: Arc<FileSystem<L>>) -> Option<remounts::Watch> {
        let make_durable = move || {
            if let Err(error) = fs.sync() {
                tracing::error!(%error, "what was written before the remount is not durable");
            }
        };
        let watch = remounts::Watch::start(&self.directory, make_durable);
        watch
            .inspect_err(|error| tracing::warn!(%error, "remounts are not seen"))
            .ok()
    }

    fn open(&self, chosen: &Chosen) -> varve::Result<Volume> {
        umount::await_release(&self.volume, umount::RELEASE);
        chosen.volume().open(&self.volume)
    }

    fn mount_failed(&self, error: &std::io::Error) -> Failure {
        let (volume, directory) = (self.volume.display(), self.directory.display());
        Failure::new(
            FAILED,
            format_args!("cannot mount {volume} on {directory}: {error}"),
        )
    }
}

/// Succeeds if the root can have the directory of snapshots.
///
/// # Errors
/// Says why not.
fn may_have_snapshot_directory(tree: &Tree) -> Result<(), String> {
    let fs = tree.log().ok_or(varve_fs::Error::NoSnapshots);
    let fs = fs.map_err(|error| error.to_string())?;
    fs.snapshots().map_err(|error| error.to_string())?;
    match fs.lookup_path(&varve_fs::Caller::root(), SNAPSHOTS.as_bytes()) {
        Ok(_) => Err(format!(
            "the root has a file `{SNAPSHOTS}`, which would be hidden; mount without the option \
             and rename it"
        )),
        Err(varve_fs::Error::NotFound) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Sets the mount's answers for the segmented log, to `varve stats` and by ioctl.
fn answers_of_log(
    mount: &mut MountOptions,
    fs: &Arc<FileSystem<Lfs>>,
    verifier: &Arc<Verifier>,
    (transactions, streams): (&Arc<Transactions>, &Arc<Streams>),
) {
    let (counted, verifies) = (Arc::clone(fs), Arc::clone(verifier));
    let ended = Arc::clone(transactions);
    mount.statistics = Some(Arc::new(move || {
        let mut all = stats::describe(&Statistics::of(&counted));
        stats::add_health(&mut all, counted.layout(), &verifies);
        all["transactions"]["aborted_by"] = ended.aborts().into();
        all.to_string()
    }));
    mount.ioctl = Some(calls::handler(
        Arc::clone(verifier),
        Arc::clone(fs),
        Arc::clone(transactions),
        Arc::clone(streams),
        Snapshots::new(Arc::clone(fs), Arc::clone(transactions)),
    ));
}

/// Closes the volume, unless its data in memory is not to be trusted.
fn finish(volume: Volume, ended: std::io::Result<End>) -> Outcome {
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

/// Moves this thread, and those it starts from now on, to the mount namespace of the
/// process with this number, or to one that is named by a file such as `/proc/1/ns/mnt`.
pub fn enter(namespace: &Path) -> Result<(), Failure> {
    let process = namespace.to_str().and_then(|text| text.parse::<u32>().ok());
    let path = match process {
        Some(number) => format!("/proc/{number}/ns/mnt").into(),
        None => namespace.to_owned(),
    };
    let entered = std::fs::File::open(&path).and_then(|file| varve_fuse::enter_mounts(&file));
    entered.map_err(|error| {
        let shown = path.display();
        Failure::new(
            FAILED,
            format_args!("cannot enter the mount namespace {shown}: {error}"),
        )
    })
}
