//! Cleaners of other processes, one call at a time, with any operation between two calls.

use varve_fs::{FileSystem, Result};
use varve_lfs::Lfs;
use varve_lfs::cleaner::CallError;
use varve_lfs::cleaner::wire::{Answer, Block, Request};
use varve_lfs::policy::PolicyKind;

type Called<T> = std::result::Result<T, CallError>;

/// Number of blocks moved in one call; a segment takes several calls.
const AT_ONCE: usize = 6;

/// The next step of such a cleaner.
#[derive(Debug, Default)]
enum Stage {
    /// It leases the emptiest free segment.
    #[default]
    Looking,
    /// It moves the live blocks of its leased segment.
    Moving(u32, Vec<Block>),
    /// It reports the segment as done.
    Closing(u32),
}

/// A cleaner of another process, between two of its calls.
#[derive(Debug, Default)]
pub struct Stranger {
    id: u64,
    stage: Stage,
}

impl Stranger {
    /// Makes its next call.
    ///
    /// # Errors
    /// The error that stopped the volume, or one of the device.
    pub fn step(&mut self, layout: &Lfs) -> Result<()> {
        let claimed = match self.stage {
            Stage::Moving(segment, _) | Stage::Closing(segment) => Some(segment),
            _ => None,
        };
        match self.next(layout) {
            Ok(stage) => self.stage = stage,
            Err(CallError::Failed(error)) => return Err(error.into()),
            // The cleaner was silent for too long.
            Err(CallError::Unknown) => *self = Stranger::default(),
            Err(_) => {
                if let Some(segment) = claimed {
                    let _ = self.call(layout, Request::Release { segment });
                }
                self.stage = Stage::Looking;
            }
        }
        Ok(())
    }

    fn call(&mut self, layout: &Lfs, request: Request) -> Called<Answer> {
        let (id, answer) = layout.cleaner().serve_cleaner(self.id, request, 1)?;
        self.id = id;
        Ok(answer)
    }

    fn next(&mut self, layout: &Lfs) -> Called<Stage> {
        Ok(match std::mem::take(&mut self.stage) {
            Stage::Looking => {
                let policy = "greedy".to_owned();
                self.call(layout, Request::Wait { policy })?;
                let Answer::Usage { segments, .. } =
                    self.call(layout, Request::Usage { from: 0 })?
                else {
                    return Ok(Stage::Looking);
                };
                let emptiest = segments.iter().min_by_key(|usage| usage.live_bytes.get());
                match emptiest.map(|usage| usage.segment.get()) {
                    Some(segment) => Stage::Moving(segment, self.living(layout, segment)?),
                    None => Stage::Looking,
                }
            }
            Stage::Moving(segment, blocks) => {
                let first = blocks.len().min(AT_ONCE);
                let request = Request::Markv {
                    sorted: self.id.is_multiple_of(2),
                    blocks: blocks[..first].to_vec(),
                };
                self.call(layout, request)?;
                match blocks.len() - first {
                    0 => Stage::Closing(segment),
                    _ => Stage::Moving(segment, blocks[first..].to_vec()),
                }
            }
            Stage::Closing(segment) => {
                self.call(layout, Request::Segclean { segment })?;
                Stage::Looking
            }
        })
    }

    fn living(&mut self, layout: &Lfs, segment: u32) -> Called<Vec<Block>> {
        let (mut blocks, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            match self.call(layout, Request::Bmapv { segment, from: at })? {
                Answer::Blocks { blocks: more, next } => {
                    blocks.extend(more);
                    from = next;
                }
                _ => break,
            }
        }
        Ok(blocks)
    }
}

/// Changes the policy of the mount's own cleaner.
///
/// # Errors
/// Errors of the change.
pub fn switch_policy(system: &FileSystem<Lfs>) -> Result<()> {
    let layout = system.layout();
    let mut settings = layout.cleaner().cleaner_settings();
    let all = PolicyKind::ALL;
    let now = all.iter().position(|kind| *kind == settings.policy);
    let next = now.map_or(0, |now| (now + 1) % all.len());
    settings.policy = all[next];
    settings.pace.running = next != 2;
    Ok(layout.cleaner().set_cleaner(settings)?)
}
