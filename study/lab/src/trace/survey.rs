//! What a stream is about: its blocks, numbered densely as [`super::load`] does,
//! and how many live. If there are more than are followed, a sample of them is.

use super::records::{BLOCK, Event, Parsed, RUN, Request, runs_of};
use super::source::{Item, Source};
use super::{Sample, TraceError};
use crate::workload::{FileTable, Op};
use std::collections::HashSet;
use std::ops::Range;

/// Blocks that are followed: 4 GiB of them.
const MOST: usize = 1 << 20;
/// Operations that are handed on together.
const BATCH: usize = 4096;

/// See the module's head.
#[derive(Debug)]
pub struct Survey {
    /// The share that is followed.
    pub sample: Sample,
    /// Block numbers lie below this.
    pub blocks: u32,
    /// Most blocks that live at a time, from the second pass on.
    pub live_max: u32,
    /// Block writes of a pass.
    pub writes: u64,
    /// Blocks read that are written somewhere, of a pass.
    pub reads: u64,
    /// File of each block, for those who group by it.
    pub locality: FileTable,
    /// Device and number of each block of a block trace, sorted.
    places: Vec<(u64, u64)>,
    /// A trace that had to be sorted.
    sorted: Option<Vec<Op>>,
}

impl Survey {
    /// Reads a trace to the end.
    ///
    /// # Errors
    /// It cannot be read, a record is none, or it writes nothing.
    pub fn of(source: &Source) -> Result<Self, TraceError> {
        Survey::following(source, MOST)
    }

    /// The same, with so many blocks followed at most.
    pub(super) fn following(source: &Source, most: usize) -> Result<Self, TraceError> {
        let name = || source.name().to_owned();
        let mut sample = Sample::default();
        let mut survey = loop {
            match look(source, sample, most)? {
                Some(survey) => break survey,
                None => match sample.halved() {
                    Some(half) => sample = half,
                    None => return Err(TraceError::Large { name: name() }),
                },
            }
        };
        survey.count(source)?;
        match survey.writes {
            0 if sample.one_in() > 1 => Err(TraceError::Large { name: name() }),
            0 => Err(TraceError::Empty { name: name() }),
            _ => Ok(survey),
        }
    }

    /// Hands on the operations of a pass. With `synchronous`, each record that
    /// writes is followed by a wish for durability; of a trace that had to be
    /// sorted, each run of writes between which nothing else happens.
    ///
    /// # Errors
    /// As [`Survey::of`].
    pub fn pass(
        &self,
        source: &Source,
        synchronous: bool,
        take: &mut dyn FnMut(&[Op]),
    ) -> Result<(), TraceError> {
        let writes = |op: &Op| matches!(op, Op::Write { .. });
        let mut ops = Vec::new();
        if let Some(sorted) = &self.sorted {
            for run in sorted.chunk_by(|a, b| writes(a) && writes(b)) {
                ops.extend_from_slice(run);
                if synchronous && writes(&run[0]) {
                    ops.push(Op::Sync);
                }
                if ops.len() >= BATCH {
                    take(&ops);
                    ops.clear();
                }
            }
            take(&ops);
            return Ok(());
        }
        let mut now_ns = None;
        let mut grows = false;
        source.read(self.sample, &mut |item| {
            let before = ops.len();
            match item {
                Item::Event(event) => self.event(&event, &mut now_ns, &mut ops),
                Item::Files(files) => {
                    files.take(&mut ops);
                    grows = files.seen().0 > self.blocks as usize;
                }
            }
            if grows {
                return false;
            }
            if synchronous && ops[before..].iter().any(writes) {
                ops.push(Op::Sync);
            }
            if ops.len() >= BATCH {
                take(&ops);
                ops.clear();
            }
            true
        })?;
        if grows {
            return Err(TraceError::Grows {
                name: source.name().to_owned(),
            });
        }
        take(&ops);
        Ok(())
    }

    fn event(&self, event: &Event, now_ns: &mut Option<u64>, ops: &mut Vec<Op>) {
        match event {
            Event::Request(request) | Event::Durable(request) => {
                let before = *now_ns.get_or_insert(request.at_ns);
                if request.at_ns > before {
                    let ns = request.at_ns - before;
                    ops.push(Op::Wait { ns });
                    *now_ns = Some(request.at_ns);
                }
                let end = request.offset.saturating_add(request.bytes);
                let blocks = request.offset / BLOCK..end.div_ceil(BLOCK);
                let known = self.known(request.device, blocks);
                ops.extend(known.map(|block| match request.write {
                    true => Op::Write { block },
                    false => Op::Read { block },
                }));
                if matches!(event, Event::Durable(_)) {
                    ops.push(Op::Sync);
                }
            }
            Event::Discard {
                device,
                offset,
                bytes,
            } => {
                // Blocks that lie in it as a whole.
                let blocks = offset.div_ceil(BLOCK)..offset.saturating_add(*bytes) / BLOCK;
                let known = self.known(*device, blocks);
                ops.extend(known.map(|block| Op::Trim { block }));
            }
            Event::Sync => ops.push(Op::Sync),
        }
    }

    /// Numbers of the blocks in a range that are followed.
    fn known(&self, device: u64, blocks: Range<u64>) -> Range<u32> {
        let below = |block| {
            self.places
                .partition_point(|place| *place < (device, block))
        };
        below(blocks.start) as u32..below(blocks.end) as u32
    }

    /// Counts two passes, the second of which shows how many blocks live.
    fn count(&mut self, source: &Source) -> Result<(), TraceError> {
        let mut alive = vec![false; self.blocks as usize];
        let (mut live, mut most, mut writes, mut reads) = (0u32, 0, 0, 0);
        for pass in 0..2 {
            (writes, reads) = (0, 0);
            self.pass(source, false, &mut |ops| {
                for op in ops {
                    match *op {
                        Op::Write { block } => {
                            writes += 1;
                            let there = std::mem::replace(&mut alive[block as usize], true);
                            live += u32::from(!there);
                        }
                        Op::Trim { block } => {
                            live -= u32::from(std::mem::take(&mut alive[block as usize]));
                        }
                        Op::Read { .. } => reads += 1,
                        Op::Sync | Op::Wait { .. } => {}
                    }
                    if pass == 1 {
                        most = most.max(live);
                    }
                }
            })?;
        }
        (self.live_max, self.writes, self.reads) = (most, writes, reads);
        Ok(())
    }
}

/// The blocks of a sample; none if there are more than are followed.
fn look(source: &Source, sample: Sample, most: usize) -> Result<Option<Survey>, TraceError> {
    let survey = |file_of: Vec<u32>, places, sorted, directory_files| Survey {
        sample,
        blocks: file_of.len() as u32,
        live_max: 0,
        writes: 0,
        reads: 0,
        locality: FileTable {
            file_of,
            directory_files,
        },
        places,
        sorted,
    };
    if let Some(parsed) = source.sorted(sample)? {
        let Parsed {
            ops,
            file_of,
            directory_files,
        } = parsed;
        let fits = file_of.len() <= most;
        return Ok(fits.then(|| survey(file_of, Vec::new(), Some(ops), directory_files)));
    }
    let mut places = HashSet::new();
    let mut file_of = Vec::new();
    let mut fits = true;
    let note = |request: &Request, places: &mut HashSet<(u64, u64)>| {
        let followed = |place: &(u64, u64)| sample.takes_region(place.0, place.1 / RUN);
        places.extend(request.places().filter(followed));
        places.len() <= most
    };
    source.read(sample, &mut |item| {
        match item {
            Item::Event(Event::Request(request) | Event::Durable(request)) if request.write => {
                fits = note(&request, &mut places);
            }
            Item::Event(_) => {}
            Item::Files(files) => {
                // What happened is asked for later.
                files.forget_operations();
                let (blocks, names) = files.seen();
                fits = blocks <= most && names <= most;
                if fits && blocks > file_of.len() {
                    file_of.extend_from_slice(files.files_from(file_of.len()));
                }
            }
        }
        fits
    })?;
    if !fits {
        return Ok(None);
    }
    let mut places: Vec<(u64, u64)> = places.into_iter().collect();
    places.sort_unstable();
    if !places.is_empty() {
        file_of = runs_of(&places);
    }
    Ok(Some(survey(file_of, places, None, 32)))
}

#[cfg(test)]
mod tests;
