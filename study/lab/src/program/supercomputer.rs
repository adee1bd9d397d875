//! Four supercomputer applications (Seltzer 1992, §7.9, table 7-10; B8): a file is written
//! in pieces in random order; then reads and writes of the application's mean sizes go to
//! random places in it.
//!
//! The traces cannot be had; what is drawn has the table's sizes, and its share of reads.
//! The table's mean sizes are those of whole requests; places are multiples of a block.

use super::{BLOCK, NumberedFiles};
use varve_prove::random::Random;

/// Requests in the paper, reads and writes together.
pub const REQUESTS: u32 = 1000;
/// The file's number.
const FILE: u32 = 0;

/// An application, as table 7-10 has it.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    /// Its name.
    pub name: &'static str,
    /// MB of its file.
    pub file_mb: f64,
    mean_kb: f64,
    reads: u32,
    writes: u32,
    /// Bytes read for each written.
    read_write: f64,
}

/// All of them.
pub const APPLICATIONS: [Application; 4] = [
    Application {
        name: "bvi",
        file_mb: 171.0,
        mean_kb: 16.1,
        reads: 913,
        writes: 185,
        read_write: 2.31,
    },
    Application {
        name: "ccm",
        file_mb: 11.6,
        mean_kb: 31.9,
        reads: 135,
        writes: 128,
        read_write: 1.07,
    },
    Application {
        name: "les",
        file_mb: 224.0,
        mean_kb: 324.0,
        reads: 74,
        writes: 81,
        read_write: 0.95,
    },
    Application {
        name: "venus",
        file_mb: 55.2,
        mean_kb: 456.0,
        reads: 60,
        writes: 32,
        read_write: 1.80,
    },
];

/// What requests took, what waits at the end among the writes.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// KB/s.
    pub read_kb_s: f64,
    /// KB/s.
    pub write_kb_s: f64,
}

impl Application {
    /// Bytes of a read and of a write: equations (1) and (2) solved, in whole sectors.
    pub fn sizes(&self) -> (u32, u32) {
        let (reads, writes) = (f64::from(self.reads), f64::from(self.writes));
        let write_kb = self.mean_kb * (reads + writes) / (writes * (1.0 + self.read_write));
        let read_kb = self.read_write * write_kb * writes / reads;
        let bytes = |kb: f64| (kb * 2.0).round() as u32 * 512;
        (bytes(read_kb), bytes(write_kb))
    }

    /// Bytes that its file has at least.
    pub fn file_bytes_min(&self) -> u64 {
        let (read_bytes, write_bytes) = self.sizes();
        u64::from(read_bytes) + u64::from(write_bytes)
    }

    /// Makes its file of nearly `file_bytes`, and answers how many it has. Nobody waits for
    /// the medium.
    ///
    /// # Errors
    /// As the files.
    pub fn load<F: NumberedFiles + ?Sized>(
        &self,
        files: &mut F,
        file_bytes: f64,
        random: &mut Random,
    ) -> Result<u64, F::Error> {
        let (_, write_bytes) = self.sizes();
        files.create(FILE)?;
        let pieces = (file_bytes / f64::from(write_bytes)) as u64;
        let mut order: Vec<u64> = (0..pieces).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        for piece in order {
            files.write(FILE, piece * u64::from(write_bytes), write_bytes, false)?;
        }
        Ok(pieces * u64::from(write_bytes))
    }

    /// Reads and writes that file of `end` bytes so many times, and waits until all is on
    /// the medium.
    ///
    /// # Errors
    /// As the files.
    ///
    /// # Panics
    /// If the file is smaller than a request.
    pub fn requests<F: NumberedFiles + ?Sized>(
        &self,
        files: &mut F,
        end: u64,
        count: u32,
        random: &mut Random,
    ) -> Result<Rates, F::Error> {
        let (read_bytes, write_bytes) = self.sizes();
        let (mut reading_ns, mut writing_ns, mut reads, mut writes) = (0, 0, 0u32, 0u32);
        let requests = u64::from(self.reads + self.writes);
        for _ in 0..count {
            let is_read = random.below(requests) < u64::from(self.reads);
            let bytes = if is_read { read_bytes } else { write_bytes };
            let at = random.below((end - u64::from(bytes)) / BLOCK + 1) * BLOCK;
            let before = files.now_ns();
            match is_read {
                true => files.read(FILE, at, bytes)?,
                false => files.write(FILE, at, bytes, false)?,
            }
            let spent = files.now_ns() - before;
            match is_read {
                true => (reading_ns, reads) = (reading_ns + spent, reads + 1),
                false => (writing_ns, writes) = (writing_ns + spent, writes + 1),
            }
        }
        let before = files.now_ns();
        files.sync()?;
        writing_ns += files.now_ns() - before;
        let rate = |count: u32, bytes: u32, ns: u64| {
            f64::from(count) * f64::from(bytes) / 1024.0 / (ns as f64 / 1e9)
        };
        Ok(Rates {
            read_kb_s: rate(reads, read_bytes, reading_ns),
            write_kb_s: rate(writes, write_bytes, writing_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_papers_table() {
        let paper = [(13.8, 29.6), (32.9, 32.4), (338.6, 325.6), (460.2, 479.4)];
        for (application, (read_kb, write_kb)) in APPLICATIONS.iter().zip(paper) {
            let (read, write) = application.sizes();
            let near = |bytes: u32, kb: f64| (f64::from(bytes) / 1024.0 / kb - 1.0).abs() < 0.15;
            let name = application.name;
            assert!(
                near(read, read_kb) && near(write, write_kb),
                "{name}: {read}, {write}"
            );
        }
    }
}
