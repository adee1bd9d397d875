//! What the parts of a mounted volume share while it is assembled: each keeps what it
//! needs.

use crate::control::Control;
use crate::durability::Durability;
use crate::format::Superblock;
use crate::geometry::Geometry;
use crate::layers::Layers;
use crate::locks::RankedMutex;
use crate::log::LogState;
use crate::newest::Newest;
use crate::options::MountOptions;
use crate::reader::Reader;
use crate::segments::SegmentTable;
use crate::space::Space;
use crate::statistics::Counters;
use std::sync::Arc;
use varve_device::{Clock, Device};

/// Shared parts of a mounted volume.
pub(crate) struct Volume {
    pub device: Arc<dyn Device>,
    pub clock: Arc<dyn Clock>,
    pub superblock: Arc<Newest<Superblock>>,
    pub volume_tag: u64,
    /// Shared with the reader.
    pub geometry: Arc<Newest<Geometry>>,
    pub options: Arc<MountOptions>,
    pub reader: Arc<Reader>,
    pub durability: Arc<Durability>,
    pub counters: Arc<Counters>,
    pub control: Arc<Control>,
    pub log: Arc<RankedMutex<LogState>>,
    pub segments: Arc<RankedMutex<SegmentTable>>,
    pub layers: Arc<Layers>,
    pub space: Arc<Space>,
}
