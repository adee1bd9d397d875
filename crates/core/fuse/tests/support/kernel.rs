//! The kernel's side of an adapter, for tests that need no kernel.

use parking_lot::Mutex;
use std::io;
use varve_fs::MemoryLayout;
use varve_fuse::transport::{Received, Transport};
use varve_fuse::{Adapter, Errno, Outcome, Reply};

/// What the adapter makes of one request.
pub fn ask(
    adapter: &Adapter<MemoryLayout>,
    opcode: u32,
    nodeid: u64,
    body: &[u8],
) -> (Outcome, Reply) {
    let mut bytes = ((40 + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(9u64.to_ne_bytes());
    bytes.extend(nodeid.to_ne_bytes());
    bytes.extend([0; 16]);
    bytes.extend(body);
    let mut reply = Reply::new();
    let (_, outcome) = adapter.handle(&bytes, &mut reply);
    (outcome, reply)
}

/// Takes notifications: code and body.
#[derive(Default)]
pub struct Notified(pub Mutex<Vec<(i32, Vec<u8>)>>);

impl Transport for Notified {
    fn receive(&self, _: &mut [u8]) -> io::Result<Received> {
        unreachable!("nobody serves")
    }
    fn reply(&self, _: u64, _: Result<&[u8], Errno>) -> io::Result<()> {
        unreachable!("nobody serves")
    }
    fn notify(&self, code: i32, parts: [&[u8]; 2]) -> io::Result<()> {
        self.0.lock().push((code, parts.concat()));
        Ok(())
    }
}
