//! Changing the label or the UUID of a volume that is not mounted.
//!
//! The copies are written first, then, after a flush, the first block: the commit
//! point. If the power fails during that write, the copy in the last block replaces it.
//! The tag of all other structures does not change (`docs/design/resize.md`).

use crate::error::{Error, Result};
use crate::format::{Geometry, Superblock};
use crate::replay::find_superblock;
use std::io::IoSlice;
use varve_device::Device;
use varve_format::identity::{ONLY_LOG_HAS_SNAPSHOTS, Tune, not_to_be_written, padded_label};
use zerocopy::IntoBytes;

/// Changes the label or the UUID. After a power cut the volume has either the old
/// values or the new ones.
///
/// # Errors
/// `Unfit` for a label that is too long or a volume that this program must not write,
/// `NoVolume`, or errors of the device.
pub fn tune(device: &dyn Device, tune: &Tune) -> Result<Superblock> {
    let present = find_superblock(device)?;
    if let Some(reason) = not_to_be_written(present.read_only_compat.get()) {
        return Err(Error::Unfit(reason));
    }
    if tune.snapshots {
        return Err(Error::Unfit(ONLY_LOG_HAS_SNAPSHOTS.to_owned()));
    }
    let mut superblock = present;
    if let Some(label) = &tune.label {
        superblock.label = padded_label(label).map_err(Error::Unfit)?;
    }
    if let Some(uuid) = tune.uuid {
        superblock = superblock.with_uuid(uuid);
    }
    let superblock = superblock.sealed();
    if superblock.as_bytes() == present.as_bytes() {
        return Ok(present);
    }
    let geometry = Geometry::of(&superblock);
    let mut bytes = vec![0; geometry.block_bytes as usize];
    bytes[..512].copy_from_slice(superblock.as_bytes());
    let put = |block: u64| device.write(geometry.block_byte(block), &[IoSlice::new(&bytes)]);
    for group in 0..geometry.groups() {
        put(geometry.group_block(group))?;
    }
    put(geometry.last_block())?;
    device.flush()?;
    put(0)?;
    device.flush()?;
    Ok(superblock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ffs, FfsFormatOptions, FfsMountOptions, format};
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use varve_device::{Clock, CrashExplorer, Limits, MemoryDevice, RecordingDevice, VirtualClock};

    #[test]
    fn a_power_cut_leaves_the_old_name_or_the_new_one() {
        let device = Arc::new(MemoryDevice::new(16 << 20));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(0, 1));
        let options = FfsFormatOptions {
            label: "old".into(),
            ..FfsFormatOptions::default()
        };
        let before = format(&*device, &*clock, &options).unwrap();
        let base = device.snapshot();
        let recorder = RecordingDevice::new(MemoryDevice::from_image(&base));
        let tuning = Tune {
            label: Some("new".into()),
            uuid: Some([8; 16]),
            ..Tune::default()
        };
        let after = tune(&recorder, &tuning).unwrap();
        assert_eq!(after.volume_tag(), before.volume_tag());
        let trace = recorder.take_trace();
        let mut seen = [0, 0];
        for unit in [512, 4096] {
            let mut crashes = CrashExplorer::new(&base, &trace, unit, Limits::default());
            for stop in crashes.stops().collect::<Vec<_>>() {
                let _ = crashes.for_each(stop, 1, |image, _| -> ControlFlow<()> {
                    let device = Arc::new(MemoryDevice::from_image(&image));
                    let options = FfsMountOptions::default();
                    let ffs = Ffs::mount(device, Arc::clone(&clock), options).unwrap();
                    assert_eq!(ffs.stopped(), None);
                    let found = ffs.superblock().as_bytes();
                    assert!(found == before.as_bytes() || found == after.as_bytes());
                    seen[usize::from(found == after.as_bytes())] += 1;
                    ControlFlow::Continue(())
                });
            }
        }
        assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
    }
}
