//! Means, confidence and shapes of distributions.

use crate::row::Row;
use std::collections::BTreeMap;

/// All seeds of one point of one curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The curve.
    pub series: String,
    /// Where on it.
    pub x: f64,
    /// What was measured.
    pub name: String,
    /// Mean over the seeds.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; 0 for one seed.
    pub confidence: f64,
    /// How many seeds.
    pub seeds: usize,
}

/// Student's t at 97.5 % for 1 to 9 degrees of freedom, then the normal's.
fn student(degrees: usize) -> f64 {
    const TABLE: [f64; 9] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
    ];
    TABLE.get(degrees.wrapping_sub(1)).copied().unwrap_or(1.96)
}

/// Means and confidence of every value, in the order of the rows.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let mut order = Vec::new();
    let mut groups: BTreeMap<(&str, u64, &str), Vec<f64>> = BTreeMap::new();
    for row in rows {
        for (name, value) in &row.values {
            let key = (row.series.as_str(), row.x.to_bits(), name.as_str());
            groups.entry(key).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            groups.get_mut(&key).expect("just made").push(*value);
        }
    }
    let summary = |key: (&str, u64, &str)| {
        let values = &groups[&key];
        let (n, mean) = (values.len(), average(values));
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let confidence = match n {
            1 => 0.0,
            _ => student(n - 1) * (squares / (n - 1) as f64 / n as f64).sqrt(),
        };
        Summary {
            series: key.0.to_owned(),
            x: f64::from_bits(key.1),
            name: key.2.to_owned(),
            mean,
            confidence,
            seeds: n,
        }
    };
    order.into_iter().map(summary).collect()
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean of a value on a curve; no number if there is none.
pub fn mean(rows: &[Row], series: &str, x: f64, name: &str) -> f64 {
    #[cfg(test)]
    super::asked::note(series, x, name);
    let of = rows.iter().filter(|r| r.series == series && r.x == x);
    let values: Vec<f64> = of.filter_map(|r| r.values.get(name).copied()).collect();
    average(&values)
}

/// Half of the 95 % confidence interval of the mean of batches of one run, as a
/// share of it; no number for fewer than two batches.
///
/// Source: Law & Kelton 1982, batch means.
pub fn deviation_of_batches(batches: &[f64]) -> f64 {
    if batches.len() < 2 {
        return f64::NAN;
    }
    let (n, mean) = (batches.len() as f64, average(batches));
    let squares: f64 = batches.iter().map(|v| (v - mean).powi(2)).sum();
    student(batches.len() - 1) * (squares / (n - 1.0) / n).sqrt() / mean
}

/// Sarle's bimodality coefficient: (skewness² + 1) / kurtosis, 5/9 for a
/// uniform distribution, 1 for two points; no number for fewer than four
/// values or equal ones.
pub fn bimodality(values: &[f64]) -> f64 {
    if values.len() < 4 {
        return f64::NAN;
    }
    let mean = average(values);
    let moment = |power| {
        let powers = values.iter().map(|v| (v - mean).powi(power));
        powers.sum::<f64>() / values.len() as f64
    };
    let variance = moment(2);
    let skewness = moment(3) / variance.powf(1.5);
    let kurtosis = moment(4) / variance.powi(2);
    (skewness * skewness + 1.0) / kurtosis
}

/// Steps at which a histogram has its modes: peaks between which it falls to
/// less than half of the lower one.
pub fn modes(histogram: &[f64]) -> Vec<usize> {
    let mut modes: Vec<usize> = Vec::new();
    for at in 0..histogram.len() {
        if histogram[at] <= 0.0 {
            continue;
        }
        let Some(&last) = modes.last() else {
            modes.push(at);
            continue;
        };
        let valley = histogram[last..=at]
            .iter()
            .fold(f64::INFINITY, |a, b| a.min(*b));
        if valley < histogram[last].min(histogram[at]) / 2.0 {
            modes.push(at);
        } else if histogram[at] > histogram[last] {
            modes.pop();
            modes.push(at);
        }
    }
    modes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_confidence() {
        let row = |seed, value| Row::new("a", 0.5, seed).with("cost", value);
        let rows = [row(1, 1.0), row(2, 2.0), row(3, 3.0)];
        let [summary] = &summaries(&rows)[..] else {
            panic!("one point");
        };
        assert_eq!((summary.mean, summary.seeds), (2.0, 3));
        // 4.303 / sqrt 3.
        assert!((summary.confidence - 2.484).abs() < 0.001);
        assert_eq!(mean(&rows, "a", 0.5, "cost"), 2.0);
        assert!(mean(&rows, "b", 0.5, "cost").is_nan());
    }

    #[test]
    fn batches_have_confidence_relative_to_their_mean() {
        // As above, of a mean of 2.
        let relative = deviation_of_batches(&[1.0, 2.0, 3.0]);
        assert!((relative - 1.242).abs() < 0.001);
        assert!(deviation_of_batches(&[1.0]).is_nan());
    }

    #[test]
    fn two_points_are_as_bimodal_as_can_be() {
        let two = [0.0, 1.0, 0.0, 1.0];
        assert!((bimodality(&two) - 1.0).abs() < 1e-9);
        let even: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!((bimodality(&even) - 5.0 / 9.0).abs() < 0.01);
        assert!(bimodality(&[0.5; 9]).is_nan());
    }

    #[test]
    fn modes_are_peaks_with_a_valley() {
        assert_eq!(modes(&[1.0, 4.0, 3.0, 1.0, 2.0, 6.0, 5.0]), [1, 5]);
        assert_eq!(modes(&[1.0, 4.0, 3.0, 4.5, 2.5]), [3]);
        assert_eq!(modes(&[0.0, 0.0]), [0; 0]);
    }
}
