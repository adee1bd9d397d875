//! What an experiment measures.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measured row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which curve it belongs to.
    pub series: String,
    /// Where on it.
    pub x: f64,
    /// The seed it was measured with.
    pub seed: u64,
    /// What was measured, by name.
    pub values: BTreeMap<String, f64>,
}

impl Row {
    /// A row without values.
    pub fn new(series: impl Into<String>, x: f64, seed: u64) -> Self {
        Row {
            series: series.into(),
            x,
            seed,
            values: BTreeMap::new(),
        }
    }

    /// With a value more. What is no number is left out.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        if value.is_finite() {
            self.values.insert(name.to_owned(), value);
        }
        self
    }
}
