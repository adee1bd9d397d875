//! Changing the label or the UUID of a volume that is not mounted.
//!
//! The copy in the last block is written first, then, after a flush, the first block:
//! the commit point. If the power fails during that write, the copy replaces it. The
//! tag of all other structures does not change (`docs/design/resize.md`). With two
//! copies no generations are needed, which decide between the many copies of the log.

use crate::Vlfs;
use crate::error::{Error, Result};
use crate::format::{Measures, Superblock};
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
    let present = Vlfs::find_superblock(device)?;
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
    let measures = Measures::of(&superblock);
    let mut bytes = vec![0; measures.block_bytes as usize];
    bytes[..512].copy_from_slice(superblock.as_bytes());
    for block in [measures.last_block(), 0] {
        device.write(measures.block_byte(block), &[IoSlice::new(&bytes)])?;
        device.flush()?;
    }
    Ok(superblock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VlfsFormatOptions, VlfsMountOptions, format};
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use varve_device::{Clock, CrashExplorer, Limits, MemoryDevice, RecordingDevice, VirtualClock};
    use varve_vlog::InOrder;

    #[test]
    fn a_power_cut_leaves_the_old_name_or_the_new_one() {
        let device = Arc::new(MemoryDevice::new(16 << 20));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(0, 1));
        let options = VlfsFormatOptions {
            label: "old".into(),
            ..VlfsFormatOptions::default()
        };
        let before = format(&InOrder(device.clone()), &*clock, &options).unwrap();
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
                    let medium = Arc::new(InOrder(device));
                    let options = VlfsMountOptions::default();
                    let vlfs = Vlfs::mount(medium, Arc::clone(&clock), options).unwrap();
                    assert_eq!(vlfs.stopped(), None);
                    let found = vlfs.superblock().as_bytes();
                    assert!(found == before.as_bytes() || found == after.as_bytes());
                    seen[usize::from(found == after.as_bytes())] += 1;
                    ControlFlow::Continue(())
                });
            }
        }
        assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
    }

    #[test]
    fn a_first_uuid_needs_no_feature() {
        let device = Arc::new(MemoryDevice::new(16 << 20));
        let clock = VirtualClock::new(0, 1);
        let made = format(
            &InOrder(device.clone()),
            &clock,
            &VlfsFormatOptions::default(),
        );
        let made = made.unwrap();
        let named = |uuid| {
            let tuning = Tune {
                uuid: Some(uuid),
                ..Tune::default()
            };
            tune(&*device, &tuning).unwrap()
        };
        assert_ne!(named([8; 16]).incompat, made.incompat);
        assert_eq!(named(made.uuid).as_bytes(), made.as_bytes());
        let label = Some("x".repeat(65));
        assert!(matches!(
            tune(
                &*device,
                &Tune {
                    label,
                    ..Tune::default()
                }
            ),
            Err(Error::Unfit(_))
        ));
    }
}
