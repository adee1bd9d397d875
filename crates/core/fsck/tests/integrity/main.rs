//! Check, repair, salvage and verification of damaged volumes.
//!
//! All tests are in one binary, so that they share one populated volume, one module that
//! edits single structures, and one reader of whole trees.

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
