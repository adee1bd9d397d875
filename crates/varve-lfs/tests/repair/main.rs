//! `varve fsck --repair`: whatever single block of a volume is cleared, the
//! volume is whole afterwards, what is not concerned is as it was, and what is
//! lost is named.

#[path = "../check/volume.rs"]
#[allow(dead_code, reason = "the check's own tests use all of it")]
mod volume;

mod crashes;
mod sweep;
mod tree;
