//! Two cleaners of other processes, the mount's own under a changing policy,
//! and a writer: a segment has one cleaner at a time, but for whoever waits for
//! room, and nothing is moved over newer data.

use crate::stage::{Stage, create, explore, fill, find, fsync, versions};
use std::sync::Arc;
use std::time::Duration;
use varve_fs::Layout;
use varve_lfs::Lfs;
use varve_lfs::cleaner::CallError;
use varve_lfs::cleaner::client::{Client, Marks, Outside, Refusal};
use varve_lfs::cleaner::wire::{Answer, Request};
use varve_lfs::policy::PolicyKind;

const BLOCKS: usize = 4;

/// What a cleaner of another process knows of the mount, without a kernel between.
struct Beside<'a> {
    layout: &'a Lfs,
    naps: u32,
}

impl Outside for Beside<'_> {
    fn call(&mut self, id: u64, request: Request) -> Result<(u64, Answer), Refusal> {
        Ok(self.layout.cleaner().serve_cleaner(id, request, 1)?)
    }

    fn now_ns(&self) -> u64 {
        self.naps.into()
    }

    fn sleep(&mut self, _time: Duration) -> bool {
        self.naps += 1;
        self.naps < 10
    }
}

/// Such a cleaner, for a few segments, wherever they are.
fn clean_beside(layout: &Lfs) {
    let marks = Marks {
        low_percent: Some(98),
        high_percent: Some(99),
        idle_ns: None,
    };
    let outside = Beside { layout, naps: 0 };
    let mut cleaner = Client::new(outside, PolicyKind::ALL[0], marks);
    for _ in 0..4 {
        if let Err(Refusal::Failed(error)) = cleaner.step(true) {
            panic!("{error}");
        }
    }
}

/// Claims whatever it gets, holds it for a moment, and lets go again. Nobody
/// else has it meanwhile.
fn claim_and_leave(layout: &Arc<Lfs>) {
    let policy = "greedy".to_owned();
    // Too many calls at a time are refused, as they should be.
    let Ok((id, _)) = layout
        .cleaner()
        .serve_cleaner(0, Request::Wait { policy }, 1)
    else {
        return;
    };
    let free = layout.cleaner().candidates();
    for segment in free.iter().take(2).map(|candidate| candidate.segment) {
        match layout
            .cleaner()
            .serve_cleaner(id, Request::Bmapv { segment, from: 0 }, 1)
        {
            Ok((_, Answer::Blocks { .. })) => {
                let others = layout.cleaner().candidates();
                assert!(others.iter().all(|other| other.segment != segment));
            }
            Ok(other) => panic!("{other:?}"),
            Err(CallError::Failed(error)) => panic!("{error}"),
            Err(_) => {}
        }
    }
    // As if killed half of the time: the claims stay.
    if id.is_multiple_of(2) {
        let _ = layout.cleaner().serve_cleaner(id, Request::Leave, 1);
    }
}

pub fn story() {
    let stage = Stage::new(1, 0);
    let inos = ["a", "b", "c"].map(|name| create(&stage.system, name));
    for ino in inos {
        fill(&stage.system, ino, BLOCKS, 1);
    }
    stage.system.checkpoint().unwrap();
    let filler = create(&stage.system, "filler");
    fill(&stage.system, filler, 40, 5);
    fill(&stage.system, inos[0], BLOCKS, 2);
    stage.system.sync().unwrap();
    let stranger = stage.spawn(|system, _| clean_beside(system.layout()));
    let claimer = stage.spawn(|system, _| claim_and_leave(system.layout()));
    let own = stage.spawn(|system, _| {
        // Ahead of need, which heeds claims; then as one who waits for room.
        let mut settings = system.layout().cleaner().cleaner_settings();
        settings.policy = PolicyKind::ALL[1];
        (settings.pace.low_percent, settings.pace.high_percent) = (Some(89), Some(90));
        system.layout().cleaner().set_cleaner(settings).unwrap();
        system.layout().maintain().unwrap();
        system.layout().checkpoint().unwrap();
        system.layout().cleaner().clean_batch().unwrap();
    });
    let writer = stage.spawn(move |system, mark| {
        for version in 2..=3 {
            fill(system, inos[1], BLOCKS, version);
            fsync(system, inos[1]);
            mark(u64::from(version));
        }
    });
    for thread in [stranger, claimer, own, writer] {
        thread.join().unwrap();
    }
    stage.system.sync().unwrap();
    stage.system.layout().checkpoint().unwrap();
    stage.system.drop_caches();
    assert_eq!(versions(&stage.system, inos[0], BLOCKS), [2; BLOCKS]);
    assert_eq!(versions(&stage.system, inos[1], BLOCKS), [3; BLOCKS]);
    assert_eq!(versions(&stage.system, inos[2], BLOCKS), [1; BLOCKS]);
    stage.cut_at_marks(|marks, system| {
        let newest = marks.iter().copied().max().unwrap_or(1).min(3) as u8;
        let seen = versions(system, find(system, "b").unwrap(), BLOCKS);
        assert!(seen.iter().all(|version| *version >= newest), "{seen:?}");
        for (name, version) in [("a", 2), ("c", 1)] {
            let ino = find(system, name).unwrap();
            assert_eq!(versions(system, ino, BLOCKS), [version; BLOCKS]);
        }
    });
}

#[test]
fn cleaners_hand_segments_to_each_other() {
    explore("cleaners_hand_segments_to_each_other", 100, story);
}
