//! Volumes in object stores: a [`Device`](varve_device::Device) whose bytes are stored
//! as objects that are created once and never changed.
//!
//! | module | contents |
//! |---|---|
//! | [`folder`] | objects as files below a directory |
//! | [`store`] | the [`Store`] trait: create, read, list and delete whole objects |

pub mod folder;
pub mod store;

pub use folder::FolderStore;
pub use store::*;
