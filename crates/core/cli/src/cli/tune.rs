//! `varve tune`: a volume's label and UUID, and others.

use super::output::{self, Failure, Outcome};
use serde_json::json;
use std::path::PathBuf;
use varve::admin::{Superblock, Tune as Change, parse_uuid, random_uuid, tune, uuid_text};

/// Show or change the label and the UUID of a volume that is not mounted.
///
/// Without options both are shown. A power cut leaves the old ones or the new
/// ones. After a change of the UUID versions of this program that do not know of
/// it refuse the volume, until it has its first one again.
#[derive(clap::Args)]
pub struct Tune {
    /// The image file or block device.
    volume: PathBuf,
    /// Name for people, at most 64 bytes; an empty one for none.
    #[arg(short = 'L', long)]
    label: Option<String>,
    /// Identity: 32 hexadecimal digits, or `random` for one that nobody has, as
    /// for the copy of an image.
    #[arg(short = 'U', long, value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Tell as JSON.
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
        };
        let (label, uuid, tag) = match tune(&self.volume, &change)? {
            Superblock::Log(found) => (found.label_text(), found.uuid, found.volume_tag()),
            Superblock::VirtualLog(found) => (found.label_text(), found.uuid, found.volume_tag()),
            Superblock::InPlace(found) => (found.label_text(), found.uuid, found.volume_tag()),
        };
        let uuid = uuid_text(&uuid);
        // What `varve salvage --uuid` asks for.
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
