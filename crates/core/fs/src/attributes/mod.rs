//! Attributes of files: permissions, access lists, extended attributes, flags.

pub(crate) mod acl;
pub(crate) mod blob;
pub(crate) mod file_flags;
pub(crate) mod permission;
mod xattr;

pub use xattr::attributes_flaw;
