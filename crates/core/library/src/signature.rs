//! Recognises the present content of a device by its first and last bytes.
//!
//! It protects people from mistakes and is not a forensic tool: a known signature gives a
//! name, and other non-zero bytes at the front count as unknown data.

use crate::error::Result;
use std::fmt;
use varve_device::Device;
use varve_lfs::format::superblock::MAGIC;

/// Bytes examined at the front; the signature of btrfs has the largest offset.
const FRONT: u64 = 128 << 10;

/// Name of a volume on the segmented log.
pub const VARVE: &str = "a Varve volume";

/// Name of a volume on the virtual log.
pub const VIRTUAL_LOG: &str = "a Varve volume on the virtual log (VLFS)";

/// Name of a volume that is updated in place.
pub const IN_PLACE: &str = "a Varve volume that is updated in place (FFS)";

/// Content that was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A file system, partition table or container of this name.
    Known(&'static str),
    /// Bytes of no known meaning.
    Data,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Known(name) => write!(f, "holds {name}"),
            Found::Data => f.write_str("holds data of a kind this program does not know"),
        }
    }
}

struct Signature {
    name: &'static str,
    offset: usize,
    bytes: &'static [u8],
}

const fn signature(name: &'static str, offset: usize, bytes: &'static [u8]) -> Signature {
    Signature {
        name,
        offset,
        bytes,
    }
}

/// Known signatures, in the order of the search. The boot signature is last because many
/// other formats contain it as well.
const SIGNATURES: &[Signature] = &[
    signature(VARVE, 0, &MAGIC),
    signature("a virtual log disk", 4, b"VLDS"),
    signature(VIRTUAL_LOG, 0, &varve_vlfs::format::MAGIC),
    signature(IN_PLACE, 0, &varve_ffs::format::MAGIC),
    signature("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xef]),
    signature("an XFS file system", 0, b"XFSB"),
    signature("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    signature("an F2FS file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    signature("a LUKS container", 0, b"LUKS\xba\xbe"),
    signature("swap space", 4086, b"SWAPSPACE2"),
    signature("swap space", 4086, b"SWAP-SPACE"),
    signature("an LVM physical volume", 0x218, b"LVM2 001"),
    signature(
        "a member of a software RAID",
        0x1000,
        &[0xfc, 0x4e, 0x2b, 0xa9],
    ),
    signature("a bcachefs file system", 0x1018, &[0xc6, 0x85, 0x73, 0xf6]),
    signature("an EROFS image", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    signature("a SquashFS image", 0, b"hsqs"),
    signature("an ISO 9660 image", 0x8001, b"CD001"),
    signature("an NTFS file system", 3, b"NTFS    "),
    signature("an exFAT file system", 3, b"EXFAT   "),
    signature("a FAT file system", 54, b"FAT1"),
    signature("a FAT file system", 82, b"FAT32"),
    signature("a GPT partition table", 512, b"EFI PART"),
    signature("a GPT partition table", 4096, b"EFI PART"),
    signature("a QCOW2 image", 0, b"QFI\xfb"),
    signature("an MBR partition table or boot sector", 510, &[0x55, 0xaa]),
];

/// Identifies the content of a device; `None` if its first 128 KiB are zeros.
///
/// # Errors
/// If the device cannot be read.
pub fn probe(device: &dyn Device) -> Result<Option<Found>> {
    let front = FRONT.min(device.geometry().size);
    let mut bytes = vec![0; front as usize];
    device
        .read(0, &mut bytes)
        .map_err(varve_lfs::Error::Device)?;
    Ok(identify(&bytes))
}

fn identify(front: &[u8]) -> Option<Found> {
    let known = SIGNATURES.iter().find(|s| {
        let end = s.offset + s.bytes.len();
        front.get(s.offset..end) == Some(s.bytes)
    });
    match known {
        Some(signature) => Some(Found::Known(signature.name)),
        None if front.iter().any(|&b| b != 0) => Some(Found::Data),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_found_where_it_stands() {
        for signature in SIGNATURES {
            let mut front = vec![0; FRONT as usize];
            front[signature.offset..][..signature.bytes.len()].copy_from_slice(signature.bytes);
            assert_eq!(identify(&front), Some(Found::Known(signature.name)));
        }
    }

    #[test]
    fn zeros_are_blank_and_other_bytes_are_data() {
        assert_eq!(identify(&[0; 4096]), None);
        assert_eq!(identify(&[0, 0, 1]), Some(Found::Data));
        assert_eq!(identify(&[]), None);
    }
}
