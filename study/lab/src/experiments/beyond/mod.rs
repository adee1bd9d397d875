//! What no paper measured (N).

pub(super) mod assumptions;
pub(super) mod log_on_log;
pub(super) mod mounted_traces;
pub(super) mod policies_on_traces;
pub(super) mod real_log;
pub(super) mod scan_by_place;
