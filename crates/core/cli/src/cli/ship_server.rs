//! The server's side of `varve ship` (`docs/spec/stream.md`).
//!
//! Question, over the ioctl of the other commands: `{"ship": {"socket": true}}`; the
//! answer is `{"socket": "..."}`, the abstract name of a socket. Each stream has one
//! connection to it: the client sends a line, `{"since": "1052-9f3a11c2", "follow":
//! false}`. Pieces of the stream follow, each with its length in four bytes
//! (little-endian) before it; then a length of 0 and a line: `{"to": "...", "groups": 2,
//! "bytes": 7}` or `{"refused": "..."}`.

use super::reception;
use super::txn_server::{hear, say};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve::admin::{Mark, ship};
use varve_fs::FileSystem;
use varve_fuse::Errno;
use varve_lfs::Lfs;

/// Most streams at a time: each has a thread of its own.
const OPEN_MAX: usize = 8;
/// Most connections at a time: some of them are only refused because there are
/// [`OPEN_MAX`].
const CONNECTED_MAX: usize = 4 * OPEN_MAX;
/// Longest time for receiving a client's request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of one piece.
const PIECE_BYTES: usize = 256 << 10;

/// The streams of a mount.
pub struct Streams {
    fs: Arc<FileSystem<Lfs>>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The name of the socket, once it was requested.
    socket: Option<String>,
    open: usize,
}

impl Streams {
    /// The streams of this volume, none yet.
    pub fn new(fs: Arc<FileSystem<Lfs>>) -> Arc<Self> {
        Arc::new(Streams {
            fs,
            state: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Answers a request.
    ///
    /// # Errors
    /// EINVAL for an invalid request.
    pub fn answer(self: &Arc<Self>, asked: &Value) -> Result<Value, Errno> {
        if asked != &json!({"socket": true}) {
            return Err(Errno(rustix::io::Errno::INVAL.raw_os_error()));
        }
        Ok(match self.socket() {
            Ok(name) => json!({ "socket": name }),
            Err(error) => json!({"refused": format!("no socket: {error}")}),
        })
    }

    /// Waits a moment for streams to send their end, after the volume was closed.
    pub fn finish(&self, most: Duration) {
        let until = Instant::now() + most;
        let mut state = self.state.lock();
        while state.open > 0 && !self.ended.wait_until(&mut state, until).timed_out() {}
    }

    /// The name of the socket, which a thread listens on then.
    fn socket(self: &Arc<Self>) -> io::Result<String> {
        let mut state = self.state.lock();
        if let Some(name) = &state.socket {
            return Ok(name.clone());
        }
        let all = Arc::clone(self);
        let name = reception::listen("varve-ship", CONNECTED_MAX, move |connection, _| {
            all.serve(connection)
        })?;
        state.socket = Some(name.clone());
        Ok(name)
    }

    fn serve(&self, mut connection: UnixStream) -> io::Result<()> {
        connection.set_read_timeout(Some(PATIENCE))?;
        let asked = hear(&mut BufReader::new(connection.try_clone()?))?;
        let Some(asked) = asked else { return Ok(()) };
        let refused = match asked["since"].as_str().unwrap_or_default().parse::<Mark>() {
            Err(why) => why,
            Ok(since) => match self.enter() {
                false => format!("{OPEN_MAX} streams are under way already"),
                true => {
                    let shipped = self.ship(&connection, since, asked["follow"] == true);
                    self.state.lock().open -= 1;
                    self.ended.notify_all();
                    return shipped;
                }
            },
        };
        connection.write_all(&[0; 4])?;
        say(&mut connection, &json!({ "refused": refused }))
    }

    fn enter(&self) -> bool {
        let mut state = self.state.lock();
        let enters = state.open < OPEN_MAX;
        state.open += usize::from(enters);
        enters
    }

    fn ship(&self, connection: &UnixStream, since: Mark, follows: bool) -> io::Result<()> {
        let mut pieces = BufWriter::with_capacity(PIECE_BYTES, Pieces(connection));
        let goes_on = || follows && is_there(connection);
        let outcome = ship(&self.fs, since, &goes_on, &mut pieces);
        pieces.flush()?;
        drop(pieces);
        let answer = match outcome {
            Ok(done) => json!({
                "to": done.to.to_string(),
                "groups": done.groups,
                "bytes": done.bytes,
            }),
            Err(error) => json!({ "refused": error.to_string() }),
        };
        let mut connection = connection;
        connection.write_all(&[0; 4])?;
        connection.write_all(format!("{answer}\n").as_bytes())
    }
}

/// A writer that cuts its data into pieces.
struct Pieces<'a>(&'a UnixStream);

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        if !piece.is_empty() {
            self.0.write_all(&(piece.len() as u32).to_le_bytes())?;
            self.0.write_all(piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// False once the client has closed the connection.
fn is_there(connection: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::new(connection, PollFlags::RDHUP)];
    let now = Timespec::default();
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().is_empty()
}
