//! Requests: their header and arguments, parsed from bytes.
//!
//! Requests are input: every length is checked, and a request that is too short is answered
//! with EINVAL. Integers are copied out, so the buffer needs no alignment.

use crate::errno::Errno;
use crate::nodes;
use crate::protocol::{InHeader, Opcode, WriteIn};
use crate::space::Patience;
use varve_fs::InodeNo;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A request's header and body.
pub(crate) struct Request<'a> {
    pub(crate) header: InHeader,
    /// How long the request may be repeated if it is refused for space. If this is set, a
    /// request that returns ENOSPC must have had no effect.
    pub(crate) patience: Option<Patience>,
    whole: &'a [u8],
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Splits the bytes that the transport received.
    ///
    /// # Errors
    /// The header, if there is one, so that the caller can answer.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Option<InHeader>> {
        let Ok((header, body)) = InHeader::read_from_prefix(bytes) else {
            return Err(None);
        };
        let extension_bytes = usize::from(header.total_extlen) * 8;
        if header.len as usize != bytes.len() || extension_bytes > body.len() {
            return Err(Some(header));
        }
        let body = &body[..body.len() - extension_bytes];
        Ok(Request {
            header,
            patience: None,
            whole: bytes,
            body,
        })
    }

    /// All bytes of the request.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.whole
    }

    /// The inode that the request names.
    pub(crate) fn inode(&self) -> InodeNo {
        nodes::inode(self.header.nodeid)
    }

    /// The flags of a WRITE. 0 for other requests.
    pub(crate) fn write_flags(&self) -> u32 {
        let is_write = self.opcode() == Some(Opcode::Write);
        let write = is_write.then(|| self.arguments().take::<WriteIn>().ok());
        write.flatten().map_or(0, |write| write.write_flags)
    }

    /// The kind of the request. Nothing if the number is unknown.
    pub(crate) fn opcode(&self) -> Option<Opcode> {
        Opcode::from_raw(self.header.opcode)
    }

    /// The arguments, from the first.
    pub(crate) fn arguments(&self) -> Arguments<'a> {
        Arguments(self.body)
    }
}

/// The arguments of a body that have not been taken yet.
pub(crate) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// The arguments in `bytes`.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Arguments(bytes)
    }

    /// The next fixed-size struct.
    pub(crate) fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Errno> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| Errno::INVALID)?;
        self.0 = rest;
        Ok(value)
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Errno::INVALID)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next NUL-terminated string, without its NUL.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.0.iter().position(|&b| b == 0).ok_or(Errno::INVALID)?;
        let string = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(string)
    }

    /// The next string, which must be a valid name of a directory entry.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Errno> {
        let name = self.string()?;
        if name.is_empty() || name.contains(&b'/') {
            return Err(Errno::INVALID);
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn request(extension_units: u16, body: &[u8]) -> Vec<u8> {
        let header = InHeader {
            len: (size_of::<InHeader>() + body.len()) as u32,
            total_extlen: extension_units,
            ..InHeader::default()
        };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn extensions_are_not_arguments() {
        let bytes = request(1, b"ab\0extended");
        let parsed = Request::parse(&bytes).ok().unwrap();
        let mut arguments = parsed.arguments();
        assert_eq!(arguments.name().unwrap(), b"ab");
        assert!(arguments.bytes(1).is_err());
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        assert!(matches!(Request::parse(&[0; 39]), Err(None)));
        assert!(matches!(
            Request::parse(&request(2, b"12345678")),
            Err(Some(_))
        ));
        let mut long = request(0, b"");
        long.push(0);
        assert!(matches!(Request::parse(&long), Err(Some(_))));
    }

    #[test]
    fn names_are_terminated_and_have_no_slash() {
        for body in [&b"open"[..], b"\0", b"a/b\0"] {
            let bytes = request(0, body);
            assert!(
                Request::parse(&bytes)
                    .ok()
                    .unwrap()
                    .arguments()
                    .name()
                    .is_err()
            );
        }
    }
}
