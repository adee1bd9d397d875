//! A processor that several threads share.
//!
//! It does one thing at a time. What the kernel does for somebody goes first, in the
//! order in which it is asked for, and is not interrupted. Programs compute in turns of
//! a quantum, and the kernel may interrupt them at any time, which ends the turn: who
//! has waited for the drive goes before who only computes, as in 4.4BSD.
//!
//! Without a simulation of threads ([`super::threads`]) nobody else wants it.

use super::threads;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Clock, VirtualClock};

/// Time passes until `at_ns`; other threads, if there are any, run meanwhile.
pub(super) fn pass_until(clock: &VirtualClock, at_ns: u64) {
    let rest_ns = at_ns.saturating_sub(clock.monotonic_ns());
    match threads::here() {
        _ if rest_ns == 0 => {}
        Some(seat) => seat.hold(at_ns),
        None => clock.advance(Duration::from_nanos(rest_ns)),
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Processor {
    clock: Arc<VirtualClock>,
    quantum_ns: u64,
    wanted: Mutex<Wanted>,
}

/// Which threads want it, by their seats. Who gives it back says who has it next.
#[derive(Debug, Default)]
struct Wanted {
    holder: Option<(usize, For)>,
    kernel: VecDeque<usize>,
    programs: VecDeque<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Kernel,
    Program,
}

impl Processor {
    /// One that is idle. A program computes for `quantum_ns` if others want to.
    pub fn new(clock: Arc<VirtualClock>, quantum_ns: u64) -> Self {
        Processor {
            clock,
            quantum_ns,
            wanted: Mutex::default(),
        }
    }

    /// The kernel works for so long, once it may.
    pub fn kernel(&self, ns: u64) {
        self.take(For::Kernel);
        pass_until(&self.clock, self.clock.monotonic_ns() + ns);
        self.give_back();
    }

    /// A program computes for so long, in as many turns as it takes.
    pub fn program(&self, ns: u64) {
        let mut rest_ns = ns;
        while rest_ns > 0 {
            self.take(For::Program);
            let begun_ns = self.clock.monotonic_ns();
            // The kernel may have come since it was this one's turn.
            if self.wanted.lock().kernel.is_empty() {
                // Or until the kernel interrupts.
                pass_until(&self.clock, begun_ns + rest_ns.min(self.quantum_ns));
            }
            rest_ns -= self.clock.monotonic_ns() - begun_ns;
            self.give_back();
        }
    }

    fn take(&self, whom: For) {
        let Some(seat) = threads::here() else { return };
        let mut wanted = self.wanted.lock();
        let Some((holder, its)) = wanted.holder else {
            wanted.holder = Some((seat.who(), whom));
            return;
        };
        match whom {
            For::Kernel => wanted.kernel.push_back(seat.who()),
            For::Program => wanted.programs.push_back(seat.who()),
        }
        drop(wanted);
        if whom == For::Kernel && its == For::Program {
            seat.wake(holder);
        }
        seat.hold(u64::MAX);
    }

    fn give_back(&self) {
        let Some(seat) = threads::here() else { return };
        let mut wanted = self.wanted.lock();
        let kernel = wanted.kernel.pop_front().map(|next| (next, For::Kernel));
        let program = || wanted.programs.pop_front().map(|next| (next, For::Program));
        wanted.holder = kernel.or_else(program);
        if let Some((next, _)) = wanted.holder {
            seat.wake(next);
        }
    }
}
