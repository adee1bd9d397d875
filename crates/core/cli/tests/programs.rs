//! Commands that are separate programs, found next to `varve`: `varve bench`, `varve
//! prove` and `varve lab`.

mod support;

use std::fs;
use support::mounted::no_program;
use support::{Scratch, varve};

/// Without its program a command names the package that builds it, and fails.
#[test]
fn a_command_without_its_program_says_what_builds_it() {
    let s = Scratch::new();
    let alone = s.text("varve");
    fs::copy(support::VARVE, &alone).unwrap();
    for (command, program) in [("lab", "varve-lab"), ("prove", "varve-prove")] {
        let mut run = std::process::Command::new(&alone);
        let output = run
            .args([command, "--help"])
            .env("PATH", "/nowhere")
            .output();
        let said = format!("cargo build --profile dist -p {program}");
        support::Answer::from(output.unwrap()).expect(1, &said);
    }
}

#[test]
fn bench_prints_one_json_object_per_phase_and_a_table() {
    if no_program("varve-bench") {
        return;
    }
    let s = Scratch::new();
    let (image, results) = (s.text("image"), s.text("results.jsonl"));
    let common = [
        "--nodrop",
        "--n",
        "200",
        "--seconds",
        "0.2",
        "--total",
        "256K",
    ];
    let mut lines = String::new();
    for workload in [
        "smallfile",
        "sizes",
        "metadata",
        "tpcb",
        "fsyncupdate",
        "oo1",
        "wisconsin",
    ] {
        let size = ["--size", "64M", "--image", &image, "--file-size", "1M"];
        let size = if workload == "fsyncupdate" {
            &size[..]
        } else {
            &size[..4]
        };
        let run = varve(["bench", workload].iter().chain(&common).chain(size));
        lines += &run.expect(0, "varve-lib").out;
        let directory = s.text("");
        let size = ["--dir", &directory, "--tag", "host", "--file-size", "1M"];
        let size = if workload == "fsyncupdate" {
            &size[..]
        } else {
            &size[..4]
        };
        let run = varve(["bench", workload].iter().chain(&common).chain(size));
        lines += &run.expect(0, "\"host\"").out;
    }
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            line["ops"].is_u64() && line["seconds"].is_number(),
            "{line}"
        );
    }
    fs::write(&results, &lines).unwrap();
    let table = varve(["bench", "--table", &results, "--baseline", "host"]);
    let table = table.expect(0, "| create, durable, files/s |");
    assert!(
        table.out.contains("### fsyncupdate, 1 threads"),
        "{table:?}"
    );
    assert!(table.out.contains("x) |"), "{table:?}");
    varve(["bench", "nonsense", "--image", &image]).expect(2, "fillaging");
    varve(["bench"]).expect(2, "Usage");
}

/// The command of a cold point may be a remount, which an open file would prevent.
#[test]
fn bench_has_no_file_open_where_it_is_cold() {
    if no_program("varve-bench") {
        return;
    }
    let s = Scratch::new();
    let directory = s.text("");
    let command = "ls -l /proc/$PPID/fd | grep bench.oo1 && exit 1; true";
    let run = ["bench", "oo1", "--dir", &directory, "--n", "200"];
    varve([&run[..], &["--cold-cmd", command]].concat()).expect(0, "backward");
}

#[test]
fn bench_ages_a_volume() {
    if no_program("varve-bench") {
        return;
    }
    let s = Scratch::new();
    let image = s.text("image");
    let run = varve([
        "bench",
        "fillaging",
        "--image",
        &image,
        "--size",
        "64M",
        "--nodrop",
        "--seconds",
        "20",
        "--volume",
        "0.5",
    ]);
    let run = run.expect(0, "aged_read");
    assert!(run.out.contains("\"enospc\":false"), "{}", run.out);
}

#[test]
fn bench_overwrites_volumes_only() {
    if no_program("varve-bench") {
        return;
    }
    let s = Scratch::new();
    let precious = s.text("precious");
    fs::write(&precious, b"thesis".repeat(1 << 20)).unwrap();
    varve(["bench", "metadata", "--image", &precious]).expect(1, "holds data");
    assert_eq!(fs::read(&precious).unwrap(), b"thesis".repeat(1 << 20));
}

/// One image for all programs: each finds the state left by the one before.
#[test]
fn bench_runs_on_every_layout() {
    if no_program("varve-bench") {
        return;
    }
    let s = Scratch::new();
    let image = s.text("image");
    let small = ["--size", "64M", "--n", "200", "--nodrop"];
    for layout in ["ffs", "vlfs", "efs", "buddy", "log"] {
        let run = ["bench", "smallfile", "--image", &image, "--layout", layout];
        varve(run.iter().chain(&small)).expect(0, "delete");
        let found = varve(["info", &image, "--json"]).expect(0, "").out;
        assert_eq!(
            found.contains("\"segments\""),
            layout == "log",
            "{layout}: {found}"
        );
    }
}

#[test]
fn prove_runs_rows_and_counts() {
    if no_program("varve-prove") {
        return;
    }
    varve(["prove", "--list"]).expect(0, "crash-states");
    varve(["prove", "--list"]).expect(0, "cargo test --release -p varve-cli --test mount");
    let list = varve(["prove", "--list", "--json"]).expect(0, "").json();
    assert!(list.as_array().unwrap().len() >= 12);
    let rows = [
        "prove",
        "--rows",
        "bounded,io-errors",
        "--minutes",
        "0.01",
        "--seed",
        "7",
    ];
    let told = varve(rows).expect(0, "no failure");
    assert!(told.err.starts_with("seed 7\n"), "{}", told.err);
    assert!(told.out.contains("injected"), "{}", told.out);
    let report = varve(rows.iter().chain(&["--json"])).expect(0, "").json();
    assert_eq!(report["seed"], 7);
    assert_eq!(report["rows"][0]["unit"], "states");
    assert!(report["rows"][0]["done"].as_u64().unwrap() > 0);
    let errors = &report["rows"][1]["faults"]["WriteError"];
    assert!(errors["injected"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn prove_repeats_one_round() {
    if no_program("varve-prove") {
        return;
    }
    let round = [
        "prove",
        "--rows",
        "crash-states",
        "--seed",
        "3",
        "--round",
        "2",
        "--json",
    ];
    let run = || varve(round).expect(0, "").json()["rows"][0].clone();
    let (first, second) = (run(), run());
    assert_eq!(first["rounds"], 1);
    assert_eq!(first["done"], second["done"]);
    assert_eq!(first["details"], second["details"]);
}

#[test]
fn prove_refuses_what_it_does_not_know() {
    if no_program("varve-prove") {
        return;
    }
    varve(["prove", "--rows", "luck"]).expect(2, "no such row");
    varve(["prove", "--rows", "kill"]).expect(2, "it is a test only");
    varve(["prove", "--minutes=-1"]).expect(2, "no number of minutes");
    varve(["prove", "--round", "1"]).expect(2, "--seed");
}

#[test]
fn the_laboratory_replays_a_trace_and_says_which_to_choose() {
    if no_program("varve-lab") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("calls.txt");
    let name = trace.to_str().unwrap();
    let mut text = String::from("openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT, 0644) = 3\n");
    for at in 0..300 {
        text += &format!(
            "pwrite64(3, \"\"..., 4096, {}) = 4096\n",
            at * 7 % 100 * 4096
        );
    }
    std::fs::write(&trace, &text).unwrap();
    let arguments = [
        "lab",
        "replay",
        name,
        "--utilisation",
        "60",
        "--policy",
        "greedy",
    ];
    varve(arguments).expect(0, "At 60 % full, on a disk choose");
    let mut json = arguments.to_vec();
    json.push("--json");
    let json = varve(json).expect(0, "").json();
    assert_eq!(json["findings"]["format"], "strace");
    assert_eq!(json["findings"]["systems"].as_array().unwrap().len(), 3);
    std::fs::write(&trace, text + "write(3, \"\n").unwrap();
    varve(arguments).expect(1, "calls.txt, record 302: it is no call");
    varve(["lab", "replay", name, "--format", "msr"]).expect(1, "record 1: ");
    varve(["lab", "replay", name, "--format", "tape"]).expect(2, "formats are blkparse");
    varve(["lab", "replay", name, "--policy", "luck"]).expect(2, "policies are greedy");
    varve(["lab", "replay", name, "--utilisation", "100"]).expect(2, "100");
}

#[test]
fn the_laboratory_lists_and_runs_experiments() {
    if no_program("varve-lab") {
        return;
    }
    varve(["lab", "list"]).expect(0, "R3a");
    let list = varve(["lab", "list", "--json"]).expect(0, "").json();
    let list = list.as_array().unwrap();
    let of = |id: &str| list.iter().find(|claim| claim["id"] == id).unwrap();
    assert_eq!(of("R3a")["built"], true);
    assert_eq!(of("N1")["needs_traces"], true);
    let missing = varve(["lab", "list", "--missing", "--json"])
        .expect(0, "")
        .json();
    let missing = missing.as_array().unwrap();
    assert!(missing.len() < list.len() && missing.iter().all(|claim| claim["built"] == false));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    // Half of the points, then all; at this size verdicts mean nothing.
    let run = |more: &[&str]| {
        let mut arguments = vec!["lab", "run", "r3c", "--small", "--jobs", "1", "--out", out];
        arguments.extend(more);
        varve(arguments)
    };
    run(&["--shard", "1/2"]).expect(0, "1 points are left to other shards");
    let judged = run(&["--json"]);
    let verdicts = judged.json();
    let parts = verdicts["verdicts"].as_array().unwrap();
    let counts = parts.iter().filter(|part| part["beside"] == false);
    let holds = counts.clone().all(|part| part["pass"] == true);
    assert!(counts.count() > 0, "{judged:?}");
    judged.expect(i32::from(!holds), "two modes");
    assert!(directory.path().join("R3c-small/picture.svg").exists());
    varve(["lab", "run", "N1", "--small", "--out", out]).expect(1, "say where they are");
    varve(["lab", "run", "Z9"]).expect(2, "no such experiment");
    varve(["lab", "run", "all", "--segments", "200"]).expect(2, "one at a time");
    varve(["lab", "report", out]).expect(0, "report.html");
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.contains("varve lab run R3c --seed 1 --quick"));
    varve(["lab", "report", "/nowhere"]).expect(1, "/nowhere");
    run(&["--shard", "3/2"]).expect(2, "with i from 1 to n");
}

/// A volume after years of use, one whose free space is the same as on that volume, and a
/// young one.
#[test]
fn a_volume_is_aged() {
    if no_program("varve-lab") {
        return;
    }
    let scratch = Scratch::new();
    let (map, image) = (&scratch.text("map"), &scratch.text("image"));
    let age = [
        "lab",
        "age",
        "--profile=news",
        "--years=0.1",
        "--scale=12",
        "--json",
        "--out",
        map,
    ];
    let told = varve(age).expect(0, "").json();
    let free = told["free_bytes"].as_u64().unwrap();
    assert!(told["told"]["operations"].as_u64().unwrap() > 1000);
    let made = varve(["mkfs", "--layout=ffs-m8r0", "--aged", map, "--json", image]);
    let made = made.expect(0, "").json();
    assert_eq!(made["block_bytes"], 8192);
    varve(["fsck", "--data", image]).expect(0, ": clean");
    let dump = varve(["dump", image, "superblock"]).expect(0, "").json();
    let room = &dump["room"];
    let unit = made["fragment_bytes"].as_u64().unwrap();
    let found = room["fragments_free"].as_u64().unwrap() * unit;
    // If fragments are larger than the map's, partly free ones are not free.
    match unit {
        1024 => assert_eq!(found, free),
        _ => assert!(found <= free && found > free / 2, "{found} {free}"),
    }
    let list = scratch.text("list");
    fs::write(&list, "100 a/b\n+ 70000 a/c\n- a/b\n").unwrap();
    let played = varve([
        "lab",
        "age",
        "--files",
        &list,
        "--size=64M",
        "--json",
        "--out",
        map,
    ]);
    assert_eq!(played.expect(0, "").json()["told"]["files"], 1);
    fs::write(&list, "what\n").unwrap();
    varve(["lab", "age", "--files", &list, "--out", map]).expect(1, "line 1");
    varve(["mkfs", "--layout=ffs", "--aged", &list, &scratch.text("no")]).expect(1, "no map");
    fs::write(&list, "100 a/b\n").unwrap();
    for bytes in ["0", "12297829382473033"] {
        let block = ["--block-size", bytes];
        let age = ["lab", "age", "--files", &list, "--out", map];
        varve(age.into_iter().chain(block)).expect(2, "4K to 64K");
    }
    // Blocks of another size, in groups of the same bytes.
    let other = &scratch.text("other");
    let aged = ["mkfs", "--layout=ffs", "--aged", map, "--block-size=64K"];
    let aged = aged.into_iter().chain(["--size=96M", "--json", other]);
    assert_eq!(varve(aged).expect(0, "").json()["block_bytes"], 65536);
}
