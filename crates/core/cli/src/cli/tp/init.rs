//! `varve tp init`: makes an environment.

use super::place::{Lay, Place};
use crate::cli::output::{self, Outcome};
use crate::cli::size;
use varve_tp::Options;

/// Make an empty environment. The directory is made if it is missing.
#[derive(clap::Args)]
pub struct Init {
    #[command(flatten)]
    place: Place,
    /// Bytes of a page: a power of two from 4K to 32K. Keys longer than an eighth of it
    /// cost more.
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = size::parse_u32)]
    page_size: u32,
    /// Bytes of a segment of the log: a multiple of 4K, at least sixteen pages. By
    /// default 16M, or less where that would be more than a sixteenth of the free space.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_u32)]
    segment_size: Option<u32>,
    /// Bytes that the medium writes atomically: 512 or 4K.
    #[arg(long, value_name = "SIZE", default_value = "512", value_parser = size::parse_u32)]
    log_unit: u32,
    #[command(flatten)]
    lay: Lay,
}

/// Bytes of a segment of the log, where there is enough space.
const SEGMENT: u32 = 16 << 20;
/// Divisor of the free space that bounds a segment: several wait for a checkpoint at a
/// time, and the pages need the rest.
const SHARE: u64 = 16;

impl Init {
    /// Bytes of a segment for this free space: a power of two.
    fn segment_for(&self, free_bytes: u64) -> u32 {
        let fits = u32::try_from(free_bytes / SHARE).unwrap_or(u32::MAX);
        let power = 1 << fits.max(1).ilog2();
        let least = self.page_size.saturating_mul(16).max(64 << 10);
        SEGMENT.min(power).max(least)
    }

    pub fn run(self) -> Outcome {
        let (storage, volume) = self.place.storage(true)?;
        let names = storage.list().map_err(|error| self.place.failed(error))?;
        if names.iter().any(|name| name.starts_with("check-")) {
            return Err(self.place.failed("there is an environment already"));
        }
        drop(storage);
        let free = self.place.free_bytes(volume.as_ref())?;
        let segment_size = self.segment_size.unwrap_or_else(|| self.segment_for(free));
        if let Some(volume) = volume {
            volume.close()?;
        }
        let mut options = Options::new();
        options
            .page(self.page_size)
            .segment(segment_size)
            .log_unit(self.log_unit)
            .placement(self.lay.placement())
            .background(false);
        self.place.open(true, &mut options)?.close()?;
        output::line(format_args!(
            "{}: pages of {}, segments of {}",
            self.place.shown(),
            size::show(self.page_size.into()),
            size::show(segment_size.into())
        ));
        Ok(0)
    }
}
