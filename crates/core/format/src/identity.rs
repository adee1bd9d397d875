//! The identity of a volume: its UUID, its label, and the tag in its structures.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The identity of a volume.
pub struct Identity {
    /// UUID, random, version 4.
    pub uuid: [u8; 16],
    /// Label, padded with zeros.
    pub label: [u8; 64],
    /// Seed of directory hashes.
    pub hash_seed: u64,
}

/// Changes to the superblock of a volume that is not mounted. `None` leaves a part as it
/// is.
#[derive(Clone, Debug, Default)]
pub struct Tune {
    /// New label: a name for people, at most 64 bytes of UTF-8.
    pub label: Option<String>,
    /// New UUID. The tag that distinguishes the structures of the volume from those of
    /// another one does not change.
    pub uuid: Option<[u8; 16]>,
    /// A volume of a version that did not know them may have snapshots from now on.
    pub snapshots: bool,
}

impl Tune {
    /// True if nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.label.is_none() && self.uuid.is_none() && !self.snapshots
    }
}

/// The reason why another layout than the log refuses [`Tune::snapshots`].
pub const ONLY_LOG_HAS_SNAPSHOTS: &str = "only volumes with the layout log have snapshots";

/// Creates the identity of a new volume; the same seed gives the same identity.
///
/// # Errors
/// A message if the label has more than 64 bytes or contains a zero byte.
pub fn identity(label: &str, seed: Option<u64>) -> Result<Identity, String> {
    let label = padded_label(label)?;
    let mut rng = generator(seed);
    Ok(Identity {
        uuid: uuid_from(&mut rng),
        label,
        hash_seed: rng.next_u64(),
    })
}

/// Returns a random identifier of a mount; the same seed gives the same one.
pub fn mount_id(seed: Option<u64>) -> u64 {
    generator(seed).next_u64()
}

fn generator(seed: Option<u64>) -> Xoshiro256PlusPlus {
    match seed {
        Some(seed) => Xoshiro256PlusPlus::seed_from_u64(seed),
        None => rand::make_rng(),
    }
}

fn uuid_from(rng: &mut impl Rng) -> [u8; 16] {
    let mut uuid = [0; 16];
    rng.fill_bytes(&mut uuid);
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Returns a new random UUID, version 4.
pub fn random_uuid() -> [u8; 16] {
    uuid_from(&mut generator(None))
}

/// Returns a label as superblocks store it.
///
/// # Errors
/// A message if it has more than 64 bytes, or contains a zero byte, which would end it.
pub fn padded_label(label: &str) -> Result<[u8; 64], String> {
    let mut padded = [0; 64];
    let Some(begin) = padded.get_mut(..label.len()) else {
        return Err(format!("the label has {} bytes, 64 fit", label.len()));
    };
    if label.contains('\0') {
        return Err("a label has no zero byte".into());
    }
    begin.copy_from_slice(label.as_bytes());
    Ok(padded)
}

/// Returns the text in a field that is padded with zeros.
pub fn padded_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// Parses a UUID: 32 hexadecimal digits, either with hyphens behind the eighth,
/// twelfth, sixteenth and twentieth or without hyphens.
///
/// # Errors
/// A message with an example.
pub fn parse_uuid(text: &str) -> Result<[u8; 16], String> {
    let wrong = || {
        format!(
            "`{text}` is no UUID: it is like 6b8f2f5e-0c1d-4a77-9a55-2d1c0a9b8e7f, not all zeros"
        )
    };
    let hyphens = [8, 13, 18, 23];
    let digits: Vec<u8> = match text.len() {
        32 => text.bytes().collect(),
        36 if hyphens.iter().all(|&at| text.as_bytes()[at] == b'-') => {
            let digit = |(at, _): &(usize, u8)| !hyphens.contains(at);
            let digits = text.bytes().enumerate().filter(digit);
            digits.map(|(_, byte)| byte).collect()
        }
        _ => return Err(wrong()),
    };
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16).ok_or_else(wrong);
        *byte = (nibble(pair[0])? << 4 | nibble(pair[1])?) as u8;
    }
    match uuid == [0; 16] {
        true => Err(wrong()),
        false => Ok(uuid),
    }
}

/// Returns a UUID as text, with hyphens.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// Returns the tag that distinguishes the structures of one volume from those of
/// another: the one stored in the superblock, or the beginning of the UUID.
pub fn tag_of(uuid: &[u8; 16], own: Option<u64>) -> u64 {
    let (first, _) = uuid.as_chunks::<8>();
    own.unwrap_or(u64::from_le_bytes(first[0]))
}

/// Returns the incompatible features and the stored tag of a superblock that keeps the
/// tag `tag` after its UUID changed to `uuid`. `own_tag` is the feature bit of a
/// superblock that stores a tag.
pub fn keeping_tag(tag: u64, uuid: &[u8; 16], incompat: u64, own_tag: u64) -> (u64, u64) {
    match tag_of(uuid, None) == tag {
        true => (incompat & !own_tag, 0),
        false => (incompat | own_tag, tag),
    }
}

/// Returns the reason why a volume cannot be written, if it has any `unknown` features
/// of the kind that only forbids writing.
pub fn not_to_be_written(unknown: u64) -> Option<String> {
    (unknown != 0)
        .then(|| format!("the volume uses features {unknown:#x} that this program can only read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_read_as_it_is_written() {
        let uuid = random_uuid();
        let text = uuid_text(&uuid);
        assert_eq!(text.len(), 36);
        assert_eq!(parse_uuid(&text), Ok(uuid));
        assert_eq!(parse_uuid(&text.to_uppercase()), Ok(uuid));
        assert_eq!(parse_uuid(&text.replace('-', "")), Ok(uuid));
        for wrong in [
            "",
            "random",
            "00000000-0000-0000-0000-000000000000",
            "6b8f2f5e-0c1d-4a77-9a55-2d1c0a9b8e7",
            "6b8f2f5e-0c1d-4a77-9a55-2d1c0a9b8e7g",
            "6b8f2f5e-0c1d-4a77-9a55+2d1c0a9b8e7f",
            "6b8f2f5e-0c1d-4a77-9a552-d1c0a9b8e7f",
            "6b8f2f5e0c1d4a779a552d1c0a9b8\u{e9}f",
            "6b8f2f5e-0c1d-4a77-9a55-2d1c0a9b8\u{20ac}",
        ] {
            assert!(parse_uuid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_label_fits_and_ends_nowhere_before_its_end() {
        assert_eq!(&padded_label("lake").unwrap()[..5], b"lake\0");
        assert_eq!(padded_label(&"x".repeat(64)).unwrap(), [b'x'; 64]);
        assert!(padded_label(&"x".repeat(65)).is_err());
        assert!(padded_label("a\0b").is_err());
    }
}
