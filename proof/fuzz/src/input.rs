//! Taking numbers out of a fuzzer's bytes.

/// What is left of the bytes.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// From all of them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Input { rest: bytes }
    }

    /// True if none is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most `length` bytes.
    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// The next `length` bytes, at most 8, as a number; zeros where none are left.
    pub fn number(&mut self, length: usize) -> u64 {
        let mut word = [0; 8];
        let taken = self.take(length);
        word[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(word)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }
}
