//! `varve vld serve`: offers a virtual log disk, or plain bytes, to clients of
//! the network block device protocol.

use super::keeper::{Keeper, Kept};
use super::medium::{self, Simulation};
use super::pace::{Paced, RealTime};
use super::signals;
use super::statistics;
use crate::cli::output::{self, Failure, Outcome};
use crate::cli::size;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use varve_device::{Device, IoMode};
use varve_disk::Drive;
use varve_nbd::{Export, ExportOptions, Limits, Listener, ScratchDisk, Server};
use varve_vlog::{FormatOptions, Medium, Options, Vld};

/// The port that is registered for the protocol.
const PORT: u16 = 10809;

/// A virtual log disk on any medium.
pub type LogDisk = Vld<Arc<dyn Medium>>;

/// Serve a virtual log disk over the network block device protocol (NBD).
///
/// Serves until SIGINT or SIGTERM, then finishes pending requests and parks the disk;
/// SIGUSR1 prints counters on stderr. There is neither encryption nor a password: every
/// client that reaches the address may read and write. By default that is this host only;
/// a Unix socket is for the present user only.
#[derive(clap::Args)]
pub struct Serve {
    /// The image file or block device, made by `varve vld create`.
    #[arg(required_unless_present = "memory")]
    image: Option<PathBuf>,
    /// Listen at ADDRESS:PORT, ADDRESS or PORT; 127.0.0.1:10809 by default. Port 0 takes
    /// a free one. May be given several times.
    #[arg(short, long, value_name = "ADDRESS", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Listen at a Unix socket of this name. May be given several times.
    #[arg(short, long, value_name = "PATH")]
    unix: Vec<PathBuf>,
    /// Keep the bytes in memory instead of an image, and lose them at the end; without
    /// --disk they are served as they are.
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "image")]
    memory: Option<u64>,
    /// Let blocks that are overwritten, each durable before the next, begin at any sector
    /// of the memory over which a drive is simulated; for an image `varve vld create`
    /// decides it.
    #[arg(long, requires_all = ["memory", "disk"], conflicts_with = "plain")]
    anywhere: bool,
    /// Simulate this drive over the bytes, such as ST19101.
    #[arg(short, long, value_parser = medium::drive)]
    disk: Option<Drive>,
    /// Take as long as the simulated drive would; otherwise it is as fast as the host,
    /// and only its own clock shows the simulated time.
    #[arg(long, requires = "disk")]
    real_time: bool,
    /// Serve the bytes as they are, each block in its place, without a virtual log: for
    /// comparison.
    #[arg(long)]
    plain: bool,
    /// Refuse all changes.
    #[arg(short, long, conflicts_with = "memory")]
    read_only: bool,
    /// Make every write durable before it is answered, as in a drive without a cache.
    #[arg(long, conflicts_with = "plain")]
    synchronous: bool,
    /// Compact the simulated drive while there are no requests.
    #[arg(long, requires = "disk", conflicts_with_all = ["plain", "read_only"])]
    compact: bool,
    /// Name of the export for clients; the empty name always works, too.
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// Most connections at once; more are refused.
    #[arg(long, default_value_t = Limits::default().connections)]
    connections: usize,
    /// Most requests of one connection at once.
    #[arg(long, default_value_t = Limits::default().in_flight)]
    in_flight: usize,
    /// How the image is read and written: direct, buffered or sync.
    #[arg(long, default_value = "direct")]
    io: IoMode,
    /// Print JSON lines: the exports with their addresses, and counters at the end.
    #[arg(long)]
    json: bool,
}

/// The opened device to be served.
struct Opened {
    device: Arc<dyn Device>,
    vld: Option<Arc<LogDisk>>,
    time: Option<Arc<RealTime>>,
    what: String,
}

impl Serve {
    pub fn run(self) -> Outcome {
        let opened = self.open()?;
        let options = ExportOptions {
            name: self.name.clone(),
            description: opened.what.clone(),
            read_only: self.read_only,
            rotational: self.disk.is_some(),
        };
        let export = Arc::new(Export::new(Arc::clone(&opened.device), options));
        let limits = Limits {
            connections: self.connections.max(1),
            in_flight: self.in_flight.max(1),
            ..Limits::default()
        };
        let listeners = self.listeners()?;
        let failed = |error: std::io::Error| Failure::new(1, format_args!("cannot serve: {error}"));
        let server = Server::new(Arc::clone(&export), listeners, limits).map_err(failed)?;
        let counters = {
            let (export, vld) = (Arc::clone(&export), opened.vld.clone());
            move || statistics::all(&export, vld.as_deref())
        };
        let tell = counters.clone();
        let watch =
            signals::watch(server.stopper(), move || output::note(tell())).map_err(failed)?;
        let keeper = self.keep(&opened, &export).map_err(failed)?;
        self.announce(&opened, &server);
        let served = server.run().map_err(failed);
        drop((keeper, watch));
        let ended = self.end(&opened, &export);
        if self.json {
            output::json(&counters());
        }
        served.and(ended)?;
        Ok(0)
    }

    fn open(&self) -> Result<Opened, Failure> {
        let simulation = self.disk.clone().map(Simulation::new);
        let simulated = simulation.as_ref();
        let on = match simulated {
            Some(simulation) => format!(" on a simulated {}", simulation.drive.name),
            None => String::new(),
        };
        let (device, vld, what): (Arc<dyn Device>, _, _) = match (self.memory, &self.image) {
            (Some(size), _) if simulated.is_none() => {
                let disk = ScratchDisk::new(size).map_err(|error| {
                    let wanted = size::show(size);
                    Failure::new(1, format_args!("cannot have {wanted} of memory: {error}"))
                })?;
                (Arc::new(disk), None, "memory".into())
            }
            (Some(size), _) if self.plain => {
                let bytes = medium::memory(size);
                (medium::plain(bytes, simulated), None, format!("memory{on}"))
            }
            (Some(size), _) => {
                let medium = medium::for_log(medium::memory(size), simulated);
                let options = FormatOptions {
                    block_bytes: 4096,
                    logical_bytes: None,
                    volume: rand::random(),
                    anywhere: self.anywhere,
                };
                Vld::format(&medium, options).map_err(Failure::with(1))?;
                let vld = self.open_log(medium)?;
                let what = format!("a virtual log disk{on} in memory");
                (vld.clone(), Some(vld), what)
            }
            (None, Some(path)) => {
                let image = medium::open_image(path, self.read_only, self.io, self.plain)?;
                // The image's own file name: clients need not see the rest of the path.
                let name = path.file_name().unwrap_or(path.as_os_str()).display();
                if self.plain {
                    let what = format!("{name}{on}");
                    (medium::plain(image, simulated), None, what)
                } else {
                    let vld = self.open_log(medium::for_log(image, simulated))?;
                    (
                        vld.clone(),
                        Some(vld),
                        format!("virtual log disk {name}{on}"),
                    )
                }
            }
            (None, None) => unreachable!("clap asks for one of them"),
        };
        let clock = simulation
            .filter(|_| self.real_time)
            .map(|simulation| simulation.clock);
        let time = clock.map(|clock| Arc::new(RealTime::new(clock)));
        let device = match &time {
            Some(time) => Arc::new(Paced {
                inner: device,
                time: Arc::clone(time),
            }),
            None => device,
        };
        Ok(Opened {
            device,
            vld,
            time,
            what,
        })
    }

    fn open_log(&self, medium: Arc<dyn Medium>) -> Result<Arc<LogDisk>, Failure> {
        let options = Options {
            synchronous: self.synchronous,
            read_only: self.read_only,
            ..Options::default()
        };
        let (vld, recovery) = Vld::open(medium, options).map_err(Failure::with(1))?;
        tracing::info!(?recovery, "opened");
        Ok(Arc::new(vld))
    }

    fn listeners(&self) -> Result<Vec<Listener>, Failure> {
        let mut listeners = Vec::new();
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let addresses = match (self.listen.as_slice(), self.unix.is_empty()) {
            ([], true) => &[default],
            (addresses, _) => addresses,
        };
        for &address in addresses {
            if !address.ip().is_loopback() {
                tracing::warn!(
                    "{address} can be reached from elsewhere, without encryption or password"
                );
            }
            listeners.push(Listener::tcp(address).map_err(|error| {
                Failure::new(1, format_args!("cannot listen at {address}: {error}"))
            })?);
        }
        for path in &self.unix {
            listeners.push(Listener::unix(path).map_err(|error| {
                let path = path.display();
                Failure::new(1, format_args!("cannot listen at {path}: {error}"))
            })?);
        }
        Ok(listeners)
    }

    fn keep(&self, opened: &Opened, export: &Arc<Export>) -> std::io::Result<Option<Keeper>> {
        let Some(vld) = opened.vld.as_ref().filter(|_| !self.read_only) else {
            return Ok(None);
        };
        let kept = Kept {
            vld: Arc::clone(vld),
            export: Arc::clone(export),
            time: opened.time.clone(),
            compact: self.compact,
        };
        Keeper::start(kept).map(Some)
    }

    fn announce(&self, opened: &Opened, server: &Server) {
        let uris: Vec<String> = server.listeners().iter().map(ToString::to_string).collect();
        let bytes = opened.device.geometry().size;
        match self.json {
            true => output::json(&json!({
                "serving": opened.what, "bytes": bytes, "uris": uris,
            })),
            false => output::line(format_args!(
                "{}: {} at {}",
                opened.what,
                size::show(bytes),
                uris.join(" and ")
            )),
        }
    }

    /// Ends the export once there are no clients: everything is made durable, and the log
    /// parked.
    fn end(&self, opened: &Opened, export: &Export) -> Result<(), Failure> {
        if self.read_only {
            return Ok(());
        }
        let failed = |error: String| {
            Failure::new(
                1,
                format_args!("what was written last may be lost: {error}"),
            )
        };
        export.flush().map_err(failed)?;
        match &opened.vld {
            Some(vld) => vld.park().map_err(|error| failed(error.to_string())),
            None => Ok(()),
        }
    }
}

/// Parses `ADDRESS:PORT`, `ADDRESS` or `PORT`.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match bare.unwrap_or(text).parse::<IpAddr>() {
        Ok(address) => Ok((address, PORT).into()),
        Err(_) => Err("write 127.0.0.1:10809, [::1]:10809, an address or a port".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, meant) in [
            ("10900", "127.0.0.1:10900"),
            ("0.0.0.0", "0.0.0.0:10809"),
            ("::1", "[::1]:10809"),
            ("[::1]", "[::1]:10809"),
            ("[::1]:7", "[::1]:7"),
            ("192.0.2.1:0", "192.0.2.1:0"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), meant);
        }
        for text in ["", "localhost:x", "1.2.3", "70000", "1.2.3.4:70000"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
