//! A reply or request that is cut short is the last one, because the bytes behind it
//! would be taken for the rest of it.

use crate::support::{Client, PATIENCE, Running, request};
use std::io::{self, IoSlice, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use varve_device::{Device, DeviceError, Geometry, MemoryDevice, Operation, Result};
use varve_nbd::protocol::command::*;
use varve_nbd::{Ending, Export, ExportOptions, Limits, Socket, Transport, serve};
use zerocopy::IntoBytes;

const SIZE: u64 = 16 << 20;
/// Number of bytes that the server reads from the device at once.
const PIECE_BYTES: u64 = 256 << 10;

/// A socket whose closing takes a moment, as if its thread were interrupted.
struct CutLate(Socket);

impl Transport for CutLate {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.0.set_patience(patience)
    }

    fn cut(&self) {
        std::thread::sleep(Duration::from_millis(200));
        self.0.cut();
    }

    fn stop_receiving(&self) {
        self.0.stop_receiving();
    }

    fn peer(&self) -> String {
        self.0.peer()
    }
}

/// A device that fails or panics at the beginning of the fourth piece, after other
/// requests had time to be answered.
#[derive(Debug)]
struct Bad {
    memory: MemoryDevice,
    panics: bool,
}

impl Device for Bad {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if offset == 3 * PIECE_BYTES {
            std::thread::sleep(Duration::from_millis(200));
            assert!(!self.panics, "this device panics here");
            let (length, source) = (buffer.len() as u64, io::Error::from_raw_os_error(5));
            return Err(DeviceError::new(
                self,
                Operation::Read,
                offset,
                length,
                source,
            ));
        }
        self.memory.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.memory.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.memory.flush()
    }

    fn name(&self) -> String {
        "bad".into()
    }
}

/// The rest of a long simple reply must never be another reply, because a client would
/// take it for the bytes that it has requested.
#[test]
fn nothing_follows_a_simple_reply_that_failed_in_the_middle() {
    for panics in [false, true] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let device = Bad {
            memory: MemoryDevice::new(SIZE),
            panics,
        };
        let export = Arc::new(Export::new(Arc::new(device), ExportOptions::default()));
        let server = std::thread::spawn(move || {
            let transport = CutLate(Socket::Unix(theirs));
            serve(&transport, &export, &Limits::default(), &Ending::default())
        });
        let mut client = Client::new(ours).go(false, false);
        client.send(READ, 0, 0, 4 << 20, &[]);
        client.send(READ, 0, 8 << 20, 1 << 20, &[]);
        let mut got = Vec::new();
        let _ = client.stream.read_to_end(&mut got);
        assert!(!server.join().unwrap(), "it did not end well");
        // Either reply may be the first; nothing follows the torn one.
        let torn = 16 + 3 * PIECE_BYTES as usize;
        let whole = 16 + (1 << 20);
        let first = u64::from_be_bytes(got[8..16].try_into().unwrap());
        let expected = if first == 1 { torn } else { whole + torn };
        assert_eq!(got.len(), expected, "panics: {panics}");
    }
}

/// A device that counts writes; reads take a moment.
#[derive(Debug)]
struct Counting {
    memory: MemoryDevice,
    writes: AtomicU64,
}

impl Device for Counting {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        std::thread::sleep(Duration::from_micros(offset / 512));
        self.memory.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.writes.fetch_add(1, SeqCst);
        self.memory.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.memory.flush()
    }

    fn name(&self) -> String {
        "counting".into()
    }
}

/// The bytes behind a write that is too long are its payload, whatever they look like,
/// also for the threads that wait to receive.
#[test]
fn bytes_behind_a_request_that_ends_the_connection_are_no_requests() {
    let device = Arc::new(Counting {
        memory: MemoryDevice::new(SIZE),
        writes: AtomicU64::new(0),
    });
    let server = Running::new(device.clone());
    for round in 0..200 {
        let mut client = server.client().go(true, false);
        let mut bytes = Vec::new();
        for nth in 0..6 {
            let offset = (round * 7 + nth * 31) % 150 * 512;
            bytes.extend(request(READ, 0, nth, offset, 512).as_bytes());
        }
        bytes.extend(request(WRITE, 0, 8, 0, u32::MAX).as_bytes());
        for _ in 0..20 {
            bytes.extend(request(WRITE, 0, 9, 0, 512).as_bytes());
            bytes.extend([7; 512]);
        }
        client.stream.write_all(&bytes).unwrap();
        let mut away = Vec::new();
        let _ = client.stream.read_to_end(&mut away);
        server.settle();
        assert_eq!(device.writes.load(SeqCst), 0, "round {round}");
    }
}

/// A device whose first write waits until the test lets it continue.
#[derive(Debug)]
struct Gate {
    memory: MemoryDevice,
    begun: mpsc::SyncSender<()>,
    open: Mutex<mpsc::Receiver<()>>,
}

impl Device for Gate {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.memory.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.begun.send(()).unwrap();
        self.open.lock().unwrap().recv().unwrap();
        self.memory.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.memory.flush()
    }

    fn name(&self) -> String {
        "gate".into()
    }
}

#[test]
fn a_stop_in_the_middle_of_a_request_leaves_the_others_their_answers() {
    let (begun, begins) = mpsc::sync_channel(1);
    let (open, opened) = mpsc::sync_channel(1);
    let device = Gate {
        memory: MemoryDevice::new(SIZE),
        begun,
        open: Mutex::new(opened),
    };
    let server = Running::new(Arc::new(device));
    let mut client = server.client().go(true, false);
    let whole = client.send(WRITE, 0, 0, 4096, &[1; 4096]);
    begins.recv_timeout(PATIENCE).unwrap();
    let half = request(WRITE, 0, 99, 8192, 8192);
    client.stream.write_all(half.as_bytes()).unwrap();
    client.stream.write_all(&[2; 4096]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.stopper.stop(PATIENCE));
        // The server needs time to notice that the rest of the second one will not
        // arrive.
        std::thread::sleep(Duration::from_millis(300));
        open.send(()).unwrap();
        let reply = client.reply(|_| 0);
        assert_eq!((reply.cookie, reply.error), (whole, 0));
    });
    assert!(client.is_closed());
}
