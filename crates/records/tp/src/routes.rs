//! Places for copies of inner pages, one for each thread, mostly (`tree/routes.rs`).

use foldhash::HashMap;
use varve_device::sync::Mutex;

/// Places with copies; threads beyond these may meet others there.
pub(crate) const PLACES: usize = 64;

/// CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Place(pub Mutex<HashMap<u32, Box<[u8]>>>);

/// Copies of inner pages.
#[derive(Debug)]
pub(crate) struct Routes(pub Box<[Place]>);

impl Routes {
    pub(crate) fn new() -> Self {
        Routes((0..PLACES).map(|_| Place::default()).collect())
    }
}
