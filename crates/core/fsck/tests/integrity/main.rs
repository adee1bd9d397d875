//! What becomes of a damaged volume, offline and in service.
//!
//! One binary, so that one populated volume, one surgeon who changes single
//! things on it and one reader of whole trees serve all of it.

mod check;
mod crafted;
mod extremes;
mod forms;
mod guard;

mod patient;
mod repair;
mod salvage;
mod surgeon;
mod tree;
mod verify;
mod volume;
