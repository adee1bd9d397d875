//! The schedule of automatic snapshots, stored in the volume.
//!
//! An interval keeps the newest snapshot of each of its periods: an hour, a day, a week
//! in UTC. A snapshot is kept if any interval keeps it. The schedule is an extended
//! attribute of the root directory that only root can read and set.

use crate::attr::Caller;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Layout, VolumeSnapshot};
use crate::types::{InodeNo, Timestamp};
use std::collections::BTreeSet;

const ATTRIBUTE: &[u8] = b"trusted.varve.keep";
const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
const WEEK_S: i64 = 7 * DAY_S;

/// How many automatic snapshots are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Hours of which the newest is kept.
    pub hourly: u16,
    /// Days of which the newest is kept.
    pub daily: u16,
    /// Weeks of which the newest is kept.
    pub weekly: u16,
}

impl Schedule {
    /// Each interval in seconds, and how many of it are kept.
    fn intervals(self) -> [(i64, u16); 3] {
        let Schedule {
            hourly,
            daily,
            weekly,
        } = self;
        [(HOUR_S, hourly), (DAY_S, daily), (WEEK_S, weekly)]
    }

    /// True if it takes no snapshots.
    pub fn is_off(self) -> bool {
        self == Schedule::default()
    }

    /// True if a snapshot is to be taken: the shortest interval has none yet for the
    /// present period.
    pub fn is_due(self, snapshots: &[VolumeSnapshot], now: Timestamp) -> bool {
        let mut intervals = self.intervals().into_iter();
        let Some((interval_s, _)) = intervals.find(|(_, kept)| *kept > 0) else {
            return false;
        };
        let period = |time: Timestamp| time.seconds.div_euclid(interval_s);
        let automatic = snapshots.iter().filter(|one| one.is_automatic());
        !automatic
            .into_iter()
            .any(|one| period(one.taken) >= period(now))
    }

    /// The numbers of the automatic ones among these snapshots, oldest first, that no
    /// interval keeps. Without a schedule that is none.
    pub fn surplus(self, snapshots: &[VolumeSnapshot]) -> Vec<u32> {
        if self.is_off() {
            return Vec::new();
        }
        let automatic = || snapshots.iter().filter(|one| one.is_automatic());
        let mut kept = BTreeSet::new();
        for (interval_s, count) in self.intervals() {
            let mut periods = BTreeSet::new();
            for one in automatic().rev() {
                let is_new = periods.insert(one.taken.seconds.div_euclid(interval_s));
                if is_new && periods.len() <= usize::from(count) {
                    kept.insert(one.number);
                }
            }
        }
        let numbers = automatic().map(|one| one.number);
        numbers.filter(|number| !kept.contains(number)).collect()
    }

    fn to_text(self) -> String {
        format!("{} {} {}", self.hourly, self.daily, self.weekly)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let numbers: Option<Vec<u16>> = text.split(' ').map(|word| word.parse().ok()).collect();
        match numbers?[..] {
            [hourly, daily, weekly] => Some(Schedule {
                hourly,
                daily,
                weekly,
            }),
            _ => None,
        }
    }
}

impl<L: Layout> FileSystem<L> {
    /// The schedule of automatic snapshots; a volume without one takes none.
    ///
    /// # Errors
    /// `Damaged` if it cannot be parsed; as [`Self::getxattr`].
    pub fn snapshot_schedule(&self) -> Result<Schedule> {
        match self.getxattr(&Caller::root(), InodeNo::ROOT, ATTRIBUTE) {
            Ok(text) => Schedule::parse(&text).ok_or_else(|| Error::Damaged {
                ino: Some(InodeNo::ROOT),
                detail: "the schedule of snapshots is malformed; set it again with \
                         `varve snapshot keep`"
                    .to_owned(),
            }),
            Err(Error::NoAttribute) => Ok(Schedule::default()),
            Err(error) => Err(error),
        }
    }

    /// Sets the schedule, durably; one that is off removes it. Snapshots that exist are
    /// deleted at the next [`Self::keep_snapshots`].
    ///
    /// # Errors
    /// `NoSnapshots`; as [`Self::setxattr`] and [`Self::sync`].
    pub fn set_snapshot_schedule(&self, schedule: Schedule) -> Result<()> {
        self.snapshots()?;
        let (caller, text) = (Caller::root(), schedule.to_text());
        let set = match schedule.is_off() {
            true => self.removexattr(&caller, InodeNo::ROOT, ATTRIBUTE),
            false => {
                let value = text.as_bytes();
                self.setxattr(&caller, InodeNo::ROOT, ATTRIBUTE, value, false, false)
            }
        };
        match set {
            Ok(()) | Err(Error::NoAttribute) => self.sync(),
            Err(error) => Err(error),
        }
    }

    /// Takes an automatic snapshot if one is due, and deletes those that the schedule
    /// does not keep.
    ///
    /// # Errors
    /// As [`Self::create_snapshot`] and [`Self::delete_snapshots`].
    pub fn keep_snapshots(&self) -> Result<()> {
        let schedule = self.snapshot_schedule()?;
        if schedule.is_off() || self.check_writable().is_err() {
            return Ok(());
        }
        if schedule.is_due(&self.snapshots()?, self.now()) {
            self.create_snapshot("")?;
        }
        let surplus = schedule.surplus(&self.snapshots()?);
        match surplus.is_empty() {
            true => Ok(()),
            false => self.delete_snapshots(&surplus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u32, hours: i64) -> VolumeSnapshot {
        VolumeSnapshot {
            number,
            name: String::new(),
            taken: Timestamp {
                seconds: 1_000_000 * HOUR_S + hours * HOUR_S + 60,
                nanos: 0,
            },
        }
    }

    #[test]
    fn a_year_of_hours_is_thinned() {
        let schedule = Schedule {
            hourly: 24,
            daily: 7,
            weekly: 4,
        };
        let mut kept: Vec<VolumeSnapshot> = Vec::new();
        for hour in 0..365 * 24 {
            let next = at(hour + 1, hour.into());
            assert!(schedule.is_due(&kept, next.taken));
            kept.push(next.clone());
            assert!(!schedule.is_due(&kept, next.taken));
            let surplus = schedule.surplus(&kept);
            kept.retain(|one| !surplus.contains(&one.number));
            assert_eq!(kept.last(), Some(&next));
        }
        let ages: Vec<u32> = kept.iter().map(|one| 365 * 24 - one.number).collect();
        assert!((30..=33).contains(&ages.len()), "{ages:?}");
        assert!((0..24).all(|age| ages.contains(&age)), "{ages:?}");
        assert!((2 * 168..4 * 168).contains(&ages[0]), "{ages:?}");
    }

    #[test]
    fn named_ones_and_volumes_without_a_schedule_are_left_alone() {
        let all: Vec<VolumeSnapshot> = (1..50).map(|number| at(number, number.into())).collect();
        let off = Schedule::default();
        assert!(off.is_off() && off.surplus(&all).is_empty());
        assert!(!off.is_due(&[], all[0].taken));
        let named = all.into_iter().map(|one| VolumeSnapshot {
            name: format!("{}", one.number),
            ..one
        });
        let named: Vec<VolumeSnapshot> = named.collect();
        let daily = Schedule {
            daily: 1,
            ..Schedule::default()
        };
        assert!(daily.surplus(&named).is_empty());
        assert!(daily.is_due(&named, named[48].taken));
    }

    #[test]
    fn a_schedule_is_parsed_as_it_was_written() {
        let schedule = Schedule {
            hourly: 0,
            daily: 7,
            weekly: 65_535,
        };
        assert_eq!(
            Schedule::parse(schedule.to_text().as_bytes()),
            Some(schedule)
        );
        for text in [
            "",
            "1 2",
            "1 2 3 4",
            "1 2 x",
            "1 2 65536",
            "-1 2 3",
            "\u{ff}",
        ] {
            assert_eq!(Schedule::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Schedule::parse(b"\xff"), None);
    }
}
