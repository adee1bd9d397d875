//! Identity of this process, and the holder of a volume.
//!
//! A lock of the operating system prevents a second mount. The owner record on the volume
//! only names the holder, for messages and, after an unclean stop, to report whose mount
//! it was.

use crate::unlocked::Unlocked;
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use varve_device::Device;
use varve_device::host::{boot_id, host_name};
use varve_ffs::Ffs;
use varve_lfs::format::owner::OwnerRecord;
use varve_lfs::{Lfs, OwnerIdentity};
use varve_vlfs::Vlfs;

/// The process that had a volume mounted when its owner record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the host.
    pub host: String,
    /// Identity of the host's boot.
    pub boot_id: String,
    /// Process number on that host.
    pub pid: u32,
    /// Time of the mount, in ns since 1970.
    pub since_ns: i64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held by process {}", self.pid)?;
        if let Some(name) = process_name(self) {
            write!(f, " ({name})")?;
        }
        write!(f, " on {}", self.host)?;
        let since = u64::try_from(self.since_ns).unwrap_or(0);
        let since = SystemTime::UNIX_EPOCH + Duration::from_nanos(since);
        if let Ok(age) = since.elapsed() {
            write!(f, " for {}", Age(age))?;
        }
        Ok(())
    }
}

struct Age(Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            s @ 0..=119 => write!(f, "{s} s"),
            s @ 120..=7199 => write!(f, "{} min", s / 60),
            s => write!(f, "{} h", s / 3600),
        }
    }
}

/// Returns the name of the holder's process if it runs on this host.
fn process_name(holder: &Holder) -> Option<String> {
    if holder.boot_id != boot_id() {
        return None;
    }
    let name = std::fs::read_to_string(format!("/proc/{}/comm", holder.pid)).ok()?;
    Some(name.trim().to_owned())
}

impl From<&OwnerRecord> for Holder {
    fn from(record: &OwnerRecord) -> Self {
        Holder {
            host: record.host_text(),
            boot_id: record.boot_text(),
            pid: record.pid.get(),
            since_ns: record.since_ns.get(),
        }
    }
}

/// Returns the identity that this process writes into the owner record.
pub fn identity() -> OwnerIdentity {
    OwnerIdentity {
        host: host_name(),
        boot_id: boot_id(),
        pid: std::process::id(),
    }
}

/// Returns the process that has the volume in `path` open, or that stopped without
/// unmounting it. The record is read without taking the lock. `None` if the volume was
/// unmounted, or has no readable record.
pub fn holder(path: &Path) -> Option<Holder> {
    let device = Unlocked::open(path).ok()?;
    let record = match Lfs::find_superblock(&device) {
        Ok(superblock) => Lfs::read_owner(&device, &superblock).ok()??,
        Err(_) => match Vlfs::find_superblock(&device) {
            Ok(superblock) => Vlfs::read_owner(&device, &superblock).ok()??,
            Err(_) => {
                let superblock = Ffs::find_superblock(&device).ok()?;
                Ffs::read_owner(&device, &superblock).ok()??
            }
        },
    };
    (record.mounted.get() == 1).then(|| Holder::from(&record))
}

/// Returns true if a process of this host has the image or device locked.
pub fn is_locked(path: &Path) -> bool {
    let (Ok(stat), Ok(locks)) = (
        rustix::fs::stat(path),
        std::fs::read_to_string("/proc/locks"),
    ) else {
        return false;
    };
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    locks
        .lines()
        .any(|lock| lock.contains(" FLOCK ") && lock.split_whitespace().any(|word| word == place))
}

/// Returns the effective user and group of this process.
pub(crate) fn user_and_group() -> (u32, u32) {
    let user = rustix::process::geteuid().as_raw();
    (user, rustix::process::getegid().as_raw())
}

/// Returns the name of the loop device that is backed by an image file, if there is one.
pub(crate) fn loop_device_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let devices = std::fs::read_dir("/sys/block").ok()?;
    devices.flatten().find_map(|device| {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        (Path::new(backing.trim_end_matches('\n')) == path)
            .then(|| device.file_name().to_string_lossy().into_owned())
    })
}

/// Returns true if a block device is mounted or otherwise in exclusive use.
pub(crate) fn is_claimed(name: &str) -> bool {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(Path::new("/dev").join(name), flags, Mode::empty());
    matches!(opened, Err(rustix::io::Errno::BUSY))
}

/// Logs that a volume was not unmounted, if its owner record says so. The caller must own
/// the lock; without it the holder may just be unmounting.
pub(crate) fn report_unclean(device: &dyn Device, owner: Option<OwnerRecord>) {
    let Some(record) = owner.filter(|record| record.mounted.get() == 1) else {
        return;
    };
    let (gone, text) = unclean_owner(&Holder::from(&record));
    let volume = device.name();
    match gone {
        true => tracing::info!(%volume, "recovering: {text}"),
        false => tracing::warn!(%volume, "{text}"),
    }
}

/// Describes an unclean stop from the owner record, given that this process owns the
/// lock. The first value is true if the previous owner has certainly exited; the second
/// is the text of the message.
fn unclean_owner(holder: &Holder) -> (bool, String) {
    let here = identity();
    if holder.boot_id == here.boot_id {
        let text = format!(
            "process {} on this host stopped without unmounting",
            holder.pid
        );
        (true, text)
    } else if holder.host == here.host {
        let text = format!(
            "it was mounted by process {} when {} stopped or restarted",
            holder.pid, holder.host
        );
        (true, text)
    } else {
        let text = format!(
            "it was last mounted on {} (process {}) and not unmounted there; two hosts must \
             never have it mounted at once",
            holder.host, holder.pid
        );
        (false, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unclean_owners_are_told_apart() {
        let mut holder = Holder {
            host: identity().host,
            boot_id: boot_id(),
            pid: 7,
            since_ns: 0,
        };
        assert!(unclean_owner(&holder).1.contains("process 7 on this host"));
        holder.boot_id = "another".into();
        assert!(unclean_owner(&holder).1.contains("stopped or restarted"));
        holder.host = "elsewhere".into();
        let (gone, text) = unclean_owner(&holder);
        assert!(!gone && text.contains("elsewhere"));
    }

    #[test]
    fn a_holder_is_named_with_its_age() {
        let holder = Holder {
            host: "alpha".into(),
            boot_id: "another".into(),
            pid: 12,
            since_ns: 0,
        };
        let text = holder.to_string();
        assert!(
            text.starts_with("held by process 12 on alpha for"),
            "{text}"
        );
    }
}
