//! What throughput must lie between, by formulas alone (§4.5).
//!
//! The asymptotic bounds of a closed network (Denning & Buzen 1978): nothing is
//! faster than the busiest server or than transactions that never wait for one
//! another; nothing that has work is slower than one server at a time. Reads
//! come from the pool's expected hits, by the characteristic time of Che, Tung
//! & Wang (2002). Locks are not in it, so where transactions are aborted the
//! lower bound may be missed.

use super::database::{Database, Level};
use super::{Locking, Model, Parameters};

/// Transactions a second, at least and at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// If one server worked at a time.
    pub lower: f64,
    /// If nobody waited for locks, and the busiest server never rested.
    pub upper: f64,
    /// Expected share of fetches that find their page.
    pub hits: f64,
    /// Expected locks of a transaction.
    pub locks: f64,
}

/// Pages that are asked for alike: how many, how often by a transaction, and how
/// often changed.
struct Class {
    pages: f64,
    fetches: f64,
    changes: f64,
}

/// The bounds of a model.
pub fn bounds(model: Model, parameters: &Parameters) -> Bounds {
    let p = parameters;
    let database = Database::new(p);
    let (operations, changing, inserting) = mix(p);
    let inserts = operations * changing * inserting;
    let updates = operations * changing - inserts;
    let indices = p.indices as f64;
    let paths = operations - inserts + inserts * indices;
    let depth = database.depth() as f64;

    // Leaves that are changed, and the subpages of each.
    let leaves = updates + inserts * indices;
    let (per_level, update_parts, insert_parts) = parts(model, p);
    let calls = operations + paths * depth * per_level + extra_calls(model, p, updates, inserts);
    let lock = p.lock + if model.is_embedded() { p.syscall } else { 0.0 };
    let work = (operations - updates - inserts) * p.retrieve
        + updates * p.update
        + inserts * p.insert
        + if model.is_embedded() { p.syscall } else { 0.0 };
    let processor_s = (calls * lock + work) / (p.mips * 1e6);

    let classes = classes(&database, p, paths, operations, updates + inserts, leaves);
    let stay = characteristic_time(&classes, f64::from(database.frames(p)));
    let reads: f64 = classes.iter().map(|c| c.misses(stay)).sum();
    let fetches: f64 = classes.iter().map(|c| c.fetches).sum();
    let random_s = p.service.random(p.page_bytes as f64) / 1e9;
    let images = updates * (1.0 + update_parts) + inserts * (1.0 + indices * insert_parts);
    let log_bytes = match model {
        Model::UserRo | Model::UserLfs => (updates + inserts) * 2.0 * p.record_bytes as f64,
        Model::LfsNolog => 16.0 * images,
        _ if p.assumed.page_images => 2.0 * p.page_bytes as f64 * (updates + inserts + leaves),
        _ => 2.0 * p.subpage_bytes as f64 * images,
    };
    let log_s = p.service.sequential(log_bytes) / 1e9;
    let write_s = match model.is_log_structured() {
        true => p.service.sequential(p.page_bytes as f64) / 1e9,
        false => random_s,
    };

    // A page is written at most as often as it is changed, and at least once in
    // an interval (or in a group of all users) in which it is.
    let changes: f64 = classes.iter().map(|c| c.changes).sum();
    let most_s = reads * random_s + log_s + changes * write_s;
    let disks = p.disks as f64;
    let least_s = |tps: f64| {
        let group = match model.is_log_structured() {
            true => p.users as f64,
            false => tps * p.checkpoint_s,
        };
        let group = group.max(1.0);
        let once = |c: &Class| c.pages * (1.0 - (-c.changes / c.pages * group).exp()) / group;
        let writes: f64 = classes.iter().map(once).sum();
        (reads * random_s + log_s + writes * write_s) / disks
    };
    let alone_s = processor_s + reads * random_s;
    let fastest = (1.0 / processor_s).min(p.users as f64 / alone_s);
    Bounds {
        lower: 1.0 / (processor_s + most_s),
        upper: fastest.min(saturation(fastest, least_s)),
        hits: 1.0 - reads / fetches,
        locks: calls,
    }
}

/// Operations of a transaction, the share that changes something, and the share
/// of that which inserts.
fn mix(p: &Parameters) -> (f64, f64, f64) {
    if !p.assumed.rounded_down {
        return (p.operations as f64, p.changing, p.inserting);
    }
    let spread = p.operations / 4;
    let lengths = p.operations - spread..=p.operations + spread;
    let (mut changing, mut inserts, mut all) = (0, 0, 0);
    for length in lengths {
        let changes = (p.changing * length as f64) as u64;
        changing += changes;
        inserts += (p.inserting * changes as f64) as u64;
        all += length;
    }
    let changing_share = changing as f64 / all as f64;
    (
        p.operations as f64,
        changing_share,
        inserts as f64 / changing as f64,
    )
}

/// Locks at each level of an index, and subpages changed in a leaf by an update
/// and by an insertion.
fn parts(model: Model, p: &Parameters) -> (f64, f64, f64) {
    let filled = p.filled_subpages() as f64;
    let moved = (filled + 1.0) / 2.0;
    let updated = if p.assumed.updates_move { moved } else { 1.0 };
    match p.locking {
        _ if !model.is_embedded() => (1.0, updated, moved),
        Locking::Page => (1.0, updated, moved),
        Locking::Subpage => (p.searched_subpages() as f64, updated, moved),
        Locking::ModifiedSubpage => {
            let parts = 0.9 + 0.1 * p.subpages() as f64;
            (1.0, parts, parts)
        }
    }
}

/// Locks of changed leaves beyond those of a search.
fn extra_calls(model: Model, p: &Parameters, updates: f64, inserts: f64) -> f64 {
    if !model.is_embedded() && p.assumed.leaves_charged {
        return updates + inserts * p.indices as f64;
    }
    if !model.is_embedded() || p.locking == Locking::Page {
        return 0.0;
    }
    let (_, updated, inserted) = parts(model, p);
    updates * (updated - 1.0) + inserts * p.indices as f64 * (inserted - 1.0)
}

fn classes(
    database: &Database,
    p: &Parameters,
    paths: f64,
    operations: f64,
    records: f64,
    leaves: f64,
) -> Vec<Class> {
    let mut classes = Vec::new();
    let mut add = |level: &Level, fetches: f64, changes: f64| {
        let (hot, all) = (f64::from(level.hot), f64::from(level.pages));
        let share = match level.hot == level.pages {
            true => 1.0,
            false => f64::from(p.skew) / 100.0,
        };
        for (pages, share) in [(hot, share), (all - hot, 1.0 - share)] {
            if pages > 0.0 {
                classes.push(Class {
                    pages,
                    fetches: fetches * share,
                    changes: changes * share,
                });
            }
        }
    };
    add(&database.data, operations, records);
    let indices = database.indices.len() as f64;
    for levels in &database.indices {
        for (depth, level) in levels.iter().enumerate() {
            let leaf = depth + 1 == levels.len();
            let changes = if leaf { leaves / indices } else { 0.0 };
            add(level, paths / indices, changes);
        }
    }
    classes
}

impl Class {
    /// Reads of a transaction if pages stay so long after their last use, in
    /// transactions.
    fn misses(&self, stay: f64) -> f64 {
        self.fetches * (-self.fetches / self.pages * stay).exp()
    }
}

/// How long a page stays after its last use, in transactions.
fn characteristic_time(classes: &[Class], frames: f64) -> f64 {
    let present = |stay: f64| -> f64 {
        let there = |c: &Class| c.pages * (1.0 - (-c.fetches / c.pages * stay).exp());
        classes.iter().map(there).sum()
    };
    root(|stay| present(stay) - frames, 1e12)
}

/// The rate at which disks that need so long for each transaction are busy all
/// the time, or `most` if they never are.
fn saturation(most: f64, disk_s: impl Fn(f64) -> f64) -> f64 {
    root(|tps| tps * disk_s(tps) - 1.0, most)
}

/// Where an increasing function is zero, or `most` if that is beyond.
fn root(f: impl Fn(f64) -> f64, most: f64) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        match f(middle) < 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}
