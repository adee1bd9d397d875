//! `varve fsck --repair`: after any single block of a volume is cleared, repair makes the
//! volume whole, leaves unrelated files as they were, and reports every loss.

mod crashes;
pub mod sweep;
