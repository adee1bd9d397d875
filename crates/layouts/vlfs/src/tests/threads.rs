//! Several threads: some append while another thread's transaction is flushed.

use super::*;

const THREADS: u64 = 4;
const ROUNDS: u64 = 150;
const BLOCKS: u64 = 40;

fn block_of(round: u64, thread: u64) -> u64 {
    (round * 7 + thread) % BLOCKS
}

fn work(system: &System, thread: u64, file: InodeNo) {
    for round in 0..ROUNDS {
        let at = block_of(round, thread) * 4096;
        write(system, file, at, &[round as u8; 4096]).unwrap();
        let name = format!("{thread}-{}", round % 5);
        if round % 10 < 5 {
            let made = create(system, &name);
            write(system, made, 0, &[7; 9000]).unwrap();
        } else {
            let gone = system.unlink(&Caller::root(), InodeNo::ROOT, name.as_bytes());
            gone.unwrap();
        }
        if round % 3 != thread % 3 {
            system.fsync(file, false).unwrap();
        }
        if round % 40 == 39 {
            system.checkpoint().unwrap();
        }
        // Data in flight is read correctly.
        assert!(
            read(system, file, at, 4096) == [round as u8; 4096],
            "at {at}"
        );
    }
    system.fsync(file, false).unwrap();
}

#[test]
fn nothing_is_lost_where_threads_append_and_commit_at_once() {
    for unit in [4096, 512] {
        let medium = memory(12 << 20, unit);
        let system = made(&medium, unit);
        let files: Vec<InodeNo> = (0..THREADS)
            .map(|thread| create(&system, &format!("file{thread}")))
            .collect();
        std::thread::scope(|scope| {
            for (thread, &file) in (0..).zip(&files) {
                let system = &system;
                scope.spawn(move || work(system, thread, file));
            }
        });
        drop(system);
        sound(&medium);
        let system = again(&medium);
        for (thread, &file) in (0..).zip(&files) {
            for block in 0..BLOCKS {
                let mut rounds = (0..ROUNDS).rev();
                let last = rounds.find(|&round| block_of(round, thread) == block);
                let last = last.expect("every block is written") as u8;
                let found = read(&system, file, block * 4096, 4096);
                assert!(found == [last; 4096], "block {block} of thread {thread}");
            }
        }
    }
}
