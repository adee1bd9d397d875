//! Copies of inner pages, usually one set for each thread (`tree/routes.rs`).

use foldhash::HashMap;
use varve_device::sync::Mutex;

/// Number of sets; further threads share them.
pub(crate) const PLACES: usize = 64;

/// The alignment is 128 because CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Place(pub Mutex<HashMap<u32, Box<[u8]>>>);

/// The sets of copies.
#[derive(Debug)]
pub(crate) struct Routes(pub Box<[Place]>);

impl Routes {
    pub(crate) fn new() -> Self {
        Routes((0..PLACES).map(|_| Place::default()).collect())
    }
}
