//! The state that changes when a group is appended or becomes durable.

use crate::allocate::Extent;
use crate::format::Sector;
use crate::planner::{Directories, Flush, GivenUp};
use crate::room::Room;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use varve_fs::Usage;

/// The state of the thread that appends.
pub(crate) struct Writer {
    pub room: Room,
    /// Sectors, in whole units, that groups have changed since the last record.
    pub running: BTreeMap<u64, Arc<Sector>>,
    /// Sectors of records that are durable and not in place, as in these records.
    pub committed: BTreeMap<u64, Arc<Sector>>,
    /// The space that the groups of the next record give up.
    pub given_up: GivenUp,
    /// If metadata is written in place: blocks of metadata to which nothing on the
    /// device refers (rule I2).
    pub fresh: Option<HashSet<u64>>,
    /// Directory blocks of the next commit, if the mount overwrites them.
    pub directories: Option<Directories>,
    /// If metadata is written in place: inode numbers that can be reused after the next
    /// commit (rule I5).
    pub freed: Vec<u64>,
    /// Inode numbers whose first file is in the next commit.
    pub entered: HashSet<u64>,
    /// Space that is free after the next checkpoint (rule J5), or flush (I5).
    pub waiting: Vec<Extent>,
    /// The reasons for which the next record may wait for its data (rule J1).
    pub flush: Flush,
    /// Number of groups in the next record.
    pub groups: u64,
    /// Usage as of the last group appended.
    pub usage: Usage,
    /// Usage as of the last record.
    pub durable_usage: Usage,
    /// True if the groups of the next record change nothing but times of files.
    pub only_times: bool,
    /// Number of groups appended.
    pub appended: u64,
    /// Number of groups that are durable.
    pub durable: u64,
    /// Number of groups that are durable except for times of files.
    pub data_durable: u64,
    /// Position of the next record.
    pub head: u64,
    /// Position of the first record that is not in place.
    pub tail: u64,
    /// Serial of the newest journal head.
    pub serial: u64,
    /// Time of the last checkpoint, in nanoseconds.
    pub checkpoint_ns: u64,
}
