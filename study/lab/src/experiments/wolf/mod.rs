//! Wang & Hu 2002: WOLF, the reordering write buffer (W).

pub(super) mod response_time;
pub(super) mod torn_segments;
pub(super) mod write_cost;
