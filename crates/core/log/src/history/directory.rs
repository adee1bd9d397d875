//! The directory of the history file: which snapshots and which runs there are.

use crate::format::history::{
    HistoryHeader, MAGIC, MAX_NAME_BYTES, RUNS_FROM, RunRow, SnapshotRow, snapshot_flags,
};
use crate::format::{Malformed, entries};
use zerocopy::{FromBytes, IntoBytes};

/// A snapshot of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Ascends, and is never given twice.
    pub number: u32,
    /// True from the checkpoint that deletes it until the next one, which removes the
    /// row. It cannot be read, but its blocks are kept.
    pub deleted: bool,
    /// Serial of the last partial segment before it.
    pub position: u64,
    /// Nanoseconds since 1970.
    pub taken_ns: i64,
    /// The checkpoint that it is.
    pub checkpoint: u64,
    /// Empty for an automatic snapshot.
    pub name: String,
}

impl Snapshot {
    /// True if the snapshot has a block of this birth that was displaced when `last` was
    /// the newest snapshot.
    pub fn has(&self, birth: u64, last: u32) -> bool {
        birth <= self.position && self.number <= last
    }

    /// True if the snapshot has an inode image that was made when `after` was the newest
    /// snapshot and displaced when `last` was.
    pub fn has_image(&self, after: u32, last: u32) -> bool {
        after < self.number && self.number <= last
    }
}

/// Where a run is stored in the history file, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First block of the file that it takes.
    pub first_block: u64,
    /// Entries of blocks.
    pub blocks: u64,
    /// Entries of images.
    pub images: u64,
    /// Least and greatest `last` of its entries.
    pub span: (u32, u32),
    /// The checkpoint that wrote its youngest entries.
    pub written: u64,
}

/// Snapshots and runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// By number.
    pub snapshots: Vec<Snapshot>,
    /// Youngest first.
    pub runs: Vec<Run>,
    /// Number of the newest snapshot that was ever taken.
    pub newest: u32,
    /// Bytes on the device of blocks that only snapshots have.
    pub kept_bytes: u64,
    /// Upper bound of the blocks of the newest snapshot that are not displaced yet.
    pub blocks_left: u64,
    /// The same of its inode images.
    pub images_left: u64,
}

/// Longest directory, in bytes, for blocks of this size.
pub(crate) fn limit(block_bytes: u32) -> u64 {
    RUNS_FROM * u64::from(block_bytes)
}

impl Directory {
    /// The newest snapshot whose blocks are kept.
    pub fn newest_kept(&self) -> Option<&Snapshot> {
        self.snapshots.last()
    }

    /// Blocks with a greater birth are part of no snapshot.
    pub fn kept_through(&self) -> u64 {
        self.newest_kept().map_or(0, |newest| newest.position)
    }

    /// The snapshots that can be read, oldest first.
    pub fn readable(&self) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.iter().filter(|snapshot| !snapshot.deleted)
    }

    /// The snapshot with this number, if it can be read.
    pub fn get(&self, number: u32) -> Option<&Snapshot> {
        self.readable().find(|snapshot| snapshot.number == number)
    }

    /// True if a snapshot has a block of this birth that was displaced when `last` was
    /// the newest.
    pub fn keeps(&self, birth: u64, last: u32) -> bool {
        // Positions ascend: of those up to `last` the newest has most blocks.
        self.up_to(last)
            .is_some_and(|newest| newest.has(birth, last))
    }

    /// True if a snapshot has an image that was made when `after` was the newest and
    /// displaced when `last` was.
    pub fn keeps_image(&self, after: u32, last: u32) -> bool {
        self.up_to(last)
            .is_some_and(|newest| newest.has_image(after, last))
    }

    /// The newest snapshot with a number up to `last`.
    fn up_to(&self, last: u32) -> Option<&Snapshot> {
        let behind = self.snapshots.partition_point(|s| s.number <= last);
        behind.checked_sub(1).map(|at| &self.snapshots[at])
    }

    /// The stored form, without the zeros up to a whole number of blocks.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<HistoryHeader>()];
        for run in &self.runs {
            let row = RunRow {
                first_block: run.first_block.into(),
                blocks: run.blocks.into(),
                images: run.images.into(),
                oldest: run.span.0.into(),
                newest: run.span.1.into(),
                written: run.written.into(),
                spare: [0; 24],
            };
            bytes.extend_from_slice(row.as_bytes());
        }
        for snapshot in &self.snapshots {
            let flags = match snapshot.deleted {
                true => snapshot_flags::DELETED,
                false => 0,
            };
            let row = SnapshotRow {
                number: snapshot.number.into(),
                flags: flags.into(),
                name_bytes: (snapshot.name.len() as u16).into(),
                position: snapshot.position.into(),
                taken_ns: snapshot.taken_ns.into(),
                checkpoint: snapshot.checkpoint.into(),
            };
            bytes.extend_from_slice(row.as_bytes());
            bytes.extend_from_slice(snapshot.name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let header = HistoryHeader {
            magic: MAGIC.into(),
            snapshots: (self.snapshots.len() as u32).into(),
            runs: (self.runs.len() as u32).into(),
            newest: self.newest.into(),
            bytes: (bytes.len() as u64).into(),
            kept_bytes: self.kept_bytes.into(),
            blocks_left: self.blocks_left.into(),
            images_left: self.images_left.into(),
            spare: [0; 16],
        };
        bytes[..size_of::<HistoryHeader>()].copy_from_slice(header.as_bytes());
        bytes
    }

    /// The directory that these bytes are.
    ///
    /// # Errors
    /// If they are none, or one that no writer makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let refused = |problem: String| Malformed::new("history directory", problem);
        let Ok((header, rest)) = HistoryHeader::read_from_prefix(bytes) else {
            return Err(refused(format!("{} bytes", bytes.len())));
        };
        if header.magic.get() != MAGIC {
            return Err(refused(format!("magic {:#010x}", header.magic)));
        }
        let mut directory = Directory {
            newest: header.newest.get(),
            kept_bytes: header.kept_bytes.get(),
            blocks_left: header.blocks_left.get(),
            images_left: header.images_left.get(),
            ..Directory::default()
        };
        let count = header.runs.get() as usize;
        let run_bytes = count.saturating_mul(size_of::<RunRow>());
        let Some((runs, mut rest)) = rest.split_at_checked(run_bytes) else {
            return Err(refused(format!("{} bytes for {count} runs", rest.len())));
        };
        let rows = entries::<RunRow>(runs).iter();
        directory.runs.extend(rows.map(|row| Run {
            first_block: row.first_block.get(),
            blocks: row.blocks.get(),
            images: row.images.get(),
            span: (row.oldest.get(), row.newest.get()),
            written: row.written.get(),
        }));
        for _ in 0..header.snapshots.get() {
            let (snapshot, behind) = decode_snapshot(rest).map_err(refused)?;
            directory.snapshots.push(snapshot);
            rest = behind;
        }
        directory.check().map_err(refused)?;
        Ok(directory)
    }

    fn check(&self) -> Result<(), String> {
        let ascend = |pair: &[Snapshot]| {
            pair[0].number < pair[1].number && pair[0].position <= pair[1].position
        };
        if !self.snapshots.windows(2).all(ascend) {
            return Err("snapshots do not ascend".into());
        }
        let mut numbers = self.snapshots.iter().map(|snapshot| snapshot.number);
        if numbers.any(|n| n == 0 || n > self.newest) {
            return Err(format!("a snapshot is beyond number {}", self.newest));
        }
        if !self.runs.is_sorted_by(|a, b| a.written >= b.written) {
            return Err("runs are not in the order of their age".into());
        }
        for run in &self.runs {
            let (oldest, newest) = run.span;
            let fits = oldest <= newest
                && newest <= self.newest
                && run.first_block >= RUNS_FROM
                && run.first_block <= MAX_ENTRIES
                && run.blocks <= MAX_ENTRIES
                && run.images <= MAX_ENTRIES;
            if !fits {
                return Err(format!("{run:?}"));
            }
        }
        Ok(())
    }
}

/// Most entries of a run: far more than a volume has blocks.
const MAX_ENTRIES: u64 = 1 << 40;

fn decode_snapshot(bytes: &[u8]) -> Result<(Snapshot, &[u8]), String> {
    let (row, rest) =
        SnapshotRow::read_from_prefix(bytes).map_err(|_| "a snapshot is cut off".to_string())?;
    let length = usize::from(row.name_bytes.get());
    let name = rest.get(..length).filter(|_| length <= MAX_NAME_BYTES);
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| format!("snapshot {}: its name", row.number))?;
    let flags = row.flags.get();
    if flags & !snapshot_flags::KNOWN != 0 {
        return Err(format!("snapshot {}: flags {flags:#x}", row.number));
    }
    let snapshot = Snapshot {
        number: row.number.get(),
        deleted: flags & snapshot_flags::DELETED != 0,
        position: row.position.get(),
        taken_ns: row.taken_ns.get(),
        checkpoint: row.checkpoint.get(),
        name: name.to_string(),
    };
    let behind = rest.get(length.next_multiple_of(8)..);
    let behind = behind.ok_or_else(|| format!("snapshot {} is cut off", row.number))?;
    Ok((snapshot, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> Directory {
        let snapshot = |number: u32, name: &str| Snapshot {
            number,
            deleted: number == 4,
            position: u64::from(number) * 100,
            taken_ns: -5,
            checkpoint: 7,
            name: name.into(),
        };
        let run = |written: u64| Run {
            first_block: RUNS_FROM + 10 * written,
            blocks: 3,
            images: 9,
            span: (2, 4),
            written,
        };
        Directory {
            snapshots: vec![snapshot(2, "monday"), snapshot(4, ""), snapshot(9, "Größe")],
            runs: vec![run(5), run(1)],
            newest: 11,
            kept_bytes: 1 << 40,
            blocks_left: 7,
            images_left: 8,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let directory = directory();
        let bytes = directory.encode();
        assert_eq!(Directory::decode(&bytes), Ok(directory));
        let empty = Directory::default();
        assert_eq!(Directory::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn a_directory_that_is_cut_off_anywhere_is_refused() {
        let bytes = directory().encode();
        for length in 0..bytes.len() {
            assert!(Directory::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_no_writer_makes_is_refused() {
        let wrong: [fn(&mut Directory); 6] = [
            |d| d.snapshots.swap(0, 1),
            |d| d.snapshots[0].position = 1000,
            |d| d.newest = 8,
            |d| d.runs.swap(0, 1),
            |d| d.runs[0].span = (4, 2),
            |d| d.runs[0].first_block = RUNS_FROM - 1,
        ];
        for (nth, change) in wrong.iter().enumerate() {
            let mut directory = directory();
            change(&mut directory);
            assert!(Directory::decode(&directory.encode()).is_err(), "{nth}");
        }
    }

    #[test]
    fn a_block_is_kept_between_its_birth_and_its_end() {
        let directory = directory();
        assert!(directory.keeps(200, 2), "part of the first");
        assert!(directory.keeps(201, 4), "part of the second");
        assert!(!directory.keeps(201, 2), "younger than the first");
        assert!(!directory.keeps(50, 1), "displaced before the first");
        assert!(directory.keeps_image(1, 2) && !directory.keeps_image(2, 3));
    }
}
