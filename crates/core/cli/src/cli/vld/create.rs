//! `varve vld create`: makes a virtual log disk.

use super::medium::{self, Simulation};
use super::statistics::of_layout;
use crate::cli::output::{self, Failure, Outcome, Progress};
use crate::cli::size;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve::admin::probe;
use varve_device::size::Bytes;
use varve_device::{Device, FileDevice, IoMode, Preallocate};
use varve_disk::Drive;
use varve_vlog::{FormatOptions, Vld};

/// Make a virtual log disk in an image file or on a block device.
#[derive(clap::Args)]
pub struct Create {
    /// The image file, made if it is missing, or the block device.
    image: PathBuf,
    /// Bytes of a new image file, such as 64M, 10G; with --disk, by default the drive's.
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Bytes to offer to clients; by default all that fit.
    #[arg(long, value_parser = size::parse)]
    logical_size: Option<u64>,
    /// Bytes in a block.
    #[arg(long, value_parser = size::parse_u32, default_value = "4K")]
    block_size: u32,
    /// Let blocks that are overwritten, each durable before the next, begin at any
    /// physical block of the medium: nearer on a simulated drive, while its idle time
    /// makes empty tracks. Blocks must be larger than physical ones.
    #[arg(long)]
    anywhere: bool,
    /// The simulated drive on which the image will be served, such as ST19101.
    #[arg(long, value_parser = medium::drive)]
    disk: Option<Drive>,
    /// Write the whole image, so that the host cannot run out of space.
    #[arg(long)]
    preallocate: bool,
    /// Overwrite existing contents.
    #[arg(short, long)]
    force: bool,
    /// Print the new disk's properties as JSON.
    #[arg(long)]
    json: bool,
}

impl Create {
    pub fn run(self) -> Outcome {
        let (device, new) = self.open()?;
        let made = self.format(device);
        if made.is_err() && new {
            // The first error is the one worth reporting.
            let _ = std::fs::remove_file(&self.image);
        }
        made
    }

    fn format(&self, device: Arc<dyn Device>) -> Outcome {
        let simulation = self.disk.clone().map(Simulation::new);
        let medium = medium::for_log(device, simulation.as_ref());
        let options = FormatOptions {
            block_bytes: self.block_size,
            logical_bytes: self.logical_size,
            volume: rand::random(),
            anywhere: self.anywhere,
        };
        let layout = Vld::format(&medium, options).map_err(Failure::with(1))?;
        let described = of_layout(&layout);
        match self.json {
            true => output::json(&described),
            false => output::line(format_args!(
                "{}: a virtual log disk of {} on {}, blocks of {}",
                self.image.display(),
                size::show(described["bytes"].as_u64().unwrap_or(0)),
                size::show(medium.geometry().size),
                size::show(layout.block_bytes.into()),
            )),
        }
        Ok(0)
    }

    /// The image, and whether it was made here.
    fn open(&self) -> Result<(Arc<dyn Device>, bool), Failure> {
        if self.image.exists() {
            return self.open_existing().map(|device| (device, false));
        }
        let of_drive = self.disk.as_ref().map(|drive| drive.geometry.bytes());
        let size = self.size.or(of_drive).ok_or_else(|| {
            refused(
                &self.image,
                "does not exist; give a size to create an image file",
            )
        })?;
        let progress = Progress::bytes("writing the image");
        let mut show = |done, total| progress.at(done, total);
        let preallocate = match self.preallocate {
            true => Preallocate::Written(&mut show),
            false => Preallocate::Sparse,
        };
        let made = FileDevice::create(&self.image, size / 512 * 512, preallocate, IoMode::Direct);
        progress.finish();
        Ok((Arc::new(made.map_err(Failure::with(1))?), true))
    }

    fn open_existing(&self) -> Result<Arc<dyn Device>, Failure> {
        let device = medium::open_image(&self.image, false, IoMode::Direct, false)?;
        let size = device.geometry().size;
        if self.size.is_some_and(|wanted| wanted != size) {
            let what = format!("exists already and has {}; leave the size out", Bytes(size));
            return Err(refused(&self.image, what));
        }
        if !self.force
            && let Some(found) = probe(&device)?
        {
            let what = format!("{found}; to overwrite it, say so (--force)");
            return Err(refused(&self.image, what));
        }
        Ok(device)
    }
}

fn refused(image: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(1, format_args!("{} {what}", image.display()))
}
