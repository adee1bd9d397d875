//! Lines of strace and the operations they become.

use super::*;
use crate::workload::Op;

fn ops(text: &str) -> Result<Vec<Op>, TraceError> {
    let mut files = FileSet::default();
    let mut reader = Reader::default();
    for (at, text) in text.lines().enumerate() {
        let line = Line {
            name: "t",
            record: at + 1,
            text,
        };
        reader.line(&mut files, &line)?;
    }
    let ops = files.finish().ops.into_iter();
    Ok(ops.filter(|op| !matches!(op, Op::Wait { .. })).collect())
}

const WRITE: fn(u32) -> Op = |block| Op::Write { block };

#[test]
fn calls_become_operations() {
    let text = "\
1700000000.000001 openat(AT_FDCWD, \"/d/a, (b\\\"\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3
1700000000.100001 write(3, \"x\\\", (y\"..., 4096) = 4096
1700000000.200001 write(3, \"z\", 4096) = 100
1700000000.300001 pwrite64(3, \"\"..., 4096, 4096) = -1 ENOSPC (No space left on device)
1700000000.300001 fsync(3)                = 0
1700000000.300001 lseek(3, 0, SEEK_SET)   = 0
1700000000.300001 read(3, \"\"..., 8192)    = 4196
1700000000.300001 close(3)                = 0
1700000000.300001 write(3, \"nobody's\", 8) = 8
1700000000.300001 rename(\"/d/a, (b\\\"\", \"/d/c\") = 0
1700000000.300001 unlink(\"/d/c\")          = 0
--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
+++ exited with 0 +++
";
    let read = |block| Op::Read { block };
    let trim = |block| Op::Trim { block };
    let want = [
        WRITE(0),
        WRITE(1),
        Op::Sync,
        read(0),
        read(1),
        trim(0),
        trim(1),
    ];
    assert_eq!(ops(text).unwrap(), want);
}

#[test]
fn places_in_other_words() {
    let text = "\
openat(AT_FDCWD, \"/d/a\", O_RDWR|O_CREAT, 0644) = 3
_llseek(3, 8192, [8192], SEEK_SET) = 0
write(3, \"\"..., 4096) = 4096
pwritev2(3, [{iov_base=\"\", iov_len=4096}], 1, -1, 0) = 4096
pwritev2(3, [{iov_base=\"\", iov_len=4096}], 1, 0, 0) = 4096
write(3, \"\"..., 4096) = 4096
";
    // Blocks are numbered as they come: the third, the fourth, the first, the fifth.
    let want = [WRITE(0), WRITE(1), WRITE(2), WRITE(3)];
    assert_eq!(ops(text).unwrap(), want);
    assert!(ops(&text.replace("[8192]", "[x]")).is_err());
}

#[test]
fn threads_paths_and_interrupted_calls() {
    let text = "\
[pid 10] 12:00:00.5 pwrite64(7</x/y>, \"\"..., 4096, 0 <unfinished ...>
[pid 11] 12:00:00.6 write(1</dev/pts/0>, \"a\", 1) = 1
[pid 11] 12:00:00.6 write(8</x/z>, \"a\", 1) = 1
[pid 10] 12:00:00.7 <... pwrite64 resumed>) = 4096
[pid 12] 12:00:00.7 <... futex resumed>) = 0
10 openat(AT_FDCWD, \"/l\", O_WRONLY|O_APPEND) = 9
10 write(9, \"\"..., 4096) = 4096
10 openat(AT_FDCWD, \"/l\", O_WRONLY|O_APPEND) = 10
10 write(10, \"\"..., 4096) = 4096
10 exit_group(0) = ?
";
    let blocks = [0, 1, 2, 3].map(WRITE);
    assert_eq!(ops(text).unwrap(), blocks);
}

#[test]
fn a_descriptor_is_the_path_that_is_shown() {
    let text = "\
10 openat(AT_FDCWD</d>, \"a\", O_RDWR|O_CREAT, 0644) = 3</d/a>
10 pwrite64(3</d/a>, \"\"..., 4096, 0) = 4096
11 openat(AT_FDCWD</d>, \"b, (1\", O_RDWR) = 3</d/b, (1>
10 pwrite64(3</d/b, (1>, \"\"..., 4096, 0) = 4096
12 write(3</d/a>, \"\"..., 4096) = 4096
13 write(3</d/b, (1>, \"\"..., 4096) = 4096
10 dup2(7<pipe:[1]>, 3</d/a>) = 3<pipe:[1]>
10 write(3<pipe:[1]>, \"\"..., 4096) = 4096
10 unlink(\"./a\") = 0
10 pwrite64(3</d/c>, \"\"..., 2147479552, 0) = 2147479552
10 execve(\"/bin/x\", [\"LONG\"], 0x1) = 0
";
    let text = text.replace("LONG", &"x".repeat(20_000));
    let ops = ops(&text).unwrap();
    let want = [
        WRITE(0),
        WRITE(1),
        WRITE(0),
        WRITE(1),
        Op::Trim { block: 0 },
    ];
    assert_eq!(ops[..5], want);
    assert_eq!(ops[5..].len() as u64, LONGEST / 4096);
}

#[test]
fn what_the_first_process_opened_is_inherited() {
    let text = "\
openat(AT_FDCWD, \"/a\", O_RDWR) = 3
[pid 11] write(3, \"\"..., 4096) = 4096
[pid 12] write(3, \"\"..., 4096) = 4096
[pid 12] openat(AT_FDCWD, \"/b\", O_RDWR) = 3
[pid 12] write(3, \"\"..., 4096) = 4096
[pid 11] pwrite64(3, \"\"..., 4096, 0) = 4096
[pid 12] +++ exited with 0 +++
[pid 12] pwrite64(3, \"\"..., 4096, 0) = 4096
";
    assert_eq!(ops(text).unwrap(), [0, 1, 2, 0, 0].map(WRITE));
}

#[test]
fn nonsense_is_refused_with_its_line() {
    for wrong in [
        "hello",
        "write(3, \"abc",
        "write(3, \"abc\", 3)",
        "pwrite64(3, \"\", 4096, x) = 4096",
        "pwrite64(3, \"\", 4096, 0) = 99999999999",
        "<... write res",
    ] {
        let error = ops(&format!("close(1) = 0\n{wrong}\n")).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("t, record 2: "), "{error}");
    }
}
