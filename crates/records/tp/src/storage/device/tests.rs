//! Files on a device with former content: gaps, damaged tables, threads.

use super::*;
use varve_device::{Event, Fault, FaultDevice, FaultKind, MemoryDevice, RecordingDevice};

const SIZE: u64 = 4 << 20;
const EXTENT: u64 = 1 << 20;

/// Returns a device that is full of other bytes, except for its tables.
fn used() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let bytes = vec![0xee; (SIZE - 2 * TABLE as u64) as usize];
    device
        .write(2 * TABLE as u64, &[IoSlice::new(&bytes)])
        .unwrap();
    device
}

fn storage(device: &Arc<MemoryDevice>) -> DeviceStorage {
    DeviceStorage::new(device.clone(), EXTENT).unwrap()
}

fn content(file: &dyn StoredFile) -> Vec<u8> {
    let mut bytes = vec![1; file.size().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_gap_that_a_write_leaves_is_zero() {
    let device = used();
    let storage = storage(&device);
    let file = storage.open("file", true).unwrap();
    file.write_at(5000, b"first").unwrap();
    let mut expected = vec![0; 5000];
    expected.extend_from_slice(b"first");
    assert!(content(&*file) == expected);
    // Gaps up to a block, within one, and over several.
    for offset in [8192, 8200, 700_001] {
        file.write_at(offset, b"more").unwrap();
        expected.resize(offset as usize, 0);
        expected.extend_from_slice(b"more");
        assert!(content(&*file) == expected, "{offset}");
    }
    file.truncate(5002).unwrap();
    file.truncate(9001).unwrap();
    expected.truncate(5002);
    expected.resize(9001, 0);
    assert!(
        content(&*file) == expected,
        "what was cut off does not come back"
    );
    let beyond = file.write_at(EXTENT - 2, b"more").unwrap_err();
    assert_eq!(beyond.kind(), io::ErrorKind::StorageFull);
    let beyond = file.write_at(u64::MAX, b"more").unwrap_err();
    assert_eq!(beyond.kind(), io::ErrorKind::StorageFull);
    let next = storage.open("next", true).unwrap();
    next.write_at(0, b"next").unwrap();
    file.truncate(EXTENT).unwrap();
    assert_eq!(content(&*next), b"next");
}

/// A thread that extends a file clears nothing that another thread wrote meanwhile.
#[test]
fn many_make_a_file_longer() {
    let device = used();
    let file = storage(&device).open("file", true).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let file = &file;
            scope.spawn(move || {
                for at in 0..100u64 {
                    // Adjacent bytes of a block are written by different threads.
                    let offset = (at * 4 + thread) * 100;
                    file.write_at(offset, &[thread as u8 + 1; 60]).unwrap();
                }
            });
        }
    });
    let bytes = content(&*file);
    for (at, piece) in bytes.chunks(100).enumerate() {
        let (written, gap) = piece.split_at(60);
        assert!(
            written.iter().all(|byte| usize::from(*byte) == at % 4 + 1),
            "{at}"
        );
        assert!(gap.iter().all(|byte| *byte == 0), "{at}");
    }
}

/// Opens a device after changing a number in the first entry of its table.
fn with_number(at: usize, number: u64) -> io::Result<DeviceStorage> {
    let device = used();
    let storage = storage(&device);
    for name in ["one", "two"] {
        storage.open(name, true).unwrap().sync().unwrap();
    }
    let mut bytes = vec![0; TABLE];
    let place = Table::place(2);
    device.read(place, &mut bytes).unwrap();
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    table::seal(&mut bytes);
    device.write(place, &[IoSlice::new(&bytes)]).unwrap();
    DeviceStorage::new(device, EXTENT)
}

#[test]
fn numbers_of_the_table_are_checked() {
    let (serial, at, room, size) = (16, 24 + 32, 24 + 40, 24 + 48);
    assert!(with_number(size, EXTENT).is_ok());
    let far = u64::MAX - 4095;
    for (field, number, what) in [
        (size, EXTENT + 1, "more bytes than room"),
        (size, u64::MAX, "more bytes than room"),
        (room, SIZE, "beyond the device"),
        (room, far, "beyond the device"),
        (room, 2 * EXTENT, "where another one"),
        (room, EXTENT - 1, "at a block"),
        (at, far, "beyond the device"),
        (at, 0, "where another one"),
        (at, 2 * TABLE as u64 + EXTENT, "where another one"),
        (24, u64::from_le_bytes(*b"two\0\0\0\0\0"), "called"),
        (24, u64::from_le_bytes(*b"a\0b\0\0\0\0\0"), "no name"),
        (24, u64::MAX, "no name"),
        (serial, u64::MAX, "no serial"),
    ] {
        let error = with_number(field, number).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(what), "{error}, not: {what}");
    }
    // With more files than a table can have, the copy is invalid, and the other one is
    // used.
    let storage = with_number(12, u64::from(u32::MAX)).unwrap();
    assert_eq!(storage.list().unwrap(), ["one"]);
}

#[test]
fn a_damaged_table_is_no_empty_device() {
    let device = used();
    let broken = |copy: u64| {
        let byte = copy * TABLE as u64 + 512;
        device.write(byte, &[IoSlice::new(&[0xaa; 512])]).unwrap();
        DeviceStorage::new(device.clone(), EXTENT)
    };
    // The very first write is torn, so the device is empty.
    storage(&device).open("one", true).unwrap();
    assert_eq!(broken(1).unwrap().list().unwrap(), [""; 0]);
    storage(&device).open("one", true).unwrap();
    storage(&device).open("two", true).unwrap();
    assert_eq!(broken(0).unwrap().list().unwrap(), ["one"]);
    let error = broken(1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("neither copy"), "{error}");
}

#[test]
fn names_are_short_and_one_file_s() {
    let device = used();
    let storage = storage(&device);
    let file = storage.open("one", true).unwrap();
    file.write_at(0, b"first").unwrap();
    storage.open("two", true).unwrap();
    for name in ["", "a\0b", "a name of more than thirty-two bytes"] {
        assert!(storage.open(name, true).is_err());
        let renamed = storage.rename("one", name).unwrap_err();
        assert_eq!(renamed.kind(), io::ErrorKind::InvalidInput);
    }
    storage.rename("one", "one").unwrap();
    storage.rename("one", "two").unwrap();
    assert_eq!(storage.list().unwrap(), ["two"]);
    let again = DeviceStorage::new(device, EXTENT).unwrap();
    assert_eq!(content(&*again.open("two", false).unwrap()), b"first");
}

/// A refused file leaves nothing behind that prevents other files from being written.
#[test]
fn a_full_table_takes_no_file_and_goes_on() {
    let device = used();
    let storage = DeviceStorage::new(device.clone(), 4096).unwrap();
    let most = (0..).find(|n| storage.open(&format!("f{n}"), true).is_err());
    let most: usize = most.unwrap();
    assert_eq!(most, 292);
    let file = storage.open("f0", false).unwrap();
    file.write_at(0, b"bytes").unwrap();
    file.sync().unwrap();
    let again = DeviceStorage::new(device, 4096).unwrap();
    assert_eq!(again.list().unwrap().len(), most);
    assert_eq!(content(&*again.open("f0", false).unwrap()), b"bytes");
}

/// Makes ten files without bytes, which need more than a sector of the table.
fn ten_files(device: Arc<dyn Device>) -> (DeviceStorage, Vec<String>) {
    let storage = DeviceStorage::new(device, 4096).unwrap();
    let names: Vec<String> = (0..10).map(|number| format!("f{number}")).collect();
    for name in &names {
        storage.open(name, true).unwrap();
    }
    (storage, names)
}

/// Returns a fault by which the second copy is written up to its first sector only.
fn torn() -> Fault {
    let behind = TABLE as u64 + 512..2 * TABLE as u64;
    let torn = Fault::once(FaultKind::TornWrite).argument(512);
    torn.within(behind)
}

fn grow(storage: &DeviceStorage, name: &str) -> io::Result<()> {
    let file = storage.open(name, false)?;
    file.write_at(0, b"bytes")?;
    file.sync()
}

/// The power fails twice while a table is written: of the first write only the beginning
/// is stored, of the second only the rest, which is equal in both.
#[test]
fn a_torn_copy_of_an_earlier_life_is_not_completed() {
    let device = Arc::new(FaultDevice::new(MemoryDevice::new(SIZE), 1));
    let (storage, names) = ten_files(device.clone());
    device.inject(torn());
    assert!(grow(&storage, "f0").is_err());
    let left = device.inner().snapshot();
    let recorded = RecordingDevice::new(MemoryDevice::from_image(&left));
    let recorded = Arc::new(recorded);
    let storage = DeviceStorage::new(recorded.clone(), 4096).unwrap();
    assert_eq!(storage.open("f0", false).unwrap().size().unwrap(), 0);
    grow(&storage, "f1").unwrap();
    let again = MemoryDevice::from_image(&left);
    for event in recorded.trace() {
        let Event::Write { offset, data } = event else {
            continue;
        };
        let skip = if data.len() == TABLE { 512 } else { 0 };
        again
            .apply_write(offset + skip as u64, &data[skip..])
            .unwrap();
    }
    let storage = DeviceStorage::new(Arc::new(again), 4096).unwrap();
    assert_eq!(storage.list().unwrap(), names);
    assert_eq!(storage.open("f0", false).unwrap().size().unwrap(), 0);
}

/// A failed write of the table has no effect, and the next one uses the same place: if
/// that is torn, the newest copy is intact.
#[test]
fn a_table_that_was_not_written_costs_no_name() {
    let faults = [
        Fault::once(FaultKind::WriteError),
        Fault::once(FaultKind::FlushFails),
        Fault::once(FaultKind::FlushFails).after(1),
    ];
    for fault in faults {
        let device = Arc::new(FaultDevice::new(MemoryDevice::new(SIZE), 1));
        let (storage, names) = ten_files(device.clone());
        device.inject(fault.clone());
        assert!(storage.open("new", true).is_err(), "{fault:?}");
        let missing = storage.open("new", false).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound, "{fault:?}");
        device.inject(torn());
        assert!(storage.rename("f0", "f1").is_err(), "{fault:?}");
        let left = MemoryDevice::from_image(&device.inner().snapshot());
        let left = DeviceStorage::new(Arc::new(left), 4096).unwrap();
        for storage in [&left, &storage] {
            assert_eq!(storage.list().unwrap(), names, "{fault:?}");
        }
        storage.open("new", true).unwrap();
        let again = DeviceStorage::new(device, 4096).unwrap();
        assert_eq!(again.list().unwrap().len(), names.len() + 1, "{fault:?}");
    }
}
