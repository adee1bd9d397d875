//! Parsing the data of options without trusting any length in it.

use crate::protocol::ALLOCATION;

/// Maximum number of bytes of a string, as defined by the protocol.
pub const STRING_BYTES_MAX: usize = 4096;

/// The data of INFO and GO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// Name of the export.
    pub name: &'a [u8],
    /// Requested kinds of information, in pairs of bytes.
    pub kinds: Vec<u16>,
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaRequest<'a> {
    /// Name of the export.
    pub name: &'a [u8],
    /// Names of contexts.
    pub queries: Vec<&'a [u8]>,
}

impl MetaRequest<'_> {
    /// Returns true if SET_META_CONTEXT selects the one context there is.
    pub fn selects(&self) -> bool {
        self.queries
            .iter()
            .any(|query| *query == ALLOCATION.as_bytes())
    }

    /// Returns true if LIST_META_CONTEXT must list the context: a request without
    /// queries asks for all contexts, and an empty leaf name for all of the namespace.
    pub fn lists(&self) -> bool {
        self.queries.is_empty() || self.selects() || self.queries.contains(&&b"base:"[..])
    }
}

/// The bytes that are not yet parsed.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Takes a length and a string of that length.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        (length <= STRING_BYTES_MAX).then(|| self.take(length))?
    }
}

/// Parses the data of INFO or GO; `None` if it is malformed.
pub fn info_request(data: &[u8]) -> Option<InfoRequest<'_>> {
    let mut rest = Rest(data);
    let name = rest.string()?;
    let count = rest.u16()?;
    let kinds = (0..count).map(|_| rest.u16()).collect::<Option<_>>()?;
    rest.0.is_empty().then_some(InfoRequest { name, kinds })
}

/// Parses the data of LIST_META_CONTEXT or SET_META_CONTEXT; `None` if it is malformed.
pub fn meta_request(data: &[u8]) -> Option<MetaRequest<'_>> {
    let mut rest = Rest(data);
    let name = rest.string()?;
    let count = rest.u32()?;
    // Nothing is allocated for the count, which may be false: each query is checked.
    let queries = (0..count).map(|_| rest.string()).collect::<Option<_>>()?;
    rest.0.is_empty().then_some(MetaRequest { name, queries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn information_requests_are_read_whole_or_not_at_all() {
        let data = [string("disk"), vec![0, 2, 0, 1, 0, 3]].concat();
        let read = info_request(&data).unwrap();
        assert_eq!((read.name, &read.kinds[..]), (&b"disk"[..], &[1, 3][..]));
        for cut in 0..data.len() {
            assert_eq!(info_request(&data[..cut]), None, "{cut} bytes");
        }
        assert_eq!(info_request(&[&data[..], &[0]].concat()), None);
        assert_eq!(info_request(&[0xff; 10]), None);
        assert!(info_request(&[0; 6]).is_some());
    }

    #[test]
    fn queries_select_and_list() {
        let request = |queries: &[&str]| {
            let mut data = string("");
            data.extend((queries.len() as u32).to_be_bytes());
            queries.iter().for_each(|query| data.extend(string(query)));
            let read = meta_request(&data).unwrap();
            (read.selects(), read.lists())
        };
        assert_eq!(request(&[]), (false, true));
        assert_eq!(request(&["base:"]), (false, true));
        assert_eq!(request(&["x-other:a", "base:allocation"]), (true, true));
        assert_eq!(
            request(&["qemu:dirty-bitmap:x", "base:what"]),
            (false, false)
        );
        let many = [string(""), u32::MAX.to_be_bytes().to_vec()].concat();
        assert_eq!(meta_request(&many), None);
    }
}
