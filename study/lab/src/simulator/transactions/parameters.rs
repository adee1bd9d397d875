//! Tables 4-1 to 4-3 of Seltzer 1992, the disks of its §4.4.1, and what the
//! chapter does not say.

/// The models of table 4-3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Model {
    /// A data manager on a file system that updates in place.
    UserRo,
    /// A data manager on a log-structured file system.
    UserLfs,
    /// Transactions in an operating system whose file system updates in place.
    OsRo,
    /// Transactions in a log-structured file system, with a log of their own.
    OsLfs,
    /// Transactions in a log-structured file system, which is the log.
    LfsNolog,
}

impl Model {
    /// All five.
    pub const ALL: [Model; 5] = [
        Model::UserRo,
        Model::UserLfs,
        Model::OsRo,
        Model::OsLfs,
        Model::LfsNolog,
    ];

    /// As the thesis calls it.
    pub fn name(self) -> &'static str {
        match self {
            Model::UserRo => "USER-RO",
            Model::UserLfs => "USER-LFS",
            Model::OsRo => "OS-RO",
            Model::OsLfs => "OS-LFS",
            Model::LfsNolog => "LFS-NOLOG",
        }
    }

    /// Whether the operating system has the transactions: a lock is a system
    /// call, and locks are held until the end whatever they are on.
    pub fn is_embedded(self) -> bool {
        !matches!(self, Model::UserRo | Model::UserLfs)
    }

    /// Whether dirty pages are written one after the other.
    pub fn is_log_structured(self) -> bool {
        !matches!(self, Model::UserRo | Model::OsRo)
    }
}

/// What the embedded models lock. Data managers lock pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Locking {
    /// A page.
    Page,
    /// Parts of a page, as many as a binary search looks at, and all behind
    /// the one that is changed (§4.4.2).
    Subpage,
    /// The part that holds the key; the whole page once in ten changes, to
    /// share its keys out again (§4.5.3).
    ModifiedSubpage,
}

/// How long a disk takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// To a random block of 4 KB and through it.
    pub random_ns: f64,
    /// Through the next block of 4 KB.
    pub sequential_ns: f64,
}

impl Service {
    /// Fujitsu's Eagle M2361A (§4.4.1, §4.5.1).
    pub const EAGLE: Service = Service {
        random_ns: 28_300_000.0,
        sequential_ns: 1_990_000.0,
    };

    /// So many bytes behind the last ones.
    pub(super) fn sequential(&self, bytes: f64) -> f64 {
        self.sequential_ns * bytes / 4096.0
    }

    /// What a random access takes before its first byte.
    pub(super) fn position(&self) -> f64 {
        self.random_ns - self.sequential_ns
    }

    /// So many bytes anywhere.
    pub(super) fn random(&self, bytes: f64) -> f64 {
        self.position() + self.sequential(bytes)
    }
}

/// What is simulated. The default is that of tables 4-1 and 4-2.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Instructions of a lock, its release included.
    pub lock: f64,
    /// Instructions of a system call.
    pub syscall: f64,
    /// Instructions of a retrieval.
    pub retrieve: f64,
    /// Instructions of an update.
    pub update: f64,
    /// Instructions of an insertion or deletion.
    pub insert: f64,
    /// Transactions of a run, at least, unless it is certain before.
    pub run_length: u64,
    /// A run is certain when half of the 95 % confidence interval of its
    /// throughput, by checkpoint intervals, is at most this share of it; 0 for
    /// runs that have their length.
    pub certain: f64,
    /// Operations of a transaction on average; a quarter more or less.
    pub operations: u64,
    /// Share of operations that change something (`U`).
    pub changing: f64,
    /// Share of those that insert or delete (`f`).
    pub inserting: f64,
    /// Percent of accesses (`a`) that go to `100 - a` percent of the pages.
    pub skew: u32,
    /// Indices of the data file.
    pub indices: u64,
    /// Bytes of the data file.
    pub data_bytes: u64,
    /// The buffer pool, as a share of data and indices.
    pub pool_share: f64,
    /// Share of a page that holds data.
    pub fill: f64,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// Bytes of a key in an index.
    pub key_bytes: u64,
    /// Million instructions a second.
    pub mips: f64,
    /// Disks.
    pub disks: usize,
    /// Transactions at a time, at most [`Parameters::USERS_MAX`].
    pub users: usize,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of a subpage.
    pub subpage_bytes: u64,
    /// Between two looks for deadlocks.
    pub deadlock_s: f64,
    /// Between two checkpoints.
    pub checkpoint_s: f64,
    /// The disks.
    pub service: Service,
    /// What the embedded models lock.
    pub locking: Locking,
    /// What the chapter leaves open.
    pub assumed: Assumptions,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            lock: 1000.0,
            syscall: 500.0,
            retrieve: 7000.0,
            update: 12000.0,
            insert: 18000.0,
            run_length: 10_000,
            certain: 0.01,
            operations: 16,
            changing: 0.25,
            inserting: 0.5,
            skew: 50,
            indices: 5,
            data_bytes: 1 << 30,
            pool_share: 0.1,
            fill: 0.7,
            record_bytes: 100,
            key_bytes: 16,
            mips: 10.0,
            disks: 10,
            users: 20,
            page_bytes: 4096,
            subpage_bytes: 128,
            deadlock_s: 5.0,
            checkpoint_s: 300.0,
            service: Service::EAGLE,
            locking: Locking::Page,
            assumed: Assumptions::default(),
        }
    }
}

impl Parameters {
    /// Most transactions at a time: a lock's holders are the bits of a word.
    pub const USERS_MAX: usize = 128;

    /// Instructions as time.
    pub(super) fn instructions_ns(&self, instructions: f64) -> u64 {
        (instructions * 1000.0 / self.mips + 0.5) as u64
    }

    /// Subpages of a page.
    pub(super) fn subpages(&self) -> u64 {
        self.page_bytes / self.subpage_bytes
    }

    /// Subpages that hold keys where those are kept together.
    pub(super) fn filled_subpages(&self) -> u64 {
        let filled = self.fill * self.subpages() as f64;
        (filled.round() as u64).max(1)
    }

    /// Subpages that a binary search looks at.
    pub(super) fn searched_subpages(&self) -> u64 {
        u64::from(self.subpages().ilog2()).max(1)
    }
}

/// What chapter 4 does not say, or says twice. M7 has a run for each
/// alternative, but for `brief_reorganisation`, which M6 has.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumptions {
    /// A transaction's operations are split as §4.3 defines them (T933-937), in whole
    /// numbers, rounded down. Otherwise the kind of each operation is drawn.
    pub rounded_down: bool,
    /// As many records as fill the valid part of the data file's pages;
    /// otherwise as many as fill the file, which gives the 1.2 GB of indices
    /// that §4.5 names.
    pub records_by_fill: bool,
    /// The embedded models log whole pages; otherwise the subpages that change.
    pub page_images: bool,
    /// Who needs a frame whose page is dirty waits until that is written.
    pub eviction_waits: bool,
    /// There are checkpoints.
    pub checkpoints: bool,
    /// Reads go before writes that nobody waits for.
    pub reads_first: bool,
    /// Whatever is written behind the last is preceded by finding the place
    /// again, on each disk that has a part of it.
    pub positioned_batches: bool,
    /// Who has waited longer than this for a lock when deadlocks are looked
    /// for is aborted.
    pub timeout_s: f64,
    /// Those who wait in a circle are aborted instead, one of each circle.
    pub by_circles: bool,
    /// Data managers hold locks on leaves until the operation ends.
    pub leaves_held: bool,
    /// Data managers pay for the exclusive lock on a leaf, too, which they take
    /// beside the shared one that they searched it with.
    pub leaves_charged: bool,
    /// An update moves what lies behind it in a leaf, as insertions do.
    pub updates_move: bool,
    /// The page that shares its keys out again is locked as a whole only while
    /// that is done; otherwise until the transaction ends.
    pub brief_reorganisation: bool,
    /// The run begins with an empty pool.
    pub cold: bool,
}

impl Default for Assumptions {
    fn default() -> Self {
        Assumptions {
            rounded_down: true,
            records_by_fill: false,
            page_images: false,
            eviction_waits: true,
            checkpoints: true,
            reads_first: false,
            positioned_batches: false,
            timeout_s: 5.0,
            by_circles: false,
            leaves_held: false,
            leaves_charged: false,
            updates_move: false,
            brief_reorganisation: false,
            cold: false,
        }
    }
}
