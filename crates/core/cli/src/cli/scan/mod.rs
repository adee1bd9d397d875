//! Commands that read a whole tree in the order in which it is stored.
//!
//! | file | |
//! |---|---|
//! | `cp.rs` | `varve cp --unordered` |
//! | `destination.rs` | the directory that it writes |
//! | `tar.rs` | `varve tar` |
//! | `format.rs` | headers of a tar stream |
//! | `server.rs` | the tree that is read, as both commands ask for it |

pub mod cp;
mod destination;
mod format;
pub mod server;
pub mod tar;

use super::output::Failure;
use super::snapshot::{Part, Place};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The tree that is read.
#[derive(clap::Args)]
pub struct Source {
    /// An image or block device that is not mounted, or a directory on a mount, which is
    /// read with all below it.
    volume: PathBuf,
    /// Read it as a snapshot has it: its name, or a time such as @-2h.
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,
    /// Read this path of the volume, or below the directory.
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
}

impl Source {
    /// Asks for `what`, and hands the parts of the answer to `emit`.
    fn ask(
        &self,
        what: &str,
        emit: &mut dyn FnMut(Part<'_>) -> Result<(), String>,
    ) -> Result<Value, Failure> {
        let place = Place::of(&self.volume)?;
        let path = place.join(self.path.as_deref().unwrap_or(Path::new("")))?;
        place.ask(&json!({ what: path, "at": self.at }), false, emit)
    }
}
