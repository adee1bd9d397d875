//! A populated volume after a clean unmount, for tests that damage it.

use crate::surgeon::Surgeon;
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use varve_fs::InodeNo;

/// Files of the test volume, by name.
pub type Files = BTreeMap<&'static str, InodeNo>;

/// Returns a copy of the volume, which is made once.
pub fn patient() -> (Surgeon, Files) {
    static PATIENT: OnceLock<(Surgeon, Files)> = OnceLock::new();
    let made = PATIENT.get_or_init(|| {
        let volume = Volume::new(16 << 20);
        volume.populate();
        let root = InodeNo::ROOT;
        let home = volume.lookup(root, "home");
        let deep = volume.lookup(home, "deep");
        let files = BTreeMap::from([
            ("home", home),
            ("deep", deep),
            ("many", volume.lookup(root, "many")),
            ("file7", volume.lookup(home, "file7")),
            ("file9", volume.lookup(home, "file9")),
            ("file15", volume.lookup(home, "file15")),
            ("labelled", volume.lookup(home, "labelled")),
            ("reserved", volume.lookup(home, "reserved")),
            ("large", volume.lookup(deep, "large")),
            ("long", volume.lookup(deep, "long")),
            ("short", volume.lookup(deep, "short")),
            ("sparse", volume.lookup(deep, "sparse")),
        ]);
        volume.unmount();
        (Surgeon::new(&volume.device), files)
    });
    made.clone()
}
