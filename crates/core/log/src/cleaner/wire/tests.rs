//! Messages read back, fit, and are refused where they are none.

use super::*;

fn block(n: u64) -> Block {
    Block {
        ino: n.into(),
        block: (n + 1).into(),
        byte: (n + 2).into(),
        birth: (n + 3).into(),
        written_ns: (-5).into(),
        version: 6.into(),
        length: 4096.into(),
    }
}

#[test]
fn requests_and_answers_read_back_and_fit() {
    let requests = [
        Request::Wait {
            policy: "cost-benefit".into(),
        },
        Request::Usage { from: 7 },
        Request::Bmapv {
            segment: 3,
            from: u32::MAX,
        },
        Request::Markv {
            sorted: true,
            blocks: (0..BLOCKS as u64).map(block).collect(),
        },
        Request::Segclean { segment: 1 },
        Request::Release { segment: 2 },
        Request::Leave,
    ];
    for request in requests {
        let bytes = request.encode(99);
        assert!(bytes.len() <= MESSAGE_BYTES, "{}", bytes.len());
        assert_eq!(Request::parse(&bytes), Ok((99, request)));
    }
    let usage = Usage {
        live_bytes: 1.into(),
        newest_ns: 2.into(),
        segment: 3.into(),
        spare: 0.into(),
    };
    let answers = [
        Answer::Standing(Standing::read_from_bytes(&[1; 80]).unwrap()),
        Answer::Usage {
            segments: vec![usage; USAGES],
            next: Some(5),
        },
        Answer::Blocks {
            blocks: vec![block(1); BLOCKS],
            next: None,
        },
        Answer::Marked(Marked::default()),
        Answer::Done,
    ];
    for answer in answers {
        let bytes = answer.encode(7);
        assert!(bytes.len() <= MESSAGE_BYTES, "{}", bytes.len());
        assert_eq!(Answer::parse(&bytes), Ok((7, answer)));
    }
}

#[test]
fn what_is_malformed_is_refused() {
    let good = Request::Markv {
        sorted: false,
        blocks: vec![block(1)],
    }
    .encode(1);
    for length in 0..good.len() {
        assert!(Request::parse(&good[..length]).is_err(), "{length}");
    }
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        Request::parse(&bad)
    };
    assert_eq!(with(0, b'W'), Err(Malformed("not of a cleaner")));
    assert_eq!(with(4, 2), Err(Malformed("of another version")));
    assert_eq!(with(6, 0), Err(Malformed("an unknown call")));
    assert_eq!(with(6, 8), Err(Malformed("an unknown call")));
    assert_eq!(with(24, 2), Err(Malformed("records beyond the end")));
    assert_eq!(with(25, 2), Err(Malformed("too many records")));
    assert_eq!(with(28, 2), Err(Malformed("unknown flags")));
    for name in ["", "a b", "a\0", &"x".repeat(NAME_BYTES + 1)] {
        let policy = name.to_owned();
        assert!(Request::parse(&Request::Wait { policy }.encode(1)).is_err());
    }
    let mut far = Request::Segclean { segment: 1 }.encode(1);
    far[20] = 1;
    assert_eq!(
        Request::parse(&far),
        Err(Malformed("a number out of range"))
    );
}
