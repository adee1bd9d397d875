//! What to run, and how large.

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Many small files: create, sync, read, stat, list, delete.
    Smallfile,
    /// The same bytes as files of 1 KiB to 32 MiB.
    Sizes,
    /// One large file, sequential and random.
    Largefile,
    /// Random 4 KiB writes, each with fdatasync.
    Fsyncupdate,
    /// Transactions shaped like TPC-B's on four files.
    Tpcb,
    /// Making, linking, renaming and removing names.
    Metadata,
    /// Attributes and content from the cache.
    Cached,
    /// Fill to a share, then overwrite at random until it is old.
    Fillaging,
    /// Parts and connections on the record store: look up, insert, follow.
    Oo1,
    /// 32 queries on four relations of the record store.
    Wisconsin,
    /// A bank of the record store in the order of its accounts, before and after
    /// transactions.
    Scan,
    /// Directories, copies, attributes, reading and compiling, by one user.
    Andrew,
    /// The same by one to eight users at once.
    Multiandrew,
    /// Large files at random places: bvi, ccm, les, venus.
    Supercomputer,
    /// A file written and read whole, 8 KiB to 4 MiB.
    Bandwidth,
    /// Files of 1 to 10 MiB created, copied, removed.
    Bigfile,
    /// Files of an office that are made, read and die.
    Office,
}

impl Workload {
    /// Every single workload.
    pub const EACH: [Workload; 17] = [
        Workload::Smallfile,
        Workload::Sizes,
        Workload::Largefile,
        Workload::Fsyncupdate,
        Workload::Tpcb,
        Workload::Metadata,
        Workload::Cached,
        Workload::Fillaging,
        Workload::Oo1,
        Workload::Wisconsin,
        Workload::Scan,
        Workload::Andrew,
        Workload::Multiandrew,
        Workload::Supercomputer,
        Workload::Bandwidth,
        Workload::Bigfile,
        Workload::Office,
    ];

    /// Its name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Smallfile => "smallfile",
            Workload::Sizes => "sizes",
            Workload::Largefile => "largefile",
            Workload::Fsyncupdate => "fsyncupdate",
            Workload::Tpcb => "tpcb",
            Workload::Metadata => "metadata",
            Workload::Cached => "cached",
            Workload::Fillaging => "fillaging",
            Workload::Oo1 => "oo1",
            Workload::Wisconsin => "wisconsin",
            Workload::Scan => "scan",
            Workload::Andrew => "andrew",
            Workload::Multiandrew => "multiandrew",
            Workload::Supercomputer => "supercomputer",
            Workload::Bandwidth => "bandwidth",
            Workload::Bigfile => "bigfile",
            Workload::Office => "office",
        }
    }
}

/// One workload, or `all`.
#[derive(Clone, Debug)]
pub struct Selection(pub Vec<Workload>);

impl std::str::FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Selection(Workload::EACH.into()));
        }
        let one = Workload::EACH.iter().find(|each| each.name() == text);
        let one = one.ok_or_else(|| {
            let names = Workload::EACH.map(Workload::name).join(", ");
            format!("there are {names} and all")
        })?;
        Ok(Selection(vec![*one]))
    }
}

/// Sizes and limits; `None` takes the workload's default.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many: files, accounts, parts, tuples, passes, runs, requests, steps.
    pub n: Option<u64>,
    /// Bytes of a file.
    pub file_bytes: Option<u64>,
    /// Smallest file of `sizes`.
    pub min_bytes: u64,
    /// Directories of `smallfile`.
    pub directories: u64,
    /// Bytes of a request of `largefile`.
    pub unit: Option<u64>,
    /// Bytes in all of `sizes`, and that live in `office`.
    pub total: Option<u64>,
    /// Most seconds of a timed phase.
    pub seconds: Option<f64>,
    /// Threads; of `multiandrew` the most users.
    pub threads: Option<usize>,
    /// Seconds of the processor that a pass of `andrew` and `multiandrew` computes.
    pub compute_s: f64,
    /// Varies content and order.
    pub seed: u64,
    /// Per cent to which `fillaging` fills.
    pub fill_percent: u64,
    /// Times its capacity that `fillaging` overwrites.
    pub volume: f64,
    /// No fdatasync in `fsyncupdate` and `tpcb`, no waiting for the log in `scan`.
    pub no_sync: bool,
    /// Never drop caches.
    pub no_drop: bool,
    /// Leave the files behind.
    pub keep: bool,
    /// The process that is the file system, where it is known.
    pub process: Option<u32>,
}

impl Settings {
    /// Threads, one unless more are asked for.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or(1)
    }
}
