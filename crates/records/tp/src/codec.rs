//! Types as bytes. Keys sort in the order of their bytes.

use std::borrow::Cow;

/// A type that a table can store.
pub trait Value {
    /// Form in which a caller passes a value.
    type Ref<'a>;
    /// Form in which a value is returned.
    type Owned;

    /// Returns the name in the catalog. A table must be opened with the types with which
    /// it was created.
    fn type_name() -> Cow<'static, str>;

    /// Appends the bytes of a value.
    fn encode(value: Self::Ref<'_>, to: &mut Vec<u8>);

    /// Parses a value. `None` if the bytes are not of this type.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;

    /// Parses a value from an owned buffer, so that a type that stores its bytes
    /// unchanged need not copy a large value.
    fn decode_vec(bytes: Vec<u8>) -> Option<Self::Owned> {
        Self::decode(&bytes)
    }
}

/// A type whose bytes sort in the order of its values.
pub trait Key: Value {}

/// A key that can be the first of a pair, because its bytes show where they end.
///
/// Types of a fixed length are stored unchanged. Others are escaped and terminated: a
/// byte 0 inside becomes `0 255`, and `0 0` is the end. So none is the beginning of
/// another, and they sort in the order of the keys.
pub trait FirstKey: Key {
    /// Appends the bytes of the first of a pair.
    fn encode_first(first: Self::Ref<'_>, to: &mut Vec<u8>);

    /// Splits off the first of a pair from the bytes behind it. `None` if the bytes do
    /// not begin with one.
    fn split_first(bytes: &[u8]) -> Option<(Self::Owned, &[u8])>;
}

/// Implements the first of a pair for types of a fixed length.
macro_rules! fixed_first {
    ($bytes:expr) => {
        fn encode_first(first: Self::Ref<'_>, to: &mut Vec<u8>) {
            Self::encode(first, to);
        }

        fn split_first(bytes: &[u8]) -> Option<(Self::Owned, &[u8])> {
            let (first, rest) = bytes.split_at_checked($bytes)?;
            Some((Self::decode(first)?, rest))
        }
    };
}

/// Implements the first of a pair for types of any length.
macro_rules! ended_first {
    () => {
        fn encode_first(first: Self::Ref<'_>, to: &mut Vec<u8>) {
            crate::ended::escape(first.as_ref(), to);
        }

        fn split_first(bytes: &[u8]) -> Option<(Self::Owned, &[u8])> {
            let (first, rest) = crate::ended::split(bytes)?;
            Some((Self::decode_vec(first)?, rest))
        }
    };
}

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl Value for $type {
            type Ref<'a> = $type;
            type Owned = $type;

            fn type_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn encode(value: $type, to: &mut Vec<u8>) {
                to.extend_from_slice(&value.to_be_bytes());
            }

            fn decode(bytes: &[u8]) -> Option<$type> {
                Some(<$type>::from_be_bytes(bytes.try_into().ok()?))
            }
        }

        impl Key for $type {}

        impl FirstKey for $type {
            fixed_first!(size_of::<$type>());
        }
    )*};
}

macro_rules! signed {
    ($($type:ty as $unsigned:ty),*) => {$(
        impl Value for $type {
            type Ref<'a> = $type;
            type Owned = $type;

            fn type_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            /// The sign bit is inverted, so that negative numbers sort first.
            fn encode(value: $type, to: &mut Vec<u8>) {
                let turned = value as $unsigned ^ (1 << (<$unsigned>::BITS - 1));
                to.extend_from_slice(&turned.to_be_bytes());
            }

            fn decode(bytes: &[u8]) -> Option<$type> {
                let turned = <$unsigned>::from_be_bytes(bytes.try_into().ok()?);
                Some((turned ^ (1 << (<$unsigned>::BITS - 1))) as $type)
            }
        }

        impl Key for $type {}

        impl FirstKey for $type {
            fixed_first!(size_of::<$type>());
        }
    )*};
}

unsigned!(u8, u16, u32, u64, u128);
signed!(i8 as u8, i16 as u16, i32 as u32, i64 as u64, i128 as u128);

impl Value for () {
    type Ref<'a> = ();
    type Owned = ();

    fn type_name() -> Cow<'static, str> {
        "()".into()
    }

    fn encode((): (), _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

impl Value for &str {
    type Ref<'a> = &'a str;
    type Owned = String;

    fn type_name() -> Cow<'static, str> {
        "str".into()
    }

    fn encode(value: &str, to: &mut Vec<u8>) {
        to.extend_from_slice(value.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        Self::decode_vec(bytes.to_vec())
    }

    fn decode_vec(bytes: Vec<u8>) -> Option<String> {
        String::from_utf8(bytes).ok()
    }
}

impl Key for &str {}

impl FirstKey for &str {
    ended_first!();
}

impl Value for &[u8] {
    type Ref<'a> = &'a [u8];
    type Owned = Vec<u8>;

    fn type_name() -> Cow<'static, str> {
        "[u8]".into()
    }

    fn encode(value: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(value);
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }

    fn decode_vec(bytes: Vec<u8>) -> Option<Vec<u8>> {
        Some(bytes)
    }
}

impl Key for &[u8] {}

impl FirstKey for &[u8] {
    ended_first!();
}

impl<const N: usize> Value for [u8; N] {
    type Ref<'a> = &'a [u8; N];
    type Owned = [u8; N];

    fn type_name() -> Cow<'static, str> {
        format!("[u8; {N}]").into()
    }

    fn encode(value: &[u8; N], to: &mut Vec<u8>) {
        to.extend_from_slice(value);
    }

    fn decode(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
}

impl<const N: usize> Key for [u8; N] {}

impl<const N: usize> FirstKey for [u8; N] {
    fixed_first!(N);
}

/// Pairs sort by the first, then by the second. A table of pairs with the unit as value
/// stores several values per key, of any lengths
/// ([`with_first`](crate::ReadTable::with_first)).
impl<A: FirstKey, B: Key> Value for (A, B) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>);
    type Owned = (A::Owned, B::Owned);

    fn type_name() -> Cow<'static, str> {
        format!("({}, {})", A::type_name(), B::type_name()).into()
    }

    fn encode((a, b): Self::Ref<'_>, to: &mut Vec<u8>) {
        A::encode_first(a, to);
        B::encode(b, to);
    }

    fn decode(bytes: &[u8]) -> Option<Self::Owned> {
        let (a, b) = A::split_first(bytes)?;
        Some((a, B::decode(b)?))
    }
}

impl<A: FirstKey, B: Key> Key for (A, B) {}

impl<A: FirstKey, B: FirstKey> FirstKey for (A, B) {
    fn encode_first((a, b): Self::Ref<'_>, to: &mut Vec<u8>) {
        A::encode_first(a, to);
        B::encode_first(b, to);
    }

    fn split_first(bytes: &[u8]) -> Option<(Self::Owned, &[u8])> {
        let (a, rest) = A::split_first(bytes)?;
        let (b, rest) = B::split_first(rest)?;
        Some(((a, b), rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<V: Value>(value: V::Ref<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V::encode(value, &mut bytes);
        bytes
    }

    #[test]
    fn bytes_of_numbers_sort_as_they_do() {
        let numbers = [i64::MIN, -256, -1, 0, 1, 255, 256, i64::MAX];
        let sorted: Vec<_> = numbers.map(bytes::<i64>).into();
        assert!(sorted.is_sorted());
        for number in numbers {
            assert_eq!(i64::decode(&bytes::<i64>(number)), Some(number));
        }
        assert!(bytes::<u32>(255) < bytes::<u32>(256));
        assert_eq!(u32::decode(&[1, 2]), None);
    }

    /// All pairs of strings of few letters sort like the pairs, and are parsed back.
    #[test]
    fn pairs_of_any_lengths_sort_as_they_do() {
        let letters: [&[u8]; 3] = [b"\0", b"a", b"\xff"];
        let mut strings = vec![Vec::new()];
        for _ in 0..3 {
            let longer = |string: &Vec<u8>| letters.map(|letter| [string, letter].concat());
            strings.extend(strings.iter().flat_map(longer).collect::<Vec<_>>());
            strings.sort();
            strings.dedup();
        }
        type Pair = (&'static [u8], &'static [u8]);
        type Three = (Pair, &'static [u8]);
        let pairs = strings
            .iter()
            .flat_map(|a| strings.iter().map(move |b| (a, b)));
        let encoded: Vec<_> = pairs.clone().map(|(a, b)| bytes::<Pair>((a, b))).collect();
        assert!(encoded.is_sorted_by(|a, b| a < b));
        for ((a, b), encoded) in pairs.clone().zip(&encoded) {
            assert_eq!(Pair::decode(encoded), Some((a.clone(), b.clone())));
        }
        let threes = pairs.flat_map(|(a, b)| strings.iter().step_by(5).map(move |c| ((a, b), c)));
        let encoded: Vec<_> = threes
            .clone()
            .map(|((a, b), c)| bytes::<Three>(((a, b), c)))
            .collect();
        assert!(encoded.is_sorted_by(|a, b| a < b));
        for (((a, b), c), encoded) in threes.zip(&encoded) {
            let three = ((a.clone(), b.clone()), c.clone());
            assert_eq!(Three::decode(encoded), Some(three));
        }
        assert_eq!(Pair::decode(b"no end"), None);
        assert_eq!(<(&str, u8)>::decode(b"\xff\0\0\x01"), None, "no text");
    }

    #[test]
    fn pairs_sort_by_their_first() {
        type Pair = (u16, &'static str);
        let pairs = [(1, "b"), (1, "ba"), (2, ""), (2, "a"), (256, "")];
        let sorted: Vec<_> = pairs.map(bytes::<Pair>).into();
        assert!(sorted.is_sorted());
        assert_eq!(Pair::decode(&sorted[1]), Some((1, "ba".to_owned())));
        assert_eq!(Pair::decode(&[1]), None);
    }
}
