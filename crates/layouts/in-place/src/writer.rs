//! What changes when a group is appended or becomes durable.

use crate::allocate::Extent;
use crate::format::Sector;
use crate::planner::{Directories, Flush, GivenUp};
use crate::room::Room;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use varve_fs::Usage;

/// The state of whoever appends.
pub(crate) struct Writer {
    pub room: Room,
    /// Sectors that groups have changed since the last record; whole units.
    pub running: BTreeMap<u64, Arc<Sector>>,
    /// Sectors of records that are durable and not in place, as those have them.
    pub committed: BTreeMap<u64, Arc<Sector>>,
    /// What the groups of the next record give up.
    pub given_up: GivenUp,
    /// Blocks of metadata that nothing on the device leads to yet, if metadata is
    /// written in place (rule I2).
    pub fresh: Option<HashSet<u64>>,
    /// Directory blocks of the next commit, if the mount overwrites them.
    pub directories: Option<Directories>,
    /// Inode numbers that are given away again after the next commit, if metadata is
    /// written in place (rule I5).
    pub freed: Vec<u64>,
    /// Inode numbers whose first file is in the next commit.
    pub entered: HashSet<u64>,
    /// Room that is free after the next checkpoint (rule J5), or flush (I5).
    pub waiting: Vec<Extent>,
    /// Whether the next record waits for its data (rule J1).
    pub flush: Flush,
    /// Groups in the next record.
    pub groups: u64,
    /// As of the last group appended.
    pub usage: Usage,
    /// As of the last record.
    pub durable_usage: Usage,
    /// All that the groups of the next record change is times of files.
    pub only_times: bool,
    /// Groups appended.
    pub appended: u64,
    /// Groups that are durable.
    pub durable: u64,
    /// Groups that are durable but for times of files.
    pub data_durable: u64,
    /// Where the next record goes.
    pub head: u64,
    /// Where the first record is that is not in place.
    pub tail: u64,
    /// Of the newest journal head.
    pub serial: u64,
    /// When the last checkpoint was.
    pub checkpoint_ns: u64,
}
