//! The bytes of an entry: `0` within an index key is written as `0 255`, and `0 0` ends
//! it. So entries sort by index key, then by record.

/// An index key, escaped and ended.
pub(crate) fn escaped(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 16);
    for byte in key {
        bytes.push(*byte);
        if *byte == 0 {
            bytes.push(255);
        }
    }
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

/// The entry of a record.
pub(crate) fn entry(index_key: &[u8], key: &[u8]) -> Vec<u8> {
    let mut bytes = escaped(index_key);
    bytes.extend_from_slice(key);
    bytes
}

/// An entry's index key, and its record's. `None` if the bytes are no entry.
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
    fn what_is_no_entry_is_told() {
        for bytes in [&b""[..], b"a", b"a\0", b"a\0\x01", b"\0\xff"] {
            assert_eq!(split(bytes), None);
        }
    }
}
