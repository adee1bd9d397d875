//! A small client, and a server in the background, for tests. The client is simple on
//! purpose: it sends exactly the bytes given.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use varve_device::Device;
use varve_nbd::protocol::{
    CHUNK_MAGIC, Chunk, OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionHeader, OptionReply, REQUEST_MAGIC,
    RequestHeader, SIMPLE_REPLY_MAGIC, SimpleReply, answer, chunk, command, info, option,
};
use varve_nbd::{Export, ExportOptions, Limits, Listener, Server, Stopper};
use zerocopy::{FromBytes, IntoBytes};

/// A time longer than any operation takes, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A server in a thread, which is stopped when this is dropped.
pub struct Running {
    pub export: Arc<Export>,
    pub socket: PathBuf,
    pub stopper: Stopper,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    _directory: tempfile::TempDir,
}

impl Running {
    pub fn new(device: Arc<dyn Device>) -> Self {
        Running::with(device, ExportOptions::default(), Limits::default())
    }

    pub fn with(device: Arc<dyn Device>, options: ExportOptions, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nbd");
        let export = Arc::new(Export::new(device, options));
        let listeners = vec![Listener::unix(&socket).unwrap()];
        let server = Server::new(Arc::clone(&export), listeners, limits).unwrap();
        Running {
            export,
            socket,
            stopper: server.stopper(),
            thread: Some(std::thread::spawn(move || server.run())),
            _directory: directory,
        }
    }

    pub fn client(&self) -> Client {
        Client::new(UnixStream::connect(&self.socket).unwrap())
    }

    /// Stops the server, and waits for its end.
    pub fn stop(&mut self) {
        self.stopper.stop(PATIENCE);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    /// Waits until no connection is open.
    pub fn settle(&self) {
        let begun = std::time::Instant::now();
        while self.export.counters().open() > 0 {
            assert!(begun.elapsed() < PATIENCE, "connections stay open");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn count(&self, name: &str) -> u64 {
        self.export.counters().to_json()[name].as_u64().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

/// Starts a server on a loopback port.
pub fn tcp(device: Arc<dyn Device>) -> (SocketAddr, Stopper, JoinHandle<std::io::Result<()>>) {
    let listener = Listener::tcp(([127, 0, 0, 1], 0).into()).unwrap();
    let Listener::Tcp(inner) = &listener else {
        unreachable!()
    };
    let address = inner.local_addr().unwrap();
    let export = Arc::new(Export::new(device, ExportOptions::default()));
    let server = Server::new(export, vec![listener], Limits::default()).unwrap();
    let stopper = server.stopper();
    (address, stopper, std::thread::spawn(move || server.run()))
}

/// A reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    /// 0 for success.
    pub error: u32,
    /// Bytes read, or the payload of block status.
    pub bytes: Vec<u8>,
}

/// A stream of bytes.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A client.
pub struct Client {
    pub stream: Box<dyn Stream>,
    pub structured: bool,
    pub size: u64,
    pub flags: u16,
    pub block_sizes: Option<[u32; 3]>,
    cookie: u64,
    /// Replies of which some chunks were received, and where the next chunk must begin.
    partial: HashMap<u64, (Reply, Option<u64>)>,
}

impl Client {
    pub fn new(stream: impl Stream + 'static) -> Self {
        Client {
            stream: Box::new(stream),
            structured: false,
            size: 0,
            flags: 0,
            block_sizes: None,
            cookie: 0,
            partial: HashMap::new(),
        }
    }

    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Returns true if the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Exchanges greetings; `flags` are the client's.
    pub fn greet(&mut self, flags: u32) {
        assert_eq!(&self.take::<16>(), b"NBDMAGICIHAVEOPT");
        assert_eq!(self.take(), [0, 3]);
        self.stream.write_all(&flags.to_be_bytes()).unwrap();
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let header = OptionHeader {
            magic: OPTION_MAGIC.into(),
            option: option.into(),
            length: (data.len() as u32).into(),
        };
        self.stream.write_all(header.as_bytes()).unwrap();
        self.stream.write_all(data).unwrap();
    }

    /// Receives an answer to an option: its kind and data.
    pub fn answer(&mut self, option: u32) -> (u32, Vec<u8>) {
        let header = OptionReply::read_from_bytes(&self.take::<20>()[..]).unwrap();
        assert_eq!(header.magic.get(), OPTION_REPLY_MAGIC);
        assert_eq!(header.option.get(), option);
        (header.kind.get(), self.bytes(header.length.get() as usize))
    }

    /// Sends an option and receives answers up to the last one.
    pub fn ask(&mut self, option: u32, data: &[u8]) -> (u32, Vec<(u32, Vec<u8>)>) {
        self.send_option(option, data);
        let mut before = Vec::new();
        loop {
            let (kind, data) = self.answer(option);
            if kind == answer::ACK || kind >= 1 << 31 {
                return (kind, before);
            }
            before.push((kind, data));
        }
    }

    /// Makes the handshake, with the option GO.
    pub fn go(mut self, structured: bool, allocation: bool) -> Self {
        self.greet(3);
        if structured {
            assert_eq!(self.ask(option::STRUCTURED_REPLY, &[]).0, answer::ACK);
            self.structured = true;
        }
        if allocation {
            let data = meta("", &["base:allocation"]);
            let (end, contexts) = self.ask(option::SET_META_CONTEXT, &data);
            assert_eq!((end, contexts.len()), (answer::ACK, 1));
        }
        let (end, items) = self.ask(option::GO, &go("", &[info::BLOCK_SIZE]));
        assert_eq!(end, answer::ACK);
        for (kind, data) in items {
            assert_eq!(kind, answer::INFO);
            self.describe(&data);
        }
        self
    }

    fn describe(&mut self, data: &[u8]) {
        let number = |range: std::ops::Range<usize>| {
            let bytes = &data[range];
            bytes
                .iter()
                .fold(0u64, |number, &byte| number << 8 | u64::from(byte))
        };
        match number(0..2) as u16 {
            info::EXPORT => (self.size, self.flags) = (number(2..10), number(10..12) as u16),
            info::BLOCK_SIZE => {
                self.block_sizes = Some([
                    number(2..6) as u32,
                    number(6..10) as u32,
                    number(10..14) as u32,
                ]);
            }
            _ => {}
        }
    }

    /// Sends a request without waiting; returns its identifier.
    pub fn send(&mut self, kind: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        self.cookie += 1;
        let header = request(kind, flags, self.cookie, offset, length);
        self.stream
            .write_all(&[header.as_bytes(), data].concat())
            .unwrap();
        self.cookie
    }

    /// Receives one whole reply. `length` returns the number of bytes of a successful
    /// simple reply to the request with the given identifier.
    pub fn reply(&mut self, length: impl Fn(u64) -> usize) -> Reply {
        // Chunks of different replies may alternate.
        loop {
            let magic = u32::from_be_bytes(self.take());
            if magic == SIMPLE_REPLY_MAGIC {
                let rest: [u8; 12] = self.take();
                let whole = [&magic.to_be_bytes()[..], &rest].concat();
                let head = SimpleReply::read_from_bytes(&whole[..]).unwrap();
                let (cookie, error) = (head.cookie.get(), head.error.get());
                let length = if error == 0 { length(cookie) } else { 0 };
                assert!(length == 0 || !self.structured, "a read must be structured");
                let bytes = self.bytes(length);
                return Reply {
                    cookie,
                    error,
                    bytes,
                };
            }
            assert_eq!(magic, CHUNK_MAGIC);
            let rest: [u8; 16] = self.take();
            let whole = [&CHUNK_MAGIC.to_be_bytes()[..], &rest].concat();
            let head = Chunk::read_from_bytes(&whole[..]).unwrap();
            let cookie = head.cookie.get();
            let payload = self.bytes(head.length.get() as usize);
            let (reply, next) = self.partial.entry(cookie).or_default();
            reply.cookie = cookie;
            match head.kind.get() {
                chunk::NONE => assert!(payload.is_empty()),
                chunk::OFFSET_DATA => {
                    let at = u64::from_be_bytes(payload[..8].try_into().unwrap());
                    assert!(payload.len() > 8 && next.is_none_or(|next| next == at));
                    *next = Some(at + payload.len() as u64 - 8);
                    reply.bytes.extend(&payload[8..]);
                }
                chunk::BLOCK_STATUS => reply.bytes = payload,
                chunk::ERROR => {
                    reply.error = u32::from_be_bytes(payload[..4].try_into().unwrap());
                    let text = u16::from_be_bytes(payload[4..6].try_into().unwrap());
                    assert_eq!(payload.len(), 6 + usize::from(text));
                    assert_ne!(reply.error, 0);
                }
                other => panic!("a chunk of kind {other}"),
            }
            if head.flags.get() & chunk::FLAG_DONE != 0 {
                return self.partial.remove(&cookie).expect("just seen").0;
            }
        }
    }

    /// Sends a request and receives its reply.
    pub fn call(&mut self, kind: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Reply {
        let cookie = self.send(kind, flags, offset, length, data);
        let read = if kind == command::READ {
            length as usize
        } else {
            0
        };
        let reply = self.reply(|_| read);
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let reply = self.call(command::READ, 0, offset, length, &[]);
        assert_eq!((reply.error, reply.bytes.len()), (0, length as usize));
        reply.bytes
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let reply = self.call(command::WRITE, 0, offset, data.len() as u32, data);
        assert_eq!(reply.error, 0);
    }

    pub fn flush(&mut self) {
        assert_eq!(self.call(command::FLUSH, 0, 0, 0, &[]).error, 0);
    }
}

pub fn request(kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> RequestHeader {
    RequestHeader {
        magic: REQUEST_MAGIC.into(),
        flags: flags.into(),
        kind: kind.into(),
        cookie: cookie.into(),
        offset: offset.into(),
        length: length.into(),
    }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns the data of GO and INFO.
pub fn go(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((kinds.len() as u16).to_be_bytes());
    kinds
        .iter()
        .for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

/// Returns the data of SET_META_CONTEXT and LIST_META_CONTEXT.
pub fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}
