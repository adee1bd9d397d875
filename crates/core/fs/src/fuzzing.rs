//! Private parsers opened for `fuzz/`. Not part of the crate's interface.

use crate::error::Result;
use crate::{attributes::acl, attributes::blob};

/// Parses a blob of extended attributes, and returns the one in which `name` has `value`
/// or is removed.
///
/// # Errors
/// As `setxattr`.
pub fn xattr_blob(blob: &[u8], name: &[u8], value: Option<&[u8]>) -> Result<Vec<u8>> {
    blob::with(blob, name, value)
}

/// Parses an access control list, and encodes it with the permission bits `mode`.
///
/// # Errors
/// As `setxattr`.
pub fn access_control_list(bytes: &[u8], mode: u32) -> Result<Vec<u8>> {
    let mut entries = acl::parse(bytes)?;
    acl::set_mode(&mut entries, mode);
    let _ = (acl::mode_bits(&entries), acl::is_minimal(&entries));
    Ok(acl::encode(&entries))
}
