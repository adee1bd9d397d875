//! Tables are compared with `BTreeMap` under random operations.

use crate::common::{Model, Random, TABLE, change, content, seed, small, wherever_pages_lie};
use std::ops::Bound;
use std::sync::Arc;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Savepoint};

fn look(random: &mut Random, environment: &Environment, model: &Model) {
    let transaction = environment.begin_read();
    let Ok(table) = transaction.open_table(TABLE) else {
        assert!(model.is_empty());
        return;
    };
    let (a, b) = (random.key(), random.key());
    let (low, high) = (a.clone().min(b.clone()), a.max(b));
    let expected: Vec<_> = model.range(low.clone()..high.clone()).collect();
    let forward: Vec<_> = table
        .range(&low[..]..&high[..])
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(
        forward
            .iter()
            .map(|(k, v)| (k, v))
            .eq(expected.iter().copied())
    );
    let excluded = (Bound::Excluded(&low[..]), Bound::Included(&high[..]));
    let backward: Vec<_> = table
        .range(excluded)
        .unwrap()
        .rev()
        .map(Result::unwrap)
        .collect();
    let bounds = (Bound::Excluded(low), Bound::Included(high));
    let expected: Vec<_> = model.range(bounds).rev().collect();
    assert!(backward.iter().map(|(k, v)| (k, v)).eq(expected));
    // The iteration advances from both ends until they meet.
    let mut all = table.iter().unwrap();
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let next = if random.one_in(2) {
            (all.next(), true)
        } else {
            (all.next_back(), false)
        };
        match next {
            (None, _) => break,
            (Some(row), true) => front.push(row.unwrap()),
            (Some(row), false) => back.push(row.unwrap()),
        }
    }
    front.extend(back.into_iter().rev());
    assert!(front.iter().map(|(k, v)| (k, v)).eq(model.iter()));
}

#[test]
fn random_operations_beside_a_map() {
    wherever_pages_lie(|| {
        let seed = seed("random_operations_beside_a_map");
        for round in 0..6 {
            let mut random = Random::new(seed + round);
            let storage = Arc::new(MemoryStorage::new());
            let mut environment = small().open_storage(storage.clone()).unwrap();
            let mut model = Model::new();
            for step in 0..150 {
                let transaction = environment.begin_write();
                let mut changed = model.clone();
                let mut saved: Vec<(Savepoint, Model)> = Vec::new();
                for _ in 0..random.below(40) {
                    change(&mut random, &transaction, &mut changed);
                    if random.one_in(12) {
                        saved.push((transaction.savepoint(), changed.clone()));
                    }
                    if random.one_in(20)
                        && let Some((savepoint, before)) = saved.pop()
                    {
                        transaction.rollback_to(savepoint).unwrap();
                        changed = before;
                    }
                }
                match random.below(4) {
                    0 => transaction.abort().unwrap(),
                    1 => drop(transaction),
                    _ => {
                        transaction.commit().unwrap();
                        model = changed;
                    }
                }
                environment.maintain().unwrap();
                match random.below(20) {
                    0 => {
                        drop(environment);
                        environment = small().open_storage(storage.clone()).unwrap();
                    }
                    1 => {
                        environment.close().unwrap();
                        environment = small().open_storage(storage.clone()).unwrap();
                        assert_eq!(environment.recovery().redone, 0);
                    }
                    2 => look(&mut random, &environment, &model),
                    _ => {}
                }
                if step % 10 == 0 {
                    let verified = environment.verify().unwrap();
                    assert_eq!(verified.lost_pages, 0, "{verified:?}");
                    assert_eq!(content(&environment), model);
                }
            }
            let transaction = environment.begin_write();
            let table = transaction.open_table(TABLE).unwrap();
            model
                .keys()
                .for_each(|key| assert!(table.remove(key).unwrap()));
            transaction.commit().unwrap();
            let verified = environment.verify().unwrap();
            assert_eq!((verified.lost_pages, verified.overflow_pages), (0, 0));
            assert_eq!(verified.tree_pages, 2, "all merged again: {verified:?}");
        }
    });
}
