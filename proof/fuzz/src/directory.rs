//! Directories whose blocks hold anything.

use crate::input::Input;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::Block;
use varve_fs::directory::{self, DirectoryBlocks, Key};
use varve_fs::{Error, FileKind, InodeNo, Result};

const KEY: Key = Key {
    hash_seed: 0x5eed,
    case_fold: false,
    ino: InodeNo(7),
    version: 1,
};

/// The blocks of one directory.
#[derive(Clone, Debug, Default)]
struct Blocks(BTreeMap<u64, Arc<Block>>);

impl DirectoryBlocks for Blocks {
    fn read(&mut self, block: u64) -> Result<Arc<Block>> {
        self.0.get(&block).cloned().ok_or(Error::Damaged {
            ino: None,
            detail: "a hole".to_owned(),
        })
    }

    fn write(&mut self, block: u64, data: Vec<u8>) {
        assert!(data.len() <= directory::NODE_BYTES);
        self.0.insert(block, Arc::new(data.into()));
    }

    fn free(&mut self, block: u64) {
        self.0.remove(&block);
    }

    fn exists(&mut self, block: u64) -> Result<bool> {
        Ok(self.0.contains_key(&block))
    }

    fn next_existing(&mut self, from: u64) -> Result<Option<u64>> {
        Ok(self.0.range(from..).next().map(|(&block, _)| block))
    }
}

/// Bits of the first byte of an input.
const SEALED: u8 = 1;
const FOLDED: u8 = 2;

/// Two bytes of length, then the bytes, for each block from 0; before them a
/// byte of flags.
fn parse(data: &[u8]) -> (Key, Blocks) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let key = Key {
        case_fold: flags & FOLDED != 0,
        ..KEY
    };
    let mut blocks = Blocks::default();
    for block in 0..64u64 {
        if input.is_empty() {
            break;
        }
        let length = input.number(2) as usize;
        let mut bytes = input.take(length.min(directory::NODE_BYTES)).to_vec();
        if flags & SEALED != 0 && bytes.len() >= 32 {
            seal(&mut bytes, block);
        }
        blocks.0.insert(block, Arc::new(bytes.into()));
    }
    (key, blocks)
}

/// Makes right what names the node: see `docs/spec/log.md`, "Directories".
fn seal(bytes: &mut [u8], block: u64) {
    let length = bytes.len() as u16;
    bytes[..4].copy_from_slice(b"VDir");
    bytes[8..10].copy_from_slice(&length.to_le_bytes());
    bytes[10..12].fill(0);
    bytes[12..16].copy_from_slice(&KEY.version.to_le_bytes());
    bytes[16..24].copy_from_slice(&KEY.ino.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&block.to_le_bytes());
}

/// Looks up, lists, checks, and changes.
pub fn directory(data: &[u8]) {
    let (key, mut blocks) = parse(data);
    let room: usize = blocks.0.values().map(|bytes| bytes.len()).sum();
    let mut names = Vec::new();
    let mut emit = |name: &[u8], _: InodeNo, _: FileKind, _: u64| {
        names.push(name.to_vec());
        true
    };
    let _ = directory::list(&key, &mut blocks, 0, &mut emit);
    assert!(names.len() * 19 <= room, "an entry was listed twice");
    let mut reports = 0;
    let _ = directory::check(&key, &mut blocks, &mut |_| reports += 1);
    names.truncate(4);
    names.extend([b"new".to_vec(), b"New".to_vec(), b"a-000".to_vec()]);
    let _ = directory::is_empty(&key, &mut blocks);
    for name in &names {
        let _ = directory::lookup(&key, &mut blocks, name);
        let mut copy = blocks.clone();
        let _ = directory::insert(&key, &mut copy, name, InodeNo(9), FileKind::Regular);
        let _ = directory::replace(&key, &mut copy, name, InodeNo(8), FileKind::Fifo);
        let _ = directory::remove(&key, &mut copy, name);
    }
    for name in &names {
        let _ = directory::remove(&key, &mut blocks, name);
    }
}

/// Directories of one, some and many names.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for count in [0, 1, 5, 110, 1200] {
        let mut blocks = Blocks::default();
        for n in 0..count {
            let name = format!("a-{n:03}");
            let kind = FileKind::Regular;
            directory::insert(&KEY, &mut blocks, name.as_bytes(), InodeNo(10 + n), kind)
                .expect("a sound directory");
        }
        for n in 0..count / 3 {
            let name = format!("a-{:03}", n * 2);
            directory::remove(&KEY, &mut blocks, name.as_bytes()).expect("it is there");
        }
        let end = blocks.0.keys().next_back().map_or(0, |last| last + 1);
        let mut seed = vec![SEALED];
        for block in 0..end {
            let bytes = blocks.0.get(&block).map_or(&[][..], |bytes| &bytes[..]);
            seed.extend((bytes.len() as u16).to_le_bytes());
            seed.extend(bytes);
        }
        seeds.push(seed);
    }
    seeds
}
