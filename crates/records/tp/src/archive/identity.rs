//! Identity of an environment, and whether it is a copy.

use crate::error::{Error, Result};
use crate::storage::{Named, Storage, failed, place};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const FILE: &str = "identity";
const MAGIC: U64 = U64::from_bytes(*b"VARVEID1");
const COPY: u32 = 1;

/// Content of the file `identity`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Stored {
    magic: U64,
    /// CRC-32C of the bytes behind it.
    crc: U32,
    /// [`COPY`] or 0.
    flags: U32,
    id: [u8; 16],
    /// For a copy: its log reaches at least to this LSN.
    whole: U64,
    /// For a copy: the time at which it was made, in seconds since 1970; 0 if unknown.
    time_s: U64,
}

const _: () = assert!(size_of::<Stored>() == 48);

/// The identity of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub id: Id,
    /// Set for a copy.
    pub copy: Option<Made>,
}

/// Properties of a copy when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// LSN of the end of its log.
    pub whole: u64,
    /// Time in seconds since 1970; 0 if unknown.
    pub time_s: u64,
}

/// A random identifier, drawn when it is first needed, and again when a copy becomes an
/// original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(pub [u8; 16]);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Id {
    pub(crate) fn draw() -> Result<Self> {
        let mut id = [0; 16];
        let drawn = getrandom(&mut id, GetRandomFlags::empty());
        match drawn {
            Ok(16) => Ok(Id(id)),
            Err(error) => Err(failed(FILE, "draw", 0, error.into())),
            Ok(_) => Err(failed(FILE, "draw", 0, io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// Reads the stored identity. `None` if it was never needed; then the environment is not
/// a copy.
pub(crate) fn read(storage: &dyn Storage) -> Result<Option<Identity>> {
    let Some(file) = Named::find(storage, FILE)? else {
        return Ok(None);
    };
    let bytes = file.read_all(size_of::<Stored>() as u64)?;
    let wrong = || Error::damaged(FILE, 0, "it is not what was written");
    let stored = Stored::read_from_bytes(&bytes).map_err(|_| wrong())?;
    let right = stored.magic == MAGIC && stored.crc.get() == crate::checksum(0, &bytes[12..]);
    if !right || stored.flags.get() & !COPY != 0 {
        return Err(wrong());
    }
    let copy = stored.flags.get() & COPY != 0;
    Ok(Some(Identity {
        id: Id(stored.id),
        copy: copy.then_some(Made {
            whole: stored.whole.get(),
            time_s: stored.time_s.get(),
        }),
    }))
}

/// Stores an identity. After a crash either the old or the new one is stored.
pub(crate) fn write(storage: &dyn Storage, identity: Identity) -> Result<()> {
    let mut stored = Stored {
        magic: MAGIC,
        crc: 0.into(),
        flags: identity.copy.map_or(0, |_| COPY).into(),
        id: identity.id.0,
        whole: identity.copy.map_or(0, |made| made.whole).into(),
        time_s: identity.copy.map_or(0, |made| made.time_s).into(),
    };
    stored.crc = crate::checksum(0, &stored.as_bytes()[12..]).into();
    place(storage, FILE, &[stored.as_bytes()])
}

/// Returns the identity of an original, and draws one if it has none.
pub(crate) fn of_original(storage: &dyn Storage) -> Result<Id> {
    if let Some(found) = read(storage)? {
        return Ok(found.id);
    }
    let id = Id::draw()?;
    write(storage, Identity { id, copy: None })?;
    Ok(id)
}
