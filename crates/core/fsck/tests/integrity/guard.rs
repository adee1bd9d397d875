//! Files whose flags restrict opening, and the flag of the root directory that announces
//! them.

use crate::patient::patient;
use crate::repair::sweep::mend;
use crate::volume::{Image, checked};
use varve_fs::{InodeNo, flags};

#[test]
fn a_root_that_does_not_tell_of_flagged_files_is_found_and_mended() {
    for flag in [flags::IMMUTABLE, flags::APPEND_ONLY, flags::SYNC] {
        let (mut surgeon, files) = patient();
        surgeon.edit_inode(files["labelled"], |image| image.inode.flags |= flag);
        let report = surgeon.check(false);
        assert!(report.to_string().contains("does not tell"), "{report}");
        let device = surgeon.device();
        assert!(mend(&device, false).is_whole());
        let report = checked(&Image::from(device.snapshot()), true);
        assert!(report.is_spotless(), "{report}");

        surgeon.edit_inode(InodeNo::ROOT, |image| image.inode.flags |= flags::GUARDED);
        assert!(surgeon.check(true).is_spotless());
    }
}

#[test]
fn flags_that_open_nothing_need_no_word_from_the_root() {
    let (mut surgeon, files) = patient();
    surgeon.edit_inode(files["labelled"], |image| {
        image.inode.flags |= flags::NO_DUMP | flags::NO_ATIME;
    });
    surgeon.edit_inode(files["home"], |image| image.inode.flags |= flags::IMMUTABLE);
    assert!(surgeon.check(true).is_spotless());
}
