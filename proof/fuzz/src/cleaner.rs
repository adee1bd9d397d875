//! Cleaners of other processes: what they send is parsed, and served on a
//! sound volume, which must stay sound.
//!
//! An input is a byte of flags and then messages, each behind its length in two
//! bytes. Cleaner 1 of a message stands for the number that the server gave.

use crate::{image, sample, walk};
use std::sync::Arc;
use varve_device::MemoryDevice;
use varve_fsck::check::{self, CheckOptions};
use varve_lfs::Lfs;
use varve_lfs::cleaner::wire::{Answer, Block, Request};

/// Messages of one input.
const MESSAGES_MAX: usize = 24;
/// What stands for the number that the server gave.
const OWN: u64 = 1;

fn device() -> Arc<MemoryDevice> {
    let sample = &sample::images()[0];
    let image = image::assemble(sample, &sample.bytes);
    Arc::new(MemoryDevice::from_image(&image))
}

/// Serves the messages one after the other.
pub fn cleaner(data: &[u8]) {
    let _ = (Request::parse(data), Answer::parse(data));
    let Some((&flags, mut rest)) = data.split_first() else {
        return;
    };
    let device = device();
    let (lfs, system) = sample::mount(device.clone(), false).expect("a sound volume");
    let mut own = OWN;
    for _ in 0..MESSAGES_MAX {
        let Some((length, behind)) = rest.split_first_chunk() else {
            break;
        };
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (message, behind) = behind.split_at(length);
        rest = behind;
        let Ok((id, request)) = Request::parse(message) else {
            continue;
        };
        assert_eq!(
            Request::parse(&request.encode(id)),
            Ok((id, request.clone()))
        );
        let id = if id == OWN { own } else { id };
        if let Ok((id, answer)) = lfs.cleaner().serve_cleaner(id, request, 1) {
            own = id;
            assert_eq!(Answer::parse(&answer.encode(id)), Ok((id, answer)));
        }
    }
    if flags & 1 != 0 {
        let _ = lfs.cleaner().clean_batch();
        let _ = system.maintain();
    }
    walk::walk(&system);
    system.unmount().expect("a sound volume");
    lfs.unmount().expect("a sound volume");
    if flags & 2 != 0 {
        let options = CheckOptions::default();
        let check = check::check(device, sample::clock(), &options).expect("a sound volume");
        assert!(check.errors.is_empty(), "{check}");
    }
}

fn input(flags: u8, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![flags];
    for message in messages {
        bytes.extend((message.len() as u16).to_le_bytes());
        bytes.extend(message);
    }
    bytes
}

/// What lives in a segment, if it can be cleaned.
fn living(lfs: &Lfs, id: u64, segment: u32) -> Option<Vec<Block>> {
    let (mut blocks, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        match lfs
            .cleaner()
            .serve_cleaner(id, Request::Bmapv { segment, from: at }, 1)
        {
            Ok((_, Answer::Blocks { blocks: more, next })) => {
                blocks.extend(more);
                from = next;
            }
            _ => return None,
        }
    }
    Some(blocks)
}

/// Cleaning some segments in earnest, and every other call.
pub fn seeds() -> Vec<Vec<u8>> {
    let (lfs, _system) = sample::mount(device(), false).expect("a sound volume");
    let wait = Request::Wait {
        policy: "greedy".into(),
    };
    let (id, _) = lfs
        .cleaner()
        .serve_cleaner(0, wait.clone(), 1)
        .expect("the first");
    let mut seeds = vec![input(
        3,
        &[
            wait.encode(0),
            Request::Usage { from: 0 }.encode(OWN),
            Request::Leave.encode(OWN),
        ],
    )];
    let segments = lfs.cleaner().candidates().into_iter().map(|c| c.segment);
    for segment in segments.take(8) {
        let Some(blocks) = living(&lfs, id, segment) else {
            continue;
        };
        let _ = lfs
            .cleaner()
            .serve_cleaner(id, Request::Release { segment }, 1);
        let markv = |sorted, some: &[Block]| {
            let blocks = some.to_vec();
            Request::Markv { sorted, blocks }.encode(OWN)
        };
        let few = &blocks[..blocks.len().min(12)];
        let bmapv = Request::Bmapv { segment, from: 0 }.encode(OWN);
        let segclean = Request::Segclean { segment }.encode(OWN);
        let release = Request::Release { segment }.encode(OWN);
        seeds.push(input(
            3,
            &[
                wait.encode(0),
                bmapv.clone(),
                markv(true, &blocks),
                segclean.clone(),
            ],
        ));
        seeds.push(input(
            2,
            &[
                wait.encode(0),
                bmapv,
                markv(false, few),
                segclean,
                release,
                markv(false, few),
            ],
        ));
    }
    seeds
}
