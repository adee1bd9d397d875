//! The cleaner's mechanism: emptying a segment, independent of its choice. The mount's
//! own cleaner and those of other processes choose segments and have them emptied
//! (`crate::cleaner`). So do the relocation of a place that cannot be written
//! (`crate::relocate`), and a checkpoint that needs space (`crate::checkpoint`).
//!
//! It consists of the four calls of the thesis (table 6-4):
//! [`Mechanism::bmapv`](Mechanism::bmapv) determines which blocks are live,
//! [`Mechanism::markv`](Mechanism::markv) appends copies of them, `segwait` is
//! [`Request::Wait`](crate::cleaner::wire::Request::Wait), which reports the state of
//! cleaning, and [`Mechanism::segclean`](Mechanism::segclean) declares a segment done. A move
//! is applied only if the block is still where it was read when its copy is appended
//! (protocol rules 18 and 19). Index nodes and ifile blocks are not moved but *touched*:
//! the next checkpoint rewrites them. A segment becomes clean when two checkpoints have
//! found it empty (rule 20), or sooner if it contains data alone
//! (`docs/design/reuse.md`).
//!
//! | file | contents |
//! |---|---|
//! | `reading.rs`, `price.rs` | reading a segment, whole or in parts |
//! | `liveness.rs`, `recorded.rs` | its live blocks, and the blocks to which the newest image refers |
//! | `calls.rs`, `judge.rs` | the four calls, and judging a segment as a whole |
//! | `way.rs` | priority of users |

mod calls;
mod judge;
mod liveness;
mod price;
mod reading;
mod recorded;
mod way;

pub use calls::Found;
pub(crate) use calls::GROUP_BYTES;
pub(crate) use judge::judged_through;
pub(crate) use liveness::Life;

use crate::control::Control;
use crate::durability::Durability;
use crate::geometry::Geometry;
use crate::layers::Layers;
use crate::locks::RankedMutex;
use crate::log::LogState;
use crate::newest::Newest;
use crate::reader::Reader;
use crate::segments::SegmentTable;
use crate::space::Space;
use crate::statistics::Counters;
use crate::volume::Volume;
use crate::writer::Writer;
use std::sync::Arc;
use varve_device::Clock;

/// Empties segments: what lives in one is found, and appended once more.
pub struct Mechanism {
    writer: Arc<Writer>,
    layers: Arc<Layers>,
    space: Arc<Space>,
    control: Arc<Control>,
    counters: Arc<Counters>,
    durability: Arc<Durability>,
    geometry: Arc<Newest<Geometry>>,
    log: Arc<RankedMutex<LogState>>,
    reader: Arc<Reader>,
    segments: Arc<RankedMutex<SegmentTable>>,
    volume_tag: u64,
    clock: Arc<dyn Clock>,
}

impl Mechanism {
    /// The mechanism of a volume that appends by `writer`.
    pub(crate) fn new(volume: &Volume, writer: &Arc<Writer>) -> Self {
        Mechanism {
            writer: Arc::clone(writer),
            layers: Arc::clone(&volume.layers),
            space: Arc::clone(&volume.space),
            control: Arc::clone(&volume.control),
            counters: Arc::clone(&volume.counters),
            durability: Arc::clone(&volume.durability),
            geometry: Arc::clone(&volume.geometry),
            log: Arc::clone(&volume.log),
            reader: Arc::clone(&volume.reader),
            segments: Arc::clone(&volume.segments),
            volume_tag: volume.volume_tag,
            clock: Arc::clone(&volume.clock),
        }
    }
}
