//! Fast hashes of content, used to recognise equal images and traces.
//!
//! They are neither stored on a medium nor safe against an adversary. The values are
//! the same on every machine, so that a recorded one can be compared.

/// Mixes every bit of `value` into every other bit (the splitmix64 finaliser).
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns a hash of `bytes`: FNV-1a over 8-byte words, finished with [`mix`].
pub(crate) fn bytes(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = step(hash, u64::from_le_bytes(*word));
    }
    for &byte in rest {
        hash = step(hash, u64::from(byte));
    }
    mix(hash)
}

/// Returns the running hash `hash` after one more value.
pub(crate) fn step(hash: u64, value: u64) -> u64 {
    let hash = (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3);
    hash ^ (hash >> 29)
}

/// Returns the contribution of one piece of content at one address to a sum, in which
/// the order of the pieces does not matter.
pub(crate) fn term(address: u64, content: &[u8]) -> u64 {
    mix(mix(address.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(bytes(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_bits_and_lengths_change_the_hash() {
        let mut content = [0; 512];
        let zero = bytes(&content);
        for bit in 0..512 * 8 {
            content[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(bytes(&content), zero);
            content[bit / 8] ^= 1 << (bit % 8);
        }
        assert_ne!(bytes(&content[..511]), zero);
        assert_ne!(term(0, &content), term(1, &content));
    }
}
