//! Integers and lists in an object.

use super::ObjectId;
use varve_device::crc32c;

/// A flaw of an object's bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The object ends within a field, or has bytes after its last one.
    #[error("it is cut off or too long")]
    Length,
    /// The checksum is that of other bytes.
    #[error("its checksum is wrong")]
    Checksum,
    /// It is not an object of this kind.
    #[error("it is not {0}")]
    Kind(&'static str),
    /// It was written by a newer version.
    #[error("it has version {0}, and this program reads version 1")]
    Version(u32),
    /// A field has a value that it must not have.
    #[error("its {0} is impossible")]
    Value(&'static str),
}

/// Writes an object.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins an object of a kind, with version 1.
    pub fn new(magic: [u8; 8], capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&magic);
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        Writer { bytes }
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn id(&mut self, id: ObjectId) -> &mut Self {
        self.u64(id.epoch).u64(id.serial)
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A text of at most 255 bytes; the rest is cut off.
    pub fn text(&mut self, text: &str) -> &mut Self {
        let mut end = text.len().min(255);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.u8(end as u8).bytes(&text.as_bytes()[..end])
    }

    /// The number of elements of a list, and each of them.
    pub fn list<T>(
        &mut self,
        elements: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.u32(u32::try_from(elements.len()).expect("a list of fewer than 2^32"));
        for element in elements {
            write(self, element);
        }
        self
    }

    /// The object with its checksum.
    pub fn end(mut self) -> Vec<u8> {
        let sum = crc32c(&self.bytes);
        self.u32(sum);
        self.bytes
    }
}

/// Reads an object whose checksum is right.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins with the field after magic number and version.
    pub fn new(object: &'a [u8], magic: [u8; 8], kind: &'static str) -> Result<Self, Flaw> {
        let (body, sum) = object.split_last_chunk::<4>().ok_or(Flaw::Length)?;
        let found = body.first_chunk::<8>().ok_or(Flaw::Length)?;
        if *found != magic {
            return Err(Flaw::Kind(kind));
        }
        if crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(Flaw::Checksum);
        }
        let mut reader = Reader { rest: &body[8..] };
        match reader.u32()? {
            1 => Ok(reader),
            other => Err(Flaw::Version(other)),
        }
    }

    pub fn bytes(&mut self, count: u64) -> Result<&'a [u8], Flaw> {
        let count = usize::try_from(count).map_err(|_| Flaw::Length)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Flaw::Length)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Flaw::Length)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, Flaw> {
        self.array::<1>().map(|[value]| value)
    }

    pub fn u32(&mut self) -> Result<u32, Flaw> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Flaw> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Result<u128, Flaw> {
        self.array().map(u128::from_le_bytes)
    }

    pub fn id(&mut self) -> Result<ObjectId, Flaw> {
        Ok(ObjectId {
            epoch: self.u64()?,
            serial: self.u64()?,
        })
    }

    pub fn text(&mut self) -> Result<String, Flaw> {
        let bytes = self.u8()?.into();
        let text = self.bytes(bytes)?.to_vec();
        String::from_utf8(text).map_err(|_| Flaw::Value("text"))
    }

    /// A list. It takes memory only as its elements are read.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Flaw>,
    ) -> Result<Vec<T>, Flaw> {
        (0..self.u32()?).map(|_| read(self)).collect()
    }

    /// Checks that nothing follows.
    pub fn end(self) -> Result<(), Flaw> {
        match self.rest {
            [] => Ok(()),
            _ => Err(Flaw::Length),
        }
    }
}
