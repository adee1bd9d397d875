//! Tuples: thirteen integers and three strings of 52 characters (table 7-6).

use varve_prove::random::Random;

/// An integer of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A permutation.
    Unique1,
    /// Another, by which a relation is clustered.
    Unique2,
    /// `unique1` modulo 2; so for the next ones.
    Two,
    /// Modulo 4.
    Four,
    /// Modulo 10.
    Ten,
    /// Modulo 20.
    Twenty,
    /// Modulo 100.
    Hundred,
    /// Modulo 1000.
    Thousand,
    /// Modulo 2000.
    TwoThous,
    /// Modulo 5000.
    FiveThous,
    /// Modulo 10,000.
    TenThous,
    /// Odd, 1 to 99.
    Odd100,
    /// Even, 2 to 100.
    Even100,
}

use Attribute::*;

impl Attribute {
    /// All of them, in the order in which they are stored.
    pub const ALL: [Attribute; 13] = [
        Unique1, Unique2, Two, Four, Ten, Twenty, Hundred, Thousand, TwoThous, FiveThous, TenThous,
        Odd100, Even100,
    ];
}

/// Strings of a tuple: `stringu1`, `stringu2` and `string4`.
const STRINGS: usize = 3;

pub(super) const STRING_BYTES: usize = 52;
pub(super) const INTEGERS_BYTES: usize = 4 * Attribute::ALL.len();
/// Bytes of a tuple.
pub const TUPLE_BYTES: usize = INTEGERS_BYTES + STRINGS * STRING_BYTES;

/// A tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuple(pub(super) [u8; TUPLE_BYTES]);

/// A string that is one for each number: seven letters, then the same one.
fn letters(number: u32) -> [u8; STRING_BYTES] {
    let mut text = [b'x'; STRING_BYTES];
    let mut rest = number;
    for letter in text[..7].iter_mut().rev() {
        *letter = b'A' + (rest % 26) as u8;
        rest /= 26;
    }
    text
}

impl Tuple {
    /// The tuple that has these two keys.
    pub fn new(unique1: u32, unique2: u32) -> Self {
        let mut tuple = Tuple([0; TUPLE_BYTES]);
        let values = [
            unique1,
            unique2,
            unique1 % 2,
            unique1 % 4,
            unique1 % 10,
            unique1 % 20,
            unique1 % 100,
            unique1 % 1000,
            unique1 % 2000,
            unique1 % 5000,
            unique1 % 10_000,
            unique1 % 50 * 2 + 1,
            unique1 % 50 * 2 + 2,
        ];
        for (attribute, value) in Attribute::ALL.into_iter().zip(values) {
            tuple.set(attribute, value);
        }
        let four = [b'A', b'H', b'O', b'V'][unique1 as usize % 4];
        let mut string4 = [b'x'; STRING_BYTES];
        string4[..4].fill(four);
        let strings = [letters(unique1), letters(unique2), string4];
        tuple.0[INTEGERS_BYTES..].copy_from_slice(strings.as_flattened());
        tuple
    }

    /// An integer.
    pub fn get(&self, attribute: Attribute) -> u32 {
        let at = 4 * attribute as usize;
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"))
    }

    /// Gives it another integer.
    pub fn set(&mut self, attribute: Attribute, value: u32) {
        let at = 4 * attribute as usize;
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// What a join makes of a pair: the integers of one, the strings of the other. So
    /// it is no longer than a tuple, as the thesis's results of 200 KB were of 1000.
    pub fn joined(integers: &Tuple, strings: &Tuple) -> Tuple {
        let mut joined = *integers;
        joined.0[INTEGERS_BYTES..].copy_from_slice(&strings.0[INTEGERS_BYTES..]);
        joined
    }
}

/// The numbers below `count` in any order.
pub(super) fn permutation(count: u32, random: &mut Random) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    numbers
}

/// A relation of so many tuples, in the order in which they come.
pub(super) fn generate(count: u32, random: &mut Random) -> Vec<Tuple> {
    let unique2 = permutation(count, random);
    let pairs = permutation(count, random).into_iter().zip(unique2);
    pairs.map(|(one, two)| Tuple::new(one, two)).collect()
}
