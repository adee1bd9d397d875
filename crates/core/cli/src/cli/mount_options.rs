//! The words of `mount -o`.

use super::size;
use std::time::Duration;
use varve::admin::{Pace, PolicyKind, Tuning};
use varve::{Atime, IoMode, StoreOptions, VolumeOptions};
use varve_fuse::MountOptions;

/// Words for other programs, which are ignored here.
const FOREIGN: [&str; 17] = [
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "nouser",
    "users",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nousers",
    // These describe every mount.
    "user_xattr",
    // A volume that cannot be written takes no more changes.
    "errors=remount-ro",
    "lazytime",
    "nolazytime",
    "silent",
];

/// Prefixes of words that are ignored likewise: the last are those that the mount table
/// shows, which a remount repeats.
const FOREIGN_PREFIXES: [&str; 10] = [
    "x-",
    "X-",
    "comment=",
    "user=",
    "helper=",
    "uhelper=",
    "user_id=",
    "group_id=",
    "max_read=",
    "subtype=",
];

/// All options of a mount.
pub struct Chosen {
    /// How the volume is opened, `tuning` excluded.
    pub volume: VolumeOptions,
    /// Settings of its cleaner and its threads.
    pub tuning: Tuning,
    /// How a volume in an object store is opened.
    pub store: StoreOptions,
    /// Bytes of its cache, if given.
    pub cache_bytes: Option<u64>,
    /// How the kernel treats the mount.
    pub mount: MountOptions,
    /// Only the flags of an existing mount change, and the settings of its cleaner.
    pub remount: bool,
    /// Unknown words are ignored.
    pub sloppy: bool,
    /// The snapshot that is to be mounted instead of the present.
    pub snapshot: Option<String>,
    /// Settings of the cleaner, for a server that runs already.
    pub cleaner: serde_json::Map<String, serde_json::Value>,
}

impl Default for Chosen {
    fn default() -> Self {
        Chosen {
            volume: VolumeOptions::new(),
            tuning: Tuning {
                // The kernel caches written data.
                keep_written: false,
                ..Tuning::default()
            },
            store: StoreOptions::default(),
            cache_bytes: None,
            mount: MountOptions::default(),
            remount: false,
            sloppy: false,
            snapshot: None,
            cleaner: serde_json::Map::new(),
        }
    }
}

/// A time such as `60s`, `10m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time such as 60s, 10m or 1h");
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        _ => return Err(wrong()),
    };
    let number = text[..text.len() - 1].parse::<u64>();
    let seconds = number.ok().and_then(|number| number.checked_mul(unit));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

impl Chosen {
    /// Applies a list such as `ro,noatime,cache=1G`.
    ///
    /// # Errors
    /// Names the unknown word.
    pub fn apply(&mut self, list: &str) -> Result<(), String> {
        list.split(',')
            .filter(|word| !word.is_empty())
            .try_for_each(|word| self.word(word))
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        let foreign =
            FOREIGN.contains(&word) || FOREIGN_PREFIXES.iter().any(|p| word.starts_with(p));
        if foreign {
            return Ok(());
        }
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match (name, value) {
            ("remount", "") => self.remount = true,
            ("snapshot", name) if !name.is_empty() => {
                self.snapshot = Some(name.to_owned());
                self.set_read_only();
            }
            ("cache", size) => {
                self.set_cache(cache(size)?);
            }
            ("io", mode) => self.set_io(mode.parse()?),
            ("takeover", "") => self.store.takeover = Some(Duration::ZERO),
            ("takeover", time) => self.store.takeover = Some(duration(time)?),
            ("stall", time) => self.store.stall = Some(duration(time)?),
            ("verify", "") => self.tuning.verify = true,
            ("compact", "") => self.tuning.compact = true,
            ("nocompact", "") => self.tuning.compact = false,
            ("noverify", "") => self.tuning.verify = false,
            ("holes", "") => self.tuning.holes = true,
            ("noholes", "") => self.tuning.holes = false,
            (name, value) if name == "cleaner" || name.starts_with("cleaner-") => {
                let (policy, pace) = (&mut self.tuning.cleaner_policy, &mut self.tuning.cleaner);
                let (member, said) = cleaner_word(name, value, policy, pace)?;
                self.cleaner.insert(member.into(), said);
            }
            ("discard", "") => self.tuning.discard = true,
            ("nodiscard", "") => self.tuning.discard = false,
            _ if self.mount.apply(word) => {}
            _ if self.sloppy => tracing::info!(word, "passed over"),
            _ => return Err(format!("`{word}` is no option of a Varve mount")),
        }
        let mount = &self.mount;
        let atime = match (mount.no_atime, mount.strict_atime, mount.no_dir_atime) {
            (true, _, _) => Atime::Never,
            (false, true, true) => Atime::StrictOfFiles,
            (false, true, false) => Atime::Strict,
            (false, false, true) => Atime::RelatimeOfFiles,
            (false, false, false) => Atime::Relatime,
        };
        self.volume
            .read_only(mount.read_only)
            .strict_order(mount.strict_order)
            .atime(atime);
        Ok(())
    }

    /// Sets the size of the volume's cache.
    pub fn set_cache(&mut self, bytes: u64) {
        self.volume.cache(bytes);
        self.cache_bytes = Some(bytes);
    }

    /// Warns if the cache is larger than the machine's memory.
    pub fn warn_of_cache(&self) {
        let system = rustix::system::sysinfo();
        let memory = system.totalram.saturating_mul(system.mem_unit.into());
        if let Some(cache) = self.cache_bytes.filter(|cache| *cache > memory) {
            let (cache, memory) = (size::show(cache), size::show(memory));
            tracing::warn!(
                "the cache of {cache} is larger than the {memory} of memory that this machine has"
            );
        }
    }

    /// Makes the mount read-only.
    pub fn set_read_only(&mut self) {
        self.mount.read_only = true;
        self.volume.read_only(true);
    }

    /// The options with which the volume is opened.
    pub fn volume(&self) -> VolumeOptions {
        let mut volume = self.volume.clone();
        volume.tune(self.tuning).store(self.store);
        volume
    }

    /// Sets how the image is read and written.
    pub fn set_io(&mut self, io: IoMode) {
        self.volume.io(io);
    }
}

/// Bytes of the smallest cache.
const CACHE_MIN: u64 = 2 << 20;

/// Parses the size of a cache.
///
/// # Errors
/// States the allowed sizes.
pub fn cache(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes >= CACHE_MIN => Ok(bytes),
        _ => Err(format!(
            "`{text}` is too small for a cache: it takes at least {}",
            size::show(CACHE_MIN)
        )),
    }
}

/// Parses a setting of the cleaner: applies it, and encodes it for a running server.
fn cleaner_word(
    name: &str,
    value: &str,
    policy: &mut PolicyKind,
    pace: &mut Pace,
) -> Result<(&'static str, serde_json::Value), String> {
    let number = |most: u64| match value.parse::<u64>() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(format!(
            "`{name}={value}`: it takes a number of at most {most}"
        )),
    };
    Ok(match name {
        "cleaner" if value == "off" || value == "on" => {
            pace.running = value == "on";
            ("running", pace.running.into())
        }
        "cleaner" => {
            *policy = value.parse()?;
            ("policy", value.into())
        }
        "cleaner-low" => {
            let percent = number(90)?;
            pace.low_percent = Some(percent as u8).filter(|p| *p > 0);
            ("low", percent.into())
        }
        "cleaner-high" => {
            let percent = number(90)?;
            pace.high_percent = Some(percent as u8).filter(|p| *p > 0);
            ("high", percent.into())
        }
        "cleaner-idle" => {
            let seconds = number(1_000_000)?;
            pace.idle_ns = Some(seconds * 1_000_000_000).filter(|ns| *ns > 0);
            ("idle", seconds.into())
        }
        _ => return Err(format!("`{name}` is no option of a Varve mount")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fuse::Synchronous;

    #[test]
    fn words_reach_the_layer_they_belong_to() {
        let mut chosen = Chosen::default();
        chosen
            .apply("rw,noatime,cache=64M,io=buffered,cleaner=cost-benefit,discard,nosuid,order=strict,x-y.z=1,_netdev")
            .unwrap();
        let mut wanted = VolumeOptions::new();
        wanted.cache(64 << 20).io(IoMode::Buffered);
        wanted.atime(Atime::Never).strict_order(true);
        assert_eq!(chosen.volume, wanted);
        assert_eq!(chosen.tuning.cleaner_policy, PolicyKind::COST_BENEFIT);
        assert!(chosen.tuning.discard && chosen.mount.no_suid);
        let mut keeps = |words: &str, atime: Atime| {
            chosen.apply(words).unwrap();
            assert_eq!(chosen.volume, *wanted.atime(atime), "{words}");
        };
        keeps("relatime,nodiratime,lazytime", Atime::RelatimeOfFiles);
        let shown = "user_id=0,group_id=0,default_permissions,max_read=131072";
        keeps(shown, Atime::RelatimeOfFiles);
        keeps("strictatime", Atime::StrictOfFiles);
        keeps("diratime", Atime::Strict);
        keeps("relatime,nodiratime", Atime::RelatimeOfFiles);
        chosen.apply("ro").unwrap();
        assert_eq!(chosen.volume, *wanted.read_only(true));
        chosen
            .apply("cleaner=off,cleaner-low=10,cleaner-high=20,cleaner-idle=3")
            .unwrap();
        let pace = chosen.tuning.cleaner;
        assert!(!pace.running);
        assert_eq!((pace.low_percent, pace.high_percent), (Some(10), Some(20)));
        assert_eq!(pace.idle_ns, Some(3_000_000_000));
        assert_eq!(chosen.cleaner["running"], false);
        assert_eq!(chosen.cleaner["policy"], "cost-benefit");
        chosen.apply("cleaner=on,cleaner-low=0").unwrap();
        assert!(chosen.tuning.cleaner.running && chosen.tuning.cleaner.low_percent.is_none());
        for wrong in [
            "commit-interval=20",
            "cleaner=hole-plugging",
            "cleaner-low=91",
            "cleaner-idle=x",
            "cleaner-blue=1",
        ] {
            assert!(chosen.apply(wrong).is_err(), "{wrong}");
        }
        let wrong = chosen.apply("nodev,blue").unwrap_err();
        assert!(wrong.contains("`blue`"), "{wrong}");
        assert!(chosen.apply("cache=lots").is_err());
        for (words, wanted) in [
            ("sync", Synchronous::Everything),
            ("dirsync", Synchronous::Everything),
            ("async", Synchronous::Nothing),
            ("dirsync,user_xattr,errors=remount-ro", Synchronous::Names),
        ] {
            chosen.apply(words).unwrap();
            assert_eq!(chosen.mount.synchronous, wanted, "{words}");
        }
        let small = chosen.apply("cache=1K").unwrap_err();
        assert!(small.contains("at least 2 MiB"), "{small}");
        assert!(chosen.apply("errors=continue").is_err());
        chosen.sloppy = true;
        chosen.apply("blue,user=me,group").unwrap();
        assert!(chosen.apply("cache=lots").is_err());
    }
}
