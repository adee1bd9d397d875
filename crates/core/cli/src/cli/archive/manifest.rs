//! Objects of an archive: segments, and a manifest for each archive, written last.
//!
//! | name | content |
//! |---|---|
//! | `TAG/segments/SEGMENT-INCARNATION-CRC` | the bytes of a segment |
//! | `TAG/manifests/SERIAL` | a line `varve-archive 1 CRC`, and the manifest as JSON |
//!
//! `TAG` identifies the volume and `SERIAL` the checkpoint. Numbers are hexadecimal with
//! leading zeros, checksums CRC-32C. Objects are never changed.

use serde::{Deserialize, Serialize};
use varve_lfs::format::crc32c;
use varve_object::{Cause, Store, StoreError};

const MAGIC: &str = "varve-archive 1";

/// An archive: an image of a volume at a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The volume's tag.
    pub tag: String,
    /// Number of the checkpoint.
    pub serial: u64,
    /// When it was written, in nanoseconds since 1970.
    pub written_ns: i64,
    /// Segments that had been opened.
    pub opened: u32,
    /// Segments that were appended to.
    pub heads: Vec<u32>,
    /// The superblock and the record, in hexadecimal digits.
    pub superblock: String,
    pub record: String,
    /// Snapshots of the volume in it.
    pub snapshots: Vec<Named>,
    /// Segments with live data.
    pub segments: Vec<Stored>,
}

/// A snapshot of the volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
    pub number: u32,
    /// When it was taken, in seconds since 1970.
    pub taken: i64,
}

/// A segment in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub segment: u32,
    pub incarnation: u32,
    pub bytes: u64,
    pub crc: u32,
    /// Checksum of its first summary.
    pub head: Option<u32>,
    /// Nothing was appended to it after it was stored.
    pub closed: bool,
}

impl Stored {
    pub fn name(&self, tag: &str) -> String {
        let Stored {
            segment,
            incarnation,
            crc,
            ..
        } = self;
        format!("{tag}/segments/{segment:08x}-{incarnation:08x}-{crc:08x}")
    }

    /// The bytes of the segment, verified.
    ///
    /// # Errors
    /// Names the object.
    pub fn get(&self, store: &dyn Store, tag: &str) -> Result<Vec<u8>, String> {
        let name = self.name(tag);
        let bytes = store.get(&name).map_err(|error| error.to_string())?;
        match bytes.len() as u64 == self.bytes && crc32c(&bytes) == self.crc {
            true => Ok(bytes),
            false => Err(format!(
                "{}: {name} is damaged: its checksum does not match; restore an archive \
                 without it",
                store.name()
            )),
        }
    }
}

impl Manifest {
    /// Writes it.
    ///
    /// # Errors
    /// Of the store; `Exists` if another archive has this checkpoint.
    pub fn create(&self, store: &dyn Store) -> Result<(), StoreError> {
        let text = serde_json::to_string(self).unwrap_or_default();
        let first = format!("{MAGIC} {:08x}\n", crc32c(text.as_bytes()));
        create(
            store,
            &name(&self.tag, self.serial),
            &[first.as_bytes(), text.as_bytes()],
        )
    }

    /// Reads one by its object's name.
    ///
    /// # Errors
    /// If it is damaged; of the store.
    pub fn get(store: &dyn Store, name: &str) -> Result<Self, String> {
        let bytes = store.get(name).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        let (first, json) = text.split_once('\n').unwrap_or_default();
        let whole = format!("{MAGIC} {:08x}", crc32c(json.as_bytes()));
        let parsed = (first == whole).then(|| serde_json::from_str(json).ok());
        let damaged = || format!("{}: {name} is damaged or of another version", store.name());
        parsed.flatten().ok_or_else(damaged)
    }

    /// The names of all manifests of a volume, oldest first.
    ///
    /// # Errors
    /// Of the store.
    pub fn list(store: &dyn Store, tag: &str) -> Result<Vec<String>, StoreError> {
        let listed = store.list(&format!("{tag}/manifests/"), "")?;
        Ok(listed.into_iter().map(|object| object.name).collect())
    }
}

fn name(tag: &str, serial: u64) -> String {
    format!("{tag}/manifests/{serial:016x}")
}

/// How often a request is made that the store did not answer.
const TRIES: u32 = 5;

/// Creates an object. It may exist with this content.
///
/// # Errors
/// Of the store; `Exists` if it has another content.
pub fn create(store: &dyn Store, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        let error = match store.create(name, parts) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        tries += 1;
        let is_last = tries == TRIES;
        match error.cause {
            Cause::Exists => match store.get(name) {
                Ok(found) if found == parts.concat() => return Ok(()),
                Ok(_) => return Err(error),
                Err(failed) if is_last || failed.cause != Cause::Unavailable => return Err(failed),
                Err(_) => {}
            },
            Cause::Unavailable if !is_last => {}
            _ => return Err(error),
        }
        std::thread::sleep(std::time::Duration::from_millis(100 << tries));
    }
}

/// The bytes of hexadecimal digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}
