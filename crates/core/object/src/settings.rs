//! How a volume is opened.

use crate::format::Holder;
use crate::planted::Planted;
use crate::request::{Pause, Requester};
use crate::store::Store;
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Clock, HostClock};

/// Requests that a volume makes at once, if nothing else is asked for.
const PARALLEL: usize = 8;

/// What a device may take, and how long it waits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The process that writes, for others to see.
    pub holder: Holder,
    /// Bytes in memory that are in no log object, before a writer makes one.
    pub memory_bytes: u64,
    /// Bytes of parts of objects in memory.
    pub cache_bytes: u64,
    /// Log objects behind a map before the next one is made.
    pub log_objects: u64,
    /// Bytes of these.
    pub log_bytes: u64,
    /// How long objects that nothing needs any more are kept for readers, and for
    /// requests that are still on their way.
    pub grace: Duration,
    /// How long a request is repeated before the device fails.
    pub stall: Duration,
    /// Requests that a flush, a recovery or a read makes at once.
    pub parallel: usize,
    /// A mistake that a test must notice.
    #[cfg(feature = "planted")]
    pub planted: Option<Planted>,
}

impl Settings {
    #[cfg(feature = "planted")]
    pub(crate) fn planted(&self, mistake: Planted) -> bool {
        self.planted == Some(mistake)
    }

    #[cfg(not(feature = "planted"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn planted(&self, _: Planted) -> bool {
        false
    }
}

/// When a new writer ends the access of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Only if that one has closed the volume, or was a process of this host that has
    /// ended.
    Never,
    /// At once.
    Now,
    /// If it makes no log object for so long.
    Idle(Duration),
}

/// How a volume is opened.
#[derive(Clone)]
pub struct Opening {
    /// Opens for reading only: the state of the newest log object, without a request
    /// that changes the store.
    pub read_only: bool,
    /// When another writer's access is ended.
    pub takeover: Takeover,
    /// Sizes and times.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What waits between requests.
    pub pause: Pause,
    /// Drawn for each mount: by it a writer recognises its own objects.
    pub identity: u128,
}

impl Default for Opening {
    fn default() -> Self {
        Opening {
            read_only: false,
            takeover: Takeover::Never,
            settings: Settings {
                holder: Holder::this(),
                memory_bytes: 64 << 20,
                cache_bytes: 64 << 20,
                log_objects: 256,
                log_bytes: 64 << 20,
                grace: Duration::from_secs(3600),
                stall: Duration::from_secs(600),
                parallel: PARALLEL,
                #[cfg(feature = "planted")]
                planted: None,
            },
            clock: Arc::new(HostClock::default()),
            pause: Arc::new(std::thread::sleep),
            identity: rand::random(),
        }
    }
}

impl Opening {
    pub(crate) fn requester(&self, store: &Arc<dyn Store>) -> Requester {
        Requester::new(
            Arc::clone(store),
            Arc::clone(&self.clock),
            Arc::clone(&self.pause),
            self.settings.stall,
            self.settings.planted(Planted::ExistsBelieved),
        )
    }
}
