//! The log: the simulator of N1 and W1, whose transfers the devices serve.

use super::devices::{Devices, Purpose, Run};
use super::{Finding, Layout, System, Volume};
use crate::policy::{Reordering, Simulated};
use crate::simulator::{Age, Motion, Setup, Shape, Simulator, Transfer};
use crate::workload::Op;

/// See the module's head.
pub(super) struct Log<'a> {
    volume: Volume<'a>,
    policy: &'static str,
    simulator: Simulator<'a>,
    devices: Devices,
    measured: bool,
    transfers: Vec<Transfer>,
    reading: Run,
}

impl<'a> Log<'a> {
    pub fn new(
        volume: Volume<'a>,
        policy: Box<dyn Simulated>,
        reordering: Option<Reordering>,
    ) -> Self {
        let survey = volume.survey;
        let name = match reordering {
            Some(_) => "wolf",
            None => policy.name(),
        };
        let shape = Shape::for_utilisation(
            survey.blocks,
            survey.live_max,
            volume.segment_blocks,
            volume.utilisation,
        );
        let blocks = u64::from(shape.segments) * u64::from(shape.segment_blocks);
        let setup = Setup {
            shape,
            live_max: survey.live_max,
            policy,
            batch: 1,
            buffer_blocks: Some(2 * volume.segment_blocks as usize),
            reordering,
            age: Age::Youngest,
        };
        Log {
            simulator: Simulator::new(setup, &survey.locality),
            policy: name,
            devices: Devices::new(volume.seed, blocks),
            volume,
            measured: false,
            transfers: Vec::new(),
            reading: Run::default(),
        }
    }

    fn end_read(&mut self) {
        if let Some((slot, blocks)) = self.reading.take() {
            self.devices.serve(Purpose::Read, slot, blocks);
        }
    }

    fn serve_transfers(&mut self) {
        self.simulator.take_transfers(&mut self.transfers);
        for transfer in self.transfers.drain(..) {
            let purpose = match transfer.motion {
                Motion::Write { .. } => Purpose::Write,
                Motion::Read => Purpose::Clean,
                Motion::Clean | Motion::Death => continue,
            };
            self.devices
                .serve(purpose, transfer.slot.into(), transfer.blocks.into());
        }
    }
}

impl System for Log<'_> {
    fn run(&mut self, ops: &[Op]) {
        if !self.measured {
            return self.simulator.run(ops);
        }
        for op in ops {
            self.simulator.run(std::slice::from_ref(op));
            let Op::Read { block } = op else {
                self.end_read();
                self.serve_transfers();
                continue;
            };
            let slot = self.simulator.volume().block(*block).slot;
            // What waits in the buffer for the first time is nowhere else.
            if slot == u32::MAX {
                continue;
            }
            if let Some((slot, blocks)) = self.reading.push(slot.into()) {
                self.devices.serve(Purpose::Read, slot, blocks);
            }
        }
    }

    fn measure(&mut self) {
        self.simulator.reset();
        self.simulator.note_transfers(false);
        self.measured = true;
    }

    fn finding(&self) -> Finding {
        let counters = self.simulator.counters();
        let cleaned = counters.cleaned > 0;
        Finding {
            utilisation: self.volume.utilisation,
            layout: Layout::Log,
            policy: Some(self.policy.to_owned()),
            amplification: counters.amplification(),
            in_all: counters.amplification_in_all(),
            cleaned_at: cleaned.then(|| counters.cleaned_utilisation(self.volume.segment_blocks)),
            disk: self.devices.disk_spent,
            flash: Some(self.devices.flash_spent),
        }
    }
}
