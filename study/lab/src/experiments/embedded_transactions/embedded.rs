//! The bank as transactions of the file system (Seltzer 1992, §5.2): no log, no cache of
//! its own, no lock manager; a commit has its pages on the medium, by a group of the log.
//!
//! Four protected files, of which the first three have as many pages as the trees of the
//! record store have leaves. Inner pages are in memory there, and cost the same
//! processor time here.

use crate::experiments::LabError;
use crate::experiments::bank::{Before, Drawn, Found, IN_PAGE, Skew, TRANSFER};
use crate::experiments::rivals::Machine;
use crate::platform::host::CALL;
use crate::platform::lfs::log_structured;
use crate::platform::store::Store;
use crate::platform::threads::Part;
use crate::platform::{BLOCK, Platform};
use std::sync::Arc;
use varve_fs::{Caller, FileFlags, FileSystem, InodeNo, Isolation, TransactionOptions};
use varve_lfs::Lfs;
use varve_tp::tpcb::{BRANCHES, TELLERS};

const RECORD_BYTES: usize = 100;
const FILES: [&[u8]; 4] = [b"accounts", b"tellers", b"branches", b"history"];

/// See the module's head.
pub(in crate::experiments) struct Embedded {
    fs: Arc<FileSystem<Lfs>>,
    store: Arc<Store>,
    files: [InodeNo; 4],
    drawn: Drawn,
    history_bytes: u64,
    /// Of the processor, for a transaction.
    cycles: u64,
    /// Bytes of its pages when it had been loaded.
    pub bytes: u64,
    /// Of the calling thread; it ends behind the file system's own threads.
    _part: Option<Part>,
}

impl Embedded {
    /// Makes the bank on `platform`, which is of `machine`.
    pub fn load(
        machine: Machine,
        platform: &Platform,
        accounts: u32,
        seed: u64,
    ) -> Result<Self, LabError> {
        let store = platform.store(seed)?;
        let part = platform.take_part(&store);
        let mounted = log_structured(platform, Arc::clone(&store), seed)?;
        let fs = Arc::clone(mounted.file_system());
        let root = Caller::root();
        let protected = FileFlags {
            protected: true,
            ..FileFlags::default()
        };
        let made = FILES.map(|name| {
            let made = fs.mknod(&root, InodeNo::ROOT, name, 0o100_644, 0)?;
            fs.set_file_flags(&root, made.ino, protected, None)?;
            Ok(made.ino)
        });
        let mut files = [InodeNo::ROOT; 4];
        for (file, made) in files.iter_mut().zip(made) {
            *file = made.map_err(|error: varve_fs::Error| LabError::system(error))?;
        }
        let mut bytes = 0;
        for (file, records) in files.into_iter().zip([accounts, TELLERS, BRANCHES]) {
            let pages = u64::from(records.div_ceil(IN_PAGE));
            bytes += pages * BLOCK;
            for page in 0..pages {
                let written = fs.write(&root, file, page * BLOCK, &[0; BLOCK as usize]);
                written.map_err(LabError::system)?;
            }
        }
        fs.sync().map_err(LabError::system)?;
        fs.drop_caches();
        fs.layout().drop_caches();
        Ok(Embedded {
            fs,
            store,
            files,
            drawn: Drawn::new(accounts, Skew::Uniform, seed),
            history_bytes: 0,
            cycles: machine.cycles_of(TRANSFER),
            bytes,
            _part: part,
        })
    }

    /// The log.
    pub fn log(&self) -> &Lfs {
        self.fs.layout()
    }

    /// Runs so many transactions.
    pub fn run(&mut self, transactions: u64) -> Result<Found, LabError> {
        let before = Before::of(&self.store, Some(self.log().statistics()));
        (0..transactions).try_for_each(|_| self.transfer().map_err(LabError::system))?;
        let log = Some(self.log().statistics());
        Ok(before.until(transactions, &self.store, log))
    }

    fn transfer(&mut self) -> Result<(), varve_fs::Error> {
        let transfer = self.drawn.next();
        let (root, cpu) = (Caller::root(), self.store.cpu());
        // Begin and commit are calls, and every page is locked.
        cpu.work(self.cycles + 2 * CALL);
        let locking = TransactionOptions {
            isolation: Isolation::Locking,
            ..TransactionOptions::default()
        };
        let transaction = self.fs.begin_transaction(&locking)?;
        for (file, key) in self.files.into_iter().zip(transfer.keys()) {
            let at = u64::from(key / IN_PAGE) * BLOCK;
            let mut page = [0; BLOCK as usize];
            cpu.transfer(CALL, BLOCK);
            transaction.read_for_update(file, at, &mut page)?;
            let within = (key % IN_PAGE) as usize * RECORD_BYTES;
            let record = &mut page[within..within + RECORD_BYTES];
            let former = record.try_into().expect("as many bytes");
            record.copy_from_slice(&transfer.changed(former));
            cpu.transfer(CALL, BLOCK);
            transaction.write(&root, file, at, &page)?;
        }
        let history = transfer.history();
        cpu.transfer(CALL, history.len() as u64);
        transaction.write(&root, self.files[3], self.history_bytes, &history)?;
        self.history_bytes += history.len() as u64;
        transaction.commit()
    }
}
