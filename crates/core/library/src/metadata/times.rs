//! Converts times between the host and a volume.

use crate::error::{Cause, Error, Result};
use std::time::{Duration, SystemTime};
use varve_fs::{SetAttr, SetTime, Timestamp};

/// Times to set, like [`std::fs::FileTimes`].
///
/// ```
/// use std::time::{Duration, SystemTime};
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// volume.write("/old", b"")?;
/// let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
/// volume.set_times("/old", varve::FileTimes::new().set_modified(then))?;
/// assert_eq!(volume.metadata("/old")?.modified()?, then);
/// # Ok::<(), varve::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}

impl FileTimes {
    /// Returns a value that sets no time.
    pub fn new() -> Self {
        FileTimes::default()
    }

    /// Sets the time of the last access.
    pub fn set_accessed(mut self, time: SystemTime) -> Self {
        self.accessed = Some(time);
        self
    }

    /// Sets the time of the last modification.
    pub fn set_modified(mut self, time: SystemTime) -> Self {
        self.modified = Some(time);
        self
    }

    pub(crate) fn attributes(&self) -> SetAttr {
        let at = |time| SetTime::At(timestamp(time));
        SetAttr {
            atime: self.accessed.map(at),
            mtime: self.modified.map(at),
            ..SetAttr::default()
        }
    }
}

/// Converts a time of the host; both sides count seconds in 64 bits.
fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => Timestamp {
            seconds: since.as_secs() as i64,
            nanos: since.subsec_nanos(),
        },
        Err(before) => {
            let before = before.duration();
            let (seconds, nanos) = (before.as_secs() as i64, before.subsec_nanos());
            match nanos {
                0 => Timestamp {
                    seconds: seconds.wrapping_neg(),
                    nanos,
                },
                _ => Timestamp {
                    seconds: -1 - seconds,
                    nanos: 1_000_000_000 - nanos,
                },
            }
        }
    }
}

/// Converts a time of a volume.
///
/// # Errors
/// `InvalidInput` if the host cannot express the time.
pub(crate) fn system_time(time: Timestamp) -> Result<SystemTime> {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let base = match time.seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    base.and_then(|base| base.checked_add(Duration::from_nanos(time.nanos.into())))
        .ok_or_else(|| {
            let cause = Cause::Argument("an instant that the host cannot express");
            Error::of_volume("tell a time", cause)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_whichever_side_of_1970() {
        for nanos in [0, 1, 999_999_999] {
            for seconds in [i64::MIN, -2, -1, 0, 1, i64::MAX] {
                let time = Timestamp { seconds, nanos };
                if let Ok(told) = system_time(time) {
                    assert_eq!(timestamp(told), time);
                }
            }
        }
        let time = Timestamp {
            seconds: -2,
            nanos: 500_000_000,
        };
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(system_time(time).unwrap(), before);
    }
}
