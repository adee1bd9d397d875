//! The selection that all policies share: rate, keep the best, sort.

use super::Candidate;

/// At most `limit` candidates by falling worth; those without a worth are not chosen.
/// Equally good ones are ordered by number, so that a choice is repeatable.
pub fn best(
    candidates: &[Candidate],
    limit: usize,
    worth: impl Fn(&Candidate) -> Option<f64>,
) -> Vec<Candidate> {
    let order = |a: &(f64, Candidate), b: &(f64, Candidate)| {
        b.0.total_cmp(&a.0).then(a.1.segment.cmp(&b.1.segment))
    };
    if limit == 0 {
        return Vec::new();
    }
    // Few of many are wanted: whenever twice as many have been collected the better half
    // is kept, and its worst is the bar for the following ones.
    let most = limit.saturating_mul(2).min(candidates.len().max(1));
    let mut rated: Vec<(f64, Candidate)> = Vec::with_capacity(most);
    let mut bar = f64::NEG_INFINITY;
    for candidate in candidates {
        let Some(worth) = worth(candidate) else {
            continue;
        };
        if worth < bar {
            continue;
        }
        if rated.len() == most {
            rated.select_nth_unstable_by(limit - 1, order);
            rated.truncate(limit);
            bar = rated[limit - 1].0;
        }
        rated.push((worth, *candidate));
    }
    rated.sort_unstable_by(order);
    rated.truncate(limit);
    rated.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The least utilised candidates that are worth cleaning.
pub fn emptiest(candidates: &[Candidate], limit: usize) -> Vec<Candidate> {
    best(candidates, limit, |c| {
        c.is_worth_it().then(|| -c.utilisation())
    })
}

#[cfg(test)]
mod tests {
    use super::super::candidate;
    use super::*;

    #[test]
    fn the_best_few_are_the_first_of_all() {
        let candidates: Vec<Candidate> = (0..100)
            .map(|i| candidate(i, u64::from(i * 37 % 100) * 10, 0))
            .collect();
        let all = emptiest(&candidates, usize::MAX);
        assert_eq!(all.len(), 99, "990 of 1000 bytes is not worth it");
        assert!(all.is_sorted_by_key(|c| c.live_bytes));
        for limit in [0, 1, 7, 99, 100] {
            assert_eq!(emptiest(&candidates, limit), all[..limit.min(99)]);
        }
    }
}
