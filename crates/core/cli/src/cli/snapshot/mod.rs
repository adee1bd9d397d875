//! `varve snapshot`: takes, lists, deletes and renames snapshots, and sets the schedule
//! of automatic ones.
//!
//! | file | |
//! |---|---|
//! | `server.rs` | the questions of all these commands and their answers |
//! | `socket.rs` | the socket at which the server of a mount answers |
//! | `mounts.rs` | mounts of snapshots of a mounted volume |
//! | `place.rs` | asking an image or a mount |
//! | `diff.rs`, `undelete.rs`, `versions.rs`, `rollback.rs`, `send.rs`, `receive.rs` | the commands of these names |

pub mod diff;
pub mod mounts;
mod place;
pub mod receive;
pub mod rollback;
pub mod send;
mod server;
mod socket;
pub mod undelete;
pub mod versions;

pub use place::Place;
pub use server::{Emit, Part};
pub use socket::Snapshots;

use super::output::{self, Failure, Outcome};
use super::size;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Take, list, show, delete and rename snapshots of a volume.
///
/// A snapshot is the state of a volume at one moment, kept in the volume. VOLUME is an
/// image file or block device that is not mounted, or a directory on a mount; root and
/// the user that mounted it may ask. A name has at most 255 bytes, no slash, and does
/// not begin with @. Where a snapshot is named, a time means the newest one that is not
/// younger: @-2h, @-3d, @2026-11-28T10:00 (in UTC).
#[derive(clap::Args)]
pub struct Snapshot {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Take a snapshot of all that has been written.
    ///
    /// Without a name it is an automatic one, which is deleted when its space is needed.
    Create {
        /// The image file, block device, or a directory on a mount.
        volume: PathBuf,
        /// Its name.
        name: Option<String>,
        /// Describe it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the snapshots, oldest first, with the bytes that only each of them has.
    List {
        /// The image file, block device, or a directory on a mount.
        volume: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one: its time, the bytes that only it has, and how much changed since.
    Show {
        /// The image file, block device, or a directory on a mount.
        volume: PathBuf,
        /// Its name, or a time.
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete snapshots: all that are named, or none.
    Delete {
        /// The image file, block device, or a directory on a mount.
        volume: PathBuf,
        /// Their names, or times.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Give a snapshot another name; an automatic one is kept from then on.
    Rename {
        /// The image file, block device, or a directory on a mount.
        volume: PathBuf,
        /// Its name, or a time.
        name: String,
        /// The new name.
        new: String,
    },
    /// Show or set how many automatic snapshots are kept.
    ///
    /// The schedule is stored in the volume, and kept while it is mounted: of each hour,
    /// day and week the newest snapshot stays, for so many of them. An interval
    /// that is not given is 0; all of them 0 end the schedule.
    Keep {
        /// The image file, block device, or a directory on a mount.
        volume: PathBuf,
        /// Hours of which the newest is kept.
        #[arg(long, value_name = "N")]
        hourly: Option<u16>,
        /// Days of which the newest is kept.
        #[arg(long, value_name = "N")]
        daily: Option<u16>,
        /// Weeks of which the newest is kept.
        #[arg(long, value_name = "N")]
        weekly: Option<u16>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Snapshot {
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Create { volume, name, json } => {
                let question = json!({"create": name.unwrap_or_default()});
                let taken = answer(&Place::of(&volume)?, &question, true)?;
                match json {
                    true => output::json(&taken),
                    false => output::line(format_args!(
                        "{}: taken at {}",
                        word(&taken["name"]),
                        word(&taken["taken"])
                    )),
                }
            }
            Command::List { volume, json } => {
                let question = json!({"list": true});
                let all = items(&Place::of(&volume)?, &question, false)?;
                match json {
                    true => output::json(&Value::from(all)),
                    false => all.iter().for_each(print_listed),
                }
            }
            Command::Show { volume, name, json } => {
                let shown = answer(&Place::of(&volume)?, &json!({ "show": name }), false)?;
                match json {
                    true => output::json(&shown),
                    false => print(&shown),
                }
            }
            Command::Delete { volume, names } => {
                answer(&Place::of(&volume)?, &json!({ "delete": names }), true)?;
            }
            Command::Rename { volume, name, new } => {
                answer(&Place::of(&volume)?, &json!({"rename": [name, new]}), true)?;
            }
            Command::Keep {
                volume,
                hourly,
                daily,
                weekly,
                json,
            } => {
                let mut wanted = serde_json::Map::new();
                for (name, count) in [("hourly", hourly), ("daily", daily), ("weekly", weekly)] {
                    if let Some(count) = count {
                        wanted.insert(name.to_owned(), count.into());
                    }
                }
                let changes = !wanted.is_empty();
                let question = json!({ "keep": wanted });
                let kept = answer(&Place::of(&volume)?, &question, changes)?;
                match json {
                    true => output::json(&kept),
                    false => output::line(format_args!(
                        "automatic snapshots kept: of {} hours, {} days, {} weeks",
                        kept["hourly"], kept["daily"], kept["weekly"]
                    )),
                }
            }
        }
        Ok(0)
    }
}

/// The answer to a question that has no items.
fn answer(place: &Place, question: &Value, changes: bool) -> Result<Value, Failure> {
    place.ask(question, changes, &mut |_| Ok(()))
}

/// The items of an answer.
fn items(place: &Place, question: &Value, changes: bool) -> Result<Vec<Value>, Failure> {
    let mut items = Vec::new();
    place.ask(question, changes, &mut |part| {
        if let Part::Item(item) = part {
            items.push(item);
        }
        Ok(())
    })?;
    Ok(items)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn bytes(value: &Value) -> String {
    size::show(value.as_u64().unwrap_or(0))
}

/// How a snapshot is named in a line: an automatic one has its time as its name.
fn print_listed(snapshot: &Value) {
    let (own, taken) = (bytes(&snapshot["bytes"]), word(&snapshot["taken"]));
    let kind = match snapshot["automatic"] == true {
        true => "automatic",
        false => "named",
    };
    let name = word(&snapshot["name"]);
    output::line(format_args!("{taken}  {kind:9}  {own:>9}  {name}"));
}

fn print(shown: &Value) {
    output::line(format_args!("name:          {}", word(&shown["name"])));
    output::line(format_args!("taken:         {}", word(&shown["taken"])));
    output::line(format_args!("only here:     {}", bytes(&shown["bytes"])));
    output::line(format_args!(
        "changed since: {} in {} changes",
        bytes(&shown["changed_bytes"]),
        shown["changes"]
    ));
}
