//! Abstract sockets of a mount's server, for root and the user that runs the server.
//!
//! The name of an abstract socket is no secret (`/proc/net/unix`), and any user of the
//! host can connect to it. So a connection of another user is closed as soon as it is
//! accepted: nothing is read from it and no thread is started for it. Connections of
//! permitted users are bounded as well, each has a thread of its own.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// The pause after an accept that failed, for example for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub user: u32,
    pub process: i32,
}

/// Listens at a new abstract name that begins with `kind`, and returns the name.
///
/// `serve` is called for each connection of root or of this process's user, on a thread
/// of its own, for at most `most` connections at a time. Further connections are closed.
///
/// # Errors
/// If the system has no socket or thread for it.
pub fn listen(
    kind: &'static str,
    most: usize,
    serve: impl Fn(UnixStream, Peer) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<String> {
    let name = format!("{kind}-{:032x}", rand::random::<u128>());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let reception = Reception {
        kind,
        most,
        serve: Arc::new(serve),
        places: Arc::new(()),
    };
    std::thread::Builder::new()
        .name(kind.into())
        .spawn(move || reception.accept_all(&listener))?;
    Ok(name)
}

struct Reception<S> {
    kind: &'static str,
    most: usize,
    serve: Arc<S>,
    /// One reference here, and one for each connection.
    places: Arc<()>,
}

impl<S: Fn(UnixStream, Peer) -> io::Result<()> + Send + Sync + 'static> Reception<S> {
    fn accept_all(&self, listener: &UnixListener) {
        for connection in listener.incoming() {
            match connection {
                Ok(connection) => self.admit(connection),
                Err(error) => {
                    tracing::warn!(kind = self.kind, %error, "cannot accept a connection");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Starts a thread for the connection, or closes it.
    fn admit(&self, connection: UnixStream) {
        let kind = self.kind;
        let Ok((user, process)) = varve_fuse::handover::peer(&connection) else {
            return;
        };
        if !is_permitted(user) {
            tracing::debug!(
                kind,
                user,
                process,
                "a connection of another user is closed"
            );
            return;
        }
        if Arc::strong_count(&self.places) > self.most {
            tracing::warn!(kind, process, most = self.most, "too many connections");
            return;
        }
        let (serve, place) = (Arc::clone(&self.serve), Arc::clone(&self.places));
        let started = std::thread::Builder::new()
            .name(kind.into())
            .spawn(move || {
                let _place = place;
                if let Err(error) = serve(connection, Peer { user, process }) {
                    tracing::debug!(kind, %error, "a connection ended");
                }
            });
        if let Err(error) = started {
            tracing::warn!(kind, %error, "no thread for a connection");
        }
    }
}

/// True for root and for the user that this process runs as.
fn is_permitted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn connect(name: &str) -> UnixStream {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        UnixStream::connect_addr(&address).unwrap()
    }

    #[test]
    fn connections_beyond_the_bound_are_closed_and_places_come_back() {
        let serve = |mut connection: UnixStream, _| {
            connection.write_all(b"here")?;
            connection.read(&mut [0]).map(drop)
        };
        let name = listen("varve-test", 2, serve).unwrap();
        let greeting = |connection: &mut UnixStream| {
            let mut text = [0; 4];
            connection.read_exact(&mut text).map(|()| text)
        };
        let mut inside = [connect(&name), connect(&name)];
        for connection in &mut inside {
            assert_eq!(&greeting(connection).unwrap(), b"here");
        }
        assert!(greeting(&mut connect(&name)).is_err(), "a third one");
        drop(inside);
        // Their threads end soon.
        let end = std::time::Instant::now() + Duration::from_secs(30);
        while greeting(&mut connect(&name)).is_err() {
            assert!(
                std::time::Instant::now() < end,
                "the places do not come back"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn root_and_the_own_user_are_permitted() {
        assert!(is_permitted(0) && is_permitted(rustix::process::geteuid().as_raw()));
        assert!(!is_permitted(65_534));
    }
}
