//! Checks that a history keeps the promise of its isolation level. The check builds a
//! graph of dependencies between transactions and searches it for cycles.
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | the writer of a version | the writer of the next version |
//! | wr | the writer of a version | a reader of that version |
//! | rw | a reader of a version | the writer of the next version |
//! | rt | a transaction that has ended | a transaction that began afterwards |
//!
//! A history is serializable in real time if the graph has no cycle. It is a history of
//! snapshots if every cycle has two rw edges in a row. The equivalent test is: no cycle
//! consists of edges other than rw, each optionally followed by one rw (Cerone and
//! Gotsman, PODC 2016, theorem 10; Fekete et al. 2005, theorem 2.1).

use super::history::{Anomaly, Judgement, Level, Object, Record};
use super::reads::Reads;
use std::collections::{BTreeSet, VecDeque};

/// The reason that one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    Overwrote(Object),
    Read(Object),
    Ended,
    /// The transaction did not see a write of the other transaction.
    Missed(Object),
}

impl Why {
    fn is_missed(self) -> bool {
        matches!(self, Why::Missed(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: usize,
    to: usize,
    why: Why,
}

struct Graph {
    out: Vec<Vec<Edge>>,
}

/// Judges a history: checks that the committed transactions satisfy `level`.
pub fn judge(records: &[Record], level: Level) -> Judgement {
    let mut judgement = Judgement::default();
    let reads = Reads::of(records, &mut judgement);
    judgement.committed = reads.happened.iter().filter(|happened| **happened).count();
    let graph = Graph::of(records, &reads);
    judgement.edges = graph.out.iter().map(Vec::len).sum();
    // Every cycle is inside one of these components, whatever edges it consists of.
    let mut knots = graph.knots();
    if level == Level::Snapshot {
        let composed = graph.composed();
        let forbidden: BTreeSet<usize> = composed.knots().into_iter().flatten().collect();
        let all = knots.len();
        knots.retain(|knot| knot.iter().any(|node| forbidden.contains(node)));
        judgement.skews = all - knots.len();
    }
    for knot in knots {
        let circle = graph.simplest_circle(&knot, level);
        let anomaly = name(&circle);
        judgement.add(anomaly, || tell(&circle));
    }
    judgement
}

impl Graph {
    fn of(records: &[Record], reads: &Reads) -> Graph {
        let mut edges = BTreeSet::new();
        let mut add = |from: usize, to: usize, why| {
            if from != to {
                edges.insert((from, to, why));
            }
        };
        for (&object, writers) in &reads.versions {
            for pair in writers.windows(2) {
                add(pair[0], pair[1], Why::Overwrote(object));
            }
        }
        for seen in &reads.seen {
            let writers = &reads.versions[&seen.object];
            if let Some(last) = seen.versions.checked_sub(1) {
                add(writers[last], seen.record, Why::Read(seen.object));
            }
            if let Some(next) = writers.get(seen.versions) {
                add(seen.record, *next, Why::Missed(seen.object));
            }
        }
        for (from, to) in in_time(records, &reads.happened) {
            add(from, to, Why::Ended);
        }
        let mut out = vec![Vec::new(); records.len()];
        for (from, to, why) in edges {
            out[from].push(Edge { from, to, why });
        }
        Graph { out }
    }

    /// Returns the graph of every edge that is not rw, and of every such edge followed by
    /// an rw.
    fn composed(&self) -> Graph {
        let mut out = vec![Vec::new(); self.out.len()];
        for edge in self.out.iter().flatten().filter(|e| !e.why.is_missed()) {
            out[edge.from].push(*edge);
            for next in self.out[edge.to].iter().filter(|e| e.why.is_missed()) {
                out[edge.from].push(Edge {
                    from: edge.from,
                    ..*next
                });
            }
        }
        Graph { out }
    }

    /// Returns the strongly connected components that contain a cycle (Tarjan 1972).
    fn knots(&self) -> Vec<Vec<usize>> {
        let count = self.out.len();
        let (mut index, mut low) = (vec![usize::MAX; count], vec![0; count]);
        let (mut stack, mut on_stack) = (Vec::new(), vec![false; count]);
        let (mut next, mut knots) = (0, Vec::new());
        for root in 0..count {
            if index[root] != usize::MAX {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some((node, at)) = work.pop() {
                if at == 0 {
                    (index[node], low[node]) = (next, next);
                    next += 1;
                    stack.push(node);
                    on_stack[node] = true;
                }
                if let Some(edge) = self.out[node].get(at) {
                    work.push((node, at + 1));
                    if index[edge.to] == usize::MAX {
                        work.push((edge.to, 0));
                    } else if on_stack[edge.to] {
                        low[node] = low[node].min(index[edge.to]);
                    }
                    continue;
                }
                if let Some(&(above, _)) = work.last() {
                    low[above] = low[above].min(low[node]);
                }
                if low[node] == index[node] {
                    let at = stack.iter().rposition(|n| *n == node).expect("pushed");
                    let part = stack.split_off(at);
                    part.iter().for_each(|node| on_stack[*node] = false);
                    let to_itself = self.out[node].iter().any(|edge| edge.to == node);
                    if part.len() > 1 || to_itself {
                        knots.push(part);
                    }
                }
            }
        }
        knots
    }

    /// Returns the shortest path within `part` along the edges that `allowed` accepts.
    fn way(
        &self,
        (from, to): (usize, usize),
        part: &BTreeSet<usize>,
        allowed: &dyn Fn(&Edge) -> bool,
    ) -> Option<Vec<Edge>> {
        let mut came: Vec<Option<Edge>> = vec![None; self.out.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for edge in self.out[node].iter().filter(|edge| allowed(edge)) {
                if !part.contains(&edge.to) || came[edge.to].is_some() {
                    continue;
                }
                came[edge.to] = Some(*edge);
                if edge.to != to {
                    queue.push_back(edge.to);
                    continue;
                }
                let (mut way, mut at) = (Vec::new(), to);
                loop {
                    let edge = came[at].expect("a way back");
                    way.push(edge);
                    at = edge.from;
                    if at == from {
                        way.reverse();
                        return Some(way);
                    }
                }
            }
        }
        None
    }

    /// Returns the most telling cycle of a component: the one with the fewest kinds of
    /// edges.
    fn simplest_circle(&self, part: &[usize], level: Level) -> Vec<Edge> {
        let part: BTreeSet<usize> = part.iter().copied().collect();
        let kinds: [&dyn Fn(&Edge) -> bool; 3] = [
            &|edge| matches!(edge.why, Why::Overwrote(_)),
            &|edge| matches!(edge.why, Why::Overwrote(_) | Why::Read(_)),
            &|edge| !edge.why.is_missed(),
        ];
        for allowed in kinds {
            let circles = part.iter();
            let circles = circles.filter_map(|node| self.way((*node, *node), &part, allowed));
            if let Some(circle) = circles.min_by_key(Vec::len) {
                return circle;
            }
        }
        // Cycles with one rw edge, first without and then with real time.
        for allowed in &kinds[1..] {
            let missed = part.iter().flat_map(|node| &self.out[*node]);
            let missed = missed.filter(|e| e.why.is_missed() && part.contains(&e.to));
            let circles = missed.filter_map(|edge| {
                let mut circle = vec![*edge];
                circle.extend(self.way((edge.to, edge.from), &part, allowed)?);
                Some(circle)
            });
            if let Some(circle) = circles.min_by_key(Vec::len) {
                return circle;
            }
        }
        let nodes = part.iter();
        let circles = nodes.filter_map(|node| match level {
            Level::Serializable => self.way((*node, *node), &part, &|_| true),
            Level::Snapshot => self.unfold(&self.composed().way((*node, *node), &part, &|_| true)?),
        });
        circles.min_by_key(Vec::len).unwrap_or_default()
    }

    /// Returns a path of composed edges as a path of single edges.
    fn unfold(&self, way: &[Edge]) -> Option<Vec<Edge>> {
        let mut single = Vec::new();
        for edge in way {
            if edge.why.is_missed() {
                let first = self.out[edge.from].iter().find(|first| {
                    let next = self.out[first.to].iter();
                    !first.why.is_missed()
                        && next.clone().any(|e| e.to == edge.to && e.why == edge.why)
                })?;
                let middle = first.to;
                single.push(*first);
                single.push(Edge {
                    from: middle,
                    ..*edge
                });
            } else {
                single.push(*edge);
            }
        }
        Some(single)
    }
}

/// Returns the real-time edges, from a transaction that ended to one that began
/// afterwards. Edges that follow from other edges are left out.
fn in_time(records: &[Record], happened: &[bool]) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..records.len()).filter(|at| happened[*at]).collect();
    order.sort_by_key(|at| records[*at].begun);
    // The earliest end of the transactions from this position on.
    let mut first_end = vec![u64::MAX; order.len() + 1];
    for (at, record) in order.iter().enumerate().rev() {
        first_end[at] = first_end[at + 1].min(records[*record].ended);
    }
    let mut edges = Vec::new();
    for from in &order {
        let later = order.partition_point(|at| records[*at].begun <= records[*from].ended);
        for to in &order[later..] {
            if records[*to].begun > first_end[later] {
                break;
            }
            edges.push((*from, *to));
        }
    }
    edges
}

fn name(circle: &[Edge]) -> Anomaly {
    let missed = circle.iter().filter(|edge| edge.why.is_missed()).count();
    let next = circle.iter().cycle().skip(1);
    let mut pairs = circle.iter().zip(next);
    let adjacent = missed > 1 && pairs.any(|(a, b)| a.why.is_missed() && b.why.is_missed());
    if circle.iter().any(|edge| edge.why == Why::Ended) {
        return Anomaly::Stale;
    }
    match missed {
        0 if circle
            .iter()
            .all(|edge| matches!(edge.why, Why::Overwrote(_))) =>
        {
            Anomaly::DirtyWrite
        }
        0 => Anomaly::CircularFlow,
        1 => {
            let of = |why| match why {
                Why::Missed(object) | Why::Overwrote(object) => Some(object),
                Why::Read(_) | Why::Ended => None,
            };
            let first = of(circle[0].why);
            let lost = circle.len() == 2 && first.is_some() && first == of(circle[1].why);
            match lost {
                true => Anomaly::LostUpdate,
                false => Anomaly::ReadSkew,
            }
        }
        _ if adjacent => Anomaly::WriteSkew,
        _ => Anomaly::LongFork,
    }
}

fn tell(circle: &[Edge]) -> String {
    let mut told = String::new();
    for Edge { from, to, why } in circle {
        let step = match why {
            Why::Overwrote(object) => format!("{from} wrote {object} before {to}; "),
            Why::Read(object) => format!("{to} read what {from} wrote to {object}; "),
            Why::Ended => format!("{from} had ended before {to} began; "),
            Why::Missed(object) => format!("{from} did not see what {to} wrote to {object}; "),
        };
        told.push_str(&step);
    }
    told
}
