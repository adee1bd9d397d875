//! A test for each kind of fault, and tests of the moments at which faults strike.

use super::*;
use crate::Clock;

const SIZE: u64 = 1 << 20;

fn device(faults: impl IntoIterator<Item = Fault>) -> FaultDevice<MemoryDevice> {
    let device = FaultDevice::new(MemoryDevice::new(SIZE), 42);
    for fault in faults {
        device.inject(fault);
    }
    device
}

fn write(device: &impl Device, offset: u64, byte: u8, length: usize) -> Result<()> {
    device.write(offset, &[IoSlice::new(&vec![byte; length])])
}

fn read(device: &impl Device, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0xee; length];
    device.read(offset, &mut buffer)?;
    Ok(buffer)
}

fn errno<T: std::fmt::Debug>(result: Result<T>) -> Option<i32> {
    result.unwrap_err().source.raw_os_error()
}

const EIO: Option<i32> = Some(5);
const ENOSPC: Option<i32> = Some(28);

#[test]
fn without_faults_nothing_happens() {
    let device = device([]);
    write(&device, 512, 7, 1024).unwrap();
    device.flush().unwrap();
    assert_eq!(read(&device, 512, 1024).unwrap(), [7; 1024]);
    assert_eq!(device.report().total(), 0);
    assert_eq!(device.operations(), 3);
    assert_eq!(device.power_cut(), 0);
}

#[test]
fn read_error_once_and_on_the_nth() {
    let device = device([Fault::once(FaultKind::ReadError).after(2)]);
    for number in 1..=5 {
        assert_eq!(read(&device, 0, 512).is_err(), number == 3);
    }
    let injection = device.injections()[0];
    assert_eq!((injection.number, injection.length), (3, 512));
}

#[test]
fn read_error_sticky_by_address() {
    let device = device([Fault::sticky(FaultKind::ReadError).within(4096..4100)]);
    for _ in 0..3 {
        assert_eq!(errno(read(&device, 0, 8192)), EIO);
        assert_eq!(errno(read(&device, 4096, 512)), EIO);
        read(&device, 0, 4096).unwrap();
        read(&device, 4608, 512).unwrap();
    }
    assert_eq!(device.report().injected(FaultKind::ReadError), 6);
}

#[test]
fn bad_sector_heals_when_written() {
    let device = device([Fault::once(FaultKind::ReadError).repeat(Repeat::UntilWritten)]);
    assert_eq!(errno(read(&device, 1024, 1024)), EIO);
    assert_eq!(errno(read(&device, 1024, 512)), EIO);
    read(&device, 1536, 512).unwrap();
    write(&device, 1536, 1, 512).unwrap();
    assert_eq!(errno(read(&device, 0, 4096)), EIO);
    write(&device, 1024, 1, 512).unwrap();
    read(&device, 0, 4096).unwrap();
}

#[test]
fn short_read_delivers_a_prefix_and_fails() {
    let device = device([Fault::once(FaultKind::ShortRead).argument(600)]);
    write(&device, 0, 7, 2048).unwrap();
    let mut buffer = [0; 2048];
    let error = device.read(0, &mut buffer).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(buffer[..512], [7; 512]);
    assert_eq!(buffer[512..], [0; 1536]);
}

#[test]
fn stale_read_returns_what_was_overwritten() {
    let device = device([Fault::once(FaultKind::StaleRead)]);
    assert_eq!(read(&device, 0, 512).unwrap(), [0; 512]);
    assert_eq!(device.report().total(), 0, "nothing was stale yet");
    write(&device, 0, 1, 1024).unwrap();
    write(&device, 512, 2, 512).unwrap();
    let stale = read(&device, 0, 1024).unwrap();
    assert_eq!(stale, [[0; 512], [1; 512]].concat());
    let fresh = read(&device, 0, 1024).unwrap();
    assert_eq!(fresh, [[1; 512], [2; 512]].concat());
}

fn bits_set(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| byte.count_ones()).sum()
}

#[test]
fn bit_flip_on_read_is_transient_and_in_range() {
    let device = device([Fault::once(FaultKind::BitFlipOnRead).within(1024..1025)]);
    let flipped = read(&device, 0, 4096).unwrap();
    assert_eq!(bits_set(&flipped), 1);
    assert_eq!(bits_set(&flipped[1024..1025]), 1);
    assert_eq!(bits_set(&read(&device, 0, 4096).unwrap()), 0);
}

#[test]
fn misdirected_read_returns_another_address() {
    let device = device([Fault::once(FaultKind::MisdirectedRead).argument(4096)]);
    write(&device, 4096, 9, 512).unwrap();
    assert_eq!(read(&device, 0, 512).unwrap(), [9; 512]);
    assert_eq!(read(&device, 0, 512).unwrap(), [0; 512]);
}

#[test]
fn write_error_changes_nothing() {
    let fault = Fault::once(FaultKind::WriteError).repeat(Repeat::Times(2));
    let device = device([fault.after(1)]);
    write(&device, 0, 1, 512).unwrap();
    assert_eq!(errno(write(&device, 0, 2, 512)), EIO);
    assert_eq!(errno(write(&device, 0, 3, 512)), EIO);
    assert_eq!(read(&device, 0, 512).unwrap(), [1; 512]);
    write(&device, 0, 4, 512).unwrap();
}

#[test]
fn no_space_is_its_own_error() {
    let device = device([Fault::sticky(FaultKind::NoSpace)]);
    assert_eq!(errno(write(&device, 0, 1, 512)), ENOSPC);
    assert_eq!(errno(write(&device, 0, 1, 512)), ENOSPC);
    assert_eq!(read(&device, 0, 512).unwrap(), [0; 512]);
}

#[test]
fn torn_write_leaves_a_prefix_and_says_so() {
    let device = device([Fault::once(FaultKind::TornWrite).argument(1024)]);
    assert_eq!(errno(write(&device, 0, 5, 2048)), EIO);
    let bytes = read(&device, 0, 2048).unwrap();
    assert_eq!(bytes, [[5; 1024], [0; 1024]].concat());
}

#[test]
fn silent_torn_write_leaves_a_prefix_and_does_not() {
    let device = device([Fault::sticky(FaultKind::SilentTornWrite)]);
    for _ in 0..20 {
        write(&device, 0, 5, 2048).unwrap();
        assert_eq!(read(&device, 1536, 512).unwrap(), [0; 512]);
    }
}

#[test]
fn lost_write_is_acknowledged() {
    let device = device([Fault::once(FaultKind::LostWrite)]);
    write(&device, 0, 5, 512).unwrap();
    device.flush().unwrap();
    assert_eq!(read(&device, 0, 512).unwrap(), [0; 512]);
}

#[test]
fn misdirected_write_lands_elsewhere() {
    let device = device([
        Fault::once(FaultKind::MisdirectedWrite).argument(8192),
        Fault::sticky(FaultKind::MisdirectedWrite),
    ]);
    write(&device, 0, 5, 512).unwrap();
    assert_eq!(read(&device, 0, 512).unwrap(), [0; 512]);
    assert_eq!(read(&device, 8192, 512).unwrap(), [5; 512]);
    for _ in 0..100 {
        write(&device, SIZE - 4096, 6, 4096).unwrap();
        let tail = read(&device, SIZE - 512, 512).unwrap();
        assert_eq!(tail, [0; 512], "it never lands where it should");
    }
}

#[test]
fn bit_flip_at_rest_stays() {
    let device = device([Fault::once(FaultKind::BitFlipAtRest).within(512..1024)]);
    write(&device, 0, 0, 4096).unwrap();
    let first = read(&device, 0, 4096).unwrap();
    assert_eq!(bits_set(&first), 1);
    assert_eq!(bits_set(&first[512..1024]), 1);
    assert_eq!(read(&device, 0, 4096).unwrap(), first);
}

#[test]
fn zeroed_and_garbage_sectors_spare_the_rest() {
    for kind in [FaultKind::ZeroedSector, FaultKind::GarbageSector] {
        let device = device([Fault::once(kind)]);
        write(&device, 0, 7, 4096).unwrap();
        let bytes = read(&device, 0, 4096).unwrap();
        let hit = bytes.chunks(512).filter(|sector| *sector != [7; 512]);
        let hit: Vec<&[u8]> = hit.collect();
        assert_eq!(hit.len(), 1, "{kind:?}");
        assert_eq!(hit[0] == [0; 512], kind == FaultKind::ZeroedSector);
    }
}

#[test]
fn damage_can_be_done_at_once() {
    let device = device([]);
    write(&device, 0, 7, 2048).unwrap();
    device.flip_bit(5, 0).unwrap();
    device.zero_sector(512).unwrap();
    device.garbage_sector(1025).unwrap();
    let bytes = read(&device, 0, 2048).unwrap();
    assert_eq!((bytes[4], bytes[5]), (7, 6));
    assert_eq!(bytes[512..1024], [0; 512]);
    assert_ne!(bytes[1024..1536], [7; 512]);
    assert_eq!(bytes[1536..], [7; 512]);
    assert!(device.flip_bit(SIZE, 0).is_err());
    assert_eq!(device.report().total(), 3);
}

#[test]
fn flush_fails_once_or_for_ever() {
    let device = device([Fault::once(FaultKind::FlushFails)]).with_volatile_cache();
    write(&device, 0, 1, 512).unwrap();
    assert_eq!(errno(device.flush()), EIO);
    assert_eq!(read(&device, 0, 512).unwrap(), [1; 512]);
    assert_eq!(read(device.inner(), 0, 512).unwrap(), [0; 512]);
    device.flush().unwrap();
    assert_eq!(read(device.inner(), 0, 512).unwrap(), [1; 512]);
    device.inject(Fault::sticky(FaultKind::FlushFails));
    for _ in 0..3 {
        assert_eq!(errno(device.flush()), EIO);
    }
}

#[test]
fn flush_that_fails_may_lose_writes_for_good() {
    let device = device([Fault::once(FaultKind::FlushFailsLosing)]);
    write(&device, 0, 1, 64 * 512).unwrap();
    assert_eq!(errno(device.flush()), EIO);
    let kept = read(&device, 0, 64 * 512).unwrap();
    device.flush().unwrap();
    assert_eq!(read(device.inner(), 0, 64 * 512).unwrap(), kept);
    let sectors = kept.chunks(512).filter(|sector| sector[0] == 1).count();
    assert!((1..64).contains(&sectors), "{sectors} of 64 sectors kept");
}

#[test]
fn flush_that_lies_is_found_out_by_a_crash() {
    let device = device([Fault::once(FaultKind::FlushLies).after(1)]);
    write(&device, 0, 1, 512).unwrap();
    device.flush().unwrap();
    write(&device, 0, 2, 512).unwrap();
    write(&device, 512, 2, 512).unwrap();
    device.flush().unwrap();
    assert_eq!(read(&device, 0, 1024).unwrap(), [2; 1024]);
    let left = MemoryDevice::from_image(&device.crash());
    assert_eq!(read(&left, 0, 1024).unwrap(), [[1; 512], [0; 512]].concat());
    assert_eq!(read(&device, 0, 512).unwrap(), [1; 512]);
}

#[test]
fn discard_error_leaves_the_bytes() {
    let device = device([Fault::once(FaultKind::DiscardError)]).with_volatile_cache();
    write(&device, 0, 3, 512).unwrap();
    assert_eq!(errno(device.discard(0, 512)), EIO);
    assert_eq!(read(&device, 0, 512).unwrap(), [3; 512]);
    device.discard(0, 512).unwrap();
    assert_eq!(read(&device, 0, 512).unwrap(), [0; 512]);
}

#[test]
fn latency_advances_the_clock_and_spares_the_request() {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let device = device([
        Fault::once(FaultKind::Latency).argument(70),
        Fault::sticky(FaultKind::Latency).argument(7),
        Fault::once(FaultKind::ReadError),
    ])
    .with_clock(clock.clone());
    assert_eq!(errno(read(&device, 0, 512)), EIO);
    assert_eq!(clock.now_ns(), 77);
    device.flush().unwrap();
    assert_eq!(clock.now_ns(), 84);
    assert_eq!(device.report().injected(FaultKind::Latency), 3);
}

#[test]
fn dead_device_stays_dead() {
    let device = device([Fault::once(FaultKind::DeadDevice).after(2)]);
    write(&device, 0, 1, 512).unwrap();
    device.flush().unwrap();
    assert_eq!(errno(read(&device, 0, 512)), EIO);
    assert_eq!(errno(write(&device, 0, 1, 512)), EIO);
    assert_eq!(errno(device.flush()), EIO);
    assert_eq!(errno(device.discard(0, 512)), EIO);
    device.clear_faults();
    assert_eq!(read(&device, 0, 512).unwrap(), [1; 512]);
}

#[test]
fn one_fault_strikes_a_request_and_the_next_waits() {
    let device = device([
        Fault::once(FaultKind::WriteError),
        Fault::once(FaultKind::NoSpace),
    ]);
    assert_eq!(errno(write(&device, 0, 1, 512)), EIO);
    assert_eq!(errno(write(&device, 0, 1, 512)), ENOSPC);
    write(&device, 0, 1, 512).unwrap();
}

#[test]
fn wrong_requests_are_refused_and_not_counted() {
    let device = device([Fault::sticky(FaultKind::ReadError)]);
    let error = read(&device, u64::MAX - 511, 512).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
    assert_eq!((device.operations(), device.report().total()), (0, 0));
}

#[test]
fn large_logical_blocks_are_hit_whole() {
    let inner = MemoryDevice::with_geometry(Geometry {
        size: SIZE,
        logical_block: 4096,
        physical_block: 4096,
    });
    let device = FaultDevice::new(inner, 1).with_volatile_cache();
    device.inject(Fault::once(FaultKind::ZeroedSector).within(5000..5001));
    write(&device, 0, 7, 12_288).unwrap();
    device.flush().unwrap();
    let bytes = read(device.inner(), 0, 12_288).unwrap();
    assert_eq!(bytes, [[7; 4096], [0; 4096], [7; 4096]].concat());
}

#[test]
fn seeds_decide_what_is_hit() {
    let run = |seed| {
        let device = FaultDevice::new(MemoryDevice::new(SIZE), seed);
        for fault in random_faults(seed, &FaultKind::ALL[..19], 60, 200) {
            device.inject(fault);
        }
        for i in 0..300u64 {
            let _ = write(&device, i * 512, i as u8, 2048);
            let _ = read(&device, i * 512 / 2, 1024);
            let _ = device.flush();
        }
        (device.injections(), device.crash().fingerprint())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!(!run(1).0.is_empty());
}
