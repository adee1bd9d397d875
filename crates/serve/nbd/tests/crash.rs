//! A virtual log disk behind the server, with a power cut at any moment: all writes
//! that a flush on any connection covered are present, on whichever connection they
//! were made.

use crate::support::{Client, Running};
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{
    CrashExplorer, Device, Geometry, Limits as CrashLimits, MemoryDevice, RecordingDevice,
};
use varve_nbd::protocol::command::*;
use varve_vlog::{FormatOptions, InOrder, Options, Vld};

const BLOCK: u64 = 1024;
const BLOCKS: u64 = 60;

/// Returns a block that begins with its version.
fn block(version: u64) -> Vec<u8> {
    let mut bytes = vec![version as u8; BLOCK as usize];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Returns the version of each block.
fn versions(device: &dyn Device) -> Vec<u64> {
    let mut bytes = vec![0; BLOCK as usize];
    (0..BLOCKS)
        .map(|nth| {
            device.read(nth * BLOCK, &mut bytes).unwrap();
            let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(
                version == 0 || bytes == block(version),
                "block {nth} is torn"
            );
            version
        })
        .collect()
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

type Recorded = Arc<InOrder<RecordingDevice<MemoryDevice>>>;

/// Makes requests on three connections, drawn from `seed`. Returns the versions after
/// each. When a request is answered, the trace gets a mark: the request's number, and
/// the highest bit if everything before it is durable.
fn story(medium: &Recorded, seed: u64) -> Vec<Vec<u64>> {
    let (vld, _) = Vld::open(Arc::clone(medium), Options::default()).unwrap();
    let server = Running::new(Arc::new(vld));
    let mut clients: Vec<Client> = (0..3).map(|_| server.client().go(true, false)).collect();
    let mut states = vec![vec![0; BLOCKS as usize]];
    let mut draw = Draw(seed);
    for nth in 1..=40u64 {
        let mut now = states.last().unwrap().clone();
        let client = draw.below(3) as usize;
        let client = &mut clients[client];
        let at = draw.below(12) * 5;
        let fua = if draw.below(6) == 0 { FLAG_FUA } else { 0 };
        let durable = match draw.below(8) {
            0..=4 => {
                let reply = client.call(WRITE, fua, at * BLOCK, BLOCK as u32, &block(nth));
                assert_eq!(reply.error, 0);
                now[at as usize] = nth;
                fua != 0
            }
            5 => {
                let reply = client.call(WRITE_ZEROES, fua, at * BLOCK, BLOCK as u32, &[]);
                assert_eq!(reply.error, 0);
                now[at as usize] = 0;
                fua != 0
            }
            _ => {
                client.flush();
                true
            }
        };
        states.push(now);
        medium.0.mark(nth | u64::from(durable) << 63);
    }
    states
}

#[test]
fn what_was_flushed_on_any_connection_survives_every_power_cut() {
    let limits = CrashLimits {
        exhaustive_writes: 4,
        random_subsets: 8,
        each_shape: 6,
        torn_writes: 1,
        torn_variants: 4,
        scattered: 2,
    };
    let mut images = 0u64;
    for seed in 1..=6 {
        eprintln!("seed {seed}");
        // Records share a block, or are stored behind their data.
        let unit = if seed % 2 == 0 { 512 } else { BLOCK as u32 };
        let geometry = Geometry {
            size: 160 << 10,
            logical_block: 512,
            physical_block: unit,
        };
        let device = RecordingDevice::new(MemoryDevice::with_geometry(geometry));
        let medium: Recorded = Arc::new(InOrder(device));
        let options = FormatOptions {
            block_bytes: BLOCK as u32,
            logical_bytes: Some(BLOCKS * BLOCK),
            volume: seed,
            anywhere: false,
        };
        Vld::format(&medium, options).unwrap();
        let base = medium.0.inner().snapshot();
        medium.0.take_trace();
        let states = story(&medium, seed);
        let trace = medium.0.take_trace();
        let mut explorer = CrashExplorer::new(&base, &trace, unit, limits);
        for stop in explorer.stops().collect::<Vec<_>>() {
            let (mut answered, mut durable) = (0, 0);
            for mark in explorer.marks(stop) {
                answered = (mark & !(1 << 63)) as usize;
                if mark >> 63 == 1 {
                    durable = answered;
                }
            }
            // The request that was pending may be present as a whole.
            let may_be = &states[durable..(answered + 2).min(states.len())];
            let flow = explorer.for_each::<()>(stop, seed, |image, description| {
                let medium = Arc::new(InOrder(MemoryDevice::from_image(&image)));
                let (vld, _) = Vld::open(medium, Options::default())
                    .unwrap_or_else(|error| panic!("{description}: {error}"));
                let found = versions(&vld);
                assert!(
                    may_be.contains(&found),
                    "{description}: {answered} answered, {durable} durable; found {found:?}"
                );
                images += 1;
                ControlFlow::Continue(())
            });
            assert!(flow.is_continue());
        }
    }
    eprintln!("{images} images");
    assert!(images > 1000, "{images}");
}
