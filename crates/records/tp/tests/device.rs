//! Environments on a device, and on the host's files.

use crate::common::{TABLE, content, small, wherever_pages_lie};
use std::sync::Arc;
use varve_device::MemoryDevice;
use varve_tp::storage::{DeviceStorage, MemoryStorage};
use varve_tp::{Environment, Error, Options};

fn fill(environment: &Environment) {
    for number in 0..300u32 {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        table
            .insert(&number.to_be_bytes(), &[number as u8; 90])
            .unwrap();
        transaction.commit().unwrap();
        environment.maintain().unwrap();
    }
}

#[test]
fn a_device_holds_an_environment() {
    wherever_pages_lie(|| {
        let device = Arc::new(MemoryDevice::new(64 << 20));
        let open = || {
            let storage = DeviceStorage::new(device.clone(), 1 << 20).unwrap();
            small().open_storage(Arc::new(storage)).unwrap()
        };
        let environment = open();
        fill(&environment);
        drop(environment);
        let environment = open();
        assert_eq!(content(&environment).len(), 300);
        environment.close().unwrap();
        assert_eq!(content(&open()).len(), 300);
    });
}

#[test]
fn a_directory_holds_one_and_one_process_has_it() {
    wherever_pages_lie(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut options: Options = small();
        let environment = options.open(directory.path()).unwrap();
        fill(&environment);
        assert!(matches!(options.open(directory.path()), Err(Error::InUse)));
        drop(environment);
        let environment = options.create(false).open(directory.path()).unwrap();
        assert_eq!(content(&environment).len(), 300);
        environment.verify().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        assert!(matches!(
            options.open(elsewhere),
            Err(Error::Incompatible { .. })
        ));
    });
}

/// A crashed environment is recovered in memory, including the restoration of images.
#[test]
fn looking_writes_nothing() {
    wherever_pages_lie(|| {
        let storage = MemoryStorage::new();
        let environment = small().open_storage(Arc::new(storage.clone())).unwrap();
        fill(&environment);
        drop(environment);
        let before = storage.files();
        let looking = small()
            .read_only(true)
            .open_storage(Arc::new(storage.clone()))
            .unwrap();
        assert_eq!(content(&looking).len(), 300);
        looking.verify().unwrap();
        assert!(looking.recovery().redone > 0);
        drop(looking);
        assert!(storage.files() == before);
    });
}
