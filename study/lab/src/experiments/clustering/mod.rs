//! Seltzer et al. 1995: logging against clustering (L).

pub(super) mod aged_file_system;
pub(super) mod file_sizes;
pub(super) mod sprite_scaled;
pub(super) mod tpcb_by_utilisation;
