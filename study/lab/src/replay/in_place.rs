//! Update in place: every block has its place, in order of address; what the
//! buffer holds is written in that order, as an elevator would.

use super::devices::{Devices, Purpose, Run};
use super::waiting::Buffer;
use super::{Finding, Layout, System, Volume};
use crate::workload::Op;

/// See the module's head.
pub(super) struct InPlace<'a> {
    volume: Volume<'a>,
    buffer: Buffer,
    devices: Devices,
    measured: bool,
    reading: Run,
}

impl<'a> InPlace<'a> {
    pub fn new(volume: Volume<'a>) -> Self {
        InPlace {
            buffer: Buffer::new(2 * volume.segment_blocks, volume.survey.blocks),
            devices: Devices::new(volume.seed, volume.survey.blocks.into()),
            volume,
            measured: false,
            reading: Run::default(),
        }
    }

    fn serve(&mut self, purpose: Purpose, run: Option<(u64, u64)>) {
        if let Some((block, blocks)) = run.filter(|_| self.measured) {
            self.devices.serve(purpose, block, blocks);
        }
    }
}

impl System for InPlace<'_> {
    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            if let Op::Read { block } = op {
                let before = self.reading.push(u64::from(*block));
                self.serve(Purpose::Read, before);
                continue;
            }
            let read = self.reading.take();
            self.serve(Purpose::Read, read);
            if !self.buffer.take(*op) {
                continue;
            }
            let mut writing = Run::default();
            for block in self.buffer.flush() {
                let before = writing.push(u64::from(block));
                self.serve(Purpose::Write, before);
            }
            self.serve(Purpose::Write, writing.take());
        }
    }

    fn measure(&mut self) {
        self.measured = true;
    }

    fn finding(&self) -> Finding {
        Finding {
            utilisation: self.volume.utilisation,
            layout: Layout::InPlace,
            policy: None,
            amplification: 1.0,
            in_all: 1.0,
            cleaned_at: None,
            disk: self.devices.disk_spent,
            flash: Some(self.devices.flash_spent),
        }
    }
}
