//! The server's side of `varve top`: the segment map.
//!
//! | question | answer |
//! |---|---|
//! | `{"segments": 2000}` | `{"count": 512, "per_cell": 1, "use": "...", "age": "..."}` |
//!
//! Each character of `use` and `age` is a cell, at most as many as asked for; if there
//! are more segments, neighbouring ones share a cell. `use` is the mean utilisation in
//! tenths, rounded down, `.` if all are clean, `@` if the log is in one. `age` is the
//! binary logarithm of the seconds since the youngest user write, in base 36; `-` if
//! there was none.

use serde_json::{Value, json};
use varve_lfs::{Lfs, SegmentState, SegmentUse};

/// Most cells of an answer: it must fit an ioctl.
const CELLS_MAX: u64 = 7000;

/// The server's answer, or `None` for another request.
pub fn answer(question: &Value, layout: &Lfs) -> Option<Value> {
    let cells = question["segments"].as_u64()?;
    Some(describe(&layout.segment_map(), cells, layout.now_ns()))
}

fn describe(map: &[SegmentUse], cells: u64, now_ns: i64) -> Value {
    let cells = cells.clamp(1, CELLS_MAX) as usize;
    let per_cell = map.len().div_ceil(cells).max(1);
    let uses: String = map.chunks(per_cell).map(use_of).collect();
    let ages = map.chunks(per_cell).map(|cell| age_of(cell, now_ns));
    json!({
        "count": map.len(),
        "per_cell": per_cell,
        "use": uses,
        "age": ages.collect::<String>(),
    })
}

fn use_of(cell: &[SegmentUse]) -> char {
    if cell.iter().any(|s| s.state == SegmentState::Open) {
        return '@';
    }
    if cell.iter().all(|s| s.state == SegmentState::Clean) {
        return '.';
    }
    let live: f64 = cell.iter().map(SegmentUse::utilisation).sum();
    let tenth = (10.0 * live / cell.len() as f64).min(9.0) as u32;
    char::from_digit(tenth, 10).unwrap_or('9')
}

fn age_of(cell: &[SegmentUse], now_ns: i64) -> char {
    let used = cell.iter().filter(|s| s.state != SegmentState::Clean);
    let Some(newest) = used.map(|s| s.newest_ns).max().filter(|ns| *ns > 0) else {
        return '-';
    };
    let age_s = now_ns.saturating_sub(newest) / 1_000_000_000;
    let octave = u64::try_from(age_s).unwrap_or(0).max(1).ilog2();
    char::from_digit(octave.min(35), 36).unwrap_or('z')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(state: SegmentState, live_bytes: u64, newest_s: i64) -> SegmentUse {
        SegmentUse {
            state,
            live_bytes,
            room_bytes: 1000,
            newest_ns: newest_s * 1_000_000_000,
        }
    }

    #[test]
    fn cells_say_how_full_and_how_old() {
        let map = [
            segment(SegmentState::Clean, 0, 0),
            segment(SegmentState::Clean, 0, 90),
            segment(SegmentState::Open, 100, 99),
            segment(SegmentState::Used, 999, 68),
            segment(SegmentState::Used, 500, 0),
            segment(SegmentState::Clean, 0, 0),
        ];
        let now_ns = 100_000_000_000;
        let all = describe(&map, 100, now_ns);
        assert_eq!(all["use"], "..@95.");
        assert_eq!(all["age"], "--05--");
        let two = describe(&map, 3, now_ns);
        assert_eq!((&two["per_cell"], &two["use"]), (&json!(2), &json!(".@2")));
        assert_eq!(two["age"], "-0-");
        assert_eq!(describe(&[], 5, 0)["use"], "");
    }

    #[test]
    fn an_answer_fits_an_ioctl() {
        let map = vec![segment(SegmentState::Used, 1, 1); 1_000_000];
        let answer = describe(&map, u64::MAX, i64::MAX).to_string();
        assert!(
            answer.len() < varve_fuse::QUESTION_BYTES,
            "{}",
            answer.len()
        );
    }
}
