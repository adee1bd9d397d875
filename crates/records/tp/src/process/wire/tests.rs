//! Requests and answers are parsed back from their bytes.

use super::*;
use crate::error::Error;

#[test]
fn requests_and_answers_survive_and_parts_of_them_are_refused() {
    let requests = [
        Request::Begin { writes: true },
        Request::Open {
            name: "a",
            types: "str -> u8",
        },
        Request::Get {
            table: 7,
            key: b"key",
            update: true,
        },
        Request::Put {
            table: 1,
            key: b"",
            value: b"value",
        },
        Request::Range {
            table: 2,
            from: Bound::Excluded(b"a"),
            to: Bound::Unbounded,
            backward: true,
        },
        Request::Commit { durable: None },
        Request::Backup { directory: "/b" },
    ];
    let mut text = Vec::new();
    requests
        .iter()
        .for_each(|request| request.encode(&mut text));
    let mut rest = &text[..];
    let parsed: Vec<_> = std::iter::from_fn(|| Request::parse(&mut rest)).collect();
    assert_eq!(parsed, requests);
    let answers = [
        Ok(Answer::Rows(
            vec![(vec![1], vec![]), (vec![], vec![2])],
            true,
        )),
        Ok(Answer::Value(Some(vec![3]))),
        Err(Error::Deadlock),
        Err(Error::damaged("pages", 9, "what")),
        Err(Error::SnapshotTooOld { limit: 7 }),
        Err(Error::TableDropped),
        Err(Error::NoNumber),
        Err(Error::IndexNotGiven {
            table: "a".into(),
            index: "b".into(),
        }),
        Err(Error::BufferFull { frames: 1 }),
    ];
    for answer in answers {
        let mut text = Vec::new();
        encode(&answer, &mut text);
        let decoded = decode(&text).unwrap();
        match (&decoded, &answer) {
            (Ok(a), Ok(b)) => assert_eq!(a, b),
            (Err(a), Err(b)) => {
                assert!(a.to_string().ends_with(&b.to_string()));
                // All errors but one have their own code.
                let in_words = matches!(b, Error::BufferFull { .. });
                assert_eq!(matches!(a, Error::Holder(_)), in_words, "{b}");
            }
            _ => panic!("{decoded:?} for {answer:?}"),
        }
        for cut in 0..text.len() {
            assert!(decode(&text[..cut]).is_none(), "{cut}");
        }
        look(&text);
    }
}
