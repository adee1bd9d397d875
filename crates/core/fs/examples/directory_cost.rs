//! Benchmark of names in directories of one leaf and of many, with blocks in memory.
//!
//! `cargo run --release -p varve-fs --example directory_cost`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use varve_device::Block;
use varve_fs::directory::{self, DirectoryBlocks, Key};
use varve_fs::{FileKind, InodeNo, Result};

const KEY: Key = Key {
    hash_seed: 7,
    case_fold: false,
    ino: InodeNo(9),
    version: 3,
};

/// Number of distinct names that are looked up.
const ASKED: u64 = 10_000;
/// Total number of look-ups.
const TIMES: u64 = 2_000_000;

/// Blocks by number.
#[derive(Default)]
struct Blocks(BTreeMap<u64, Arc<Block>>);

impl DirectoryBlocks for Blocks {
    fn read(&mut self, block: u64) -> Result<Arc<Block>> {
        Ok(self.0.get(&block).cloned().unwrap_or_default())
    }

    fn write(&mut self, block: u64, data: Vec<u8>) {
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

    fn edit(&mut self, block: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
        change(Arc::make_mut(self.0.entry(block).or_default()).as_vec_mut());
        Ok(())
    }
}

fn name(number: u64) -> Vec<u8> {
    format!("file-{number:08}").into_bytes()
}

fn main() -> Result<()> {
    for entries in [20, 90, 10_000, 1_000_000] {
        let mut blocks = Blocks::default();
        for number in 1..=entries {
            let (ino, kind) = (InodeNo(number), FileKind::Regular);
            directory::insert(&KEY, &mut blocks, &name(number), ino, kind)?;
        }
        let names: Vec<_> = (1..=entries.min(ASKED)).map(name).collect();
        let turns = TIMES / names.len() as u64;
        let mut timed = |what: &str, run: &mut dyn FnMut(&mut Blocks, &[u8]) -> Result<()>| {
            let start = Instant::now();
            for _ in 0..turns {
                for name in &names {
                    run(&mut blocks, name)?;
                }
            }
            let ns = start.elapsed().as_nanos() / u128::from(turns) / names.len() as u128;
            println!("{entries:>8} entries: {what} {ns} ns");
            Result::Ok(())
        };
        timed("lookup", &mut |blocks, name| {
            directory::lookup(&KEY, blocks, name).map(drop)
        })?;
        timed("remove and insert", &mut |blocks, name| {
            let (ino, kind) = directory::remove(&KEY, blocks, name)?;
            directory::insert(&KEY, blocks, name, ino, kind)
        })?;
        let start = Instant::now();
        directory::check(&KEY, &mut blocks, &mut |flaw| println!("{flaw}"))?;
        let mut listed = 0;
        directory::list(&KEY, &mut blocks, 0, &mut |_, _, _, _| {
            listed += 1;
            true
        })?;
        println!("{entries:>8} entries: check and list {:?}", start.elapsed());
    }
    Ok(())
}
