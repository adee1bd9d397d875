//! Verification in use: damage is found and named, and undamaged structures never are,
//! whatever runs in parallel.

mod beside;
mod flipped;
mod forced;
mod forged;

use crate::volume::Volume;
use std::sync::Arc;
use varve_device::Device;
use varve_fsck::verify::{Control, Outcome, Verification, VerifyOptions};

/// Verifies the tree and all data.
fn scrub<D: Device + 'static>(volume: &Volume<D>) -> Verification {
    let options = VerifyOptions {
        data: true,
        ..VerifyOptions::default()
    };
    let control = Arc::new(Control::new(0));
    let report = varve_fsck::verify::verify(&volume.lfs, &control, &options).expect("nobody else");
    assert_eq!(report.outcome, Outcome::Complete);
    assert_eq!(control.progress().errors, report.found);
    report
}
