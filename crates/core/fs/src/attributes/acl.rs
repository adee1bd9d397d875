//! POSIX access control lists, in the form in which Linux stores them in attributes.
//!
//! `system.posix_acl_access` refines the permission bits of a file. New files in a
//! directory inherit `system.posix_acl_default`. Both are a version word and 8-byte
//! entries: tag, permissions, identity.
//!
//! Source: POSIX 1003.1e draft 17; Linux `include/uapi/linux/posix_acl_xattr.h`.

use super::blob;
use crate::attr::Caller;
use crate::error::{Error, Result};
use crate::inode::Inode;

/// Name of the attribute with the list that grants access.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the attribute with the list that new files inherit.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclEntry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// Parses a list and checks its shape: one entry each for the owner, the group and all
/// other users, and a mask if a user or group is named.
///
/// # Errors
/// `Invalid` for any other bytes.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<AclEntry>> {
    const BAD: Error = Error::Invalid("not an access control list");
    let (version, rest) = bytes.split_first_chunk::<4>().ok_or(BAD)?;
    if u32::from_le_bytes(*version) != VERSION || !rest.len().is_multiple_of(8) {
        return Err(BAD);
    }
    let entry = |e: &[u8]| AclEntry {
        tag: u16::from_le_bytes([e[0], e[1]]),
        permissions: u16::from_le_bytes([e[2], e[3]]),
        id: u32::from_le_bytes([e[4], e[5], e[6], e[7]]),
    };
    let entries: Vec<AclEntry> = rest.chunks_exact(8).map(entry).collect();
    let count = |tag| entries.iter().filter(|e| e.tag == tag).count();
    let known = |e: &AclEntry| {
        matches!(e.tag, USER_OBJ | USER | GROUP_OBJ | GROUP | MASK | OTHER) && e.permissions <= 7
    };
    let named = count(USER) + count(GROUP) > 0;
    let sound = entries.iter().all(known)
        && [USER_OBJ, GROUP_OBJ, OTHER]
            .iter()
            .all(|tag| count(*tag) == 1)
        && (count(MASK) == 1 || (count(MASK) == 0 && !named));
    if sound { Ok(entries) } else { Err(BAD) }
}

/// Encodes a list, the inverse of [`parse`].
pub(crate) fn encode(entries: &[AclEntry]) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for e in entries {
        bytes.extend_from_slice(&e.tag.to_le_bytes());
        bytes.extend_from_slice(&e.permissions.to_le_bytes());
        bytes.extend_from_slice(&e.id.to_le_bytes());
    }
    bytes
}

fn permissions(entries: &[AclEntry], tag: u16) -> Option<u32> {
    entries
        .iter()
        .find(|e| e.tag == tag)
        .map(|e| u32::from(e.permissions))
}

/// True if the permission bits express the whole list.
pub(crate) fn is_minimal(entries: &[AclEntry]) -> bool {
    entries.len() == 3
}

/// The permission bits of a list: owner, mask (or group), all other users.
pub(crate) fn mode_bits(entries: &[AclEntry]) -> u32 {
    let of = |tag| permissions(entries, tag).unwrap_or(0);
    let group = permissions(entries, MASK).unwrap_or_else(|| of(GROUP_OBJ));
    of(USER_OBJ) << 6 | group << 3 | of(OTHER)
}

/// Adapts a list to new permission bits, as `chmod` must.
pub(crate) fn set_mode(entries: &mut [AclEntry], mode: u32) {
    let masked = entries.iter().any(|e| e.tag == MASK);
    for e in entries {
        let bits = match e.tag {
            USER_OBJ => mode >> 6,
            GROUP_OBJ if !masked => mode >> 3,
            MASK => mode >> 3,
            OTHER => mode,
            _ => continue,
        };
        e.permissions = (bits & 7) as u16;
    }
}

/// Permissions that a list grants to a caller other than the owner. An entry for a group
/// applies only if it grants all of `mask`.
pub(crate) fn granted(entries: &[AclEntry], caller: &Caller, inode: &Inode, mask: u32) -> u32 {
    let limit = permissions(entries, MASK).unwrap_or(7);
    if let Some(named) = entries.iter().find(|e| e.tag == USER && e.id == caller.uid) {
        return u32::from(named.permissions) & limit;
    }
    let mut in_group = false;
    for e in entries {
        let member = match e.tag {
            GROUP_OBJ => caller.in_group(inode.gid),
            GROUP => caller.in_group(e.id),
            _ => false,
        };
        in_group |= member;
        let bits = u32::from(e.permissions) & limit;
        if member && bits & mask == mask {
            return bits;
        }
    }
    if in_group {
        0
    } else {
        permissions(entries, OTHER).unwrap_or(0)
    }
}

/// The lists that a new file inherits from its directory.
#[derive(Clone, Debug)]
pub(crate) struct Inherited {
    pub entries: Vec<AclEntry>,
    pub directory: bool,
}

impl Inherited {
    /// The file's permission bits: those of the list that are in `bits` as well.
    pub fn mode(&self, bits: u32) -> u32 {
        mode_bits(&self.entries) & bits & 0o777
    }

    /// The new file's attributes: empty, or up to twice the size of the directory's, as a
    /// new directory has the list as its own, too.
    ///
    /// # Errors
    /// `NoSpace` beyond the largest blob.
    pub fn blob(mut self, mode: u32) -> Result<Vec<u8>> {
        let default = encode(&self.entries);
        set_mode(&mut self.entries, mode);
        let mut blob = Vec::new();
        if self.directory {
            blob = blob::with(&blob, DEFAULT, Some(&default))?;
        }
        if !is_minimal(&self.entries) {
            blob = blob::with(&blob, ACCESS, Some(&encode(&self.entries)))?;
        }
        Ok(blob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: u16, permissions: u16, id: u32) -> AclEntry {
        AclEntry {
            tag,
            permissions,
            id,
        }
    }

    #[test]
    fn a_list_survives_its_bytes_and_bad_ones_are_refused() {
        let list = [
            entry(USER_OBJ, 7, u32::MAX),
            entry(USER, 6, 10),
            entry(GROUP_OBJ, 5, u32::MAX),
            entry(MASK, 4, u32::MAX),
            entry(OTHER, 0, u32::MAX),
        ];
        let bytes = encode(&list);
        assert_eq!(parse(&bytes).unwrap(), list);
        assert_eq!(mode_bits(&list), 0o740);
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length]).is_err(), "{length}");
        }
        assert!(parse(&encode(&list[..3])).is_err());
    }

    #[test]
    fn a_named_user_is_limited_by_the_mask() {
        let list = [
            entry(USER_OBJ, 7, 0),
            entry(USER, 6, 10),
            entry(GROUP_OBJ, 7, 0),
            entry(MASK, 4, 0),
            entry(OTHER, 1, 0),
        ];
        let inode = Inode {
            uid: 1,
            gid: 2,
            nlink: 1,
            ..Inode::new(crate::InodeNo(9), 1, 0o100_740, Default::default())
        };
        let caller = |uid, gid| Caller {
            uid,
            gid,
            ..Caller::root()
        };
        assert_eq!(granted(&list, &caller(10, 99), &inode, 4), 4);
        assert_eq!(granted(&list, &caller(11, 2), &inode, 4), 4);
        assert_eq!(granted(&list, &caller(11, 2), &inode, 2), 0);
        assert_eq!(granted(&list, &caller(11, 99), &inode, 1), 1);
    }
}
