//! A drive as the host sees it: as it is, or behind a virtual log; or an NVMe-like
//! device in its place. Each command costs the host its driver.

use super::driver::Driver;
use super::host::{COMMAND, Cpu, FIRMWARE, Host};
use super::processor::pass_until;
use super::{Disk, Overlap};
use crate::error::LabError;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Clock, Device, Geometry, MemoryDevice, Result, SECTOR, VirtualClock};
use varve_disk::{Drive, FlashDevice, FlashParameters, ReadAhead, SimulatedDisk, Times};
use varve_vlog::{
    FormatOptions, Granularity, InDrive, InOrder, LeaveEarly, Medium, Options, Policy, Recovery,
    Vld,
};

/// A virtual log disk on a simulated drive.
pub type EagerDisk = Vld<InDrive<MemoryDevice>>;

/// See the module's head.
#[derive(Debug)]
pub struct Store {
    clock: Arc<VirtualClock>,
    under: Under,
    cpu: Cpu,
    by_sectors: bool,
}

/// What the bytes are on.
#[derive(Debug)]
enum Under {
    Drive(Arc<SimulatedDisk>),
    /// At work at the same time as the host.
    Overlapping(Arc<SimulatedDisk>, Overlap, Driver),
    VirtualLog(Arc<SimulatedDisk>, Arc<EagerDisk>),
    Flash(Arc<FlashDevice>),
}

/// Where a virtual log disk puts single blocks. By default as in the paper: where
/// a block of the medium begins, and a track is filled to the threshold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Places {
    /// At any sector ([`FormatOptions::anywhere`]).
    pub anywhere: bool,
    /// The next track is taken where it is sooner.
    pub leave_early: LeaveEarly,
}

/// Where the time of a while went, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// All of it.
    pub total_ns: u64,
    /// The host's part.
    pub host_ns: u64,
    /// The drive's. That of an NVMe-like device is all transfer.
    pub drive: Times,
}

impl Store {
    /// A drive with nothing on it, and for a virtual log an empty volume as
    /// large as fits, which makes every write durable before it answers, as a
    /// drive without a write cache does. It reads whole tracks ahead (§4.2).
    /// An NVMe-like device has as many bytes as the drive.
    ///
    /// # Errors
    /// A virtual log disk cannot be made on it.
    pub fn new(
        drive: Drive,
        kind: Disk,
        places: Places,
        host: Host,
        seed: u64,
    ) -> std::result::Result<Self, LabError> {
        let clock = Arc::new(VirtualClock::new(0, 0));
        let turning = |drive: Drive| Arc::new(SimulatedDisk::new(drive, Arc::clone(&clock), seed));
        let under = match kind {
            Disk::Regular => Under::Drive(turning(drive)),
            Disk::VirtualLog => {
                let disk = turning(drive.with_read_ahead(ReadAhead::WholeTrack));
                let vld = virtual_log(&disk, places, seed)?;
                Under::VirtualLog(disk, Arc::new(vld))
            }
            Disk::Flash => {
                // Sectors as the drive's, so that layouts are the same; what is moved are
                // whole pages.
                let bytes = MemoryDevice::with_geometry(Geometry {
                    size: drive.geometry.bytes(),
                    logical_block: SECTOR as u32,
                    physical_block: SECTOR as u32,
                });
                let flash = FlashDevice::new(bytes, FlashParameters::nvme(), Arc::clone(&clock));
                Under::Flash(Arc::new(flash))
            }
        };
        let cpu = Cpu::new(host, Arc::clone(&clock));
        Ok(Store {
            clock,
            under,
            cpu,
            by_sectors: false,
        })
    }

    /// The same, and a file system writes single sectors of a virtual log disk, which
    /// writes the block anew that they are in. Fragments of 1 KB need that (V262).
    #[must_use]
    pub fn by_sectors(self) -> Self {
        Store {
            by_sectors: true,
            ..self
        }
    }

    /// The same, with host and drive at work at the same time.
    ///
    /// # Panics
    /// If it is no drive as it is: a virtual log disk's firmware is the host's.
    #[must_use]
    pub fn overlapping(self, overlap: Overlap) -> Self {
        let Under::Drive(disk) = self.under else {
            panic!("only a regular disk is at work beside its host");
        };
        let driver = Driver::new(overlap.queue_bytes);
        Store {
            cpu: self.cpu.shared(overlap.quantum_ns),
            under: Under::Overlapping(disk, overlap, driver),
            clock: self.clock,
            by_sectors: self.by_sectors,
        }
    }

    /// How host and drive overlap, if they do.
    pub fn overlap(&self) -> Option<Overlap> {
        match &self.under {
            Under::Overlapping(_, overlap, _) => Some(*overlap),
            _ => None,
        }
    }

    /// The clock of everything here.
    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// Its time.
    pub fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// The processor.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Bytes of the drive itself, which utilisation is reckoned in.
    pub fn drive_bytes(&self) -> u64 {
        match &self.under {
            Under::Flash(flash) => flash.geometry().size,
            Under::Drive(disk) | Under::Overlapping(disk, ..) | Under::VirtualLog(disk, _) => {
                disk.geometry().size
            }
        }
    }

    /// The drive itself, if it has one.
    pub fn drive(&self) -> Option<&Arc<SimulatedDisk>> {
        match &self.under {
            Under::Flash(_) => None,
            Under::Drive(disk) | Under::Overlapping(disk, ..) | Under::VirtualLog(disk, _) => {
                Some(disk)
            }
        }
    }

    /// The virtual log disk, if it is one.
    pub fn vld(&self) -> Option<&EagerDisk> {
        match &self.under {
            Under::VirtualLog(_, vld) => Some(vld),
            _ => None,
        }
    }

    /// What a file system finds that chooses places itself: a drive from inside, or an
    /// NVMe-like device, which has none. A virtual log disk chooses them itself.
    pub fn inside(&self) -> Option<Arc<dyn Medium>> {
        match &self.under {
            Under::Drive(disk) | Under::Overlapping(disk, ..) => {
                Some(Arc::new(InDrive(Arc::clone(disk))))
            }
            Under::Flash(flash) => Some(Arc::new(InOrder(Arc::clone(flash)))),
            Under::VirtualLog(..) => None,
        }
    }

    /// Time spent since the beginning.
    pub fn spent(&self) -> Spent {
        Spent {
            total_ns: self.now_ns(),
            host_ns: self.cpu.spent_ns(),
            drive: match &self.under {
                Under::Flash(flash) => Times {
                    transfer_ns: flash.spent_ns(),
                    ..Times::default()
                },
                Under::Drive(disk) | Under::Overlapping(disk, ..) | Under::VirtualLog(disk, _) => {
                    disk.statistics().times
                }
            },
        }
    }

    /// Idle time, of which a virtual log disk makes empty tracks, track by
    /// track as in the paper.
    ///
    /// # Errors
    /// The disk fails.
    pub fn idle(&self, until_ns: u64) -> std::result::Result<(), LabError> {
        if let Some(vld) = self.vld() {
            vld.compact(until_ns, Granularity::Track)
                .map_err(LabError::system)?;
        }
        self.wait(until_ns);
        Ok(())
    }

    /// Time passes until `until_ns`, if that is not past.
    pub fn wait(&self, until_ns: u64) {
        pass_until(&self.clock, until_ns);
    }

    /// Cycles of the host for a command's firmware, where that is the host's.
    fn firmware(&self) -> u64 {
        match &self.under {
            Under::Drive(_) | Under::VirtualLog(..) => FIRMWARE,
            Under::Overlapping(..) | Under::Flash(_) => 0,
        }
    }

    fn inner(&self) -> &dyn Device {
        match &self.under {
            Under::Drive(disk) | Under::Overlapping(disk, ..) => &**disk,
            Under::VirtualLog(_, vld) => vld,
            Under::Flash(flash) => flash,
        }
    }
}

/// A virtual log disk, empty and as large as fits, open.
///
/// # Errors
/// It cannot be made on such a drive.
pub fn virtual_log(
    disk: &Arc<SimulatedDisk>,
    places: Places,
    seed: u64,
) -> std::result::Result<EagerDisk, LabError> {
    let medium = InDrive(Arc::clone(disk));
    let format = FormatOptions {
        block_bytes: super::BLOCK as u32,
        logical_bytes: None,
        volume: seed,
        anywhere: places.anywhere,
    };
    Vld::format(&medium, format).map_err(LabError::system)?;
    let (vld, _) = open_virtual_log(disk, places, seed)?;
    Ok(vld)
}

/// Opens what [`virtual_log`] made.
///
/// # Errors
/// There is none, or it is damaged.
pub fn open_virtual_log(
    disk: &Arc<SimulatedDisk>,
    places: Places,
    seed: u64,
) -> std::result::Result<(EagerDisk, Recovery), LabError> {
    let options = Options {
        policy: Policy {
            leave_early: places.leave_early,
            ..Policy::default()
        },
        synchronous: true,
        seed,
        ..Options::default()
    };
    Vld::open(InDrive(Arc::clone(disk)), options).map_err(LabError::system)
}

impl std::ops::Sub for Spent {
    type Output = Spent;

    fn sub(self, earlier: Spent) -> Spent {
        Spent {
            total_ns: self.total_ns - earlier.total_ns,
            host_ns: self.host_ns - earlier.host_ns,
            drive: self.drive - earlier.drive,
        }
    }
}

impl Device for Store {
    fn geometry(&self) -> Geometry {
        let geometry = self.inner().geometry();
        Geometry {
            physical_block: match self.by_sectors {
                true => geometry.logical_block,
                false => geometry.physical_block,
            },
            ..geometry
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let Under::Overlapping(disk, overlap, _) = &self.under else {
            self.cpu.work(COMMAND + self.firmware());
            return self.inner().read(offset, buffer);
        };
        let mut end_ns = 0;
        for (at, piece) in (offset..)
            .step_by(overlap.command_bytes)
            .zip(buffer.chunks_mut(overlap.command_bytes))
        {
            self.cpu.work(COMMAND);
            end_ns = disk.read_by(at, piece)?;
        }
        pass_until(&self.clock, end_ns);
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        if let Under::Overlapping(disk, overlap, driver) = &self.under {
            let bytes: Vec<u8> = buffers
                .iter()
                .flat_map(|buffer| buffer.iter().copied())
                .collect();
            for (at, piece) in (offset..)
                .step_by(overlap.command_bytes)
                .zip(bytes.chunks(overlap.command_bytes))
            {
                self.cpu.work(COMMAND);
                driver.write(disk, at, piece)?;
            }
            return Ok(());
        }
        self.cpu.work(COMMAND + self.firmware());
        self.inner().write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        if let Under::Overlapping(disk, _, driver) = &self.under {
            driver.flush(disk);
        }
        self.inner().flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.inner().discard(offset, length)
    }

    fn name(&self) -> String {
        self.inner().name()
    }
}
