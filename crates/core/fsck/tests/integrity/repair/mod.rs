//! `varve fsck --repair`: whatever single block of a volume is cleared, the
//! volume is whole afterwards, what is not concerned is as it was, and what is
//! lost is named.

mod crashes;
pub mod sweep;
