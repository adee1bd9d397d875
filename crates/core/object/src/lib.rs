//! Volumes in object stores: a [`Device`](varve_device::Device) whose bytes are stored
//! as objects that are created once and never changed (`docs/design/buckets.md`).
//!
//! | module | contents |
//! |---|---|
//! | [`url`], `stores` | the names of stores: `s3://bucket/prefix` |
//! | [`store`] | the [`Store`] trait: create, read, list and delete whole objects |
//! | `cloud` | objects in S3, Google Cloud Storage and Azure (feature `cloud`) |
//! | [`folder`] | objects as files below a directory |
//! | [`simulated`] | a store in memory that loses answers, is slow and lists wrongly |
//! | `device` | [`ObjectDevice`] |
//! | `volume`, `settings` | the state of an open volume, and how it is opened |
//! | `open` | making and opening a volume: recovery, and the fence of a new writer |
//! | `chain` | flushes, maps and deletions of a writer |
//! | `layers` | newer bytes over older ones; `stored` has those that are objects |
//! | `request` | requests that are repeated until the store answers |
//! | `format` | the bytes of the objects |
//! | `parts`, `ranges`, `parallel` | parts of objects in memory; disjoint ranges with values; several requests at once |
//! | [`planted`] | mistakes that tests must notice |

mod chain;
#[cfg(feature = "cloud")]
pub mod cloud;
mod device;
mod error;
pub mod folder;
mod format;
mod layers;
mod open;
mod parallel;
mod parts;
pub mod planted;
mod ranges;
mod request;
mod settings;
pub mod simulated;
pub mod store;
mod stored;
mod stores;
pub mod url;
mod volume;

pub use device::ObjectDevice;
pub use error::{Error, Result};
pub use folder::FolderStore;
pub use format::{Flaw, Holder, ObjectId, Root};
pub use request::Requests;
pub use settings::{Opening, Settings, Takeover};
pub use store::*;
pub use url::{Service, StoreUrl, UrlError};
