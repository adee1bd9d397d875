//! `varve ship`: writes the changes of a volume since a mark, for a copy.

use super::mount_table;
use super::output::{self, Failure, Outcome};
use super::txn_server::hear;
use rustix::fs::{Mode, OFlags, open, syncfs};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use varve::VolumeOptions;
use varve::admin::{self, Mark};

const FAILED: u8 = 1;

/// Write the stream of changes of a volume since a copy of it was made.
///
/// `varve replay` applies it to the copy. A base is a byte copy of an image that is not
/// mounted, or a snapshot of the device below a mounted one; `varve replay COPY
/// --position` prints the mark of a copy's position. All earlier writes are synced first,
/// and shipped.
///
/// The log is not kept for copies that fall behind: a copy that was not updated for too
/// long needs a new base, and this command says so.
#[derive(clap::Args)]
pub struct Ship {
    /// The directory on which a volume is mounted, or one below; or an image or block
    /// device that is not mounted.
    volume: PathBuf,
    /// The mark of the copy's position.
    #[arg(long, value_name = "MARK", value_parser = str::parse::<Mark>)]
    since: Mark,
    /// The destination of the stream; `-` is the standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: PathBuf,
    /// Continue as more becomes durable, until the volume is unmounted.
    #[arg(long)]
    follow: bool,
    /// Print as JSON what was shipped, if the stream is written to a file.
    #[arg(long)]
    json: bool,
}

impl Ship {
    pub fn run(self) -> Outcome {
        let to_output = self.to.as_os_str() == "-";
        let shown = self.to.display();
        let failed = |error: io::Error| {
            Failure::new(
                FAILED,
                format_args!("cannot write the stream to {shown}: {error}"),
            )
        };
        let (mut output, mut file);
        let into: &mut dyn Write = match to_output {
            true => {
                output = BufWriter::new(io::stdout());
                &mut output
            }
            false => {
                file = File::create(&self.to).map_err(failed)?;
                &mut file
            }
        };
        let answer = match self.volume.is_dir() {
            true => self.ask(into)?,
            false => self.read(into)?,
        };
        into.flush().map_err(failed)?;
        if to_output {
            return Ok(0);
        }
        let file = File::open(&self.to).and_then(|file| file.sync_all());
        file.map_err(failed)?;
        match self.json {
            true => output::json(&answer),
            false => output::line(format_args!(
                "{shown}: {} groups, {}, up to {}",
                answer["groups"],
                super::size::show(answer["bytes"].as_u64().unwrap_or(0)),
                answer["to"].as_str().unwrap_or_default()
            )),
        }
        Ok(0)
    }

    /// Ships from an image that is not mounted.
    fn read(&self, into: &mut dyn Write) -> Result<Value, Failure> {
        let shown = self.volume.display();
        let volume = VolumeOptions::new().read_only(true).open(&self.volume)?;
        let tree = admin::tree(&volume);
        let fs = tree.log().ok_or_else(|| {
            let text = format_args!("{shown} has the layout vlfs, which keeps no log to ship");
            Failure::new(FAILED, text)
        })?;
        let mut into = BufWriter::new(into);
        let shipped = admin::ship(fs, self.since, &|| false, &mut into)
            .map_err(|error| Failure::new(FAILED, format_args!("{shown}: {error}")))?;
        volume.close()?;
        Ok(json!({
            "to": shipped.to.to_string(),
            "groups": shipped.groups,
            "bytes": shipped.bytes,
        }))
    }

    /// Ships from the server of a mount.
    fn ask(&self, into: &mut dyn Write) -> Result<Value, Failure> {
        let shown = self.volume.display();
        let entry = mount_table::containing(&self.volume).map_err(Failure::with(FAILED))?;
        let failed = |text: String| Failure::new(FAILED, format_args!("{shown}: {text}"));
        let lost = |error: io::Error| failed(format!("the connection to the server: {error}"));
        let connection = connect(&entry.directory).map_err(failed)?;
        let asked = json!({"since": self.since.to_string(), "follow": self.follow});
        (&connection)
            .write_all(format!("{asked}\n").as_bytes())
            .map_err(lost)?;
        let mut pieces = BufReader::with_capacity(1 << 18, connection);
        let ended = || failed("the server ended before the stream did".into());
        loop {
            let mut length = [0; 4];
            if pieces.read_exact(&mut length).is_err() {
                return Err(ended());
            }
            let length = u64::from(u32::from_le_bytes(length));
            if length == 0 {
                break;
            }
            let copied = io::copy(&mut (&mut pieces).take(length), into);
            let copied = copied.map_err(|error| failed(format!("the stream: {error}")))?;
            if copied < length {
                return Err(ended());
            }
            if self.follow {
                into.flush()
                    .map_err(|error| failed(format!("the stream: {error}")))?;
            }
        }
        let answer = hear(&mut pieces).map_err(lost)?.ok_or_else(ended)?;
        match answer["refused"].as_str() {
            Some(why) => Err(failed(why.into())),
            None => Ok(answer),
        }
    }
}

/// A connection for the stream, to the server of the mount at `root`.
fn connect(root: &Path) -> Result<UnixStream, String> {
    use rustix::io::Errno;
    // The kernel's cache contains a part of the earlier writes.
    let opened = open(root, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let synced = opened.and_then(syncfs);
    synced.map_err(|error| format!("it cannot be synced: {error}"))?;
    let question = json!({"ship": {"socket": true}}).to_string();
    let answer = varve_fuse::ask(root, &question).map_err(|error| {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOTTY | Errno::INVAL) => {
                "its server has no log to ship: it has the layout vlfs, or an older version".into()
            }
            Some(Errno::PERM) => "only root and whoever mounted it may ship it".into(),
            _ => format!("its server does not answer: {error}"),
        }
    })?;
    let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    if let Some(why) = answer["refused"].as_str() {
        return Err(why.into());
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
