//! Tests of every rule of the lock table, by name, against a model, and with many
//! threads.

mod deadlocks;
mod draws;
mod ends;
mod fairness;
mod model;
mod nested;
mod random;
mod spans;
mod stress;
mod upgrades;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use varve_device::HostClock;
use varve_locks::{Detection, LockError, LockTable, LockTableOptions, Mode, OwnerId};

pub(crate) type Table = Arc<LockTable<&'static str>>;

pub(crate) fn table() -> Table {
    Arc::new(LockTable::new(Arc::new(HostClock::default())))
}

/// Returns a table that searches for deadlocks only on call.
pub(crate) fn table_on_call() -> Table {
    let options = LockTableOptions {
        detection: Detection::OnCall,
        shards: 4,
    };
    let clock = Arc::new(HostClock::default());
    Arc::new(LockTable::with_options(clock, options))
}

pub(crate) fn owners<const N: usize>(table: &Table) -> [OwnerId; N] {
    std::array::from_fn(|_| table.begin(None))
}

/// A request on a thread of its own.
pub(crate) struct Asked(Receiver<Result<(), LockError>>);

impl Asked {
    pub(crate) fn result(self) -> Result<(), LockError> {
        let patience = Duration::from_secs(20);
        self.0.recv_timeout(patience).expect("an answer")
    }

    pub(crate) fn granted(self) {
        assert_eq!(self.result(), Ok(()));
    }

    pub(crate) fn waits(&self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// Makes a request on another thread, and returns when it waits or has an outcome.
pub(crate) fn ask(table: &Table, owner: OwnerId, key: &'static str, mode: Mode) -> Asked {
    ask_span(table, owner, key, 0..u32::MAX, mode)
}

pub(crate) fn ask_span(
    table: &Table,
    owner: OwnerId,
    key: &'static str,
    span: std::ops::Range<u32>,
    mode: Mode,
) -> Asked {
    let (tell, told) = channel();
    let (asking, before) = (Arc::clone(table), table.statistics());
    std::thread::spawn(move || {
        let result = asking.lock_span(owner, &key, span, mode, None);
        _ = tell.send(result);
    });
    // Only one request is active at a time, so that a change of either count belongs to
    // it.
    loop {
        let now = table.statistics();
        if now.waits > before.waits || now.granted > before.granted {
            return Asked(told);
        }
        if now.cancels > before.cancels {
            return Asked(told);
        }
        std::thread::yield_now();
    }
}
