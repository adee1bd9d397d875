//! Distribution of a group among the heads of the log.
//!
//! A policy sorts blocks into classes by their remaining life; a head takes one class, or
//! several neighbouring ones if there are fewer heads. The first head takes all items
//! without a class: records, attributes, inodes, and everything that checkpoints write or
//! transactions spill.
//!
//! Invariants (`docs/design/heads.md`):
//! - Within a group records and attributes are first, then blocks, then inodes,
//!   regardless of the heads. The order among records and among the blocks of a head is
//!   that of arrival. Replay proceeds by serial and entry and needs no other rule.
//! - A head is given a partial of a group only if it has enough for it, because each
//!   partial costs a summary and padding.

use super::item::{GroupKind, LogItem};
use super::lives::Lives;
use crate::format::Pointer;
use crate::geometry::Geometry;
use crate::policy::{Cleaned, Measures, Policy, PolicyKind, Survivor, Write};
use foldhash::HashMap;
use std::cmp::Reverse;
use std::ops::Range;
use varve_fs::InodeNo;

/// A part of a group that one head takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadRun {
    /// Index of the head.
    pub head: usize,
    /// Indices of the items.
    pub items: Range<usize>,
}

/// The distribution. By default the first head takes everything.
#[derive(Debug, Default)]
pub struct Placement {
    places: Option<Places>,
}

#[derive(Debug)]
struct Places {
    policy: Box<dyn Policy>,
    heads: usize,
    /// Least bytes for a partial of its own.
    run_bytes: u64,
    /// Number of the policy's classes.
    classes: usize,
    lives: Lives,
    /// The class for which a segment was opened, and when, in user blocks.
    opened: HashMap<u32, (usize, u64)>,
}

impl Placement {
    /// Most heads that are useful to a policy: one for each class, and the first.
    pub fn most(kind: PolicyKind, measures: &Measures) -> usize {
        1 + kind.policy().heads(measures)
    }

    /// Heads that a policy wants: one if it does not distinguish blocks.
    pub fn wanted(kind: PolicyKind, measures: &Measures) -> usize {
        match kind.policy().heads(measures) {
            1 => 1,
            classes => 1 + classes,
        }
    }

    /// Distributes the classes of `kind` among `heads` heads, in partials of at least
    /// `run_bytes`; `lives` is empty.
    pub fn between(
        heads: usize,
        run_bytes: u64,
        kind: PolicyKind,
        measures: &Measures,
        lives: Lives,
    ) -> Self {
        let mut policy = kind.policy();
        let places = (heads > 1).then(|| Places {
            classes: policy.heads(measures),
            policy,
            heads,
            run_bytes,
            lives,
            opened: HashMap::default(),
        });
        Placement { places }
    }

    /// Notes that the volume has changed.
    pub fn measure(&mut self, measures: &Measures) {
        if let Some(places) = &mut self.places {
            places.classes = places.policy.heads(measures);
        }
    }

    /// Notes that a head has opened a segment.
    pub fn entered(&mut self, segment: u32, head: usize) {
        if let Some(places) = &mut self.places {
            let class = places.class_of(head);
            places.opened.insert(segment, (class, places.lives.now()));
        }
    }

    /// Notes that the cleaner has emptied a segment.
    pub fn cleaned(&mut self, segment: u32) {
        if let Some(places) = &mut self.places
            && let Some((head, then)) = places.opened.remove(&segment)
        {
            let life = places.lives.now() - then;
            places.policy.learn(&Cleaned { head, life });
        }
    }

    /// Assigns items to heads, and orders them so that each head takes one run. `crowded`
    /// volumes have no segments to spare: the first head takes all.
    pub fn arrange(
        &mut self,
        geometry: &Geometry,
        items: Vec<LogItem>,
        kind: GroupKind,
        crowded: bool,
    ) -> (Vec<LogItem>, Vec<HeadRun>) {
        let whole = |head, items: Vec<LogItem>| {
            let run = HeadRun {
                head,
                items: 0..items.len(),
            };
            (items, vec![run])
        };
        let Some(places) = self
            .places
            .as_mut()
            .filter(|_| !matches!(kind, GroupKind::Checkpoint | GroupKind::Spill(_)))
        else {
            return whole(0, items);
        };
        let heads: Vec<Option<usize>> = items
            .iter()
            .map(|item| places.head_of(geometry, item))
            .collect();
        let mut bytes = vec![0; places.heads];
        let mut inode_bytes = 0;
        for (item, head) in items.iter().zip(&heads) {
            match head {
                Some(head) => bytes[*head] += u64::from(item.stored_sectors(geometry)) * 512,
                None if is_inode(item) => inode_bytes += u64::from(geometry.inode_bytes),
                None => {}
            }
        }
        if crowded {
            return whole(0, items);
        }
        let takes = merged(bytes, places.run_bytes);
        let used = |head: usize| (0..takes.len()).any(|from| takes[from] == Some(head));
        let order: Vec<usize> = (0..places.heads).rev().filter(|head| used(*head)).collect();
        let apart = inode_bytes >= places.run_bytes && !order.is_empty();
        match order[..] {
            [] => return whole(0, items),
            [head] if !apart => return whole(head, items),
            _ => {}
        }
        // 0 records and attributes, then the heads, then inodes.
        let stage = |item: &LogItem, head: &Option<usize>| match head {
            Some(head) => {
                let taken_by = takes[*head].expect("it has bytes");
                1 + order.iter().position(|h| *h == taken_by).unwrap_or(0)
            }
            None if is_inode(item) => 1 + order.len(),
            None => 0,
        };
        let mut staged: Vec<(usize, LogItem)> = items
            .into_iter()
            .zip(&heads)
            .map(|(item, head)| (stage(&item, head), item))
            .collect();
        staged.sort_by_key(|(stage, _)| *stage);
        let mut runs = Vec::new();
        let mut start = 0;
        for (nth, head) in order.iter().enumerate() {
            let last = nth + 1 == order.len() && !apart;
            let through = if last { usize::MAX } else { 1 + nth };
            let end = staged.partition_point(|(stage, _)| *stage <= through);
            runs.push(HeadRun {
                head: *head,
                items: start..end,
            });
            start = end;
        }
        if apart {
            runs.push(HeadRun {
                head: 0,
                items: start..staged.len(),
            });
        }
        (staged.into_iter().map(|(_, item)| item).collect(), runs)
    }
}

fn is_inode(item: &LogItem) -> bool {
    matches!(item, LogItem::Image { .. } | LogItem::MovedInode { .. })
}

/// The head that takes the items meant for each head; `None` if there are none. Too few
/// for a partial are taken by the nearest head that has any.
fn merged(bytes: Vec<u64>, run_bytes: u64) -> Vec<Option<usize>> {
    let mut bytes = bytes;
    let some = |(head, bytes): (usize, &u64)| (*bytes > 0).then_some(head);
    let mut takes: Vec<Option<usize>> = bytes.iter().enumerate().map(some).collect();
    loop {
        let filled: Vec<usize> = (0..bytes.len()).filter(|head| bytes[*head] > 0).collect();
        let least = filled.iter().copied().min_by_key(|head| bytes[*head]);
        let Some(least) = least.filter(|head| bytes[*head] < run_bytes) else {
            return takes;
        };
        let others = filled.into_iter().filter(|head| *head != least);
        let nearest = others.min_by_key(|head| (head.abs_diff(least), Reverse(bytes[*head])));
        let Some(nearest) = nearest else {
            return takes;
        };
        bytes[nearest] += std::mem::take(&mut bytes[least]);
        for taken in &mut takes {
            if *taken == Some(least) {
                *taken = Some(nearest);
            }
        }
    }
}

impl Places {
    fn head_of_class(&self, class: usize) -> usize {
        1 + class.min(self.classes - 1) * (self.heads - 1) / self.classes
    }

    /// The first class of a head; an invalid class for the first head.
    fn class_of(&self, head: usize) -> usize {
        let mut classes = 0..self.classes;
        let found = classes.find(|class| self.head_of_class(*class) == head);
        found.unwrap_or(usize::MAX)
    }

    /// The head for a block; `None` for any other item.
    fn head_of(&mut self, geometry: &Geometry, item: &LogItem) -> Option<usize> {
        let LogItem::Block {
            ino, block, source, ..
        } = item
        else {
            return None;
        };
        let class = match source {
            None => self.user_class(*ino, *block),
            Some(source) => self.survivor_class(geometry, *ino, *block, &source.pointer),
        };
        Some(self.head_of_class(class))
    }

    fn user_class(&mut self, ino: InodeNo, block: u64) -> usize {
        let name = Lives::name(ino.0, block);
        let arrival = self.lives.now();
        let life = self.lives.written(name);
        self.policy.place(&Write {
            block: name,
            arrival,
            life,
            buffer: 0,
        })
    }

    fn survivor_class(
        &mut self,
        geometry: &Geometry,
        ino: InodeNo,
        block: u64,
        source: &Pointer,
    ) -> usize {
        let name = Lives::name(ino.0, block);
        let from = geometry.segment_of(source.sector());
        let opened = from.and_then(|segment| self.opened.get(&segment));
        self.policy.place_survivor(&Survivor {
            block: name,
            now: self.lives.now(),
            // A block without an entry in the table counts as old as possible.
            age: self.lives.age(name).unwrap_or(u64::MAX >> 8),
            head: opened.map_or(usize::MAX, |(class, _)| *class),
        })
    }
}

#[cfg(test)]
mod tests;
