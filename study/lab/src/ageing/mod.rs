//! Years of use in seconds: what is free afterwards, and how it lies (Seltzer et al.
//! 1995, §5).
//!
//! | module | what is in it |
//! |---|---|
//! | `volume` | files without content on FFS's own allocator |
//! | `profile` | four kinds of use |
//! | `list` | a user's own files, or what happened to them |

mod list;
mod profile;
#[cfg(test)]
mod tests;
mod volume;

pub use list::{Event, parse};
pub use profile::Profile;
pub use volume::Make;
use volume::{Score, Volume};

use crate::error::LabError;
use serde::Serialize;
use varve_ffs::FreeMap;
use varve_prove::random::Random;

/// What became of a file system.
#[derive(Clone, Debug)]
pub struct Aged {
    /// What is free.
    pub map: FreeMap,
    /// In numbers.
    pub told: Told,
}

/// A file system that has been used, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Told {
    /// Share of the room that is in use.
    pub utilisation: f64,
    /// Share of the free room that is in whole blocks.
    pub free_in_blocks: f64,
    /// Files there are.
    pub files: u64,
    /// Files that were made, lengthened and removed.
    pub operations: u64,
    /// Of these, those that found no room.
    pub refused: u64,
    /// Share of the files of two blocks that lie together, of those made in the last
    /// quarter of the time; `None` if there were none.
    pub pairs_joined: Option<f64>,
    /// Share of the blocks of files of 256 KB that follow the one before, likewise.
    pub large_joined: Option<f64>,
}

impl Told {
    fn of(volume: &Volume, score: Score) -> Self {
        let share = |of: u64, all: u64| (all > 0).then(|| of as f64 / all as f64);
        Told {
            utilisation: volume.utilisation(),
            free_in_blocks: volume.free_in_blocks(),
            files: volume.files(),
            operations: volume.operations(),
            refused: volume.refused(),
            pairs_joined: share(score.pairs_joined, score.pairs),
            large_joined: share(score.large_joined, score.large),
        }
    }
}

/// Uses a new file system for so many days as a profile says. `scale` divides its
/// cylinder groups; the seed decides everything.
///
/// # Errors
/// There is no such file system.
pub fn age(profile: Profile, days: u64, scale: u64, seed: u64) -> Result<Aged, LabError> {
    let usual = profile.make();
    let make = Make {
        groups: (usual.groups / scale.max(1)).max(2),
        ..usual
    };
    let mut volume = Volume::new(make)?;
    let mut random = Random::new(seed);
    profile.live(&mut volume, days, scale, &mut random);
    let score = volume.take_score();
    Ok(Aged {
        map: volume.map(),
        told: Told::of(&volume, score),
    })
}

/// Plays a user's own list on a new file system.
///
/// # Errors
/// There is no such file system.
pub fn age_by(make: Make, events: &[Event]) -> Result<Aged, LabError> {
    let mut volume = Volume::new(make)?;
    list::play(&mut volume, events);
    let score = volume.take_score();
    Ok(Aged {
        map: volume.map(),
        told: Told::of(&volume, score),
    })
}
