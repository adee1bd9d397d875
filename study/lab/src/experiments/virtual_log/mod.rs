//! Wang et al. 1999: the virtual log (V).

pub(super) mod block_sizes;
pub(super) mod eager_writing;
pub(super) mod idle_time;
pub(super) mod large_file;
pub(super) mod log_file_system;
pub(super) mod map_recovery;
pub(super) mod small_files;
pub(super) mod technology_trend;
pub(super) mod updates_by_utilisation;
