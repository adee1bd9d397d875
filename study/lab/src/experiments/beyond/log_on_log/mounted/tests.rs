//! The real log on zones that refuse what is not in order: that it can live
//! there, and what it lacks.

use super::*;
use std::time::Duration;
use varve_device::VirtualClock;
use varve_disk::{ZoneState, ZonedDevice};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::{Lfs, MountOptions};

const BLOCK: u64 = 4096;

fn setting(holes: bool, discard: bool) -> Setting {
    Setting {
        volume_bytes: VOLUME.1.0,
        segment_bytes: VOLUME.1.1,
        policy: PolicyKind::GREEDY,
        heads: 0,
        holes,
        checkpoint_bytes: None,
        discard,
    }
}

/// A volume laid on zones that refuse.
#[derive(Debug)]
struct Laid {
    zoned: ZonedDevice<MemoryDevice>,
    shift: u64,
    size: u64,
    /// Why writes were.
    refused: Mutex<Vec<String>>,
}

impl Laid {
    fn new(setting: &Setting) -> Self {
        let flat = MemoryDevice::new(setting.volume_bytes);
        let lay = Lay::of(&Context::tiny(), setting, &flat);
        let medium = MemoryDevice::new(lay.count * lay.zone_bytes);
        let conventional = |zone| lay.is_conventional(zone);
        Laid {
            zoned: ZonedDevice::with_conventional(medium, lay.zones(), conventional).unwrap(),
            shift: lay.shift,
            size: setting.volume_bytes,
            refused: Mutex::default(),
        }
    }

    /// Why writes were refused since the last time.
    fn refused(&self) -> Vec<String> {
        std::mem::take(&mut self.refused.lock())
    }

    /// Write pointers of the zones that are partly written.
    fn open(&self) -> Vec<u64> {
        let report = self.zoned.report().into_iter();
        let open = report.filter(|zone| zone.state == ZoneState::Open);
        open.map(|zone| zone.write_pointer).collect()
    }
}

impl Device for Laid {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            ..self.zoned.geometry()
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.zoned.read(self.shift + offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let all: Vec<u8> = buffers.iter().flat_map(|part| part.to_vec()).collect();
        let zone_bytes = self.zoned.zones().expect("it has some").zone_bytes;
        let length = all.len() as u64;
        let mut rest = &all[..];
        let at = self.shift + offset;
        let written = parts(at, length, zone_bytes).try_for_each(|(offset, length)| {
            let (part, tail) = rest.split_at(length as usize);
            rest = tail;
            self.zoned.write(offset, &[IoSlice::new(part)])
        });
        if let Err(error) = &written {
            self.refused.lock().push(error.source.to_string());
        }
        written
    }

    fn flush(&self) -> Result<()> {
        self.zoned.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.zoned.discard(self.shift + offset, length)
    }

    fn name(&self) -> String {
        format!("{}, laid", self.zoned.name())
    }
}

fn again(device: &Arc<Laid>) -> (FileSystem<Lfs>, InodeNo) {
    let clock = Arc::new(VirtualClock::new(BEGIN_NS + 1_000_000_000_000, 1000));
    let options = MountOptions {
        seed: Some(1),
        holes: false,
        discard: true,
        ..MountOptions::default()
    };
    let layout = Lfs::mount(device.clone(), clock.clone(), options).unwrap();
    let fs = FileSystem::mount(Arc::new(layout), clock, Options::default()).unwrap();
    let ino = fs
        .lookup(&Caller::root(), InodeNo::ROOT, b"blocks")
        .unwrap()
        .ino;
    (fs, ino)
}

/// What the `nth` overwrite of a round writes.
fn content(round: u8, nth: u64) -> [u8; BLOCK as usize] {
    [round.wrapping_mul(31).wrapping_add(nth as u8); BLOCK as usize]
}

/// Overwrites every block twice, with a sync now and then, and reads it.
fn overwrite(fs: &FileSystem<Lfs>, ino: InodeNo, blocks: u64, round: u8) {
    // 7919 is a prime.
    let block = |nth: u64| nth * 7919 % blocks;
    for nth in 0..2 * blocks {
        let offset = block(nth) * BLOCK;
        fs.write(&Caller::root(), ino, offset, &content(round, nth))
            .unwrap();
        if nth.is_multiple_of(256) {
            fs.fsync(ino, true).unwrap();
            fs.maintain().unwrap();
        }
    }
    fs.fsync(ino, true).unwrap();
    check(fs, ino, blocks, round);
}

fn check(fs: &FileSystem<Lfs>, ino: InodeNo, blocks: u64, round: u8) {
    for nth in blocks..2 * blocks {
        let offset = nth * 7919 % blocks * BLOCK;
        let mut found = [0; BLOCK as usize];
        fs.read(ino, offset, &mut found).unwrap();
        assert!(found == content(round, nth), "round {round}, write {nth}");
    }
}

#[test]
fn the_real_log_lives_on_zones_that_refuse() {
    let setting = setting(false, true);
    let device = Arc::new(Laid::new(&setting));
    let mut log = Mounted::on(&Context::tiny(), setting, device.clone());
    let blocks = log.fill(&Context::tiny(), 40);
    let all = log.volume_blocks();
    log.overwrite(&mut Random::new(1), blocks, false, 2 * all);
    log.sync();
    log.wait(Duration::from_secs(60));
    assert!(device.zoned.resets() > 100, "{}", device.zoned.resets());
    drop(log);
    // As after a power cut of which everything had arrived.
    let (fs, ino) = again(&device);
    overwrite(&fs, ino, blocks, 1);
    fs.unmount().unwrap();
    drop(fs);
    let (fs, ino) = again(&device);
    check(&fs, ino, blocks, 1);
    overwrite(&fs, ino, blocks, 2);
    // So that the log goes on within a zone, and not at the begin of the next.
    let zone_bytes = device.zoned.zones().expect("it has some").zone_bytes;
    let ends = || {
        device
            .open()
            .iter()
            .all(|at| at % zone_bytes > zone_bytes / 2)
    };
    for nth in (blocks..2 * blocks).take_while(|_| ends()) {
        let offset = nth * 7919 % blocks * BLOCK;
        fs.write(&Caller::root(), ino, offset, &content(2, nth))
            .unwrap();
        fs.fsync(ino, true).unwrap();
    }
    assert_eq!(device.refused(), [""; 0]);
    drop(fs);
    // Something torn stands where the log was to go on: it is refused there,
    // and goes on elsewhere.
    let open = device.open();
    assert!(!open.is_empty());
    for pointer in open {
        let torn = [IoSlice::new(&[7; BLOCK as usize])];
        device.zoned.write(pointer, &torn).unwrap();
    }
    let (fs, ino) = again(&device);
    check(&fs, ino, blocks, 2);
    overwrite(&fs, ino, blocks, 3);
    let refused = device.refused();
    eprintln!("refused: {refused:?}");
    assert!((1..10).contains(&refused.len()));
    let pointer = |reason: &String| reason.contains("write pointer");
    assert!(refused.iter().all(pointer));
    fs.unmount().unwrap();
    drop(fs);
    let (fs, ino) = again(&device);
    check(&fs, ino, blocks, 3);
    assert_eq!(device.refused(), [""; 0]);
}

#[test]
fn what_is_not_told_is_not_reset_and_refused() {
    let refused = |discard| {
        let mount = Mount {
            policy: PolicyKind::GREEDY,
            hot: false,
            percent: 40,
            holes: false,
            discard,
        };
        measure(&Context::tiny(), mount, &[])[0].values["refused"]
    };
    assert_eq!(refused(true), 0.0);
    assert!(refused(false) > 0.0);
}
