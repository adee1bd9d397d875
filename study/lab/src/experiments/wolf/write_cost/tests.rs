//! Wrong systems under right names, and a wrong disk.

use super::*;

/// Of a system under a name, at the tiny size.
fn run(name: &str, system: System) -> Vec<Row> {
    let point = point(name.into(), "hot-cold", system, 0.8, 0.8);
    (point.run)(&Context::tiny()).unwrap()
}

/// LFS under the name of WOLF.
#[test]
fn a_wrong_model_fails() {
    let lfs = run("LFS", System::LFS);
    let with = |wolf| verdicts_1(&[lfs.clone(), run("WOLF", wolf)].concat()).remove(0);
    let (right, wrong) = (with(System::wolf(2)), with(System::LFS));
    assert!(right.pass && !wrong.pass, "{right}; {wrong}");
}

/// Four buffers with segments of 64 KB, and WOLF under the name of LFS with a larger
/// buffer.
#[test]
fn a_wrong_number_of_buffers_is_seen() {
    let with = |four: System, larger: System| {
        let large = |kb: u32| {
            let system = System {
                buffer_blocks: kb / 4,
                ..larger
            };
            run(&format!("LFS with {kb} KB"), system)
        };
        let wolf = |buffers: usize, system| run(&format!("WOLF with {buffers} buffers"), system);
        let rows = [
            wolf(2, System::wolf(2)),
            wolf(3, System::wolf(3)),
            wolf(4, four),
            run("LFS with 256 KB", System::LFS),
            large(512),
            large(1024),
        ];
        let verdicts = verdicts_2(&rows.concat());
        [verdicts[0].pass, verdicts[1].pass]
    };
    let small = System {
        segment_blocks: 16,
        ..System::wolf(4)
    };
    assert_eq!(with(System::wolf(4), System::LFS), [true; 2]);
    assert_eq!(with(small, System::wolf(2)), [false; 2]);
}

/// A disk that is everywhere at once: the smallest segments are as good as any.
#[test]
fn a_wrong_disk_fails() {
    let costs = [16, 64].map(|blocks| {
        let system = System {
            buffer_blocks: blocks,
            segment_blocks: blocks,
            ..System::LFS
        };
        let rows = run("LFS", system);
        let disk = TransferModel {
            access_s: 0.0,
            ..DISK
        };
        let cost = rows[0].values["overall_write_cost"] / system.overall(1.0, &DISK);
        (system, cost, disk)
    });
    let best = |wrong: bool| {
        let rows = costs.map(|(system, cost, disk)| {
            let cost = system.overall(cost, if wrong { &disk } else { &DISK });
            Row::new("LFS, hot-cold", f64::from(system.segment_blocks) * 4.0, 1)
                .with("overall_write_cost", cost)
        });
        verdicts_3(&rows)[0].pass
    };
    assert!(best(false) && !best(true));
}

/// On so small a volume WOLF's segments are less alike two points than those of LFS: so
/// they are more, where each has the other's name.
#[test]
fn names_that_are_changed_round_are_seen() {
    let pass = |lfs, wolf| verdicts_4(&[run("LFS", lfs), run("WOLF", wolf)].concat())[0].pass;
    let (lfs, wolf) = (System::LFS, System::wolf(2));
    assert!(!pass(lfs, wolf) && pass(wolf, lfs) && !pass(lfs, lfs));
}
