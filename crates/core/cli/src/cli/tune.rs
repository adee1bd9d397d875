//! `varve tune`: shows and changes a volume's label and UUID.

use super::output::{self, Failure, Outcome};
use serde_json::json;
use std::path::PathBuf;
use varve::admin::{Superblock, Tune as Change, parse_uuid, random_uuid, tune, uuid_text};

/// Show or change the label and the UUID of a volume that is not mounted.
///
/// Without options both are shown. After a power cut the volume has the old ones or the
/// new ones. After a change of the UUID, versions of this program that do not support it
/// refuse the volume, until it has its first one again.
#[derive(clap::Args)]
pub struct Tune {
    /// The image file or block device.
    volume: PathBuf,
    /// Label, at most 64 bytes; an empty one removes it.
    #[arg(short = 'L', long)]
    label: Option<String>,
    /// UUID: 32 hexadecimal digits, or `random` for a new one, as for the copy of an
    /// image.
    #[arg(short = 'U', long, value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Let a volume of the layout log that an older version made have snapshots. Versions
    /// that do not know snapshots refuse the volume from then on.
    #[arg(long)]
    snapshots: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn uuid(text: &str) -> Result<[u8; 16], String> {
    match text {
        "random" => Ok(random_uuid()),
        _ => parse_uuid(text),
    }
}

impl Tune {
    pub fn run(self) -> Outcome {
        if let Some(label) = self.label.as_ref().filter(|label| label.len() > 64) {
            let text = format_args!("the label has {} bytes, 64 fit", label.len());
            return Err(Failure::new(2, text));
        }
        let change = Change {
            label: self.label,
            uuid: self.uuid,
            snapshots: self.snapshots,
        };
        let (label, uuid, tag) = match tune(&self.volume, &change)? {
            Superblock::Log(found) => (found.label_text(), found.uuid, found.volume_tag()),
            Superblock::VirtualLog(found) => (found.label_text(), found.uuid, found.volume_tag()),
            Superblock::InPlace(found) => (found.label_text(), found.uuid, found.volume_tag()),
        };
        let uuid = uuid_text(&uuid);
        // The number that `varve salvage --uuid` takes.
        let tag = format!("{:016x}", tag.swap_bytes());
        if self.json {
            output::json(&json!({ "label": label, "uuid": uuid, "tag": tag }));
            return Ok(0);
        }
        output::line(format_args!("label: {label}"));
        output::line(format_args!("UUID:  {uuid}"));
        if !uuid.replace('-', "").starts_with(&tag) {
            output::line(format_args!("tag:   {tag}, as its first UUID began"));
        }
        Ok(0)
    }
}
