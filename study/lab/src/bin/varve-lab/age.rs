//! `varve lab age`: years of use in seconds, and the map of what is free then.

use serde_json::json;
use std::path::PathBuf;
use varve_console::output::{self, Failure, Outcome};
use varve_console::size;
use varve_lab::ageing::{self, Aged, Make, Profile};

/// Use a file system for years, and save what is free then.
///
/// Files come and go as a profile or a list has it, on FFS's own allocator, without
/// content. `varve mkfs --layout ffs --aged MAP` makes a volume on which only that is
/// free: study/file-systems.md.
#[derive(clap::Args)]
pub struct Age {
    /// What it is used for: news, software, accounts or scratch.
    #[arg(long, value_parser = profile, required_unless_present = "files")]
    profile: Option<Profile>,
    /// Years of use.
    #[arg(long, default_value = "2", value_parser = years, conflicts_with = "files")]
    years: f64,
    /// Divides the number of cylinder groups, for a smaller volume.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u64).range(1..=1000), conflicts_with = "files")]
    scale: u64,
    /// Decides everything that chance decides.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// A list of files instead: `SIZE PATH` or `+ SIZE PATH` makes one, `> SIZE PATH`
    /// lengthens it, `- PATH` removes it.
    #[arg(long, value_name = "LIST", conflicts_with = "profile")]
    files: Option<PathBuf>,
    /// With a list: bytes of the file system.
    #[arg(long, value_parser = size::parse, requires = "files", default_value = "1G")]
    size: u64,
    /// With a list: bytes in a block, which has eight fragments.
    #[arg(long, value_parser = size::parse, requires = "files", default_value = "8K")]
    block_size: u64,
    /// Where the map goes.
    #[arg(long, value_name = "MAP")]
    out: PathBuf,
    /// Tell what became of it as JSON.
    #[arg(long)]
    json: bool,
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::named(text).ok_or_else(|| "it is news, software, accounts or scratch".into())
}

fn years(text: &str) -> Result<f64, String> {
    let years = text
        .parse()
        .ok()
        .filter(|years| (0.0..=100.0).contains(years));
    years.ok_or_else(|| "it is a number of years, up to 100".into())
}

impl Age {
    pub fn run(self) -> Outcome {
        let aged = self.age()?;
        let text = serde_json::to_vec(&aged.map).map_err(Failure::with(1))?;
        let failed = |error| Failure::new(1, format_args!("{}: {error}", self.out.display()));
        std::fs::write(&self.out, text).map_err(failed)?;
        let told = aged.told;
        if self.json {
            output::json(&json!({
                "map": self.out.display().to_string(),
                "bytes": aged.map.bytes(),
                "free_bytes": aged.map.free_bytes(),
                "told": told,
            }));
            return Ok(0);
        }
        let percent = |share: f64| 100.0 * share;
        output::line(format_args!(
            "{}: {} in {} cylinder groups, {:.1} % in use by {} files after {} operations ({} found \
             no room); {:.1} % of what is free is in whole blocks",
            self.out.display(),
            size::show(aged.map.bytes()),
            aged.map.groups(),
            percent(told.utilisation),
            told.files,
            told.operations,
            told.refused,
            percent(told.free_in_blocks),
        ));
        Ok(0)
    }

    fn age(&self) -> Result<Aged, Failure> {
        let Some(list) = &self.files else {
            let profile = self.profile.expect("it is required without a list");
            let days = (self.years * 365.0).round() as u64;
            return ageing::age(profile, days, self.scale, self.seed).map_err(Failure::with(1));
        };
        let failed = |error: String| Failure::new(1, format_args!("{}: {error}", list.display()));
        let text = std::fs::read_to_string(list).map_err(|error| failed(error.to_string()))?;
        let events = ageing::parse(&text).map_err(failed)?;
        if !self.block_size.is_power_of_two() || !(4096..=65536).contains(&self.block_size) {
            return Err(Failure::new(2, "a block has 4K to 64K, a power of two"));
        }
        // Groups of about 12 MB, as those of the profiles.
        let group_blocks = 1500;
        let make = Make {
            block_bytes: self.block_size,
            fragment_bytes: self.block_size / 8,
            group_blocks,
            groups: (self.size / (group_blocks * self.block_size)).max(1),
            maxcontig: 7,
            clusters: false,
        };
        if make.groups > 1 << 16 {
            return Err(Failure::new(
                2,
                "a file system of more than 65,536 cylinder groups",
            ));
        }
        ageing::age_by(make, &events).map_err(Failure::with(1))
    }
}
