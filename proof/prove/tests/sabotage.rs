//! The log on a faulty device. The explorer must notice every such fault. Otherwise a
//! passing run on the log means nothing.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use varve_device::{Clock, Device, Geometry, Result};
use varve_prove::explorer::{Explorer, Plan};
use varve_prove::mounted::{Mounted, Subject};
use varve_prove::random::announce_seed;
use varve_prove::subjects::Log;

/// The fault of the device, below the log and above the recorder.
#[derive(Clone, Copy, Debug)]
enum Sabotage {
    /// Flushes do nothing.
    NoFlush,
    /// Every third flush does nothing.
    SomeFlushes,
    /// Every fifth write is lost.
    LostWrites,
    /// The last blocks of long writes are lost.
    ShortWrites,
    /// One bit of every fourth write is wrong.
    WrongBits,
    /// Every sixth write is one unit too far.
    Misdirected,
}

#[derive(Debug)]
struct Saboteur {
    inner: Arc<dyn Device>,
    sabotage: Sabotage,
    count: AtomicU64,
}

impl Device for Saboteur {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let mut data: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.to_vec()).collect();
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut offset = offset;
        match self.sabotage {
            Sabotage::LostWrites if count % 5 == 4 => return Ok(()),
            Sabotage::ShortWrites if data.len() > 12288 => data.truncate(data.len() - 8192),
            Sabotage::WrongBits if count % 4 == 3 => data[100] ^= 4,
            Sabotage::Misdirected if count % 6 == 5 => {
                let last = self.geometry().size - data.len() as u64;
                offset = (offset + 4096).min(last);
            }
            _ => {}
        }
        self.inner.write(offset, &[IoSlice::new(&data)])
    }

    fn flush(&self) -> Result<()> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        match self.sabotage {
            Sabotage::NoFlush => Ok(()),
            Sabotage::SomeFlushes if count % 3 == 2 => Ok(()),
            _ => self.inner.flush(),
        }
    }

    fn name(&self) -> String {
        format!("{:?}", self.sabotage)
    }
}

struct Sabotaged(Sabotage, Log);

impl Subject for Sabotaged {
    fn format(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> varve_fs::Result<()> {
        self.1.format(device, clock)
    }

    fn mount(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> varve_fs::Result<Box<dyn Mounted>> {
        let count = AtomicU64::new(seed % 7);
        let device = Saboteur {
            inner: device,
            sabotage: self.0,
            count,
        };
        self.1.mount(Arc::new(device), clock, seed)
    }

    fn check(&self, device: Arc<dyn Device>) -> Vec<String> {
        self.1.check(device)
    }

    fn device_bytes(&self) -> u64 {
        self.1.device_bytes()
    }
}

#[test]
fn every_sabotage_is_noticed() {
    let seed = announce_seed("every_sabotage_is_noticed", 1);
    let plan = Plan {
        patience: Duration::from_secs(2),
        ..Plan::quick(seed)
    };
    let mut missed = Vec::new();
    for sabotage in [
        Sabotage::NoFlush,
        Sabotage::SomeFlushes,
        Sabotage::LostWrites,
        Sabotage::ShortWrites,
        Sabotage::WrongBits,
        Sabotage::Misdirected,
    ] {
        let subject = Sabotaged(sabotage, Log::default());
        let explorer = Explorer::new(&subject);
        match (0..20).find_map(|index| explorer.explore_generated(index, 40, &plan).err()) {
            Some(failure) => eprintln!("--- {sabotage:?}\n{failure}"),
            None => missed.push(sabotage),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
