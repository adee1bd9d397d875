//! `varve stats --listen`: serves metrics over HTTP.
//!
//! It does not use an HTTP crate: the small ones have no time-outs (tiny_http), and those
//! with time-outs are runtimes. A thread serves each connection, one request for each;
//! there are at most [`MOST`] at a time. When all are in use, the oldest that is not
//! being answered is closed: a client that sends nothing cannot exclude others.

mod http;
mod sources;

use super::output::{self, Failure, Outcome};
use super::prometheus;
use http::{Request, Status};
use parking_lot::{Condvar, Mutex};
use sources::Source;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most connections at a time.
const MOST: usize = 32;
/// Longest time for receiving a request, and for sending an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time for answers of mounts; Prometheus waits for ten seconds by default.
const MOUNTS: Duration = Duration::from_secs(4);
/// Longest time until a closed connection's thread has ended.
const PARTING: Duration = Duration::from_secs(1);
/// Longest time, and most bytes, for which a client may continue to send after its
/// answer.
const LINGER: Duration = Duration::from_millis(500);
const LEFTOVER: usize = 64 << 10;

struct Server {
    sources: Vec<Arc<Source>>,
    connections: Mutex<Connections>,
    /// Signals that a connection has ended.
    gone: Condvar,
}

/// Connections being served, oldest first.
#[derive(Default)]
struct Connections {
    next: u64,
    open: Vec<Connection>,
}

struct Connection {
    number: u64,
    stream: Arc<TcpStream>,
    /// Its request was received and its answer is being sent.
    answering: bool,
}

/// Serves the metrics of `directories` at `address` until the process is ended.
///
/// # Errors
/// If the address cannot be listened on.
pub fn serve(address: &str, directories: &[PathBuf]) -> Outcome {
    let failed = |error: std::io::Error| {
        let text = format_args!("cannot listen on {address}: {error}; give ADDRESS:PORT");
        Failure::new(1, text)
    };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    let server = Arc::new(Server {
        sources: directories.iter().cloned().map(Source::new).collect(),
        connections: Mutex::default(),
        gone: Condvar::new(),
    });
    output::line(format_args!("metrics at http://{at}/metrics"));
    loop {
        match listener.accept() {
            Ok((stream, _)) => server.admit(stream),
            // Most likely there is no free descriptor; another connection will close one.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

impl Server {
    fn admit(self: &Arc<Self>, stream: TcpStream) {
        let stream = Arc::new(stream);
        let Some(number) = self.seat(&stream) else {
            // Sent without waiting, as far as possible.
            let _ = stream.set_nonblocking(true);
            let _ = (&*stream).write(&http::refusal(Status::Busy));
            return;
        };
        let server = Arc::clone(self);
        let thread = std::thread::Builder::new().spawn(move || {
            // A client that has closed its connection needs no error.
            let _ = server.converse(&stream, number);
            server.remove(number);
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "cannot serve a connection");
            self.remove(number);
        }
    }

    /// A number for a new connection; `None` if all are in use and being answered. Waits
    /// for the closed connection's thread, so there are never more threads than [`MOST`].
    fn seat(&self, stream: &Arc<TcpStream>) -> Option<u64> {
        let mut connections = self.connections.lock();
        let until = Instant::now() + PARTING;
        while connections.open.len() >= MOST {
            connections.end_oldest()?;
            if self.gone.wait_until(&mut connections, until).timed_out() {
                return None;
            }
        }
        Some(connections.add(stream))
    }

    fn remove(&self, number: u64) {
        self.connections.lock().remove(number);
        self.gone.notify_one();
    }

    fn converse(&self, mut stream: &TcpStream, number: u64) -> std::io::Result<()> {
        let request = read_request(stream)?;
        self.connections.lock().answering(number, true);
        let answer = match request {
            Request::Metrics { body } => {
                let answers = sources::ask_all(&self.sources, MOUNTS);
                http::metrics(&prometheus::text(&answers), body)
            }
            Request::Refused(status) => http::refusal(status),
            Request::Unfinished => http::refusal(Status::TooSlow),
        };
        write_all(stream, &answer)?;
        self.connections.lock().answering(number, false);
        // If received bytes are left unread when a socket is closed, the answer is lost.
        stream.shutdown(Shutdown::Write)?;
        let (until, mut left) = (Instant::now() + LINGER, LEFTOVER);
        let mut buffer = [0; 4096];
        while left > 0 && time_left(until, |time| stream.set_read_timeout(time))? {
            match stream.read(&mut buffer)? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok(())
    }
}

impl Connections {
    /// Closes the oldest connection that is not being answered; its thread reads the end
    /// and returns. `None` if there is none.
    fn end_oldest(&mut self) -> Option<()> {
        let oldest = self.open.iter().find(|open| !open.answering)?;
        let _ = oldest.stream.shutdown(Shutdown::Both);
        Some(())
    }

    fn add(&mut self, stream: &Arc<TcpStream>) -> u64 {
        self.next += 1;
        self.open.push(Connection {
            number: self.next,
            stream: Arc::clone(stream),
            answering: false,
        });
        self.next
    }

    fn answering(&mut self, number: u64, answering: bool) {
        let mut open = self.open.iter_mut();
        if let Some(own) = open.find(|open| open.number == number) {
            own.answering = answering;
        }
    }

    fn remove(&mut self, number: u64) {
        self.open.retain(|open| open.number != number);
    }
}

/// Reads a request; [`Request::Unfinished`] if it takes too long.
fn read_request(mut stream: &TcpStream) -> std::io::Result<Request> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while time_left(until, |time| stream.set_read_timeout(time))? {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if is_timeout(&error) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let request = http::parse(&bytes);
        if request != Request::Unfinished {
            return Ok(request);
        }
    }
    Ok(Request::Unfinished)
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        if !time_left(until, |time| stream.set_write_timeout(time))? {
            return Err(ErrorKind::TimedOut.into());
        }
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sets a time-out of the remaining time; false if none remains.
fn time_left(
    until: Instant,
    set: impl Fn(Option<Duration>) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(false);
    }
    set(Some(left)).map(|()| true)
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
