//! A copy that follows a volume in use: transactions arrive whole, whenever the copy is
//! examined.

use super::*;
use crate::{VolumeOptions, admin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_device::MemoryDevice;

/// Returns a volume's device, and a copy from before any change.
fn pair() -> (Arc<MemoryDevice>, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(64 << 20));
    admin::format_on(device.clone(), &VolumeOptions::new()).unwrap();
    let copy = Arc::new(MemoryDevice::from_image(&device.snapshot()));
    (device, copy)
}

fn sum(read: impl Fn(&str) -> Result<Vec<u8>>) -> Option<u64> {
    let number = |path| read(path).ok()?.try_into().ok().map(u64::from_le_bytes);
    Some(number("/a")? + number("/b")?)
}

/// Returns the sum of the copy as it is after an interruption of its replay at this
/// moment.
fn sum_of(copy: &MemoryDevice) -> Option<u64> {
    let now = Arc::new(MemoryDevice::from_image(&copy.snapshot()));
    let mut options = VolumeOptions::new();
    let volume = admin::open_on(now, options.read_only(true)).unwrap();
    sum(|path| volume.read(path))
}

#[test]
fn transactions_arrive_whole() {
    let (device, copy) = pair();
    let volume = admin::open_on(device, &VolumeOptions::new()).unwrap();
    let fs = admin::tree(&volume).log().unwrap().clone();
    let since = copy_of(copy.clone()).unwrap().mark;
    let over = AtomicBool::new(false);
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::thread::scope(|scope| {
        let (fs, over) = (&fs, &over);
        let shipper = scope.spawn(move || ship(fs, since, &|| !over.load(Relaxed), &mut writer));
        let onto: Arc<dyn Device> = copy.clone();
        let replayer = scope.spawn(move || replay_on(onto, Box::new(reader)));
        let begin = volume.begin().unwrap();
        begin.write("/a", 1000u64.to_le_bytes()).unwrap();
        begin.write("/b", 1000u64.to_le_bytes()).unwrap();
        begin.commit().unwrap();
        let held = volume.create_file("/held").unwrap();
        volume.remove_file("/held").unwrap();
        let mut seen = 0;
        for round in 1..44u64 {
            let moved = volume.transact(|txn| {
                let a = u64::from_le_bytes(txn.read("/a")?.try_into().unwrap());
                let b = u64::from_le_bytes(txn.read("/b")?.try_into().unwrap());
                txn.write("/a", (a - round).to_le_bytes())?;
                txn.write("/b", (b + round).to_le_bytes())
            });
            moved.unwrap();
            use std::io::Write as _;
            (&held).write_all(&[7; 5000]).unwrap();
            if let Some(sum) = sum_of(&copy) {
                assert_eq!(sum, 2000, "round {round}");
                seen += 1;
            }
        }
        volume.sync().unwrap();
        over.store(true, Relaxed);
        let shipped = shipper.join().unwrap().unwrap();
        let end = replayer.join().unwrap().unwrap();
        assert!(end.failure.is_none(), "{end:?}");
        assert_eq!(end.done.to, shipped.to);
        assert!(
            end.done.groups >= 40 && seen > 0,
            "{end:?}, looked at {seen} times"
        );
        drop(held);
    });
    let last = volume.read("/a").unwrap();
    volume.close().unwrap();
    assert_eq!(sum_of(&copy), Some(2000));
    let promoted = admin::open_on(copy.clone(), &VolumeOptions::new()).unwrap();
    assert_eq!(promoted.read("/a").unwrap(), last);
    promoted.write("/own", b"change").unwrap();
    promoted.close().unwrap();
    assert!(!copy_of(copy).unwrap().has_followed);
}

#[test]
fn a_stream_that_ends_in_the_middle_is_told_with_where_the_copy_stands() {
    let (device, copy) = pair();
    let volume = admin::open_on(device, &VolumeOptions::new()).unwrap();
    let fs = admin::tree(&volume).log().unwrap().clone();
    let since = copy_of(copy.clone()).unwrap().mark;
    for file in 0..5 {
        volume
            .write(format!("/{file}"), vec![file; 50_000])
            .unwrap();
        volume.sync().unwrap();
    }
    let mut stream = Vec::new();
    let shipped = ship(&fs, since, &|| false, &mut stream).unwrap();
    assert_eq!(shipped.bytes, stream.len() as u64);
    let cut = stream[..stream.len() / 2].to_vec();
    let end = replay_on(copy.clone(), Box::new(std::io::Cursor::new(cut))).unwrap();
    assert!(
        matches!(end.failure, Some(ShipError::BadStream { .. })),
        "{end:?}"
    );
    let there = copy_of(copy.clone()).unwrap();
    assert!(there.has_followed && there.mark == end.done.to && end.done.groups > 0);
    let end = replay_on(copy.clone(), Box::new(std::io::Cursor::new(stream))).unwrap();
    assert!(end.failure.is_none() && end.done.to == shipped.to);
}
