//! Windows of the log that threads fetch ahead, while readers arrive where
//! one is on its way, caches are dropped and segments written anew.

use crate::stage::{Stage, create, explore, fill, fsync, versions};

/// Files that lie one after the other, several windows of them.
const FILES: usize = 24;
const BLOCKS: usize = 10;

pub fn story() {
    let stage = Stage::reading(8 << 20, 2);
    let files: Vec<_> = (0..FILES)
        .map(|n| create(&stage.system, &format!("f{n:02}")))
        .collect();
    for &file in &files {
        fill(&stage.system, file, BLOCKS, 1);
    }
    stage.system.sync().unwrap();
    stage.system.drop_caches();
    let readers = [files.clone(), files.clone()].map(|files| {
        stage.spawn(move |system, _| {
            for file in files {
                let seen = versions(system, file, BLOCKS);
                assert!(
                    seen == [1; BLOCKS] || seen == [2; BLOCKS],
                    "{file}: {seen:?}"
                );
            }
        })
    });
    let writer = stage.spawn({
        let files = files.clone();
        move |system, _| {
            for &file in files.iter().step_by(5) {
                fill(system, file, BLOCKS, 2);
                fsync(system, file);
                system.drop_caches();
                assert_eq!(versions(system, file, BLOCKS), [2; BLOCKS]);
            }
        }
    });
    for thread in readers.into_iter().chain([writer]) {
        thread.join().unwrap();
    }
    stage.finish();
}

#[test]
fn windows_fetched_ahead_are_never_out_of_date() {
    explore("windows_fetched_ahead_are_never_out_of_date", 60, story);
}
