//! Progress of listings whose inodes are read ahead (`names/inodes_ahead.rs`).

use crate::types::InodeNo;
use std::collections::VecDeque;
use varve_device::sync::Mutex;

/// Number of names examined first.
const FIRST: usize = 512;
/// Most listings recorded.
const LISTINGS: usize = 8;

/// Progress of a listing in a directory.
#[derive(Debug)]
struct Listing {
    directory: InodeNo,
    /// Inodes of names from this cookie up to `until` have been read, or are being read.
    from: u64,
    until: u64,
    /// Number of names examined for that.
    names: usize,
}

/// The newest listings, the last one last.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<VecDeque<Listing>>);

impl Listings {
    /// Number of names to examine after `after`, unless that is done already.
    pub fn due(&self, directory: InodeNo, after: u64, most: usize) -> Option<usize> {
        let mut listings = self.0.lock();
        let known = listings.iter().position(|l| l.directory == directory);
        let mut names = FIRST;
        if let Some(mut known) = known.and_then(|at| listings.remove(at)) {
            if (known.from..known.until).contains(&after) {
                known.from = after;
                listings.push_back(known);
                return None;
            }
            if after >= known.until {
                names = known.names.saturating_mul(8);
            }
        }
        if listings.len() == LISTINGS {
            listings.pop_front();
        }
        let names = names.min(most);
        listings.push_back(Listing {
            directory,
            from: after,
            until: u64::MAX,
            names,
        });
        Some(names)
    }

    /// Records that no inode after `until` was read.
    pub fn ended(&self, directory: InodeNo, until: u64) {
        let mut listings = self.0.lock();
        if let Some(listing) = listings.iter_mut().find(|l| l.directory == directory) {
            listing.until = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_ahead_once_and_ever_farther() {
        let (listings, root, other) = (Listings::default(), InodeNo(2), InodeNo(3));
        assert_eq!(listings.due(root, 100, 10_000), Some(512));
        // Within the range that is being read, and after it.
        assert_eq!(listings.due(root, 700, 10_000), None);
        listings.ended(root, 900);
        assert_eq!(listings.due(root, 899, 10_000), None);
        assert_eq!(listings.due(other, 100, 10_000), Some(512));
        assert_eq!(listings.due(root, 900, 10_000), Some(4096));
        listings.ended(root, 5000);
        assert_eq!(listings.due(root, 5000, 10_000), Some(10_000));
        // From the beginning again.
        assert_eq!(listings.due(root, 100, 10_000), Some(512));
    }

    #[test]
    fn few_listings_are_remembered() {
        let listings = Listings::default();
        for ino in 0..100 {
            assert_eq!(listings.due(InodeNo(ino), 7, 1000), Some(512));
        }
        assert_eq!(listings.0.lock().len(), LISTINGS);
    }
}
