//! The kernel's knobs of a mount, under `/sys/class/bdi`: what the protocol
//! has no words for. Best effort; turning them needs root.

use std::path::{Path, PathBuf};

/// The knobs of one mount.
pub(crate) struct Bdi {
    directory: PathBuf,
}

impl Bdi {
    /// Those of the mount at `mountpoint`, if they can be found.
    pub(crate) fn of(mountpoint: &Path) -> Option<Self> {
        let table = std::fs::read("/proc/self/mountinfo").ok()?;
        // "36 35 0:52 / /mnt ..."; the newest mount at a path is the last line.
        let line = table.split(|&b| b == b'\n').rev().find(|line| {
            let path = line.split(|&b| b == b' ').nth(4);
            path.is_some_and(|p| unescape(p) == mountpoint.as_os_str().as_encoded_bytes())
        })?;
        let device = line.split(|&b| b == b' ').nth(2)?;
        Some(Self::of_device(std::str::from_utf8(device).ok()?))
    }

    /// Those of the mount with this device number, such as `0:52`.
    pub(crate) fn of_device(device: &str) -> Self {
        let directory = Path::new("/sys/class/bdi").join(device);
        Bdi { directory }
    }

    /// Lets the kernel read `kib` KiB ahead: the protocol alone cannot raise
    /// its default of 128.
    pub(crate) fn set_read_ahead(&self, kib: u32) {
        self.set("read_ahead_kb", u64::from(kib));
    }

    /// Has the kernel hold at most `bytes` of dirty pages, and answers how
    /// much it may hold, as far as we know. Linux 6.2 and later; older ones
    /// stay at a hundredth of what all file systems together may hold.
    pub(crate) fn bound_dirty(&self, bytes: u64) -> u64 {
        self.set("strict_limit", 1);
        self.set("max_bytes", bytes);
        let told = std::fs::read_to_string(self.directory.join("max_bytes"));
        let bound = told.ok().and_then(|text| text.trim().parse().ok());
        bound.map_or(bytes, |bound: u64| bound.min(bytes))
    }

    fn set(&self, name: &str, value: u64) {
        let knob = self.directory.join(name);
        if let Err(error) = std::fs::write(&knob, value.to_string()) {
            tracing::debug!(knob = %knob.display(), %error, "stays as the kernel has it");
        }
    }
}

/// Undoes the mount table's octal escapes.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) if first == b'\\' => {
                out.push(byte);
                rest = &tail[3..];
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_table_paths_are_unescaped() {
        assert_eq!(unescape(br"/a\040b\134c\"), b"/a b\\c\\");
    }
}
