//! What the file system's process used in a phase: processor and memory.

use std::fs;
use std::time::Duration;

/// A process that is watched.
pub struct Process {
    directory: String,
}

/// What it had used when it was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// User and system time since it began.
    pub cpu: Duration,
    /// Most bytes resident since [`Process::reset_peak`].
    pub peak_bytes: u64,
}

impl Process {
    /// Watches the process with this id.
    pub fn of(id: u32) -> Self {
        Process {
            directory: format!("/proc/{id}"),
        }
    }

    /// The peak is what is resident now (proc(5), `clear_refs`). Without the
    /// right to do so, peaks are those of the process's whole life.
    pub fn reset_peak(&self) {
        let _ = fs::write(format!("{}/clear_refs", self.directory), "5");
    }

    /// `None` if the process has ended or the host does not tell.
    pub fn used(&self) -> Option<Used> {
        let read = |file: &str| fs::read_to_string(format!("{}/{file}", self.directory)).ok();
        let status = read("status")?;
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
        let kib: u64 = peak.trim().strip_suffix(" kB")?.parse().ok()?;
        // The second field, a name in brackets, may hold anything.
        let stat = read("stat")?;
        let (_, fields) = stat.rsplit_once(')')?;
        let mut ticks = fields.split_whitespace().skip(11);
        let mut ticks = || ticks.next()?.parse::<u64>().ok();
        let ticks = ticks()? + ticks()?;
        let second = rustix::param::clock_ticks_per_second() as f64;
        Some(Used {
            cpu: Duration::from_secs_f64(ticks as f64 / second),
            peak_bytes: kib << 10,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_given_back_shows_until_the_next_reset() {
        const BYTES: u64 = 64 << 20;
        let process = Process::of(std::process::id());
        process.reset_peak();
        let before = process.used().unwrap();
        std::hint::black_box(vec![1u8; BYTES as usize]);
        let after = process.used().unwrap();
        assert!(after.peak_bytes >= before.peak_bytes + BYTES / 2);
        assert!(after.cpu >= before.cpu);
    }
}
