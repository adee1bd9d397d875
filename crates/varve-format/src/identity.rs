//! What makes a volume this one and no other.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What makes a volume this one and no other.
pub struct Identity {
    /// Random, version 4.
    pub uuid: [u8; 16],
    /// Padded with zeros.
    pub label: [u8; 64],
    /// Seed of directory hashes.
    pub hash_seed: u64,
}

/// A new volume's identity; the same for the same seed.
///
/// # Errors
/// Says so if the label has more than 64 bytes.
pub fn identity(label: &str, seed: Option<u64>) -> Result<Identity, String> {
    let mut padded = [0; 64];
    let Some(begin) = padded.get_mut(..label.len()) else {
        return Err(format!("the label has {} bytes, 64 fit", label.len()));
    };
    begin.copy_from_slice(label.as_bytes());
    let mut rng = match seed {
        Some(seed) => Xoshiro256PlusPlus::seed_from_u64(seed),
        None => rand::make_rng(),
    };
    let mut uuid = [0; 16];
    rng.fill_bytes(&mut uuid);
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(Identity {
        uuid,
        label: padded,
        hash_seed: rng.next_u64(),
    })
}
