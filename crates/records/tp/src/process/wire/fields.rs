//! Fields of requests and answers: little-endian numbers, and byte strings after their
//! length.

use std::ops::Bound;

pub(super) fn bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

pub(super) fn bound(to: &mut Vec<u8>, bound: Bound<&[u8]>) {
    let (kind, key) = match bound {
        Bound::Unbounded => (0, &[][..]),
        Bound::Included(key) => (1, key),
        Bound::Excluded(key) => (2, key),
    };
    to.push(kind);
    bytes(to, key);
}

/// Parses fields from the front of bytes.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(now)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn bound(&mut self) -> Option<Bound<&'a [u8]>> {
        let (kind, key) = (self.u8()?, self.bytes()?);
        match (kind, key) {
            (0, []) => Some(Bound::Unbounded),
            (1, key) => Some(Bound::Included(key)),
            (2, key) => Some(Bound::Excluded(key)),
            _ => None,
        }
    }
}
