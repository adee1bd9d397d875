//! Volumes in object stores: a [`Device`](varve_device::Device) whose bytes are stored
//! as objects that are created once and never changed.
//!
//! | module | contents |
//! |---|---|
//! | `cloud` | objects in S3, Google Cloud Storage and Azure (feature `cloud`) |
//! | [`folder`] | objects as files below a directory |
//! | [`store`] | the [`Store`] trait: create, read, list and delete whole objects |
//! | [`url`] | the names of stores: `s3://bucket/prefix` |

#[cfg(feature = "cloud")]
pub mod cloud;
pub mod folder;
pub mod store;
pub mod url;

pub use folder::FolderStore;
pub use store::*;
pub use url::{Service, StoreUrl, UrlError};
