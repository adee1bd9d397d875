//! The extended-attribute blob, whose shape `varve-fs` defines.

/// What is wrong with a blob, if anything: entries of a length byte, four
/// bytes of value length, name and value, ascending by name.
pub fn flaw(mut blob: &[u8]) -> Option<String> {
    let mut last: &[u8] = &[];
    while let Some((&name_bytes, rest)) = blob.split_first() {
        let parsed = rest.split_first_chunk::<4>().and_then(|(length, rest)| {
            let value_bytes = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (name, rest) = rest.split_at_checked(name_bytes.into())?;
            let (_, rest) = rest.split_at_checked(value_bytes)?;
            Some((name, rest))
        });
        let Some((name, rest)) = parsed else {
            return Some("an attribute is cut short".into());
        };
        if name <= last {
            return Some(format!(
                "attribute \"{}\" is empty, out of order or there twice",
                name.escape_ascii()
            ));
        }
        last = name;
        blob = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::flaw;

    fn blob(names: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for name in names {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(&2u32.to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b"vv");
        }
        bytes
    }

    #[test]
    fn names_ascend_and_nothing_is_cut() {
        assert_eq!(flaw(&[]), None);
        let good = blob(&["user.a", "user.b"]);
        assert_eq!(flaw(&good), None);
        assert!(flaw(&good[..good.len() - 1]).is_some());
        assert!(flaw(&blob(&["user.b", "user.a"])).is_some());
        assert!(flaw(&blob(&["user.a", "user.a"])).is_some());
    }
}
