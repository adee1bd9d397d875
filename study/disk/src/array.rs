//! Striped simulated disks that work at the same time.
//!
//! A request is split as [`StripedDevice`](varve_device::StripedDevice) splits
//! it; every member takes up its part at the same instant, and the array
//! answers when the last of them does (Seltzer 1992, §3.1.1). No thread is
//! involved, so time is as exact as a single disk's.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use varve_device::{
    Clock, Device, Geometry, MemoryDevice, Operation, Result, SECTOR, StripeError, Stripes,
    VirtualClock, check_request, gather, total_length,
};

use crate::disk::{DiskStatistics, SimulatedDisk};
use crate::drive::{Access, Drive};
use crate::mechanism::Request;

/// Simulated disks as one, on one clock.
#[derive(Debug)]
pub struct SimulatedArray {
    members: Vec<SimulatedDisk<MemoryDevice>>,
    stripes: Stripes,
    clock: Arc<VirtualClock>,
    size: u64,
    /// Held while the clock is read and moved.
    turn: Mutex<()>,
}

impl SimulatedArray {
    /// `members` drives of one kind, not in phase, striped in units of
    /// `unit_bytes`.
    ///
    /// # Errors
    /// When there is no member, or the unit is not whole sectors or is larger
    /// than the drive.
    pub fn new(
        drive: &Drive,
        members: usize,
        unit_bytes: u64,
        clock: Arc<VirtualClock>,
        seed: u64,
    ) -> std::result::Result<Self, StripeError> {
        let size_bytes = drive.geometry.bytes();
        let stripes = Stripes::new(members, unit_bytes);
        let stripes = stripes.filter(|_| unit_bytes.is_multiple_of(SECTOR));
        let Some(stripes) = stripes else {
            return Err(match members {
                0 => StripeError::NoMembers,
                _ => StripeError::Unit {
                    member: 0,
                    device: drive.name.to_owned(),
                    unit_bytes,
                    block_bytes: SECTOR as u32,
                },
            });
        };
        if size_bytes < unit_bytes {
            return Err(StripeError::TooSmall {
                member: 0,
                device: drive.name.to_owned(),
                size_bytes,
            });
        }
        let disk = |member| {
            let seed = seed.wrapping_add(member as u64);
            SimulatedDisk::new(drive.clone(), Arc::clone(&clock), seed)
        };
        Ok(SimulatedArray {
            members: (0..members).map(disk).collect(),
            stripes,
            size: size_bytes / unit_bytes * unit_bytes * members as u64,
            turn: Mutex::new(()),
            clock,
        })
    }

    /// The disks.
    pub fn members(&self) -> &[SimulatedDisk<MemoryDevice>] {
        &self.members
    }

    /// What each disk did.
    pub fn statistics(&self) -> Vec<DiskStatistics> {
        self.members.iter().map(SimulatedDisk::statistics).collect()
    }

    /// All members at work on their parts, from now until the last is done.
    fn serve(&self, access: Access, offset: u64, length: u64) {
        let _turn = self.turn.lock();
        let now = self.clock.monotonic_ns();
        let mut end = now;
        for run in self.stripes.runs(offset, length) {
            let request = Request {
                access,
                sector: run.offset / SECTOR,
                sectors: run.length / SECTOR,
                inside: false,
            };
            let member = &self.members[run.member];
            end = end.max(member.serve_at(now, request).end_ns);
            match access {
                Access::Read => member.counters().count_read(run.length),
                Access::Write => member.counters().count_write(run.length),
            }
        }
        self.clock.advance(Duration::from_nanos(end - now));
    }
}

impl Device for SimulatedArray {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            logical_block: SECTOR as u32,
            physical_block: SECTOR as u32,
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        check_request(self, Operation::Read, offset, length)?;
        self.serve(Access::Read, offset, length);
        let mut rest = buffer;
        for piece in self.stripes.pieces(offset, length) {
            let (part, tail) = rest.split_at_mut(piece.length as usize);
            self.members[piece.member]
                .inner()
                .read(piece.offset, part)?;
            rest = tail;
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        self.serve(Access::Write, offset, length);
        let bytes = gather(buffers);
        let mut rest = &bytes[..];
        for piece in self.stripes.pieces(offset, length) {
            let (part, tail) = rest.split_at(piece.length as usize);
            let keeper = self.members[piece.member].inner();
            keeper.write(piece.offset, &[IoSlice::new(part)])?;
            rest = tail;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.members.iter().try_for_each(Device::flush)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        for run in self.stripes.runs(offset, length) {
            self.members[run.member].discard(run.offset, run.length)?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        let count = self.members.len();
        let member = self.members.first().map(Device::name).unwrap_or_default();
        format!("array of {count} {member}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;

    const UNIT: u64 = 24 << 10;

    fn array(members: usize) -> SimulatedArray {
        let clock = Arc::new(VirtualClock::new(0, 0));
        SimulatedArray::new(&drives::wren_iv_simulated(), members, UNIT, clock, 5).unwrap()
    }

    #[test]
    fn eight_disks_stream_as_table_3_1_says() {
        // Seltzer 1992, table 3-1: 2.8 GB and 10.8 MB/s from eight drives.
        let array = array(8);
        assert_eq!(array.geometry().size, 8 * 1600 * 9 * (24 << 10));
        let bytes = 8 * 20 * 9 * (24u64 << 10);
        array.read(0, &mut vec![0; bytes as usize]).unwrap();
        let seconds = array.clock.monotonic_ns() as f64 / 1e9;
        let rate = bytes as f64 / seconds / f64::from(1 << 20);
        assert!((10.7..10.95).contains(&rate), "{rate} MB/s");
    }

    #[test]
    fn a_striped_request_takes_as_long_as_its_slowest_part() {
        let array = array(4);
        array
            .write(0, &[IoSlice::new(&vec![3; 4 * UNIT as usize])])
            .unwrap();
        let times = array.statistics();
        let longest = times.iter().map(|disk| disk.times.total_ns()).max();
        assert_eq!(longest, Some(array.clock.monotonic_ns()));
        assert!(times.iter().all(|disk| disk.requests.bytes_written == UNIT));
        let mut read = vec![0; 2 * UNIT as usize];
        array.read(UNIT / 2, &mut read).unwrap();
        assert!(read.iter().all(|&byte| byte == 3));
    }

    #[test]
    fn bad_arrays_are_refused() {
        let clock = Arc::new(VirtualClock::new(0, 0));
        let drive = drives::hp97560();
        let build = |members, unit| SimulatedArray::new(&drive, members, unit, clock.clone(), 1);
        assert_eq!(build(0, UNIT).unwrap_err(), StripeError::NoMembers);
        assert!(matches!(
            build(2, 700).unwrap_err(),
            StripeError::Unit { .. }
        ));
        assert!(matches!(build(2, 0).unwrap_err(), StripeError::Unit { .. }));
        let huge = build(2, 1 << 40).unwrap_err();
        assert!(matches!(huge, StripeError::TooSmall { .. }));
    }
}
