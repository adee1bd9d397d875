//! `varve vld info`: the properties of a virtual log disk, and the recovery that an open
//! would do.

use super::medium;
use super::statistics::{of_disk, of_layout, of_recovery};
use crate::cli::output::{self, Failure, Outcome};
use crate::cli::size;
use std::path::PathBuf;
use varve_device::IoMode;
use varve_vlog::{InOrder, Options, Source, Vld};

/// Print the properties and the contents of a virtual log disk. Changes nothing.
#[derive(clap::Args)]
pub struct Info {
    /// The image file or block device.
    image: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self) -> Outcome {
        let device = medium::open_image(&self.image, true, IoMode::Direct, false)?;
        let options = Options {
            read_only: true,
            ..Options::default()
        };
        let (vld, recovery) = Vld::open(InOrder(device), options).map_err(Failure::with(1))?;
        let (layout, counts) = (vld.layout(), vld.statistics());
        let mut described = of_layout(layout);
        if self.json {
            described["image"] = self.image.display().to_string().into();
            described["recovery"] = of_recovery(&recovery);
            described["statistics"] = of_disk(&counts);
            output::json(&described);
            return Ok(0);
        }
        let block = u64::from(layout.block_bytes);
        let state = match recovery.source {
            Source::Tail => "parked".to_owned(),
            Source::Scan => format!(
                "not parked: recovered from {} map records by reading everything",
                recovery.records_read
            ),
        };
        let begins = match layout.anywhere {
            true => layout.unit_bytes,
            false => layout.block_bytes,
        };
        let lines = [
            ("image", self.image.display().to_string()),
            ("volume", format!("{:016x}", layout.volume)),
            ("size", size::show(layout.logical_blocks * block)),
            ("medium", size::show(layout.physical_blocks * block)),
            ("blocks", size::show(block)),
            ("at every", size::show(begins.into())),
            ("map record", size::show(layout.unit_bytes.into())),
            ("in use", size::show(counts.blocks_mapped * block)),
            ("free", size::show(counts.blocks_free * block)),
            ("state", state),
        ];
        for (name, value) in lines {
            output::line(format_args!("{name:10} {value}"));
        }
        Ok(0)
    }
}
