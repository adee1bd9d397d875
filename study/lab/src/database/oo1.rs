//! OO1, the benchmark of engineering databases: parts, three connections from each, and
//! programs that look parts up, follow connections and insert parts.
//!
//! Nine of ten connections lead to one of the hundredth of parts with the nearest
//! numbers, one to any. Parts and both directions of connections are trees by number;
//! connections themselves are records by number. Entries have the sizes of table 7-4,
//! this store's overhead included: 63 bytes for a part, 43 for each direction of a
//! connection; a connection has 92 bytes.
//!
//! Sources: Cattell & Skeen 1992; Seltzer 1992, §7.6, table 7-4.

use super::Work;
use varve_prove::random::Random;
use varve_tp::{
    Durability, Environment, Error, Records, RecordsDefinition, Result, Table, TableDefinition,
    WriteTransaction,
};

/// Parts of the thesis's database.
pub const PARTS: u32 = 20_000;
/// Parts that are looked up.
pub const LOOKUPS: u32 = 1000;
/// Hops of a traversal.
pub const HOPS: u32 = 7;
/// Parts that are inserted.
pub const INSERTS: u32 = 100;
/// Connections from each part.
pub const CONNECTIONS: u32 = 3;

const PART_BYTES: usize = 51;
const DIRECTION_BYTES: usize = 23;
const CONNECTOR_BYTES: usize = 92;
/// Parts that are loaded in one transaction.
const TOGETHER: u32 = 2000;

type PartBytes = [u8; PART_BYTES];
type ConnectorBytes = [u8; CONNECTOR_BYTES];
/// A part and the number of a connection that begins or ends there.
type Direction = (u32, u64);

const PART: TableDefinition<'static, u32, PartBytes> = TableDefinition::new("part");
const FORWARD: TableDefinition<'static, Direction, [u8; DIRECTION_BYTES]> =
    TableDefinition::new("connect forward");
const BACKWARD: TableDefinition<'static, Direction, [u8; DIRECTION_BYTES]> =
    TableDefinition::new("connect backward");
const CONNECTOR: RecordsDefinition<'static, ConnectorBytes> = RecordsDefinition::new("connector");

/// Which way connections are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a part to those it is connected to.
    Forward,
    /// To those that are connected to it.
    Backward,
}

/// What is measured: a transaction each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Looks so many parts up.
    LookUp(u32),
    /// Inserts so many.
    Insert(u32),
    /// Follows connections from any part, so many hops.
    Follow(Way, u32),
}

impl Program {
    /// Runs it, and has each part seen that it comes to.
    ///
    /// # Errors
    /// As [`Parts::load`].
    pub fn run(
        self,
        parts: &mut Parts,
        random: &mut Random,
        see: &mut dyn FnMut(Part),
    ) -> Result<Work> {
        // Drawn by all of them: the figures of B5 that are kept were.
        let from = parts.draw(random);
        match self {
            Program::LookUp(times) => parts.lookup(times, random, see),
            Program::Insert(count) => parts.insert(count, random),
            Program::Follow(way, hops) => parts.traverse(from, way, hops, see),
        }
    }
}

/// A part, as programs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0 on.
    pub id: u32,
    /// Where it is.
    pub x: u32,
    /// The same.
    pub y: u32,
}

impl Part {
    fn draw(id: u32, random: &mut Random) -> Self {
        let x = random.below(100_000) as u32;
        let y = random.below(100_000) as u32;
        Part { id, x, y }
    }

    fn to_bytes(self) -> PartBytes {
        let mut bytes = [0; PART_BYTES];
        bytes[..10].copy_from_slice(b"part-type ");
        bytes[10..14].copy_from_slice(&self.x.to_le_bytes());
        bytes[14..18].copy_from_slice(&self.y.to_le_bytes());
        bytes
    }

    fn from_bytes(id: u32, bytes: &PartBytes) -> Self {
        Part {
            id,
            x: number(&bytes[10..14]),
            y: number(&bytes[14..18]),
        }
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("4 bytes"))
}

/// Where a connection from `part` leads, of `parts`.
fn target(part: u32, parts: u32, random: &mut Random) -> u32 {
    if random.once_in(10) {
        return random.below(u64::from(parts)) as u32;
    }
    let zone = (parts / 100).max(1);
    let first = part.saturating_sub(zone / 2).min(parts - zone);
    first + random.below(u64::from(zone)) as u32
}

/// The database.
#[derive(Debug)]
pub struct Parts {
    environment: Environment,
    count: u32,
}

/// Its tables, in a transaction.
struct Tables<'t, 'e> {
    parts: Table<'t, 'e, u32, PartBytes>,
    forward: Table<'t, 'e, Direction, [u8; DIRECTION_BYTES]>,
    backward: Table<'t, 'e, Direction, [u8; DIRECTION_BYTES]>,
    connectors: Records<'t, 'e, ConnectorBytes>,
}

impl<'t, 'e> Tables<'t, 'e> {
    fn open(transaction: &'t WriteTransaction<'e>) -> Result<Self> {
        Ok(Tables {
            parts: transaction.open_table(PART)?,
            forward: transaction.open_table(FORWARD)?,
            backward: transaction.open_table(BACKWARD)?,
            connectors: transaction.open_records(CONNECTOR)?,
        })
    }

    fn part(&self, id: u32, work: &mut Work) -> Result<Part> {
        work.retrieved += 1;
        let found = self.parts.get(id)?.ok_or(Error::NoRecord(id.into()))?;
        Ok(Part::from_bytes(id, &found))
    }

    /// A part and its connections, to parts of which there are `parts`.
    fn add(&self, id: u32, parts: u32, random: &mut Random, work: &mut Work) -> Result<()> {
        let part = Part::draw(id, random);
        self.parts.insert(id, &part.to_bytes())?;
        for _ in 0..CONNECTIONS {
            let to = target(id, parts, random);
            let mut connector = [0; CONNECTOR_BYTES];
            connector[..4].copy_from_slice(&id.to_le_bytes());
            connector[4..8].copy_from_slice(&to.to_le_bytes());
            let record = self.connectors.append(&connector)?;
            self.forward.insert((id, record), &[0; DIRECTION_BYTES])?;
            self.backward.insert((to, record), &[0; DIRECTION_BYTES])?;
        }
        work.inserted += 1 + 3 * u64::from(CONNECTIONS);
        Ok(())
    }

    /// Depth first, a part as often as connections lead to it.
    fn follow(
        &self,
        (id, way, hops): (u32, Way, u32),
        see: &mut dyn FnMut(Part),
        work: &mut Work,
    ) -> Result<()> {
        see(self.part(id, work)?);
        if hops == 0 {
            return Ok(());
        }
        let directions = match way {
            Way::Forward => &self.forward,
            Way::Backward => &self.backward,
        };
        work.retrieved += 1;
        let range = directions.range((id, 0)..=(id, u64::MAX))?;
        let records = range.map(|entry| entry.map(|((_, record), _)| record));
        for record in records.collect::<Result<Vec<u64>>>()? {
            // The direction, and what it leads to.
            work.retrieved += 2;
            let connector = self.connectors.get(record)?;
            let connector = connector.ok_or(Error::NoRecord(record))?;
            let next = match way {
                Way::Forward => number(&connector[4..8]),
                Way::Backward => number(&connector[..4]),
            };
            self.follow((next, way, hops - 1), see, work)?;
        }
        Ok(())
    }
}

impl Parts {
    /// Makes so many parts in the order of their numbers.
    ///
    /// # Errors
    /// What the store says; so for all of them.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn load(environment: &Environment, count: u32, random: &mut Random) -> Result<Self> {
        assert!(count > 0, "a database without parts");
        let mut from = 0;
        while from < count {
            let transaction = environment.begin_write();
            let tables = Tables::open(&transaction)?;
            let to = count.min(from + TOGETHER);
            for id in from..to {
                tables.add(id, count, random, &mut Work::default())?;
            }
            transaction.commit_with(Durability::Buffered)?;
            from = to;
        }
        environment.checkpoint()?;
        Ok(Parts {
            environment: environment.clone(),
            count,
        })
    }

    /// The database of `count` parts that was loaded there.
    pub fn open(environment: &Environment, count: u32) -> Self {
        Parts {
            environment: environment.clone(),
            count,
        }
    }

    /// Parts that there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Any of them.
    pub fn draw(&self, random: &mut Random) -> u32 {
        random.below(u64::from(self.count)) as u32
    }

    /// Looks so many parts up, any of them, and has each seen.
    ///
    /// # Errors
    /// As [`Parts::load`].
    pub fn lookup(
        &self,
        times: u32,
        random: &mut Random,
        see: &mut dyn FnMut(Part),
    ) -> Result<Work> {
        let mut work = Work::default();
        let transaction = self.environment.begin_write();
        let tables = Tables::open(&transaction)?;
        for _ in 0..times {
            see(tables.part(self.draw(random), &mut work)?);
        }
        transaction.commit()?;
        Ok(work)
    }

    /// Follows connections from a part, so many hops, and has each part seen that it comes
    /// to: 3,280 of seven hops forward.
    ///
    /// # Errors
    /// As [`Parts::load`].
    pub fn traverse(
        &self,
        from: u32,
        way: Way,
        hops: u32,
        see: &mut dyn FnMut(Part),
    ) -> Result<Work> {
        let mut work = Work::default();
        let transaction = self.environment.begin_write();
        let tables = Tables::open(&transaction)?;
        tables.follow((from, way, hops), see, &mut work)?;
        transaction.commit()?;
        Ok(work)
    }

    /// Inserts so many parts and their connections, in one transaction.
    ///
    /// # Errors
    /// As [`Parts::load`].
    pub fn insert(&mut self, count: u32, random: &mut Random) -> Result<Work> {
        let mut work = Work::default();
        let transaction = self.environment.begin_write();
        let tables = Tables::open(&transaction)?;
        let parts = self.count + count;
        for id in self.count..parts {
            tables.add(id, parts, random, &mut work)?;
        }
        transaction.commit()?;
        self.count = parts;
        Ok(work)
    }
}

#[cfg(test)]
mod tests;
