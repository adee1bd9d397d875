//! Data files: tidy CSV and JSON.

use super::summaries;
use crate::error::LabError;
use crate::row::Row;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Writes through a file beside it, so that what stands there is whole.
pub(super) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let failed = |source| LabError::Io {
        path: path.to_owned(),
        source,
    };
    // Shards may write the same result at the same time.
    let beside = path.with_added_extension(format!("{}.part", std::process::id()));
    std::fs::write(&beside, text).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}

/// Writes anything as JSON.
///
/// # Errors
/// It cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), LabError> {
    let mut text = serde_json::to_string_pretty(value).expect("numbers and names");
    text.push('\n');
    write(path, &text)
}

/// Writes every value of every row, one a line, and its mean over the seeds.
///
/// # Errors
/// It cannot be written.
pub fn write_csv(path: &Path, rows: &[Row]) -> Result<(), LabError> {
    let mut text = String::from("series,x,measure,mean,confidence_95,seeds\n");
    for s in summaries(rows) {
        let series = s.series.replace('"', "\"\"");
        let _ = writeln!(
            text,
            "\"{series}\",{},{},{},{},{}",
            s.x, s.name, s.mean, s.confidence, s.seeds
        );
    }
    write(path, &text)
}
