//! The model against arithmetic done by hand, and against itself.

use super::*;
use crate::drives;

fn hp(read_ahead: ReadAhead) -> Mechanism {
    Mechanism::new(Arc::new(drives::hp97560().with_read_ahead(read_ahead)), 7)
}

/// A seeded walk over the numbers below `end`.
fn draws(seed: u64, end: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 20) % end
    })
}

const CYLINDER: u64 = 19 * 72;

#[test]
fn a_seek_takes_what_the_published_curve_says() {
    let mut disk = hp(ReadAhead::Off);
    for (distance, ms) in [
        (1, 3.64),
        (100, 7.24),
        (382, 11.0579),
        (383, 11.064),
        (1961, 23.688),
    ] {
        disk.serve(0, Request::read(0, 1));
        let service = disk.serve(0, Request::read(distance * CYLINDER, 1));
        let seek_ms = service.times.seek_ns as f64 / 1e6;
        assert!(
            (seek_ms - ms).abs() < 1e-3,
            "{seek_ms} ms for {distance} cylinders"
        );
    }
}

/// Random accesses cost what the parts' means say: Ruemmler & Wilkes 1994.
#[test]
fn random_reads_of_the_hp97560_take_the_sum_of_the_means() {
    let mut disk = hp(ReadAhead::Off);
    let drive = Arc::clone(disk.drive());
    let (count, mut now, mut sum) = (40_000, 0, Times::default());
    for at in draws(3, drive.geometry.total_sectors() / 16).take(count) {
        let service = disk.serve(now, Request::read(at * 16, 16));
        // Thinking time breaks the phase that back-to-back requests would keep.
        now = service.end_ns + 1_234_567;
        sum += service.times;
    }
    let mean = |ns: u64| ns as f64 / count as f64 / 1e6;
    let close = |measured: f64, expected: f64, what: &str| {
        let error = (measured / expected - 1.0).abs();
        assert!(
            error < 0.01,
            "{what}: {measured} ms, expected {expected} ms"
        );
    };
    close(mean(sum.seek_ns), drive.seek.average_ms(1962), "seek");
    // 15.0 ms a revolution (Seltzer 1992, table 7-1), half of it on average;
    // a request that goes on to the next track waits out its skew.
    let across = 15.0 / 72.0;
    let skew_wait = across * (8.0 * 14.99 / 72.0 - 1.6);
    close(mean(sum.rotation_ns), 14.9925 / 2.0 + skew_wait, "rotation");
    // 16 sectors pass; the last one crosses the bus behind the head.
    close(
        mean(sum.transfer_ns),
        16.0 * 14.9925 / 72.0 + 0.0512,
        "transfer",
    );
    close(mean(sum.overhead_ns), 2.2, "overhead");
    let total = mean(sum.total_ns());
    assert!((25.8..26.2).contains(&total), "{total} ms");
}

#[test]
fn long_transfers_run_at_the_published_rate() {
    // Seltzer 1992, table 7-1: 2.2 MB/s.
    let mut disk = hp(ReadAhead::Off);
    let sectors = 50 * CYLINDER;
    let service = disk.serve(0, Request::read(0, sectors));
    let rate = (sectors * 512) as f64 / service.times.transfer_ns.max(service.end_ns) as f64 * 1e3;
    assert!((2.18..2.23).contains(&rate), "{rate} MB/s");
    let asked = disk.drive().sustained_bytes_per_s() / 1e6;
    assert!((rate / asked - 1.0).abs() < 0.005, "{rate} and {asked}");
}

#[test]
fn parts_add_up_and_the_answer_is_the_same_twice() {
    for read_ahead in [ReadAhead::Off, ReadAhead::Sequential, ReadAhead::WholeTrack] {
        for drive in drives::all() {
            let drive = Arc::new(drive.with_read_ahead(read_ahead));
            let run = || {
                let mut disk = Mechanism::new(drive.clone(), 42);
                let total = drive.geometry.total_sectors();
                let (mut now, mut spent) = (0, 0);
                let mut numbers = draws(9, u64::MAX >> 20);
                let mut last = 0;
                for _ in 0..400 {
                    let number = numbers.next().unwrap();
                    let count = 1 + number % 300;
                    // Half of them go on where the last one ended.
                    let from = match number % 2 {
                        0 => last,
                        _ => numbers.next().unwrap(),
                    };
                    let sector = from % (total - count);
                    let request = match number % 7 {
                        0 => Request::write(sector, count),
                        _ => Request::read(sector, count),
                    };
                    let service = disk.serve(now, request);
                    spent += service.times.total_ns();
                    now = service.end_ns + number % 3 * 4_000_000;
                    spent += number % 3 * 4_000_000;
                    last = sector + count;
                }
                assert_eq!(spent, now, "{}", drive.name);
                now
            };
            assert_eq!(run(), run());
        }
    }
}

#[test]
fn what_is_foretold_is_what_is_done() {
    let drive = Arc::new(drives::atlas10k());
    let mut disk = Mechanism::new(drive.clone(), 1);
    let mut now = 0;
    for sector in draws(5, drive.geometry.total_sectors()).take(500) {
        let foretold = disk.time_to(now, Access::Write, sector);
        let service = disk.serve(now, Request::write(sector, 1).from_inside());
        assert_eq!(service.times.locate_ns(), foretold.locate_ns());
        assert_eq!(service.times.overhead_ns, 0);
        now = service.end_ns + sector % 1000 * 1000;
    }
}

#[test]
fn a_sequential_reader_is_served_by_reading_ahead() {
    let mut disk = hp(ReadAhead::Sequential);
    let first = disk.serve(0, Request::read(0, 8));
    assert!(!first.from_buffer);
    // The head went on: after 10 ms more than 40 sectors are there.
    let next = disk.serve(first.end_ns + 10_000_000, Request::read(8, 32));
    assert!(next.from_buffer);
    let bus = disk.drive().bus_ns(32);
    assert_eq!(next.times.total_ns(), 2_200_000 + bus);
    // The buffer holds 256 sectors and no more, however long the pause.
    let later = next.end_ns + 1_000_000_000;
    let all = disk.serve(later, Request::read(40, 224));
    assert!(all.from_buffer);
    let mut full = disk.clone();
    assert!(
        full.serve(all.end_ns + 1_000_000_000, Request::read(40, 256))
            .from_buffer
    );
    let more = disk.serve(all.end_ns + 1_000_000_000, Request::read(40, 257));
    assert!(!more.from_buffer);
    // Behind the last request nothing is kept.
    let back = full.serve(full.free_ns(), Request::read(39, 1));
    assert!(!back.from_buffer);
}

#[test]
fn a_request_larger_than_the_buffer_leaves_only_its_end_there() {
    let mut disk = hp(ReadAhead::Sequential);
    let pause = 1_000_000_000;
    let first = disk.serve(0, Request::read(0, 2048));
    let at = first.end_ns + pause;
    assert!(!disk.clone().serve(at, Request::read(0, 2048)).from_buffer);
    assert!(!disk.clone().serve(at, Request::read(1791, 1)).from_buffer);
    assert!(disk.clone().serve(at, Request::read(1792, 256)).from_buffer);
    // The head had stopped: what follows passes under it, all of it, from now.
    let next = disk.serve(at, Request::read(2048, 2048));
    let passing = 2048 * disk.drive().rotation.revolution_ns() / 72;
    assert!(!next.from_buffer);
    assert!(next.end_ns >= at + 2_200_000 + passing, "{next:?}");
    // Again by the other path: the sequential read was a hit.
    let at = next.end_ns + pause;
    assert!(!disk.clone().serve(at, Request::read(3839, 1)).from_buffer);
    let next = disk.serve(at, Request::read(4096, 512));
    assert!(next.end_ns >= at + passing / 4, "{next:?}");
}

#[test]
fn small_sequential_reads_reach_the_medium_s_rate_only_with_read_ahead() {
    let rate = |read_ahead| {
        let mut disk = hp(read_ahead);
        let (mut now, count) = (0, 4000);
        for nth in 0..count {
            now = disk.serve(now, Request::read(nth * 16, 16)).end_ns;
        }
        (count * 16 * 512) as f64 / now as f64 * 1e3
    };
    let (without, sequential) = (rate(ReadAhead::Off), rate(ReadAhead::Sequential));
    // 8 KB in a command of 2.2 ms and a revolution less than a missed one.
    assert!(without < 0.6, "{without} MB/s");
    assert!((2.1..2.25).contains(&sequential), "{sequential} MB/s");
}

#[test]
fn a_track_read_backwards_needs_whole_tracks() {
    let time = |read_ahead| {
        let mut disk = hp(read_ahead);
        let mut now = 0;
        for nth in (0..9).rev() {
            now = disk.serve(now, Request::read(nth * 8, 8)).end_ns;
        }
        now
    };
    let (sequential, whole) = (time(ReadAhead::Sequential), time(ReadAhead::WholeTrack));
    // One revolution and nine commands, against a revolution each.
    assert!(whole < 15_000_000 + 9 * (2_200_000 + 500_000), "{whole}");
    assert!(sequential > 8 * 12_000_000, "{sequential}");
}

#[test]
fn whole_tracks_are_kept_until_others_push_them_out() {
    let mut disk = hp(ReadAhead::WholeTrack);
    let revolution = disk.drive().rotation.revolution_ns();
    let mut now = 0;
    let mut read = |disk: &mut Mechanism, sector| {
        let service = disk.serve(now, Request::read(sector, 8));
        now = service.end_ns + revolution;
        service.from_buffer
    };
    // 128 KB hold three tracks of 36 KB.
    for track in [0, 1, 2] {
        assert!(!read(&mut disk, track * 72));
        assert!(read(&mut disk, track * 72 + 60));
    }
    assert!(read(&mut disk, 0));
    assert!(!read(&mut disk, 3 * 72));
    assert!(!read(&mut disk, 72), "the track used least lately is gone");
    assert!(read(&mut disk, 8));
    // A head called away at once leaves a part, and the rest is read again.
    let away = disk.serve(now, Request::read(10 * CYLINDER, 1));
    disk.serve(away.end_ns, Request::write(900 * CYLINDER, 1));
    let again = disk.serve(disk.free_ns(), Request::read(10 * CYLINDER, 72));
    assert!(!again.from_buffer);
}

#[test]
fn a_slow_bus_holds_up_the_head() {
    let disk = Mechanism::new(Arc::new(drives::sd97560()), 1);
    for access in [Access::Read, Access::Write] {
        let mut disk = disk.clone();
        let request = Request {
            access,
            ..Request::read(0, 10 * 72)
        };
        let service = disk.serve(0, request);
        let rate = (720 * 512) as f64 / (service.times.transfer_ns as f64 / 1e9);
        let bus = 1.6 * 1_048_576.0;
        assert!(rate < bus * 1.9, "{rate} bytes a second, {access:?}");
        assert!(service.end_ns >= disk.drive().bus_ns(720) + 1_000_000);
    }
}

#[test]
fn disks_of_different_seeds_are_out_of_phase() {
    let drive = Arc::new(drives::st19101());
    let waits: Vec<u64> = (0..8)
        .map(|seed| {
            Mechanism::new(drive.clone(), seed)
                .time_to(0, Access::Read, 0)
                .rotation_ns
        })
        .collect();
    let mut distinct = waits.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 8, "{waits:?}");
}
