//! Operations of transactions: what each locks, reads and changes (§4.3, §4.4).
//!
//! A *visit* is a page that is locked, fetched and worked on. Index pages come
//! first, from the root to the leaf, then the data page. A data manager lets
//! each index page go before it asks for the next, and takes leaves that it
//! changes once more, exclusively, when the data page is at hand: so it holds no
//! lock on an index while it waits for one on data or for a disk (§4.4.1). This
//! second lock costs no instructions: tables 4-1 and 4-2 know one for each page,
//! and an exclusive one may be the shared one made stronger.
//! Embedded transactions lock what they change exclusively at once.

use super::database::Database;
use super::locks::{Key, key};
use super::{Locking, Model, Parameters};
use varve_prove::random::Random;

/// One page of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) page: u32,
    /// Its locks are those of the plan from here on.
    pub(super) locks: (usize, usize),
    /// Locks that instructions are charged for.
    pub(super) calls: u32,
    pub(super) changes: bool,
    /// Its locks from here on are given back when the visit ends.
    pub(super) brief_from: usize,
}

/// One operation.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) visits: Vec<Visit>,
    /// What to lock, and whether exclusively.
    pub(super) locks: Vec<(Key, bool)>,
    /// Instructions of each visit beside its locks.
    pub(super) share: f64,
    /// Bytes for the log.
    pub(super) log_bytes: u64,
    /// Leaves that are changed.
    leaves: Vec<u32>,
}

impl Plan {
    /// A data manager's second visits to leaves, which are its last.
    pub(super) fn changed_leaves(&self) -> &[Visit] {
        &self.visits[self.visits.len() - self.leaves.len()..]
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Retrieve,
    Update,
    /// Or delete.
    Insert,
}

/// What is left of a transaction.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Left {
    operations: u64,
    /// Of those, how many change something, if that is known beforehand.
    updates: u64,
    inserts: u64,
}

/// Draws transactions.
#[derive(Debug)]
pub(super) struct Operations {
    model: Model,
    parameters: Parameters,
    database: Database,
    random: Random,
}

impl Operations {
    pub(super) fn new(model: Model, parameters: &Parameters, seed: u64) -> Self {
        Operations {
            model,
            parameters: parameters.clone(),
            database: Database::new(parameters),
            random: Random::new(seed),
        }
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// A new transaction.
    pub(super) fn begin(&mut self) -> Left {
        let mean = self.parameters.operations;
        let spread = mean / 4;
        let operations = mean - spread + self.random.below(2 * spread + 1);
        let changing = (self.parameters.changing * operations as f64) as u64;
        let inserts = (self.parameters.inserting * changing as f64) as u64;
        Left {
            operations,
            updates: changing - inserts,
            inserts,
        }
    }

    /// The next operation's kind; `None` if that was the last.
    fn next_kind(&mut self, left: &mut Left) -> Option<Kind> {
        if left.operations == 0 {
            return None;
        }
        let kind = match self.parameters.assumed.rounded_down {
            true => {
                let at = self.random.below(left.operations);
                if at < left.updates {
                    left.updates -= 1;
                    Kind::Update
                } else if at < left.updates + left.inserts {
                    left.inserts -= 1;
                    Kind::Insert
                } else {
                    Kind::Retrieve
                }
            }
            false => {
                let chance = self.random.below(1 << 32) as f64 / (1u64 << 32) as f64;
                let (changing, inserting) = (self.parameters.changing, self.parameters.inserting);
                if chance < changing * inserting {
                    Kind::Insert
                } else if chance < changing {
                    Kind::Update
                } else {
                    Kind::Retrieve
                }
            }
        };
        left.operations -= 1;
        Some(kind)
    }

    /// Plans the next operation; false if there is none.
    pub(super) fn plan(&mut self, left: &mut Left, plan: &mut Plan) -> bool {
        let Some(kind) = self.next_kind(left) else {
            return false;
        };
        plan.visits.clear();
        plan.locks.clear();
        plan.leaves.clear();
        let changes = kind != Kind::Retrieve;
        // Subpages, or pages, whose images an embedded model would log.
        let mut images = 0;
        let indices = match kind {
            Kind::Insert => 0..self.database.indices.len(),
            _ => {
                let one = self.random.below(self.parameters.indices) as usize;
                one..one + 1
            }
        };
        for index in indices {
            for depth in 0..self.database.depth() {
                let level = self.database.indices[index][depth];
                let page = self.database.draw(level, &mut self.random);
                let leaf = depth + 1 == self.database.depth();
                images += self.visit_index(plan, page, kind, leaf && changes);
            }
        }
        self.visit_data(plan, changes);
        images += u64::from(changes);
        for at in 0..plan.leaves.len() {
            // A data manager's second visit.
            let page = plan.leaves[at];
            plan.locks.push((key(page, 0), true));
            plan.visits.push(Visit {
                page,
                locks: (plan.locks.len() - 1, plan.locks.len()),
                calls: u32::from(self.parameters.assumed.leaves_charged),
                changes: true,
                brief_from: match self.parameters.assumed.leaves_held {
                    true => plan.locks.len(),
                    false => plan.locks.len() - 1,
                },
            });
        }
        let p = &self.parameters;
        let instructions = match kind {
            Kind::Retrieve => p.retrieve,
            Kind::Update => p.update,
            Kind::Insert => p.insert,
        };
        plan.share = instructions / plan.visits.len() as f64;
        plan.log_bytes = match self.model {
            _ if !changes => 0,
            // The record before and after.
            Model::UserRo | Model::UserLfs => 2 * p.record_bytes,
            Model::LfsNolog => 16 * images,
            _ if p.assumed.page_images => 2 * p.page_bytes * images,
            _ => 2 * p.subpage_bytes * images,
        };
        true
    }

    /// A page of an index; returns how many images of it are logged.
    fn visit_index(&mut self, plan: &mut Plan, page: u32, kind: Kind, changes: bool) -> u64 {
        let p = &self.parameters;
        let embedded = self.model.is_embedded();
        let from = plan.locks.len();
        let filled = p.filled_subpages();
        // The subpage that is changed and those behind it.
        let moves = kind == Kind::Insert || p.assumed.updates_move;
        let mut images = 0;
        let mut changed = filled;
        if changes {
            changed = self.random.below(filled);
            images = if moves { filled - changed } else { 1 };
        }
        let end = changed + images;
        match p.locking {
            Locking::Subpage if embedded => {
                let searched = p.searched_subpages() - u64::from(changes);
                for _ in 0..searched {
                    let part = self.random.below(filled);
                    // What is locked exclusively below is not asked for twice.
                    if part < changed || part >= end {
                        plan.locks.push((key(page, part), false));
                    }
                }
                plan.locks
                    .extend((changed..end).map(|part| (key(page, part), true)));
                let calls = searched + images;
                plan.visits.push(Visit {
                    page,
                    locks: (from, plan.locks.len()),
                    calls: calls as u32,
                    changes,
                    brief_from: plan.locks.len(),
                });
                return self.images(images);
            }
            Locking::ModifiedSubpage if embedded => {
                let parts = p.subpages();
                let whole = changes && self.random.once_in(10);
                let part = self.random.below(parts);
                plan.locks.push((key(page, part), changes));
                if whole {
                    let others = (0..parts).filter(|other| *other != part);
                    plan.locks
                        .extend(others.map(|other| (key(page, other), true)));
                }
                images = if changes {
                    (plan.locks.len() - from) as u64
                } else {
                    0
                };
            }
            _ => plan.locks.push((key(page, 0), changes && embedded)),
        }
        if changes && !embedded {
            plan.leaves.push(page);
        }
        let brief_from = match embedded {
            // Keys that were shared out again are where they were for others.
            true if p.assumed.brief_reorganisation => from + 1,
            true => plan.locks.len(),
            false => from,
        };
        plan.visits.push(Visit {
            page,
            locks: (from, plan.locks.len()),
            calls: (plan.locks.len() - from) as u32,
            changes: changes && embedded,
            brief_from,
        });
        self.images(images)
    }

    fn images(&self, subpages: u64) -> u64 {
        match self.parameters.assumed.page_images {
            true => subpages.min(1),
            false => subpages,
        }
    }

    fn visit_data(&mut self, plan: &mut Plan, changes: bool) {
        let page = self.database.draw(self.database.data, &mut self.random);
        let part = match self.parameters.locking {
            Locking::Page => 0,
            _ if !self.model.is_embedded() => 0,
            _ => self.random.below(self.parameters.filled_subpages()),
        };
        plan.locks.push((key(page, part), changes));
        plan.visits.push(Visit {
            page,
            locks: (plan.locks.len() - 1, plan.locks.len()),
            calls: 1,
            changes,
            brief_from: plan.locks.len(),
        });
    }
}
