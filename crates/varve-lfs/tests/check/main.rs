//! `varve fsck`: sound volumes give no findings, each kind of damage gives
//! its own, and no bytes make it panic.

mod sound;
mod volume;
