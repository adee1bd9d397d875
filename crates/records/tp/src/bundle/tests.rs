//! Bundles are compared with a map of whole keys, and invalid bytes are refused.

use super::*;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

const LIMIT: usize = 4;

fn cell(bytes: &[u8]) -> Cell<'_> {
    Cell {
        overflow: bytes.first() == Some(&7),
        bytes,
    }
}

#[test]
fn a_bundle_lies_where_its_keys_do() {
    assert_eq!(tree_key(b"abcd", LIMIT), None);
    let bundle = tree_key(b"abcde", LIMIT).unwrap();
    assert_eq!(bundle, b"abcd\0");
    assert!(is_bundle(&bundle, LIMIT) && !is_bundle(b"abcd", LIMIT));
    // Long and short keys in ascending order; the tree's keys have the same order.
    let keys: [&[u8]; 9] = [
        b"",
        b"abc",
        b"abcd",
        b"abcd\0",
        b"abcd\0\0",
        b"abcda",
        b"abce",
        b"abce\xff",
        b"b",
    ];
    let keys = keys.map(|key| tree_key(key, LIMIT).unwrap_or(key.to_vec()));
    assert!(keys.is_sorted());
}

/// Every change of small sets of keys is compared with a map.
#[test]
fn bundles_beside_a_map() {
    let rests: [&[u8]; 8] = [b"a", b"aa", b"ab", b"aba", b"b", b"ba", b"\0", b"\xff\xff"];
    for chosen in 1u32..256 {
        let mut model = BTreeMap::new();
        let mut bytes = Vec::new();
        let key = |at: usize| [b"head", rests[at]].concat();
        for at in (0..8).rev().filter(|at| chosen >> at & 1 == 1) {
            bytes = match bytes.is_empty() {
                true => of_one(&key(at), LIMIT, cell(&[at as u8; 3])),
                false => {
                    let bundle = Bundle::parse(b"head", bytes).unwrap();
                    bundle.with(&key(at), Some(cell(&[at as u8; 3])))
                }
            };
            model.insert(key(at), [at as u8; 3]);
        }
        let bundle = Bundle::parse(b"head", bytes.clone()).unwrap();
        let all = (0..bundle.len()).map(|at| (bundle.key(at), bundle.value(at)));
        assert!(all.eq(model.iter().map(|(key, value)| (key.clone(), cell(value)))));
        for at in 0..8 {
            let found = bundle.search(&key(at)).ok().map(|at| bundle.value(at));
            assert_eq!(found, model.get(&key(at)).map(|value| cell(value)));
            let to = key(7 - at);
            for (from, to) in [
                (Bound::Included(&key(at)[..]), Bound::Excluded(&to[..])),
                (Bound::Excluded(&key(at)[..]), Bound::Included(&to[..])),
                (Bound::Unbounded, Bound::Included(b"head")),
                (Bound::Excluded(&b"head"[..]), Bound::Unbounded),
            ] {
                let expected = model
                    .keys()
                    .filter(|key| RangeBounds::<[u8]>::contains(&(from, to), &key[..]));
                let within = bundle.within(from, to).map(|at| bundle.key(at));
                assert!(within.eq(expected.cloned()));
            }
            let fewer = bundle.with(&key(at), None);
            let left = model.len() - usize::from(model.contains_key(&key(at)));
            match Bundle::parse(b"head", fewer.clone()) {
                Some(fewer) => assert!(fewer.len() == left && fewer.search(&key(at)).is_err()),
                None => assert!(left == 0 && fewer.is_empty()),
            }
        }
    }
}

#[test]
fn what_is_alike_is_counted_in_blocks_and_behind_them() {
    for length in [0, 1, 4095, 4096, 4097, 10_000] {
        let a = vec![7; length];
        for longer in [0, 1, 5000] {
            let mut b = vec![7; length + longer];
            assert_eq!((same(&a, &b), same(&b, &a)), (length, length));
            for at in [0, 1, 4095, 4096, 9_999]
                .into_iter()
                .filter(|at| *at < length)
            {
                b[at] = 8;
                assert_eq!(same(&a, &b), at);
                b[at] = 7;
            }
        }
    }
}

/// Keys with a long common beginning cost only the bytes in which they differ.
#[test]
fn what_keys_share_is_there_once() {
    let key = |last: u8| [&[7; 1000][..], &[last]].concat();
    let mut bytes = of_one(&key(0), LIMIT, cell(b"value"));
    for last in 1..100 {
        let bundle = Bundle::parse(&[7; LIMIT], bytes).unwrap();
        bytes = bundle.with(&key(last), Some(cell(b"value")));
    }
    assert!(bytes.len() < 1100 + 100 * (ENTRY + 6), "{}", bytes.len());
}

#[test]
fn what_is_no_bundle_is_told() {
    let entry = |shared: u32, own: &[u8], value: &[u8]| {
        let lengths = [shared, own.len() as u32, value.len() as u32];
        let lengths = lengths.map(u32::to_le_bytes).concat();
        [&lengths[..], own, value].concat()
    };
    let base = [&2u32.to_le_bytes()[..], b"bb"].concat();
    let parse = |parts: &[&[u8]]| Bundle::parse(b"head", parts.concat());
    let first = entry(2, b"", b"v");
    let good = parse(&[&base, &first, &entry(1, b"c", b"w")]).unwrap();
    assert_eq!(
        (good.key(1), good.value(1)),
        (b"headbc".to_vec(), cell(b"w"))
    );
    assert!(parse(&[]).is_none());
    assert!(parse(&[&base]).is_none(), "no key");
    assert!(
        parse(&[&base, &entry(1, b"b", b"v")]).is_none(),
        "not whole"
    );
    assert!(parse(&[&base, &first, &first]).is_none(), "twice");
    assert!(
        parse(&[&base, &first, &entry(1, b"a", b"")]).is_none(),
        "not in order"
    );
    assert!(
        parse(&[&base, &first, &entry(3, b"", b"")]).is_none(),
        "more than there is"
    );
    assert!(parse(&[&base, &first[..first.len() - 1]]).is_none(), "cut");
    assert!(
        parse(&[&u32::MAX.to_le_bytes(), b"bb"]).is_none(),
        "longer than all"
    );
    let long = [2, 0, u32::MAX].map(u32::to_le_bytes).concat();
    assert!(parse(&[&base, &long]).is_none(), "a value longer than all");
}
