//! Escaped keys of any length with other bytes behind them: `0` inside is stored as `0
//! 255`, and `0 0` ends the key. They sort by the key, then by the bytes behind it. Used
//! for pairs, and for the entries of an index, which are its key and the record's.

use std::ops::Bound;

/// Appends a key, escaped and terminated.
pub(crate) fn escape(key: &[u8], to: &mut Vec<u8>) {
    to.reserve(key.len() + 16);
    for part in key.split_inclusive(|byte| *byte == 0) {
        to.extend_from_slice(part);
        if part.ends_with(&[0]) {
            to.push(255);
        }
    }
    to.extend_from_slice(&[0, 0]);
}

/// Returns a key, escaped and terminated.
pub(crate) fn escaped(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    escape(key, &mut bytes);
    bytes
}

/// Returns the upper bound of all keys that begin with these bytes.
pub(crate) fn behind(mut beginning: Vec<u8>) -> Bound<Vec<u8>> {
    while beginning.pop_if(|byte| *byte == 255).is_some() {}
    match beginning.last_mut() {
        Some(last) => *last += 1,
        None => return Bound::Unbounded,
    }
    Bound::Excluded(beginning)
}

/// Returns the index entry of a record.
pub(crate) fn entry(index_key: &[u8], key: &[u8]) -> Vec<u8> {
    let mut bytes = escaped(index_key);
    bytes.extend_from_slice(key);
    bytes
}

/// Splits an escaped key from the bytes behind it. `None` if the bytes do not begin with
/// one.
pub(crate) fn split(entry: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut key, mut rest) = (Vec::with_capacity(entry.len()), entry);
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        if *byte == 0 {
            let (next, behind) = rest.split_first()?;
            rest = behind;
            match next {
                0 => return Some((key, rest)),
                255 => {}
                _ => return None,
            }
        }
        key.push(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_sort_by_index_key_then_by_record() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0a", b"a", b"a\0", b"a\0b"];
        let records: [&[u8]; 4] = [b"", b"\0\0", b"a", b"\xff"];
        let pairs = keys
            .into_iter()
            .flat_map(|key| records.map(|record| (key, record)));
        let entries: Vec<_> = pairs
            .clone()
            .map(|(key, record)| entry(key, record))
            .collect();
        assert!(entries.is_sorted_by(|a, b| a < b));
        for ((key, record), entry) in pairs.zip(&entries) {
            assert_eq!(split(entry), Some((key.to_vec(), record)));
            assert!(entry.starts_with(&escaped(key)));
        }
    }

    #[test]
    fn what_begins_alike_lies_before_a_bound() {
        let excluded = |bytes: &[u8]| Bound::Excluded(bytes.to_vec());
        assert_eq!(behind(vec![1, 0, 0]), excluded(&[1, 0, 1]));
        assert_eq!(behind(vec![1, 254, 255, 255]), excluded(&[1, 255]));
        assert_eq!(behind(vec![255, 255]), Bound::Unbounded);
        assert_eq!(behind(Vec::new()), Bound::Unbounded);
    }

    #[test]
    fn what_is_no_entry_is_told() {
        for bytes in [&b""[..], b"a", b"a\0", b"a\0\x01", b"\0\xff"] {
            assert_eq!(split(bytes), None);
        }
    }
}
