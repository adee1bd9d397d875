//! The volume that a command about snapshots asks: one that is not mounted, or the server of
//! a mount.

use super::server::{Asked, Emit, Part};
use crate::cli::mount_table;
use crate::cli::output::Failure;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Component, Path, PathBuf};
use varve::{VolumeOptions, admin};
use varve_fs::{Caller, Error};

const FAILED: u8 = 1;

/// A volume, and where in it a path of the host leads.
pub struct Place {
    /// As it was given, for messages.
    shown: PathBuf,
    /// The directory of the mount, or the image.
    root: PathBuf,
    is_mounted: bool,
    /// The path within the volume.
    inside: String,
}

impl Place {
    /// Of an image, a block device, or a directory on a mount.
    ///
    /// # Errors
    /// If it is a directory on no mount of ours.
    pub fn of(given: &Path) -> Result<Self, Failure> {
        match given.is_dir() {
            true => Place::on_mount(given),
            false => Ok(Place {
                shown: given.to_owned(),
                root: given.to_owned(),
                is_mounted: false,
                inside: "/".to_owned(),
            }),
        }
    }

    /// Of a path on a mount. It need not exist any more.
    ///
    /// # Errors
    /// If it is on no mount of ours, or is not valid UTF-8.
    pub fn on_mount(given: &Path) -> Result<Self, Failure> {
        let shown = given.display();
        let failed = |why: String| Failure::new(FAILED, format_args!("{shown}: {why}"));
        let (existing, rest) = existing(given).map_err(|error| failed(error.to_string()))?;
        let not_mounted = |why| {
            let advice = "mount the volume and name a path on the mount";
            Failure::new(FAILED, format_args!("{why}; {advice}"))
        };
        let entry = mount_table::containing(&existing).map_err(not_mounted)?;
        let below = existing.strip_prefix(&entry.directory);
        let below = below.map_err(|_| failed("it is a bind mount of a part".to_owned()))?;
        let below = below.join(rest);
        let inside = below.to_str().ok_or_else(|| {
            failed("the path is not valid UTF-8; name the directory above it".to_owned())
        })?;
        Ok(Place {
            shown: given.to_owned(),
            root: entry.directory,
            is_mounted: true,
            inside: format!("/{inside}"),
        })
    }

    /// The path within the volume.
    pub fn inside(&self) -> &str {
        &self.inside
    }

    /// A path below this one, or an absolute one on the same mount.
    ///
    /// # Errors
    /// If it is not valid UTF-8.
    pub fn join(&self, path: &Path) -> Result<String, Failure> {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let is_whole = path.is_absolute();
        let base = Path::new(if is_whole { "/" } else { &self.inside });
        let joined = base.join(below.strip_prefix("/").unwrap_or(below));
        let joined = joined.to_str().map(str::to_owned);
        joined.ok_or_else(|| {
            let text = format_args!("{}: the path is not valid UTF-8", path.display());
            Failure::new(FAILED, text)
        })
    }

    /// Asks, and hands the parts of the answer to `emit`. A volume that is not mounted is
    /// opened read-only unless the question `changes` it.
    ///
    /// # Errors
    /// Says why it is refused.
    pub fn ask(&self, question: &Value, changes: bool, emit: Emit<'_>) -> Result<Value, Failure> {
        let shown = self.shown.display();
        let answer = match self.is_mounted {
            true => self.ask_server(question, emit),
            false => return self.ask_volume(question, changes, emit),
        };
        answer.map_err(|why| Failure::new(FAILED, format_args!("{shown}: {why}")))
    }

    fn ask_volume(
        &self,
        question: &Value,
        changes: bool,
        emit: Emit<'_>,
    ) -> Result<Value, Failure> {
        let shown = self.shown.display();
        let volume = VolumeOptions::new().read_only(!changes).open(&self.root)?;
        let answer = match admin::tree(&volume).log() {
            None => Err(Error::NoSnapshots.to_string()),
            Some(fs) => Asked {
                fs,
                caller: Caller::root(),
                commit: &|transaction, _| transaction.commit().map_err(|error| error.to_string()),
            }
            .answer(question, emit),
        };
        volume.close()?;
        answer.map_err(|why| Failure::new(FAILED, format_args!("{shown}: {why}")))
    }

    fn ask_server(&self, question: &Value, emit: Emit<'_>) -> Result<Value, String> {
        let connection = connect(&self.root, "socket")?;
        let lost = |error: io::Error| format!("the connection to the server: {error}");
        (&connection)
            .write_all(format!("{question}\n").as_bytes())
            .map_err(lost)?;
        let mut lines = BufReader::with_capacity(1 << 18, connection);
        let (mut line, mut bytes) = (String::new(), Vec::new());
        loop {
            line.clear();
            lines.read_line(&mut line).map_err(lost)?;
            if line.is_empty() {
                return Err("the server ended before its answer did".to_owned());
            }
            let answer: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            if let Some(length) = answer["bytes"].as_u64() {
                bytes.clear();
                let read = (&mut lines).take(length).read_to_end(&mut bytes);
                read.map_err(lost)?;
                emit(Part::Bytes(&bytes))?;
            } else if let Some(item) = answer.get("item") {
                emit(Part::Item(item.clone()))?;
            } else if let Some(why) = answer["refused"].as_str() {
                return Err(why.to_owned());
            } else {
                return Ok(answer["done"].clone());
            }
        }
    }
}

/// Connects to a socket of the server of the mount at `root`: `socket` for questions,
/// `mounts` for mounts.
///
/// # Errors
/// Says why not.
pub(super) fn connect(root: &Path, which: &str) -> Result<UnixStream, String> {
    use rustix::io::Errno;
    let question = json!({"snapshots": { which: true }}).to_string();
    let answer = varve_fuse::ask(root, &question).map_err(|error| {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOTTY | Errno::INVAL) => {
                "its server has no snapshots: the volume has another layout than the log, or the \
                 server is of an older version"
                    .to_owned()
            }
            Some(Errno::PERM) => {
                "only root and the user that mounted it may ask about snapshots".to_owned()
            }
            _ => format!("its server does not answer: {error}"),
        }
    })?;
    let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    if let Some(why) = answer["refused"].as_str() {
        return Err(why.to_owned());
    }
    let name = answer["socket"].as_str().unwrap_or_default();
    let address = SocketAddr::from_abstract_name(name);
    let connection = address.and_then(|address| UnixStream::connect_addr(&address));
    connection.map_err(|error| {
        format!(
            "no connection to its server: {error}; it must be reached in the same network \
             namespace"
        )
    })
}

/// The nearest path above that exists, without symbolic links, and the rest.
fn existing(given: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let mut at = std::path::absolute(given)?;
    let mut rest: Vec<std::ffi::OsString> = Vec::new();
    loop {
        match at.symlink_metadata() {
            // The last name is taken as it is: a symbolic link is a file, too.
            Ok(found) if found.is_dir() => break,
            Ok(_) | Err(_) => {}
        }
        match at.components().next_back() {
            Some(Component::Normal(name)) => rest.push(name.to_owned()),
            _ => break,
        }
        at.pop();
    }
    Ok((at.canonicalize()?, rest.into_iter().rev().collect()))
}
