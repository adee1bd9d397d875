//! `varve fsck`: undamaged volumes give no findings, each kind of damage gives its own,
//! and no bytes make it panic.

mod concurrent;
mod crashes;
mod damage;
mod found;
mod inspect;
mod large_table;
pub mod mutations;
mod sound;
