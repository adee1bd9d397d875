//! Encoding of extended attributes.
//!
//! All attributes of a file are one blob: entries sorted by name, each with one byte for
//! the name's length, four for the value's (little endian), the name, and the value. The
//! layout bounds its length and stores it; the epoch carries it.

use crate::error::{Error, Result};

/// Most bytes of a file's names, each followed by a zero byte, as Linux lists them.
pub(crate) const LIST_MAX: usize = 1 << 16;

/// One attribute of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// The attributes in a blob; the last item is `None` if the rest does not parse.
pub(crate) fn attributes(mut blob: &[u8]) -> impl Iterator<Item = Option<Attribute<'_>>> {
    std::iter::from_fn(move || {
        if blob.is_empty() {
            return None;
        }
        let Some(parsed) = split(blob) else {
            blob = &[];
            return Some(None);
        };
        blob = parsed.1;
        Some(Some(parsed.0))
    })
}

pub(crate) fn split(blob: &[u8]) -> Option<(Attribute<'_>, &[u8])> {
    let (&name_bytes, rest) = blob.split_first()?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let value_bytes = usize::try_from(u32::from_le_bytes(*value_bytes)).ok()?;
    let (name, rest) = rest.split_at_checked(name_bytes.into())?;
    let (value, rest) = rest.split_at_checked(value_bytes)?;
    Some((Attribute { name, value }, rest))
}

pub(crate) fn damaged() -> Error {
    Error::Damaged {
        ino: None,
        detail: "extended attributes cannot be parsed".to_owned(),
    }
}

/// The value of an attribute, if the blob contains it.
pub(crate) fn value<'a>(blob: &'a [u8], name: &[u8]) -> Result<Option<&'a [u8]>> {
    for attribute in attributes(blob) {
        let attribute = attribute.ok_or_else(damaged)?;
        if attribute.name == name {
            return Ok(Some(attribute.value));
        }
    }
    Ok(None)
}

/// Bytes of one attribute in a blob: two lengths, the name and the value.
pub(crate) fn attribute_bytes(name: &[u8], value: &[u8]) -> usize {
    1 + 4 + name.len() + value.len()
}

/// The blob with one attribute set, or removed if `value` is absent.
///
/// # Errors
/// `NoSpace` if the names could not be listed any more, `Damaged`.
pub(crate) fn with(blob: &[u8], name: &[u8], value: Option<&[u8]>) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for attribute in attributes(blob) {
        let attribute = attribute.ok_or_else(damaged)?;
        if attribute.name != name {
            all.push(attribute);
        }
    }
    if let Some(value) = value {
        let at = all.partition_point(|a| a.name < name);
        all.insert(at, Attribute { name, value });
    }
    let listed: usize = all.iter().map(|attribute| attribute.name.len() + 1).sum();
    if value.is_some() && listed > LIST_MAX {
        return Err(Error::NoSpace);
    }
    let mut out =
        Vec::with_capacity(blob.len() + value.map_or(0, |new| attribute_bytes(name, new)));
    for Attribute { name, value } in all {
        out.push(u8::try_from(name.len()).map_err(|_| Error::Range)?);
        out.extend_from_slice(
            &u32::try_from(value.len())
                .map_err(|_| Error::Range)?
                .to_le_bytes(),
        );
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_sorted_replaced_and_removed() {
        let blob = with(b"", b"user.b", Some(b"2")).unwrap();
        let blob = with(&blob, b"user.a", Some(b"1")).unwrap();
        let blob = with(&blob, b"user.b", Some(b"three")).unwrap();
        let names: Vec<_> = attributes(&blob).map(|a| a.unwrap().name).collect();
        assert_eq!(names, [b"user.a", b"user.b"]);
        assert_eq!(value(&blob, b"user.b").unwrap(), Some(&b"three"[..]));
        let blob = with(&blob, b"user.a", None).unwrap();
        assert_eq!(with(&blob, b"user.b", None).unwrap(), b"");
    }

    #[test]
    fn names_that_could_not_be_listed_are_refused() {
        let name = |i: usize| format!("user.{i:0250}").into_bytes();
        let most = LIST_MAX / (name(0).len() + 1);
        let blob = (0..most).fold(Vec::new(), |blob, i| {
            with(&blob, &name(i), Some(b"")).unwrap()
        });
        let refused = with(&blob, &name(most), Some(b""));
        assert!(matches!(refused, Err(Error::NoSpace)));
        assert!(with(&blob, &name(0), None).unwrap().len() < blob.len());
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = value(&bytes, b"user.x");
            let _ = with(&bytes, b"user.x", Some(b"y"));
        }
    }
}
