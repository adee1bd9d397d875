//! Maps of free space, which `varve lab age` writes and `varve mkfs --aged` reads.

use std::path::Path;
use varve::FreeMap;
use varve_console::Failure;

/// Largest map that is read, in bytes.
const MAP_BYTES_MAX: u64 = 1 << 30;

/// Reads a map.
pub fn load(path: &Path) -> Result<FreeMap, Failure> {
    let failed = |error: String| Failure::new(1, format_args!("{}: {error}", path.display()));
    let length = std::fs::metadata(path)
        .map_err(|error| failed(error.to_string()))?
        .len();
    if length > MAP_BYTES_MAX {
        return Err(failed(format!("{length} bytes are no map")));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| failed(format!("no map of free room: {error}")))
}
