//! The mapping of a striped array's bytes to its members. Arithmetic only.

/// A distribution of stripe units over members, round robin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripes {
    members: u64,
    unit_bytes: u64,
}

/// A range that is contiguous on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Index of the member, from 0.
    pub member: usize,
    /// Byte address on the member.
    pub offset: u64,
    /// Length, in bytes.
    pub length: u64,
}

impl Stripes {
    /// Distributes units of `unit_bytes` over `members` devices; `None` if either is
    /// zero.
    pub fn new(members: usize, unit_bytes: u64) -> Option<Self> {
        let members = members as u64;
        (members > 0 && unit_bytes > 0).then_some(Stripes {
            members,
            unit_bytes,
        })
    }

    /// Returns the size of a stripe unit, in bytes.
    pub fn unit_bytes(self) -> u64 {
        self.unit_bytes
    }

    /// Returns the member that has byte `offset` of the array, and the address on it.
    pub fn locate(self, offset: u64) -> (usize, u64) {
        let unit = offset / self.unit_bytes;
        let row = unit / self.members;
        (
            (unit % self.members) as usize,
            row * self.unit_bytes + offset % self.unit_bytes,
        )
    }

    /// Returns the pieces of a range, one for each stripe unit touched, in the order of
    /// the array's bytes. The range must end below 2^64.
    pub fn pieces(self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == length {
                return None;
            }
            let (member, at) = self.locate(offset + done);
            let step = (self.unit_bytes - at % self.unit_bytes).min(length - done);
            done += step;
            Some(Piece {
                member,
                offset: at,
                length: step,
            })
        })
    }

    /// Returns, for each member that a range touches, the one contiguous run on it, in
    /// the order of members. The cost depends on the number of members, not on the
    /// length.
    pub fn runs(self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        (0..self.members).filter_map(move |member| {
            let start = self.share(offset, member);
            let end = self.share(offset + length, member);
            (end > start).then_some(Piece {
                member: member as usize,
                offset: start,
                length: end - start,
            })
        })
    }

    /// Returns how many bytes below `offset` of the array are on `member`.
    fn share(self, offset: u64, member: u64) -> u64 {
        let unit = offset / self.unit_bytes;
        let (row, turn) = (unit / self.members, unit % self.members);
        row * self.unit_bytes
            + match turn.cmp(&member) {
                std::cmp::Ordering::Greater => self.unit_bytes,
                std::cmp::Ordering::Equal => offset % self.unit_bytes,
                std::cmp::Ordering::Less => 0,
            }
    }
}
