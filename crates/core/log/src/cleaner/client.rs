//! A cleaner in another process: policy and pace, and the four calls to a
//! server that does not trust it.
//!
//! It knows no device, clock or file system; whoever runs it says how a call
//! is made and how time passes. The command does that by ioctls, tests within
//! one process.

use super::wire::{Answer, BLOCKS, Block, Request, Standing};
use crate::control::claims::MAX_CLAIMS;
use crate::control::pace::{Gauge, Pacer};
use crate::policy::{Candidate, Policy, PolicyKind};
use std::collections::VecDeque;
use std::time::Duration;

/// How often a cleaner with nothing to do looks again.
const LOOK: Duration = Duration::from_millis(200);
/// How long it waits before it asks again for what was refused for now.
const AGAIN: Duration = Duration::from_millis(10);
/// How often it asks again before it lets go of its segments.
const PATIENCE: u32 = 100;
/// Segments chosen at a time.
const CHOSEN: usize = 64;
/// What writing a segment may take, nanoseconds: nobody here knows the device.
const WRITE_NS: u64 = 1_000_000_000;

/// Why the server refused a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not now.
    #[error("not now")]
    Again,
    /// Not this segment: another cleaner has it, or it is no longer to be
    /// cleaned, or something in it lives.
    #[error("not this segment")]
    NotThis,
    /// The server does not know us any more: we were silent for too long.
    #[error("the server has forgotten this cleaner")]
    Forgotten,
    /// For good.
    #[error("{0}")]
    Failed(String),
}

impl From<super::CallError> for Refusal {
    fn from(error: super::CallError) -> Self {
        use super::CallError as E;
        match error {
            E::Again => Refusal::Again,
            E::Taken | E::NotThis | E::StillLives(_) => Refusal::NotThis,
            E::Unknown => Refusal::Forgotten,
            E::TooMany | E::Failed(_) => Refusal::Failed(error.to_string()),
        }
    }
}

/// The world outside.
pub trait Outside {
    /// Calls the server as cleaner `id`; returns the number it is known by.
    ///
    /// # Errors
    /// As the server refuses.
    fn call(&mut self, id: u64, request: Request) -> Result<(u64, Answer), Refusal>;

    /// Monotonic nanoseconds.
    fn now_ns(&self) -> u64;

    /// Lets time pass. False if it is time to end.
    fn sleep(&mut self, time: Duration) -> bool;
}

/// When such a cleaner works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Clean segments, in percent of all, below which it begins. Default: as
    /// the mount.
    pub low_percent: Option<u8>,
    /// Clean segments, in percent of all, at which it stops. Default: as the
    /// mount.
    pub high_percent: Option<u8>,
    /// Clean up to the high mark whenever nobody has asked for anything for
    /// so many nanoseconds, and only then if there are segments enough.
    pub idle_ns: Option<u64>,
}

/// What it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Segments cleaned.
    pub segments: u64,
    /// Blocks moved or put down for a checkpoint.
    pub blocks: u64,
    /// Segments let go of, because others had them or something in them
    /// lived.
    pub left: u64,
    /// Segments left because of damage.
    pub damaged: u64,
}

/// What came of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Segments were cleaned, or tried.
    Worked,
    /// There are clean segments enough.
    Enough,
    /// No segment is worth it.
    Nothing,
    /// It is time to end.
    End,
}

/// A cleaner of another process.
#[derive(Debug)]
pub struct Client<O> {
    outside: O,
    policy: Box<dyn Policy>,
    marks: Marks,
    id: u64,
    /// For segments of so many bytes.
    pacer: (u64, Pacer),
    /// Clean segments, and bytes that users had taken, behind the last step.
    before: Option<(u64, u64)>,
    chosen: VecDeque<Candidate>,
    done: Done,
}

impl<O: Outside> Client<O> {
    /// One that has not joined yet.
    pub fn new(outside: O, policy: PolicyKind, marks: Marks) -> Self {
        Client {
            outside,
            policy: policy.policy(),
            marks,
            id: 0,
            pacer: (0, Pacer::new(0)),
            before: None,
            chosen: VecDeque::new(),
            done: Done::default(),
        }
    }

    /// What it has done.
    pub fn done(&self) -> Done {
        self.done
    }

    /// Works until it is told to end; with `once` until there are segments
    /// enough or none is worth it.
    ///
    /// # Errors
    /// What the server refuses for good.
    pub fn run(&mut self, once: bool) -> Result<(), Refusal> {
        let outcome = self.work(once);
        // It ends in any case; if the server is gone, so are the claims.
        let _ = self.call_patiently(&Request::Leave);
        outcome
    }

    fn work(&mut self, once: bool) -> Result<(), Refusal> {
        loop {
            let begun_ns = self.outside.now_ns();
            let step = match self.step(once) {
                // Forgotten: it begins anew. Refused for now: later.
                Err(Refusal::Forgotten) => {
                    (self.id, self.chosen) = (0, VecDeque::new());
                    Step::Worked
                }
                Err(Refusal::Again) if self.outside.sleep(AGAIN) => Step::Worked,
                Err(Refusal::Again) => Step::End,
                other => other?,
            };
            let goes_on = match step {
                Step::End => false,
                Step::Worked => self.rest(begun_ns, once)?,
                Step::Enough | Step::Nothing if once => false,
                Step::Enough | Step::Nothing => self.outside.sleep(LOOK),
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn call(&mut self, request: Request) -> Result<Answer, Refusal> {
        let (id, answer) = self.outside.call(self.id, request)?;
        self.id = id;
        Ok(answer)
    }

    /// Calls until it is not refused for now. `None` if it is time to end.
    fn call_patiently(&mut self, request: &Request) -> Result<Option<Answer>, Refusal> {
        for _ in 0..PATIENCE {
            match self.call(request.clone()) {
                Err(Refusal::Again) => {}
                other => return other.map(Some),
            }
            if !self.outside.sleep(AGAIN) {
                return Ok(None);
            }
        }
        Err(Refusal::Again)
    }

    fn standing(&mut self) -> Result<Option<Standing>, Refusal> {
        let policy = self.policy.name().to_owned();
        match self.call_patiently(&Request::Wait { policy })? {
            Some(Answer::Standing(standing)) => Ok(Some(standing)),
            Some(_) => Err(unexpected()),
            None => Ok(None),
        }
    }

    fn gauge(&self, standing: &Standing, once: bool) -> Gauge {
        let mark = |percent: Option<u8>, otherwise: u64| match percent {
            Some(percent) => standing.segments.get() * u64::from(percent) / 100,
            None => otherwise,
        };
        let low = mark(self.marks.low_percent, standing.low.get());
        let high = mark(self.marks.high_percent, standing.high.get()).max(low + 1);
        let idle = |least| standing.idle_ns.get() >= least;
        Gauge {
            clean: standing.clean.get(),
            open_percent: 0,
            floor: standing.floor.get(),
            need: standing.low.get(),
            low,
            high,
            used_bytes: standing.used_bytes.get(),
            idle: once || self.marks.idle_ns.is_some_and(idle),
            waiting: standing.waiting.get() != 0,
        }
    }

    /// Cleans one segment, or as many as the policy sorts together, if that is
    /// called for.
    ///
    /// # Errors
    /// As the server refuses.
    pub fn step(&mut self, once: bool) -> Result<Step, Refusal> {
        let Some(standing) = self.standing()? else {
            return Ok(Step::End);
        };
        let segment_bytes = standing.segment_bytes.get();
        if self.pacer.0 != segment_bytes {
            self.pacer = (segment_bytes, Pacer::new(segment_bytes));
        }
        let gauge = self.gauge(&standing, once);
        if self.pacer.1.share(&gauge) == 0.0 {
            self.chosen.clear();
            return Ok(Step::Enough);
        }
        if self.chosen.is_empty() {
            self.choose(&standing, &gauge)?;
        }
        if self.chosen.is_empty() {
            return Ok(Step::Nothing);
        }
        let only_idle = gauge.idle && !once && gauge.clean >= gauge.low;
        self.clean(segment_bytes, only_idle)
    }

    /// Asks which segments there are, and has the policy choose.
    fn choose(&mut self, standing: &Standing, gauge: &Gauge) -> Result<(), Refusal> {
        let mut candidates = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from {
            let Answer::Usage { segments, next } = self.call(Request::Usage { from: at })? else {
                return Err(unexpected());
            };
            candidates.extend(segments.iter().map(|usage| Candidate {
                segment: usage.segment.get(),
                live_bytes: usage.live_bytes.get(),
                segment_bytes: standing.segment_bytes.get(),
                newest_ns: usage.newest_ns.get(),
            }));
            from = next.filter(|next| *next > at);
        }
        // Dear ones only once writers are about to wait.
        let least = if gauge.is_pressed() { 16 } else { 8 };
        candidates.retain(|c| {
            let freed = c.segment_bytes.saturating_sub(c.live_bytes);
            c.live_bytes > 0 && freed * least >= c.segment_bytes
        });
        let now_ns = standing.now_ns.get();
        self.chosen = self.policy.choose(&candidates, now_ns, CHOSEN).into();
        Ok(())
    }

    fn clean(&mut self, segment_bytes: u64, only_idle: bool) -> Result<Step, Refusal> {
        let mut claimed = Vec::new();
        let outcome = self.clean_claimed(segment_bytes, only_idle, &mut claimed);
        if outcome.is_err() {
            // Nothing stays claimed of which nobody knows any more.
            for segment in claimed {
                let _ = self.call_patiently(&Request::Release { segment });
            }
        }
        outcome
    }

    fn clean_claimed(
        &mut self,
        segment_bytes: u64,
        only_idle: bool,
        claimed: &mut Vec<u32>,
    ) -> Result<Step, Refusal> {
        let sorted_bytes = self.policy.sorted_segments() * segment_bytes;
        let (mut live_bytes, mut blocks) = (0, Vec::new());
        while let Some(candidate) = self.chosen.pop_front() {
            claimed.push(candidate.segment);
            match self.living(candidate.segment)? {
                Some(found) => {
                    blocks.extend(found);
                    live_bytes += candidate.live_bytes;
                }
                None => {
                    claimed.pop();
                    self.done.left += 1;
                }
            }
            if live_bytes >= sorted_bytes || claimed.len() >= MAX_CLAIMS {
                break;
            }
        }
        let sorted = sorted_bytes > 0;
        if sorted {
            blocks.sort_by_key(|block| block.written_ns.get());
        }
        let moved = self.move_all(&blocks, sorted, only_idle)?;
        for &segment in claimed.iter() {
            let request = match moved {
                Moved::All => Request::Segclean { segment },
                _ => Request::Release { segment },
            };
            match self.call_patiently(&request) {
                Ok(Some(_)) if moved == Moved::All => self.done.segments += 1,
                Ok(Some(_)) => self.done.left += 1,
                Ok(None) => return Ok(Step::End),
                Err(Refusal::NotThis) => {
                    self.done.left += 1;
                    let _ = self.call(Request::Release { segment });
                }
                Err(other) => return Err(other),
            }
        }
        Ok(match moved {
            Moved::End => Step::End,
            _ => Step::Worked,
        })
    }

    /// What lives in a segment, which is claimed. `None` if it is not to be
    /// had.
    fn living(&mut self, segment: u32) -> Result<Option<Vec<Block>>, Refusal> {
        let mut blocks = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from {
            match self.call_patiently(&Request::Bmapv { segment, from: at }) {
                Ok(Some(Answer::Blocks { blocks: more, next })) => {
                    blocks.extend(more);
                    from = next.filter(|next| *next > at);
                }
                Ok(Some(_)) => return Err(unexpected()),
                Ok(None) | Err(Refusal::NotThis) => return Ok(None),
                Err(other) => return Err(other),
            }
        }
        Ok(Some(blocks))
    }

    fn move_all(
        &mut self,
        mut blocks: &[Block],
        sorted: bool,
        only_idle: bool,
    ) -> Result<Moved, Refusal> {
        while !blocks.is_empty() {
            if only_idle {
                let least = self.marks.idle_ns.unwrap_or(0);
                match self.standing()? {
                    None => return Ok(Moved::End),
                    Some(now) if now.idle_ns.get() < least => return Ok(Moved::Interrupted),
                    Some(_) => {}
                }
            }
            let request = Request::Markv {
                sorted,
                blocks: blocks[..blocks.len().min(BLOCKS)].to_vec(),
            };
            let marked = match self.call_patiently(&request) {
                Ok(Some(Answer::Marked(marked))) => marked,
                Ok(Some(_)) => return Err(unexpected()),
                Ok(None) => return Ok(Moved::End),
                // No room before the next checkpoint: others may come first.
                Err(Refusal::Again) => return Ok(Moved::Interrupted),
                Err(other) => return Err(other),
            };
            if marked.damaged.get() > 0 {
                self.done.damaged += 1;
                return Ok(Moved::Interrupted);
            }
            let dealt = marked.done.get() as usize;
            if dealt == 0 || dealt > blocks.len() {
                return Err(unexpected());
            }
            self.done.blocks += u64::from(marked.moved.get());
            blocks = &blocks[dealt..];
        }
        Ok(Moved::All)
    }

    /// Learns from a step, and rests behind it. False if it is time to end.
    fn rest(&mut self, begun_ns: u64, once: bool) -> Result<bool, Refusal> {
        let now_ns = self.outside.now_ns();
        let took_ns = now_ns.saturating_sub(begun_ns);
        let standing = match self.standing() {
            Ok(Some(standing)) => standing,
            Ok(None) => return Ok(false),
            Err(Refusal::Again | Refusal::Forgotten) => return Ok(self.outside.sleep(AGAIN)),
            Err(other) => return Err(other),
        };
        let gauge = self.gauge(&standing, once);
        let now = (gauge.clean, gauge.used_bytes);
        // After another mount it counts from nothing.
        let before = self.before.replace(now).filter(|before| before.1 <= now.1);
        let before = before.unwrap_or(now);
        let gained = |now: u64, then: u64| now as i64 - then as i64;
        let segment_bytes = standing.segment_bytes.get() as i64;
        let gained_bytes = gained(now.0, before.0)
            .saturating_mul(segment_bytes)
            .saturating_add(gained(now.1, before.1));
        let used = now.1;
        self.pacer
            .1
            .learn(now_ns, took_ns, gained_bytes, used, WRITE_NS);
        let share = self.pacer.1.share(&gauge);
        let rest_ns = Pacer::rest_ns(took_ns, share);
        Ok(self.outside.sleep(Duration::from_nanos(rest_ns)))
    }
}

/// What became of blocks that were to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    All,
    Interrupted,
    End,
}

fn unexpected() -> Refusal {
    Refusal::Failed("the server answers something else than was asked".into())
}
