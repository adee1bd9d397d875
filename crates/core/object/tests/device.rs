//! A device over a simulated store: durability, refusals and costs.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use varve_device::{Device, VirtualClock};
use varve_object::planted::Planted;
use varve_object::simulated::{Faults, SimulatedStore};
use varve_object::{
    Error, Holder, Listed, ObjectDevice, Opening, Settings, Store, StoreResult, Takeover,
};

const EXTENT: u64 = 64 << 10;
const SIZE: u64 = 1 << 20;

fn opening(clock: &Arc<VirtualClock>, host: &str) -> Opening {
    let sleeper = Arc::clone(clock);
    let default = Opening::default();
    Opening {
        settings: Settings {
            holder: Holder {
                host: host.to_owned(),
                ..Holder::default()
            },
            memory_bytes: 256 << 10,
            log_objects: 4,
            log_bytes: 512 << 10,
            grace: Duration::from_secs(60),
            ..default.settings
        },
        clock: Arc::clone(clock) as _,
        pause: Arc::new(move |time| sleeper.advance(time)),
        ..default
    }
}

fn made() -> (Arc<VirtualClock>, Arc<SimulatedStore>, Arc<dyn Store>) {
    let clock = Arc::new(VirtualClock::new(1_000_000_000_000, 1_000));
    let simulated = SimulatedStore::new(1, Faults::default(), Arc::clone(&clock) as _);
    let simulated = Arc::new(simulated);
    let store: Arc<dyn Store> = Arc::clone(&simulated) as _;
    ObjectDevice::create(&store, SIZE, EXTENT, &opening(&clock, "maker")).unwrap();
    (clock, simulated, store)
}

fn taken_over(clock: &Arc<VirtualClock>, host: &str) -> Opening {
    Opening {
        takeover: Takeover::Now,
        ..opening(clock, host)
    }
}

fn write(device: &ObjectDevice, offset: u64, data: &[u8]) {
    device.write(offset, &[IoSlice::new(data)]).unwrap();
}

fn block(device: &ObjectDevice, offset: u64) -> u8 {
    let mut bytes = [0; 4096];
    device.read(offset, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
    bytes[0]
}

/// A device with the bytes of an array, through writes, discards, changes of size,
/// crashes and reopenings, in a store that fails.
#[test]
fn a_device_has_the_bytes_of_an_array() {
    let first = std::env::var("VARVE_SEED").map_or(0, |seed| seed.parse().unwrap());
    println!("seeds from {first} (VARVE_SEED)");
    for seed in first..first + 60 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (clock, simulated, store) = made();
        simulated.set_faults(Faults {
            lost: 30,
            unavailable: 30,
            exists: 30,
            late: 50,
            lag: 200,
            overwrites: false,
        });
        // None where bytes were discarded: they are anything then.
        let mut now: Vec<Option<u8>> = vec![Some(0); SIZE as usize / 512];
        // The states since the last flush.
        let mut since = vec![now.clone()];
        let mut device = ObjectDevice::open(&store, &taken_over(&clock, "host")).unwrap();
        for _ in 0..150 {
            let size = device.geometry().size / 512;
            let start = random.next_u64() % size;
            let length = 1 + random.next_u64() % (size - start).min(300);
            let range = start as usize..(start + length) as usize;
            match random.next_u64() % 20 {
                0..8 => {
                    let value = random.next_u64() as u8;
                    write(&device, start * 512, &vec![value; length as usize * 512]);
                    now[range].fill(Some(value));
                    since.push(now.clone());
                }
                8..10 => {
                    device.discard(start * 512, length * 512).unwrap();
                    now[range].fill(None);
                    since.push(now.clone());
                }
                10..14 => {
                    device.flush().unwrap();
                    since = vec![now.clone()];
                }
                14 => {
                    let size = (SIZE / 512) / 2 + random.next_u64() % (SIZE / 1024);
                    device.set_size(Some(size * 512)).unwrap();
                    now.resize(size as usize, Some(0));
                    since = vec![now.clone()];
                }
                15 => {
                    match random.next_u64() % 2 {
                        0 => {
                            device.close().unwrap();
                            since = vec![now.clone()];
                        }
                        _ => std::mem::forget(device),
                    }
                    device = ObjectDevice::open(&store, &taken_over(&clock, "host")).unwrap();
                    // A crash leaves the state of the last flush, or one after it, as a
                    // writer whose memory is full makes a log object.
                    let found = sectors(&device);
                    let equals = |state: &Vec<Option<u8>>| {
                        let mut pairs = found.iter().zip(state);
                        let same = |(found, byte): (&u8, &Option<u8>)| {
                            byte.is_none_or(|byte| byte == *found)
                        };
                        found.len() == state.len() && pairs.all(same)
                    };
                    assert!(since.iter().any(equals), "VARVE_SEED={seed}");
                    now = found.into_iter().map(Some).collect();
                    since = vec![now.clone()];
                }
                _ => {
                    let found = sectors(&device);
                    for (at, byte) in now.iter().enumerate() {
                        let is = byte.is_none_or(|byte| byte == found[at]);
                        assert!(is, "sector {at}, VARVE_SEED={seed}");
                    }
                }
            }
        }
    }
}

fn sectors(device: &ObjectDevice) -> Vec<u8> {
    let size = device.geometry().size;
    let mut bytes = vec![0; size as usize];
    device.read(0, &mut bytes).unwrap();
    let sectors = bytes.chunks(512);
    sectors
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]));
            sector[0]
        })
        .collect()
}

/// A store that runs a function before the first log object is created.
struct Hook {
    store: Arc<dyn Store>,
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.store.fmt(f)
    }
}

impl Store for Hook {
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        let before = self
            .before
            .lock()
            .unwrap()
            .take_if(|_| name.contains("/log/"));
        if let Some(before) = before {
            before();
        }
        self.store.create(name, parts)
    }
    fn get(&self, name: &str) -> StoreResult<Vec<u8>> {
        self.store.get(name)
    }
    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        self.store.get_range(name, offset, buffer)
    }
    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>> {
        self.store.list(prefix, after)
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        self.store.delete(name)
    }
    fn name(&self) -> String {
        self.store.name()
    }
}

/// A new writer reads the log and sleeps, until the log object whose number it takes has
/// been deleted. Its state must have everything that was acknowledged meanwhile.
fn sleeps_before_its_fence(planted: Option<Planted>) -> u8 {
    let (clock, _, store) = made();
    let mut first = opening(&clock, "first");
    first.settings.planted = planted;
    let old = Arc::new(ObjectDevice::open(&store, &first).unwrap());
    for value in 0..10 {
        write(&old, 0, &[value; 4096]);
        old.flush().unwrap();
    }
    let working = Arc::clone(&old);
    let work = move || {
        for value in 10..100 {
            write(&working, 0, &[value; 4096]);
            working.flush().unwrap();
        }
    };
    let hook: Arc<dyn Store> = Arc::new(Hook {
        store: Arc::clone(&store),
        before: Mutex::new(Some(Box::new(work))),
    });
    let new = ObjectDevice::open(&hook, &taken_over(&clock, "second")).unwrap();
    block(&new, 0)
}

#[test]
fn a_writer_that_slept_before_its_fence_finds_what_was_acknowledged() {
    assert_eq!(sleeps_before_its_fence(None), 99);
    let mistaken = sleeps_before_its_fence(Some(Planted::MapOutlivesLog));
    assert_ne!(mistaken, 99, "the mistake is not noticed");
}

#[test]
fn another_writer_is_refused_until_the_first_one_closes() {
    let (clock, _, store) = made();
    let one = ObjectDevice::open(&store, &opening(&clock, "one")).unwrap();
    write(&one, 4096, &[1; 4096]);
    one.flush().unwrap();
    let refused = ObjectDevice::open(&store, &opening(&clock, "two")).unwrap_err();
    let Error::InUse { holder, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(holder.host, "one");
    one.close().unwrap();
    let two = ObjectDevice::open(&store, &opening(&clock, "two")).unwrap();
    assert_eq!(block(&two, 4096), 1);
    assert!(one.write(0, &[IoSlice::new(&[0; 512])]).is_ok());
    let error = one.flush().unwrap_err().to_string();
    assert!(error.contains("is closed"), "{error}");
}

/// A process of this host that was killed is no writer any more, even if its parent has
/// not waited for it.
#[test]
fn a_killed_process_of_this_host_has_ended() {
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let holder = Holder::of(child.id());
    assert!(!holder.has_ended());
    child.kill().unwrap();
    while !holder.has_ended() {
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait().unwrap();
    assert!(holder.has_ended());
    let elsewhere = Holder {
        boot: "another".to_owned(),
        ..holder
    };
    assert!(!elsewhere.has_ended());
}

#[test]
fn a_writer_that_was_taken_over_acknowledges_nothing() {
    let (clock, _, store) = made();
    let old = ObjectDevice::open(&store, &opening(&clock, "old")).unwrap();
    write(&old, 0, &[1; 4096]);
    old.flush().unwrap();
    let new = ObjectDevice::open(&store, &taken_over(&clock, "new")).unwrap();
    assert_eq!(block(&new, 0), 1);
    write(&old, 0, &[2; 4096]);
    let error = old.flush().unwrap_err().to_string();
    assert!(error.contains("host new took"), "{error}");
    assert!(old.flush().is_err(), "a failed flush stays failed");
    assert_eq!(block(&new, 0), 1);
}

/// An idle writer is taken over after a time in which it made no log object.
#[test]
fn an_idle_writer_is_taken_over() {
    let (clock, _, store) = made();
    let idle = ObjectDevice::open(&store, &opening(&clock, "idle")).unwrap();
    let waiting = Opening {
        takeover: Takeover::Idle(Duration::from_secs(60)),
        ..opening(&clock, "new")
    };
    let before = varve_device::Clock::monotonic_ns(&*clock);
    ObjectDevice::open(&store, &waiting).unwrap();
    let passed = varve_device::Clock::monotonic_ns(&*clock) - before;
    assert!(passed >= 60_000_000_000);
    write(&idle, 0, &[1; 512]);
    assert!(idle.flush().is_err());
}

#[test]
fn a_flush_is_one_request_and_an_empty_one_none() {
    let (clock, _, store) = made();
    let mut options = opening(&clock, "host");
    options.settings.log_objects = 1000;
    let device = ObjectDevice::open(&store, &options).unwrap();
    let before = device.requests();
    device.flush().unwrap();
    device.discard(0, 4096).unwrap();
    device.flush().unwrap();
    assert_eq!(device.requests(), before);
    for at in 0..10 {
        write(&device, at * 4096, &[1; 4096]);
    }
    device.flush().unwrap();
    let after = device.requests();
    assert_eq!(after.creations, before.creations + 1);
    assert_eq!((after.reads, after.lists), (before.reads, before.lists));
    // A whole extent is sent once, as an object of its own.
    write(&device, 0, &vec![2; EXTENT as usize]);
    device.flush().unwrap();
    let sent = device.requests().created_bytes - after.created_bytes;
    assert!((EXTENT..EXTENT + 1024).contains(&sent), "{sent}");
}

#[test]
fn a_store_that_lets_every_writer_win_is_refused() {
    let clock = Arc::new(VirtualClock::new(0, 1_000));
    let faults = Faults {
        overwrites: true,
        ..Faults::default()
    };
    let store: Arc<dyn Store> = Arc::new(SimulatedStore::new(1, faults, Arc::clone(&clock) as _));
    let refused = ObjectDevice::create(&store, SIZE, EXTENT, &opening(&clock, "host"));
    assert!(
        matches!(refused, Err(Error::NotCreateOnly(_, 8))),
        "{refused:?}"
    );
}

/// Bytes that are overwritten again and again do not pile up.
#[test]
fn objects_that_nothing_needs_are_deleted() {
    let (clock, simulated, store) = made();
    let device = ObjectDevice::open(&store, &opening(&clock, "host")).unwrap();
    for round in 0..400_u64 {
        for at in 0..4 {
            let place = (round * 7 + at * 3) % (SIZE / 4096) * 4096;
            write(&device, place, &[round as u8; 4096]);
        }
        device.flush().unwrap();
        clock.advance(Duration::from_secs(10));
    }
    let bytes: u64 = simulated.objects().iter().map(|(_, bytes)| bytes).sum();
    let count = simulated.objects().len();
    assert!(bytes < 3 * SIZE, "{bytes} bytes in {count} objects");
    assert!(count < 100, "{count} objects");
}

#[test]
fn damage_and_loss_are_named() {
    let (clock, simulated, store) = made();
    let device = ObjectDevice::open(&store, &opening(&clock, "host")).unwrap();
    write(&device, 0, &vec![3; EXTENT as usize]);
    device.close().unwrap();
    let found = |kind: &str| {
        let mut objects = simulated.objects().into_iter().map(|(name, _)| name);
        objects.rfind(|name| name.contains(kind)).unwrap()
    };
    let segment = found("/seg/");
    assert!(simulated.damage(&segment, |bytes| bytes[100] ^= 1));
    let reader = Opening {
        read_only: true,
        ..opening(&clock, "reader")
    };
    let device = ObjectDevice::open(&store, &reader).unwrap();
    let error = device.read(0, &mut [0; 4096]).unwrap_err().to_string();
    assert!(
        error.contains(&segment) && error.contains("checksum"),
        "{error}"
    );
    assert!(device.read(EXTENT, &mut [0; 4096]).is_ok());
    let log = found("/log/");
    for change in [1_usize, 50, 90] {
        assert!(simulated.damage(&log, |bytes| bytes[change] ^= 1));
        let error = ObjectDevice::open(&store, &reader).unwrap_err().to_string();
        assert!(error.contains(&log), "{error}");
        assert!(simulated.damage(&log, |bytes| bytes[change] ^= 1));
    }
    store.delete(&found("/map/")).unwrap();
    let error = ObjectDevice::open(&store, &reader).unwrap_err().to_string();
    assert!(
        error.contains("/map/") && error.contains("missing"),
        "{error}"
    );
}

/// Objects whose bytes were changed and whose checksum was made right: an error, or
/// another volume, and no panic.
#[test]
fn crafted_objects_are_refused_or_read() {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("VARVE_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut opened = 0;
    for _ in 0..40 {
        let (clock, simulated, store) = made();
        let device = ObjectDevice::open(&store, &opening(&clock, "host")).unwrap();
        for round in 0..20 {
            write(&device, round * 8192, &[round as u8; 4096]);
            if round % 5 == 0 {
                write(&device, 0, &vec![7; EXTENT as usize]);
            }
            device.flush().unwrap();
        }
        drop(device);
        let mut names: Vec<String> = simulated.objects().into_iter().map(|it| it.0).collect();
        names.retain(|name| !name.contains("/seg/"));
        for _ in 0..60 {
            let name = &names[(random.next_u64() % names.len() as u64) as usize];
            let (at, value) = (random.next_u64(), random.next_u64());
            let mut former = Vec::new();
            let changed = simulated.damage(name, |bytes| {
                former.clone_from(bytes);
                let body = bytes.len() - 4;
                let at = 12 + (at % (body as u64 - 12)) as usize;
                bytes[at] = match value % 4 {
                    0 => 0xff,
                    1 => 0,
                    _ => (value >> 8) as u8,
                };
                let sum = varve_device::crc32c(&bytes[..body]);
                bytes[body..].copy_from_slice(&sum.to_le_bytes());
            });
            assert!(changed);
            let reader = Opening {
                read_only: true,
                ..opening(&clock, "reader")
            };
            if let Ok(device) = ObjectDevice::open(&store, &reader) {
                opened += 1;
                let mut part = vec![0; 64 << 10];
                for at in (0..SIZE).step_by(part.len()) {
                    let _ = device.read(at, &mut part);
                }
            }
            assert!(simulated.damage(name, |bytes| *bytes = former));
        }
    }
    assert!(opened > 100, "{opened} of 2400 could be read");
}
