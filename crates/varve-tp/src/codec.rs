//! Types as bytes: keys sort as their bytes do.

use std::borrow::Cow;

/// A type that a table can hold.
pub trait Value {
    /// How a caller hands one over.
    type Ref<'a>;
    /// What is read.
    type Owned;

    /// The name that the catalog keeps: a table is opened with the types that it was made
    /// with.
    fn type_name() -> Cow<'static, str>;

    /// Appends the bytes.
    fn encode(value: Self::Ref<'_>, to: &mut Vec<u8>);

    /// Out of bytes. `None` if they are not of this type.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;

    /// The same out of bytes that nobody else needs: a type that keeps them as they are
    /// need not copy a large value.
    fn decode_vec(bytes: Vec<u8>) -> Option<Self::Owned> {
        Self::decode(&bytes)
    }
}

/// A type whose bytes sort as its values do.
pub trait Key: Value {}

/// A key of always as many bytes: the first of a pair.
pub trait FixedKey: Key {
    /// Bytes it takes.
    const BYTES: usize;
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

        impl FixedKey for $type {
            const BYTES: usize = size_of::<$type>();
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

            /// The sign is turned, so that negative numbers come first.
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

        impl FixedKey for $type {
            const BYTES: usize = size_of::<$type>();
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

impl<const N: usize> FixedKey for [u8; N] {
    const BYTES: usize = N;
}

/// Pairs sort by the first, then by the second: with the unit as value, a table of them
/// holds several values for a key.
impl<A: FixedKey, B: Key> Value for (A, B) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>);
    type Owned = (A::Owned, B::Owned);

    fn type_name() -> Cow<'static, str> {
        format!("({}, {})", A::type_name(), B::type_name()).into()
    }

    fn encode((a, b): Self::Ref<'_>, to: &mut Vec<u8>) {
        A::encode(a, to);
        B::encode(b, to);
    }

    fn decode(bytes: &[u8]) -> Option<Self::Owned> {
        let (a, b) = bytes.split_at_checked(A::BYTES)?;
        Some((A::decode(a)?, B::decode(b)?))
    }
}

impl<A: FixedKey, B: Key> Key for (A, B) {}

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
