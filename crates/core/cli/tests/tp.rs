//! `varve tp`: record stores in directories of the host and of volumes.

mod support;

use std::fs;
use support::{Scratch, has, shell, varve};

/// An environment with a table of text and one of arbitrary bytes.
fn filled(s: &Scratch) -> String {
    let dir = s.text("env");
    varve(["tp", "init", &dir, "--segment-size", "64K"]).expect(0, "pages of 4 KiB");
    let text = s.text("text");
    let mut lines = String::from(
        "VERSION=3\nformat=print\ndatabase=varve.types\ntype=btree\nHEADER=END\n \
         words\n str -> u64\nDATA=END\n\
         VERSION=3\nformat=print\ndatabase=words\ntype=btree\nHEADER=END\n",
    );
    for number in 0..500 {
        let value: String = u64::to_be_bytes(number)
            .iter()
            .map(|byte| format!("\\{byte:02x}"))
            .collect();
        lines += &format!(" word {number:04}\n {value}\n");
    }
    lines += "DATA=END\nVERSION=3\nformat=bytevalue\ndatabase=bytes\ntype=hash\nHEADER=END\n \
              00ff0a5c20\n \n 0a\n ";
    lines += &"c3".repeat(100_000);
    lines += "\nDATA=END\n";
    fs::write(&text, lines).unwrap();
    varve(["tp", "load", &dir, "--from", &text]).expect(0, "502 records of 2 tables");
    dir
}

#[test]
fn a_small_volume_gets_small_segments_of_the_log() {
    let s = Scratch::new();
    let image = s.volume("image", "16M");
    let text = s.text("text");
    let mut lines = String::from("VERSION=3\nformat=print\ndatabase=t\ntype=btree\nHEADER=END\n");
    for number in 0..5_000 {
        lines += &format!(" {number:08}\n {}\n", "value".repeat(20));
    }
    lines += "DATA=END\n";
    fs::write(&text, lines).unwrap();
    let volume = ["--volume", image.as_str()];
    varve([&["tp", "init", "env"][..], &volume].concat()).expect(0, "segments of 512 KiB");
    let load = [&["tp", "load", "env", "--from", &text][..], &volume].concat();
    varve(load).expect(0, "5000 records");
    varve([&["tp", "verify", "env"][..], &volume].concat()).expect(0, "");
    // A requested size is used.
    let large = [
        &["tp", "init", "other", "--segment-size", "1M"][..],
        &volume,
    ]
    .concat();
    varve(large).expect(0, "segments of 1 MiB");
}

#[test]
fn what_is_dumped_is_loaded_again() {
    let s = Scratch::new();
    let dir = filled(&s);
    varve(["tp", "init", &dir]).expect(1, "there is an environment already");
    let dump = varve(["tp", "dump", &dir]).expect(0, "database=bytes").out;
    assert!(dump.contains("\n 00ff0a5c20\n \n"), "{dump:.600}");
    let printed = varve(["tp", "dump", &dir, "-p"])
        .expect(0, " word 0007\n")
        .out;
    for (name, text) in [("hex", &dump), ("printed", &printed)] {
        let (other, file) = (s.text(name), s.text("file"));
        fs::write(&file, text).unwrap();
        varve(["tp", "init", &other, "--page-size", "16K"]).expect(0, "");
        varve(["tp", "load", &other, "--from", &file]).expect(0, "502 records");
        assert!(varve(["tp", "dump", &other]).out == dump, "{name}");
        varve(["tp", "verify", &other]).expect(0, "3 tables");
    }
    let one = varve(["tp", "dump", &dir, "--table", "words"]).expect(0, "database=words");
    assert!(!one.out.contains("database=bytes"));
    varve(["tp", "dump", &dir, "--table", "none"]).expect(1, "no table is called \"none\"");
    let stats = varve(["tp", "stats", &dir, "--count", "--json"])
        .expect(0, "")
        .json();
    assert_eq!(stats["tables"][1]["types"], "str -> u64");
    assert_eq!(stats["tables"][1]["records"], 500);
    varve(["tp", "stats", &dir]).expect(0, "table:    \"bytes\": [u8] -> [u8]");
}

/// An index is rebuilt by programs that have its function, and a text that names its
/// tables is not loaded into another one.
#[test]
fn indices_are_neither_dumped_nor_loaded() {
    use varve_tp::{IndexDefinition, Options, TableDefinition};
    const PEOPLE: TableDefinition<u32, &str> = TableDefinition::new("people");
    const BY_NAME: IndexDefinition<&str, u32, &str> = IndexDefinition::new(PEOPLE, "by name");
    let s = Scratch::new();
    let (dir, other, file) = (s.text("env"), s.text("other"), s.text("file"));
    let mut options = Options::new();
    options.index(BY_NAME, |_, name, keys| keys.add(name.as_str()));
    let fill = |dir: &str, name: &str| {
        let environment = options.open(dir).unwrap();
        let transaction = environment.begin_write();
        transaction
            .open_table(PEOPLE)
            .unwrap()
            .insert(1, name)
            .unwrap();
        transaction.commit().unwrap();
        assert_eq!(environment.verify().unwrap().index_entries, 1);
        environment.close().unwrap();
    };
    fill(&dir, "Gray");
    let dump = varve(["tp", "dump", &dir, "-p"]).expect(0, "database=people");
    assert!(!dump.out.contains("by name"), "{}", dump.out);
    varve(["tp", "dump", &dir, "--table", "by name"]).expect(1, "is an index");
    // The form in which they were dumped formerly.
    let head = "format=print\ntype=btree\nHEADER=END\n";
    let old = format!(
        "VERSION=3\ndatabase=varve.types\n{head} by name\n index of people: str\nDATA=END\n\
         VERSION=3\ndatabase=by name\n{head} Gray\\00\\00\\00\\00\\00\\01\n \nDATA=END\n{}",
        dump.out
    );
    fs::write(&file, old).unwrap();
    varve(["tp", "init", &other]).expect(0, "");
    let load = ["tp", "load", &other, "--from", &file, "--table", "all"];
    varve(load).expect(0, "1 records of 1 tables");
    varve(["tp", "stats", &other]).expect(0, "table:    \"people\": u32 -> str");
    fill(&other, "Moss");
    let bare = format!("VERSION=3\ndatabase=by name\n{head} a\n \nDATA=END\n");
    fs::write(&file, bare).unwrap();
    varve(["tp", "load", &other, "--from", &file]).expect(1, "is an index");
}

/// Keys beyond an eighth of a page are loaded and dumped like others.
#[test]
fn long_keys_are_loaded_and_dumped() {
    let s = Scratch::new();
    let dir = filled(&s);
    let file = s.text("file");
    let words = "VERSION=3\nformat=print\ndatabase=words\nHEADER=END\n";
    let record = |last: &str| format!(" {}{last}\n {last}\n", "k".repeat(600));
    let records = [record("a"), record("b")].concat();
    fs::write(&file, format!("{words}{records}DATA=END\n")).unwrap();
    varve(["tp", "load", &dir, "--from", &file]).expect(0, "2 records");
    let dump = varve(["tp", "dump", &dir, "-p", "--table", "words"]).expect(0, "database=words");
    assert!(dump.out.contains(&records), "{}", dump.out);
}

#[test]
fn what_cannot_be_loaded_is_told_by_its_line() {
    let s = Scratch::new();
    let dir = filled(&s);
    let file = s.text("file");
    let load = |text: &str, said: &str| {
        fs::write(&file, text).unwrap();
        varve(["tp", "load", &dir, "--from", &file]).expect(1, said);
    };
    load("words\n", "line 1: it is not VERSION=3");
    load("VERSION=3\nformat=print\n", "ends within a header");
    let head = "VERSION=3\nformat=bytevalue\ndatabase=t\nHEADER=END\n";
    load(
        &format!("{head} 00\n 00\n"),
        "line 7: the dump ends within a table",
    );
    load(&format!("{head} 00\n 00\n 01\nDATA=END\n"), "has no value");
    load(
        &format!("{head} 0\n 00\nDATA=END\n"),
        "line 5: these are not bytes",
    );
    load(&format!("{head}x\nDATA=END\n"), "line 5");
    load("VERSION=3\nHEADER=END\nDATA=END\n", "--table");
    let words = "VERSION=3\nformat=print\ndatabase=words\nHEADER=END\n";
    let named = |name: &str| words.replace("words", name);
    load(
        &format!("{} k\n x\nDATA=END\n", named(&"n".repeat(600))),
        "are allowed",
    );
    varve(["tp", "load", &s.text("none")]).expect(1, "no such directory");
    fs::create_dir(s.path("empty")).unwrap();
    varve(["tp", "stats", &s.text("empty")]).expect(1, "there is no environment here");
    assert_eq!(fs::read_dir(s.path("empty")).unwrap().count(), 0);
}

#[test]
fn berkeley_db_reads_what_is_dumped_and_the_other_way_round() {
    let Some(version) = ["db5.3_", "db_"]
        .into_iter()
        .find(|db| has(&format!("{db}load")))
    else {
        eprintln!("SKIPPED: no db_load");
        return;
    };
    let s = Scratch::new();
    let dir = filled(&s);
    let (file, db, back) = (s.text("file"), s.text("bank.db"), s.text("back"));
    varve(["tp", "dump", &dir, "--to", &file]).expect(0, "");
    shell(&format!(
        "{version}load -f {file} {db}; {version}dump {db} > {back}"
    ));
    let other = s.text("other");
    varve(["tp", "init", &other]).expect(0, "");
    varve(["tp", "load", &other, "--from", &back]).expect(0, "records");
    let dumped = |dir: &str, table| varve(["tp", "dump", dir, "--table", table]).out;
    for table in ["words", "bytes"] {
        assert!(dumped(&dir, table) == dumped(&other, table), "{table}");
    }
}

#[test]
fn damage_is_found_and_nothing_is_changed_by_looking() {
    let s = Scratch::new();
    let dir = filled(&s);
    let pages = s.path("env/pages");
    let before = fs::read(&pages).unwrap();
    // The catalog is a table of two records.
    varve(["tp", "verify", &dir]).expect(0, "3 tables, 504 records");
    let told = varve(["tp", "verify", &dir, "--json"]).expect(0, "").json();
    assert_eq!(told["lost_pages"], 0);
    assert!(fs::read(&pages).unwrap() == before);
    let mut found = 0;
    for slot in 1..before.len() / 4096 {
        let mut damaged = before.clone();
        damaged[slot * 4096 + 2000] ^= 0x20;
        fs::write(&pages, &damaged).unwrap();
        let answer = varve(["tp", "verify", &dir]);
        match answer.code {
            // A slot that is not in use.
            0 => {}
            _ => {
                answer.expect(4, "damaged");
                found += 1;
            }
        }
    }
    assert!(found > 20, "{found}");
    fs::write(&pages, &before).unwrap();
    varve(["tp", "recover", &dir]).expect(0, "0 transactions undone");
    varve(["tp", "verify", &s.text("none")]).expect(8, "no such directory");
}

#[test]
fn a_volume_holds_an_environment() {
    let s = Scratch::new();
    let image = s.volume("image", "128M");
    let at = ["/records", "--volume", &image];
    let run = |words: &[&str]| varve([&["tp", words[0]], &at[..], &words[1..]].concat());
    run(&["stats"]).expect(1, "no such directory");
    run(&["init", "--segment-size", "64K"]).expect(0, "/records of ");
    let file = s.text("file");
    let text = "VERSION=3\nformat=print\ndatabase=t\ntype=btree\nHEADER=END\n a\n b\nDATA=END\n";
    fs::write(&file, text).unwrap();
    run(&["load", "--from", &file]).expect(0, "1 records of 1 tables");
    run(&["dump", "-p"]).expect(0, " a\n b\n");
    run(&["verify"]).expect(0, "2 tables");
    run(&["recover"]).expect(0, "undone");
    let copy = s.text("copy");
    run(&["backup", "--to", &copy]).expect(0, "up to LSN");
    varve(["tp", "dump", &copy, "-p"]).expect(0, " a\n b\n");
    varve(["fsck", "--data", &image]).expect(0, "clean");
}

#[test]
fn a_bank_is_measured() {
    let s = Scratch::new();
    let dir = s.text("bank");
    let run = ["tp", "bench", &dir, "--seconds", "0", "--accounts", "300"];
    let told = varve(
        [
            &run[..],
            &["--threads", "2", "--durability", "buffered", "--json"],
        ]
        .concat(),
    );
    let told = told.expect(0, "").json();
    assert!(told["transactions"].as_u64().is_some());
    assert_eq!(told["images_total"], 0, "in shadow slots");
    varve(run).expect(1, "bench wants a new environment");
    // An empty environment may exist, but the measurement uses the requested placement.
    let placed = s.text("placed");
    varve(["tp", "init", &placed]).expect(0, "");
    let run = [
        "tp",
        "bench",
        &placed,
        "--seconds",
        "0",
        "--accounts",
        "300",
    ];
    let in_place = [&run[..], &["--in-place"]].concat();
    varve(in_place).expect(1, "lie elsewhere than is asked for: in shadow slots");
    varve(run).expect(0, "0 transactions");
    let other = s.text("in-place");
    let init = ["tp", "init", &other, "--in-place", "--never-torn"];
    varve(init).expect(0, "");
    let run = ["tp", "bench", &other, "--seconds", "0", "--accounts", "300"];
    varve([&run[..], &["--in-place"]].concat()).expect(1, "in place, never torn");
    varve(run).expect(0, "0 transactions");
    let stats = varve(["tp", "stats", &other, "--json"])
        .expect(0, "")
        .json();
    assert_eq!(stats["placement"], "in-place-never-torn");
    let forever = u64::MAX.to_string();
    varve(["tp", "bench", &s.text("other"), "--seconds", &forever]).expect(2, "--seconds");
    varve(["tp", "verify", &dir]).expect(0, "5 tables");
}

#[test]
fn copies_are_made_followed_and_restored() {
    use std::sync::Arc;
    use varve_tp::storage::HostStorage;
    use varve_tp::tpcb::{Store, Transfer};
    let s = Scratch::new();
    let (dir, archive, copy) = (s.text("env"), s.text("archive"), s.text("copy"));
    let mut options = varve_tp::Options::new();
    options
        .segment(64 << 10)
        .archive(Some(Arc::new(HostStorage::new(&archive).unwrap())));
    let shared = options.share(&dir).unwrap();
    shared.load(200).unwrap();
    // While it is in use, by its owner process.
    varve(["tp", "backup", &dir, "--to", &copy]).expect(0, "up to LSN");
    varve(["tp", "backup", &dir, "--to", &copy]).expect(1, "there is an environment already");
    shell(&format!("cp -a {copy} {copy}2; cp -a {copy} {copy}3"));
    let mut random = 1;
    for _ in 0..600 {
        shared.transfer(&Transfer::draw(&mut random, 200)).unwrap();
    }
    shared.held().unwrap().archive().unwrap();
    let follow = |copy: &str| {
        varve(["tp", "follow", copy, "--archive", &archive, "--json"])
            .expect(0, "")
            .json()
    };
    let first = follow(&copy);
    assert!(first["records"].as_u64().unwrap() > 1_000, "{first}");
    assert_eq!(follow(&copy)["records"], 0);
    let middle = first["position"].as_u64().unwrap() - 70_000;
    let until = format!("lsn:{middle}");
    let restore = |copy: &str, until: &str| {
        varve([
            "tp",
            "restore",
            copy,
            "--archive",
            &archive,
            "--until",
            until,
        ])
    };
    restore(&copy, &until).expect(1, "take an older one");
    restore(&format!("{copy}2"), "@1000").expect(1, "take an older one");
    restore(&format!("{copy}2"), "yesterday").expect(2, "is neither");
    let said = restore(&format!("{copy}2"), &until)
        .expect(0, "stands at LSN")
        .out;
    assert!(
        !said.contains(&format!("LSN {}", first["position"])),
        "{said}"
    );
    restore(&format!("{copy}2"), &until).expect(1, "it is no copy");
    varve(["tp", "verify", &format!("{copy}2")]).expect(0, "5 tables");
    // A command that would end a copy, or that has no source, leaves it a copy.
    varve(["tp", "backup", &copy, "--to", &s.text("other")]).expect(1, "it is a copy");
    let beyond = format!("lsn:{}", u64::MAX);
    restore(&copy, &beyond).expect(1, "it stays a copy");
    restore(&copy, "@18446744073709551615").expect(1, "it stays a copy");
    assert_eq!(follow(&copy)["records"], 0);
    let all = format!("{copy}4");
    shell(&format!("cp -a {copy} {all}"));
    restore(&all, &format!("lsn:{}", first["position"])).expect(0, "stands at LSN");
    // A missing segment is named.
    let mut names: Vec<_> = fs::read_dir(&archive)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("log-"))
        .collect();
    names.sort();
    let lost = &names[names.len() - 2];
    fs::remove_file(s.path("archive").join(lost)).unwrap();
    varve(["tp", "follow", &format!("{copy}3"), "--archive", &archive]).expect(1, lost);
    varve(["tp", "recover", &copy]).expect(0, "undone");
    varve(["tp", "follow", &copy, "--archive", &archive]).expect(1, "it is no copy");
}
