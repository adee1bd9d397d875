//! The log, and its documents.

mod accounting;
mod attributes;
mod coalescing;
mod device_failures;
mod emptied;
mod format_document;
mod full;
mod layout;
mod price;
mod read_threads;
mod refused_writes;
mod regressions;
mod snapshots;
mod spilled;
mod stream_document;
mod volume_snapshots;
mod write_threads;
