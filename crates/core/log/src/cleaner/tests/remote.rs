//! The four calls as strangers make them.

use super::{BLOCK, Volume, settled_file};
use crate::cleaner::client::{Client, Marks, Outside, Refusal, Step};
use crate::cleaner::wire::{Answer, Block, Request};
use crate::cleaner::{CallError, LEASE_NS};
use crate::control::claims::CleanerId;
use crate::control::{CleanerSettings, Pace};
use crate::policy::PolicyKind;
use crate::{FormatOptions, Lfs, MountOptions};
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{InodeNo, Layout};

pub(super) fn call(v: &Volume, id: u64, request: Request) -> Result<(u64, Answer), CallError> {
    v.lfs.cleaner.serve_cleaner(id, request, 77)
}

pub(super) fn join(v: &Volume) -> u64 {
    let policy = "greedy".to_owned();
    call(v, 0, Request::Wait { policy }).unwrap().0
}

pub(super) fn living(v: &Volume, id: u64, segment: u32) -> Vec<Block> {
    let (mut blocks, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let request = Request::Bmapv { segment, from: at };
        let Answer::Blocks { blocks: more, next } = call(v, id, request).unwrap().1 else {
            panic!("no blocks");
        };
        blocks.extend(more);
        from = next;
    }
    blocks
}

pub(super) fn markv(v: &Volume, id: u64, blocks: &[Block]) -> crate::cleaner::wire::Marked {
    let request = Request::Markv {
        sorted: false,
        blocks: blocks.to_vec(),
    };
    match call(v, id, request).unwrap().1 {
        Answer::Marked(marked) => marked,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stranger_cleans_a_segment() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 100);
    let (a, b) = (join(&v), join(&v));
    for &segment in &segments {
        let blocks = living(&v, a, segment);
        assert!(!blocks.is_empty());
        // Nobody else gets it, and it is not done before everything has moved.
        let taken = call(&v, b, Request::Bmapv { segment, from: 0 });
        assert!(matches!(taken, Err(CallError::Taken)), "{taken:?}");
        assert!(
            v.lfs
                .cleaner
                .candidates()
                .iter()
                .all(|c| c.segment != segment)
        );
        let early = call(&v, a, Request::Segclean { segment });
        let all = blocks.len() as u32;
        assert!(
            matches!(early, Err(CallError::StillLives(n)) if n == all),
            "{early:?} of {all}"
        );
        let mut rest = &blocks[..];
        while !rest.is_empty() {
            let marked = markv(&v, a, rest);
            assert_eq!((marked.unknown.get(), marked.damaged.get()), (0, 0));
            rest = &rest[marked.done.get() as usize..];
        }
        call(&v, a, Request::Segclean { segment }).unwrap();
        let again = call(&v, a, Request::Segclean { segment });
        assert!(matches!(again, Err(CallError::NotThis)), "{again:?}");
    }
    v.lfs.checkpoint().unwrap();
    v.lfs.checkpoint().unwrap();
    assert!(segments.iter().all(|&segment| v.is_clean(segment)));
    v.is_whole(file, 0, 100);
    let status = v.lfs.cleaner.cleaner_status();
    let cleaned: Vec<u64> = status.others.iter().map(|info| info.cleaned).collect();
    assert_eq!(cleaned, [segments.len() as u64, 0]);
    assert_eq!(status.others[0].pid, 77);
}

#[test]
fn what_strangers_make_up_is_refused_and_changes_nothing() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 20);
    let segment = segments[0];
    let before = v.lfs.statistics().groups;
    let bmapv = |segment| Request::Bmapv { segment, from: 0 };
    for nobody in [0, 1, u64::MAX] {
        let refused = call(&v, nobody, bmapv(segment));
        assert!(matches!(refused, Err(CallError::Unknown)), "{refused:?}");
    }
    let id = join(&v);
    let head = v.lfs.log.lock().end.at(0).segment.get();
    for request in [
        bmapv(u32::MAX),
        bmapv(v.lfs.geometry.segment_count),
        bmapv(head),
        Request::Bmapv { segment, from: 1 },
        Request::Segclean { segment },
        Request::Segclean { segment: u32::MAX },
    ] {
        let refused = call(&v, id, request.clone());
        assert!(
            matches!(refused, Err(CallError::NotThis)),
            "{request:?}: {refused:?}"
        );
    }
    let clean = (0..v.lfs.geometry.segment_count).find(|&s| v.is_clean(s));
    let refused = call(&v, id, bmapv(clean.unwrap()));
    assert!(matches!(refused, Err(CallError::NotThis)), "{refused:?}");
    assert!(
        v.lfs
            .control
            .shared()
            .claims
            .is_free_for(CleanerId::OWN, segment)
    );

    // Blocks of segments that are not claimed, and blocks that are not there.
    let mut blocks = living(&v, id, segment);
    let good = blocks.clone();
    for block in &mut blocks {
        block.birth = (block.birth.get() + 1).into();
    }
    blocks.push(Block {
        byte: u64::MAX.into(),
        ..good[0]
    });
    blocks.push(Block {
        byte: 0.into(),
        ..good[0]
    });
    blocks.push(Block {
        ino: 12345.into(),
        ..good[0]
    });
    blocks.push(Block {
        length: 1.into(),
        ..good[0]
    });
    let marked = markv(&v, id, &blocks);
    assert_eq!(marked.done, marked.unknown);
    assert_eq!(marked.moved.get(), 0);
    let (_, others) = (file, &segments);
    call(&v, id, Request::Release { segment }).unwrap();
    assert_eq!(markv(&v, id, &good).moved.get(), 0, "{others:?}");
    assert_eq!(v.lfs.statistics().groups, before);
    // Beyond the end there is nothing.
    living(&v, id, segment);
    let beyond = Request::Bmapv {
        segment,
        from: u32::MAX,
    };
    let (_, answer) = call(&v, id, beyond).unwrap();
    assert_eq!(
        answer,
        Answer::Blocks {
            blocks: Vec::new(),
            next: None
        }
    );
    v.is_whole(file, 0, 20);
}

#[test]
fn a_name_said_twice_moves_once_and_what_died_meanwhile_stays_dead() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 20);
    let id = join(&v);
    let blocks = living(&v, id, segments[0]);
    let data: Vec<Block> = blocks
        .iter()
        .filter(|block| block.ino.get() == file.0 && block.length.get() == BLOCK as u32)
        .copied()
        .collect();
    let twice = [&data[..2], &data[..2]].concat();
    let marked = markv(&v, id, &twice);
    assert_eq!((marked.done.get(), marked.moved.get()), (4, 2));
    // Moved: no longer there.
    assert_eq!(markv(&v, id, &data[..2]).moved.get(), 0);
    v.write(file, 0, 20);
    v.fs.sync().unwrap();
    assert_eq!(markv(&v, id, &data).moved.get(), 0);
    v.is_whole(file, 0, 20);
}

#[test]
fn a_claim_does_not_outlive_the_segment_it_was_made_for() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 60);
    let id = join(&v);
    let blocks = living(&v, id, segments[0]);
    // It dies, is reused, and filled with something else.
    v.write(file, 0, 60);
    for _ in 0..3 {
        v.checkpoint();
    }
    let filler = v.create("filler");
    for round in 0..400 {
        v.write(filler, round % 4 * 30, 30);
        v.fs.sync().unwrap();
        if v.segment(v.place(filler, round % 4 * 30)) == segments[0] {
            break;
        }
        if round % 20 == 0 {
            v.lfs.maintain().unwrap();
        }
    }
    assert_eq!(markv(&v, id, &blocks).moved.get(), 0);
    let done = call(
        &v,
        id,
        Request::Segclean {
            segment: segments[0],
        },
    );
    assert!(matches!(done, Err(CallError::NotThis)), "{done:?}");
    v.is_whole(file, 0, 60);
}

#[test]
fn a_claim_takes_no_room_from_those_who_wait_for_it() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 60);
    (0..60).step_by(2).for_each(|block| v.write(file, block, 1));
    v.checkpoint();
    let id = join(&v);
    for &segment in &segments {
        living(&v, id, segment);
    }
    let free: Vec<u32> = v
        .lfs
        .cleaner
        .candidates()
        .iter()
        .map(|c| c.segment)
        .collect();
    assert!(segments.iter().all(|segment| !free.contains(segment)));
    assert!(v.lfs.cleaner.clean_batch().unwrap() >= segments.len() as u32);
    v.lfs.checkpoint().unwrap();
    v.lfs.checkpoint().unwrap();
    assert!(segments.iter().all(|&segment| v.is_clean(segment)));
    v.is_whole(file, 0, 60);
}

#[test]
fn claims_of_the_dead_expire() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 20);
    let (dead, heir) = (join(&v), join(&v));
    living(&v, dead, segments[0]);
    v.clock.advance(Duration::from_nanos(LEASE_NS / 2));
    let policy = "greedy".to_owned();
    call(&v, heir, Request::Wait { policy }).unwrap();
    v.clock
        .advance(Duration::from_nanos(LEASE_NS / 2 + 1_000_000));
    living(&v, heir, segments[0]);
    let segment = segments[0];
    let late = call(&v, dead, Request::Segclean { segment });
    assert!(matches!(late, Err(CallError::Unknown)), "{late:?}");
    call(&v, heir, Request::Leave).unwrap();
    assert!(v.lfs.cleaner.cleaner_status().others.is_empty());
    assert!(
        v.lfs
            .cleaner
            .candidates()
            .iter()
            .any(|c| c.segment == segment)
    );
}

/// Calls within this process; time stands still.
struct Here<'v>(&'v Volume);

impl Outside for Here<'_> {
    fn call(&mut self, id: u64, request: Request) -> Result<(u64, Answer), Refusal> {
        // By way of the bytes that would travel.
        let bytes = request.encode(id);
        let (id, request) = Request::parse(&bytes).unwrap();
        let (id, answer) = self.0.lfs.cleaner.serve_cleaner(id, request, 1)?;
        Ok(Answer::parse(&answer.encode(id)).unwrap())
    }

    fn now_ns(&self) -> u64 {
        self.0.clock.monotonic_ns()
    }

    fn sleep(&mut self, time: Duration) -> bool {
        // What a mount does meanwhile.
        self.0.clock.advance(time);
        self.0.lfs.maintain().unwrap();
        true
    }
}

#[test]
fn strangers_of_every_policy_clean_while_the_mounts_own_rests() {
    for policy in [
        PolicyKind::GREEDY,
        PolicyKind::COST_BENEFIT,
        PolicyKind::COST_BENEFIT,
    ] {
        let v = Volume::new();
        let mut settings = v.lfs.cleaner.cleaner_settings();
        settings.pace.running = false;
        v.lfs.cleaner.set_cleaner(settings).unwrap();
        let files: Vec<InodeNo> = (0..4).map(|n| v.create(&format!("f{n}"))).collect();
        for round in 0..60 {
            let file = files[round % 4];
            v.write(file, (round as u64 % 7) * 16, 64);
            v.fs.sync().unwrap();
        }
        v.checkpoint();
        let segments = u64::from(v.lfs.geometry.segment_count);
        let clean = u64::from(v.clean());
        let high = (clean * 100 / segments + 12).min(90) as u8;
        let marks = Marks {
            low_percent: Some(high - 1),
            high_percent: Some(high),
            idle_ns: None,
        };
        let mut client = Client::new(Here(&v), policy, marks);
        client.run(true).unwrap();
        let done = client.done();
        assert!(
            done.segments > 0 && done.damaged == 0,
            "{policy:?}: {done:?}"
        );
        v.lfs.checkpoint().unwrap();
        v.lfs.checkpoint().unwrap();
        assert!(u64::from(v.clean()) > clean, "{policy:?}: {done:?}");
        // Enough is enough.
        let mut idle = Client::new(
            Here(&v),
            policy,
            Marks {
                low_percent: Some(1),
                high_percent: Some(2),
                idle_ns: None,
            },
        );
        assert_eq!(idle.step(false), Ok(Step::Enough));
        for (n, &file) in files.iter().enumerate() {
            assert!(n < 4);
            v.is_whole(file, 0, 64);
        }
    }
}

#[test]
fn settings_that_a_mount_cannot_follow_are_refused() {
    let v = Volume::new();
    let settings = v.lfs.cleaner.cleaner_settings();
    let refused = |change: &dyn Fn(&mut CleanerSettings)| {
        let mut wrong = settings;
        change(&mut wrong);
        let text = v.lfs.cleaner.set_cleaner(wrong).unwrap_err().to_string();
        assert_eq!(v.lfs.cleaner.cleaner_settings(), settings);
        text
    };
    assert!(refused(&|s| s.pace.low_percent = Some(0)).contains("1 to 90"));
    assert!(refused(&|s| s.pace.high_percent = Some(91)).contains("1 to 90"));
    let crossed = refused(&|s| {
        s.pace.low_percent = Some(30);
        s.pace.high_percent = Some(30);
    });
    assert!(crossed.contains("high mark"), "{crossed}");
    let device = Arc::new(MemoryDevice::new(24 << 20));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(0, 1000));
    Lfs::format(&*device, &*clock, &FormatOptions::default()).unwrap();
    let mut options = MountOptions::default();
    options.pace.high_percent = Some(91);
    let error = Lfs::mount(device, clock, options).err().unwrap();
    assert!(error.to_string().contains("1 to 90"), "{error}");
}

#[test]
fn an_idle_volume_is_cleaned_and_a_read_ends_its_idleness() {
    let v = Volume::new();
    let file = v.create("file");
    v.write(file, 0, 400);
    v.checkpoint();
    (0..400)
        .step_by(2)
        .for_each(|block| v.write(file, block, 1));
    v.checkpoint();
    let mut settings = v.lfs.cleaner.cleaner_settings();
    settings.pace = Pace {
        idle_ns: Some(5_000_000_000),
        low_percent: Some(1),
        high_percent: Some(90),
        ..Pace::default()
    };
    v.lfs.cleaner.set_cleaner(settings).unwrap();
    let gauge = v.lfs.space.cleaning_gauge();
    assert!(gauge.clean >= gauge.low && gauge.clean < gauge.high && !gauge.idle);
    v.lfs.maintain().unwrap();
    assert_eq!(v.lfs.statistics().segments_cleaned, 0);
    v.clock.advance(Duration::from_secs(6));
    let gauge = v.lfs.space.cleaning_gauge();
    assert!(gauge.idle, "{gauge:?}");
    v.lfs.maintain().unwrap();
    let cleaned = v.lfs.statistics().segments_cleaned;
    assert!(cleaned > 0);
    v.is_whole(file, 0, 400);
    // The read was a request.
    assert!(!v.lfs.space.cleaning_gauge().idle);
}
